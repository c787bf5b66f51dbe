// Schemas of the OpenAPI document, in words and as examples.

const DEEPEST = 8; // a schema that holds itself ends here

/** What a schema that refers to another one stands for. */
export function resolved(schema, whole) {
  if (!schema?.$ref) return schema ?? {};
  const place = schema.$ref.replace(/^#\//u, "").split("/");
  const { $ref, ...more } = schema;
  return { ...resolved(place.reduce((inside, name) => inside[name], whole), whole), ...more };
}

/** The type of a value, in words: "list of string", "tsv | csv", "number or null". */
export function typeOf(given, whole, depth = 0) {
  const schema = resolved(given, whole);
  const either = schema.anyOf ?? schema.oneOf;
  if (either) return [...new Set(either.map((own) => typeOf(own, whole, depth)))].join(" or ");
  if (schema.enum) return schema.enum.join(" | ");
  if (schema.const !== undefined) return String(schema.const);
  if (schema.format === "binary") return "file";
  if (schema.prefixItems) return `[${schema.prefixItems.map((own) => typeOf(own, whole, depth + 1)).join(", ")}]`;
  if (schema.type === "array" && depth < DEEPEST) return `list of ${typeOf(schema.items, whole, depth + 1)}`;
  return schema.type ?? "anything";
}

/** The fields of an object, of the objects in a list, or of whichever alternative has some: [{name, schema, required}]. */
export function fieldsOf(given, whole, depth = 0) {
  const schema = resolved(given, whole);
  if (depth > DEEPEST) return [];
  if (schema.properties) {
    const required = new Set(schema.required ?? []);
    return Object.entries(schema.properties).map(([name, own]) => ({
      name,
      schema: resolved(own, whole),
      required: required.has(name),
    }));
  }
  const inside = schema.items ? [schema.items] : (schema.anyOf ?? schema.oneOf ?? []);
  return inside.map((own) => fieldsOf(own, whole, depth + 1)).find((fields) => fields.length) ?? [];
}

/** What bounds a value: its default, and its limits. */
export function boundsOf({ default: usual, minimum, maximum, minItems, maxItems, prefixItems }) {
  const bounds = [];
  if (usual !== undefined && usual !== null && usual.length !== 0) bounds.push(`${JSON.stringify(usual)} unless given`);
  if (minimum !== undefined) bounds.push(`at least ${minimum}`);
  if (maximum !== undefined) bounds.push(`at most ${maximum}`);
  if (prefixItems) return bounds.join(", "); // so many as it shows
  if (minItems !== undefined) bounds.push(`at least ${minItems} of them`);
  if (maxItems !== undefined) bounds.push(`at most ${maxItems} of them`);
  return bounds.join(", ");
}

/** A value that fits a schema: the one it gives as an example, or the simplest one there is. */
export function exampleOf(given, whole, depth = 0) {
  const schema = resolved(given, whole);
  if (schema.examples?.length) return schema.examples[0];
  const either = schema.anyOf ?? schema.oneOf;
  if (either) return exampleOf(either[0], whole, depth);
  if (schema.enum) return schema.enum[0];
  if (schema.type === "array") return depth < DEEPEST ? [exampleOf(schema.items, whole, depth + 1)] : [];
  if (schema.properties) {
    const wanted = fieldsOf(schema, whole).filter((field) => field.required || field.schema.examples?.length);
    return Object.fromEntries(wanted.map(({ name, schema: own }) => [name, exampleOf(own, whole, depth + 1)]));
  }
  return { integer: 1, number: 1, boolean: true, object: {} }[schema.type] ?? "…";
}
