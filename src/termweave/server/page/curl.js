// A route of the OpenAPI document as a command for curl.

import { exampleOf, fieldsOf } from "./schema.js";

const FORM = "multipart/form-data";
const JSON_TYPE = "application/json";

/** The command, on several lines. `base` is where the server is; `withKey` adds the header for a key. */
export function curlOf({ method, path, operation }, whole, base, withKey) {
  const [type, body] = bodyOf(operation);
  const parts = [`curl ${verb(method, type)}${quoted(base + addressOf(path, operation, whole))}`];
  if (withKey) parts.push('-H "Authorization: Bearer $KEY"');
  if (type === FORM) parts.push(...formOf(body.schema, whole));
  else if (type === JSON_TYPE) parts.push(header(type), `-d ${quoted(JSON.stringify(exampleOf(body.schema, whole)))}`);
  else if (type) parts.push(header(type), "--data-binary @FILE");
  return parts.join(" \\\n  ");
}

/** The kind of body to show, and its description: JSON where it can be. */
function bodyOf({ requestBody }) {
  const kinds = Object.entries(requestBody?.content ?? {});
  return kinds.find(([type]) => type === JSON_TYPE) ?? kinds[0] ?? [null, null];
}

function verb(method, type) {
  if (method === (type ? "post" : "get")) return ""; // curl chooses it by itself
  return `-X ${method.toUpperCase()} `;
}

function addressOf(path, { parameters = [] }, whole) {
  const query = parameters.filter((own) => own.in === "query" && (own.required || own.schema.examples?.length));
  const values = query.map(({ name, schema }) => `${name}=${encodeURIComponent(exampleOf(schema, whole))}`);
  // A name in capitals is for the reader to fill in.
  const address = path.slice(1).replace(/\{(\w+)\}/gu, (_, name) => name.toUpperCase());
  return values.length ? `${address}?${values.join("&")}` : address;
}

function formOf(schema, whole) {
  const wanted = fieldsOf(schema, whole).filter((field) => field.required || field.schema.examples?.length);
  return wanted.map(({ name, schema: own }) => {
    const value = exampleOf(own, whole);
    return `-F ${quoted(`${name}=${own.format === "binary" ? "@" : ""}${value}`)}`;
  });
}

function header(type) {
  return `-H ${quoted(`Content-Type: ${type}`)}`;
}

/** As a shell reads it back. */
function quoted(text) {
  return /^[\w@%+=:,./-]+$/u.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
