// The routes of this server, made readable from its OpenAPI document.

import { copyFrom } from "./clipboard.js";
import { curlOf } from "./curl.js";
import { boundsOf, fieldsOf, resolved, typeOf } from "./schema.js";
import { description, hasKey } from "./server.js";

const DEEPEST = 6; // fields inside fields
const OPENLY_SHOWN = 3; // so few routes found are opened at once

const byId = (id) => document.getElementById(id);
const base = new URL(".", document.baseURI).href;
let whole = null; // the OpenAPI document
let routes = []; // [{id, method, path, tag, operation, element, words}]

function element(name, className = "", ...content) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...content);
  return made;
}

/** Text whose `names` stand in a type of their own. */
function prose(text) {
  return text.split("`").map((part, place) => (place % 2 ? element("code", "", part) : part));
}

// Reading the document

function routesOf({ paths }) {
  return Object.entries(paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(([method, operation]) => {
      const tag = operation.tags?.[0] ?? "Others";
      const id = `${method}${path}`.replace(/\W+/gu, "-").replace(/-$/u, "");
      return { id, method, path, tag, operation };
    }),
  );
}

// One route

function routeElement(route) {
  const { id, method, path, operation } = route;
  const made = byId("route-template").content.firstElementChild.cloneNode(true);
  const says = (operation.description ?? operation.summary ?? "").trim();
  made.id = id;
  made.querySelector(".method").textContent = method.toUpperCase();
  made.querySelector(".path").textContent = path;
  const [first, ...rest] = says.split("\n\n").map((paragraph) => paragraph.replaceAll("\n", " "));
  made.querySelector(".says").append(...prose(first));
  made.querySelector(".description").append(...prose(rest.join("\n\n")));
  made.querySelector(".parts").append(...parametersOf(operation), ...bodiesOf(operation), ...answersOf(operation));
  made.querySelector("pre").setAttribute("aria-label", `Example of ${method} ${path}`);
  made.querySelector(".anchor").href = `docs#${id}`;
  made.querySelector(".copy").addEventListener("click", async () => {
    made.querySelector(".told").textContent = await copyFrom(made.querySelector(".example"));
  });
  return made;
}

/** What a route is found by: all but its errors, which are much the same everywhere. */
function wordsOf({ tag, element: made }) {
  const told = made.querySelectorAll(".method, .path, .says, .description, .fields code, .fields div");
  return [tag, ...[...told].map(({ textContent }) => textContent)].join("\n").toLowerCase();
}

function parametersOf({ parameters = [] }) {
  if (!parameters.length) return [];
  const items = parameters.map(({ name, schema, required, description: says, in: place }) =>
    fieldItem({ name, schema: { ...resolved(schema, whole), description: says }, required }, true, 0, `in the ${PLACES[place]}`),
  );
  return [element("h4", "", "Parameters"), element("ul", "fields", ...items)];
}

const PLACES = { path: "path", query: "address", header: "headers", cookie: "cookies" };

function bodiesOf({ requestBody }) {
  if (!requestBody) return [];
  const kinds = Object.keys(requestBody.content);
  const [{ schema }] = Object.values(requestBody.content);
  const title = element("h4", "", requestBody.required ? "Body" : "Body, if wanted");
  return [title, element("p", "hint", kinds.join(", ")), ...contentOf(schema)];
}

/** Answers that look the same are told together: most errors do. */
function answersOf({ responses }) {
  const groups = new Map();
  for (const [status, { description: says, content = {} }] of Object.entries(responses)) {
    const look = JSON.stringify(content);
    if (!groups.has(look)) groups.set(look, { content, answers: [] });
    groups.get(look).answers.push(element("li", "", element("span", "name", status), " ", ...prose(says)));
  }
  const parts = [...groups.values()].flatMap(({ content, answers }) => {
    const [first] = Object.values(content);
    const kinds = Object.keys(content).join(", ");
    const list = element("ul", "fields", ...answers);
    return kinds ? [list, element("p", "hint", kinds), ...contentOf(first.schema, false)] : [list];
  });
  return [element("h4", "", "Answers"), ...parts];
}

/** `isAsked`: it is for the caller to give, who wants to know what must be given. */
function contentOf(schema, isAsked = true, depth = 0) {
  const fields = schema && depth < DEEPEST ? fieldsOf(schema, whole) : [];
  const items = fields.map((field) => fieldItem(isAsked ? field : { ...field, required: false }, isAsked, depth + 1));
  return items.length ? [element("ul", "fields", ...items)] : [];
}

function fieldItem({ name, schema, required }, isAsked, depth, place = "") {
  const item = element("li", "", element("code", "name", name), " ");
  item.append(element("span", "hint", [typeOf(schema, whole), place, boundsOf(schema)].filter(Boolean).join(", ")));
  if (required) item.append(" ", element("span", "required", "required"));
  if (schema.description) item.append(element("div", "", ...prose(schema.description)));
  item.append(...contentOf(schema, isAsked, depth));
  return item;
}

// The whole page

function show() {
  const tags = [...new Set(routes.map(({ tag }) => tag))];
  const sections = tags.map((tag, place) => {
    const title = element("h2", "", tag);
    title.id = `tag-${place}`;
    const section = element("section", "", title);
    section.setAttribute("aria-labelledby", title.id);
    for (const route of routes.filter((own) => own.tag === tag)) {
      route.element = routeElement(route);
      route.words = wordsOf(route);
      section.append(route.element);
    }
    return section;
  });
  byId("routes").replaceChildren(...sections);
  showExamples();
  search();
  follow();
}

function showExamples() {
  for (const route of routes) {
    route.element.querySelector(".example").textContent = curlOf(route, whole, base, byId("with-key").checked);
  }
}

/** Routes that have all the words stay. */
function search() {
  const words = byId("search").value.toLowerCase().split(/\s+/u).filter(Boolean);
  const found = routes.filter((route) => words.every((word) => route.words.includes(word)));
  for (const route of routes) route.element.hidden = !found.includes(route);
  for (const section of byId("routes").children) section.hidden = !section.querySelector(".route:not([hidden])");
  if (words.length && found.length <= OPENLY_SHOWN) for (const route of found) route.element.open = true;
  byId("found").textContent = `${found.length} of ${routes.length} routes`;
}

/** Open the route an address names. */
function follow() {
  const named = routes.find(({ id }) => `#${id}` === location.hash);
  if (!named) return;
  named.element.hidden = false;
  named.element.open = true;
  named.element.scrollIntoView();
  named.element.querySelector("summary").focus({ preventScroll: true });
}

function fold() {
  const open = byId("fold").getAttribute("aria-pressed") !== "true";
  byId("fold").setAttribute("aria-pressed", String(open));
  for (const route of routes) route.element.open = open;
}

async function start() {
  byId("with-key").checked = hasKey();
  try {
    whole = await description();
    routes = routesOf(whole);
    show();
  } catch (error) {
    byId("problem-message").textContent = error.message;
    byId("problem-detail").textContent = error.detail ?? "";
    byId("problem").hidden = false;
  }
}

byId("search").addEventListener("input", search);
byId("with-key").addEventListener("change", showExamples);
byId("fold").addEventListener("click", fold);
byId("tools").addEventListener("submit", (event) => event.preventDefault());
addEventListener("hashchange", follow);
start();
