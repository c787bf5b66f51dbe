// Requests to the server this page came from, and what went wrong with them, in words.

const KEY = "termweave-key";
let key = sessionStorage.getItem(KEY) ?? "";

/** Something the reader of the page should be told. */
export class Problem extends Error {
  constructor(message, detail = "", status = 0) {
    super(message);
    this.detail = detail;
    this.status = status;
  }
}

/** Before the server has told what it translates. */
export function notReady() {
  return new Problem("There is no direction yet", "The server has not told what it translates; try again in a moment.");
}

export function useKey(given) {
  key = given.trim();
  sessionStorage.setItem(KEY, key);
}

export function hasKey() {
  return Boolean(key);
}

/** The OpenAPI document. */
export async function description() {
  return (await ask("openapi.json")).json();
}

/** Pairs of languages, [{source, target, name}]. */
export async function directions() {
  const languages = await (await ask("languages")).json();
  const names = new Intl.DisplayNames(["en"], { type: "language" });
  return languages.flatMap(({ code, name, targets }) =>
    targets.map((target) => ({ source: code, target, name: `${name} → ${names.of(target)}` })),
  );
}

/** With terms, and with stored glossaries, named by their ids. */
export async function translate(text, { source, target }, { terms, glossaries }, signal) {
  const body = { texts: [text], source, target, terms, glossaries, nbest: 4, probabilities: true };
  const headers = { "Content-Type": "application/json" };
  const answer = await ask("v1/translate", { method: "POST", headers, body: JSON.stringify(body), signal });
  return (await answer.json()).translations[0];
}

/** What the model looks at while it translates one sentence. */
export async function inspect(sentence, direction) {
  const headers = { "Content-Type": "application/json" };
  const body = JSON.stringify({ ...sentence, ...pair(direction) });
  return (await ask("v1/inspect", { method: "POST", headers, body })).json();
}

export async function uploadDocument(file, direction, { terms, glossaries }) {
  const body = new FormData();
  body.append("source", direction.source);
  body.append("target", direction.target);
  body.append("terms", JSON.stringify(terms));
  for (const id of glossaries) body.append("glossaries", id);
  body.append("file", file);
  return (await ask("v1/documents", { method: "POST", body })).json();
}

export async function documentStatus(handle) {
  return (await aboutDocument(handle, "")).json();
}

export async function documentResult(handle) {
  const answer = await aboutDocument(handle, "/result");
  const [, name] = answer.headers.get("Content-Disposition")?.match(/filename\*=UTF-8''(.+)/u) ?? [null, "translation"];
  return { blob: await answer.blob(), name: decodeURIComponent(name) };
}

function aboutDocument({ document_id: id, document_key }, path) {
  const headers = { "Content-Type": "application/json" };
  return ask(`v2/document/${id}${path}`, { method: "POST", headers, body: JSON.stringify({ document_key }) });
}

/** A glossary file as terms, with what is probably wrong with it. */
export async function readGlossary(file, format, direction) {
  return (await send("v1/terms", file, { ...pair(direction), format })).json();
}

export async function lint(table, direction) {
  return (await send("v1/lint", table, { ...pair(direction), format: "tsv" })).json();
}

export async function convert(table, to, direction) {
  return (await send("v1/convert", table, { ...pair(direction), format: "tsv", to })).blob();
}

export async function storedGlossaries() {
  return (await (await ask("v1/glossaries")).json()).glossaries;
}

/** The terms of a stored glossary, what is wrong with them, and the version they are of. */
export async function openGlossary(id, direction) {
  const answer = await ask(`v1/glossaries/${id}/file?${new URLSearchParams({ ...pair(direction), format: "tsv" })}`);
  return { ...(await readGlossary(await answer.blob(), "tsv", direction)), version: versionOf(answer) };
}

/** Store a new glossary; tells what it became. */
export async function storeGlossary(name, content, format, direction) {
  return storedAs(await send("v1/glossaries", content, { ...pair(direction), name, format }));
}

/** Put a table in the place of a stored glossary. If a version is given, it must still be of that. */
export async function replaceGlossary(id, table, direction, version) {
  const headers = version ? { "If-Match": version } : {};
  return storedAs(await send(`v1/glossaries/${id}/file`, table, { ...pair(direction), format: "tsv" }, "PUT", headers));
}

export function deleteGlossary(id) {
  return ask(`v1/glossaries/${id}`, { method: "DELETE" });
}

async function storedAs(answer) {
  return { ...(await answer.json()).glossary, version: versionOf(answer) };
}

function versionOf(answer) {
  return answer.headers.get("ETag");
}

function pair({ source, target }) {
  return { source, target };
}

function send(path, body, parameters, method = "POST", more = {}) {
  const headers = { "Content-Type": "application/octet-stream", ...more };
  return ask(`${path}?${new URLSearchParams(parameters)}`, { method, headers, body });
}

async function ask(path, options = {}) {
  const headers = { ...options.headers, ...(key && { Authorization: `Bearer ${key}` }) };
  let answer;
  try {
    answer = await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem("The server does not answer", "Is it still running? Your text and your terms are kept here.");
  }
  if (!answer.ok) throw await problemOf(answer);
  return answer;
}

async function problemOf(answer) {
  const told = await answer.json().catch(() => ({}));
  const seconds = answer.headers.get("Retry-After");
  const details = [told.detail, seconds && `Try again in ${seconds} s.`].filter(Boolean);
  return new Problem(told.message ?? told.error ?? `The server answered ${answer.status}`, details.join(" "), answer.status);
}
