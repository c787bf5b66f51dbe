// The page: a text, its translation, and what became of the terms.

import { AttentionPanel } from "./attention.js";
import { copyFrom } from "./clipboard.js";
import { FilePanel } from "./files.js";
import { GlossaryEditor } from "./glossary.js";
import { keep, recall } from "./memory.js";
import { directions, Problem, translate, useKey } from "./server.js";
import { StoredGlossaries } from "./stored.js";
import { described, hideReceipt, percent, placeReceipt, showReceipt, showTerms, styleOf } from "./terms.js";

const byId = (id) => document.getElementById(id);
const source = byId("source");
const output = byId("output");
const backdrop = byId("backdrop");

let offered = [];
let shown = null; // the translation on the screen: {text, receipts, …}
let running = null; // aborts the request on its way
const glossary = new GlossaryEditor(fail);
const stored = new StoredGlossaries(fail, glossary);
const attention = new AttentionPanel(fail);
new FilePanel(fail, () => ({ direction: direction(), wanted: wanted() }));

// Problems

function fail(error) {
  if (error.name === "AbortError") return;
  const known = error instanceof Problem;
  byId("problem-message").textContent = known ? error.message : "The page made a mistake";
  byId("problem-detail").textContent = known ? error.detail : String(error);
  byId("problem").hidden = false;
  if (error.status === 403) {
    byId("access").hidden = false;
    byId("key").focus();
  }
}

function noProblem() {
  byId("problem").hidden = true;
}

// Direction

function direction() {
  return offered[byId("direction").selectedIndex];
}

/** What translations are to keep to: the terms of the editor, and the ticked glossaries. */
function wanted() {
  return { terms: glossary.terms, glossaries: stored.ids };
}

function reverse() {
  const { source: from, target: to } = direction();
  return offered.findIndex((own) => own.source === to && own.target === from);
}

async function loadDirections() {
  offered = await directions();
  const choice = byId("direction");
  choice.replaceChildren(...offered.map(({ name }) => new Option(name)));
  const last = offered.findIndex(({ name }) => name === recall("termweave-direction", ""));
  choice.selectedIndex = Math.max(last, 0);
  choice.disabled = false;
  turn();
}

/** Everything that depends on the direction follows it. */
function turn() {
  const { source: from, target: to, name } = direction();
  keep("termweave-direction", name);
  source.lang = from;
  output.lang = to;
  byId("swap").disabled = reverse() < 0;
  glossary.open(direction());
  stored.open(direction());
  forget();
}

function swap() {
  const text = shown?.text;
  byId("direction").selectedIndex = reverse();
  turn();
  if (text) {
    source.value = text;
    forget();
  }
}

// Translating

async function run() {
  if (!offered.length) {
    await loadDirections().catch(fail); // the server did not answer when the page was opened
    if (!offered.length) return;
  }
  const text = source.value;
  if (!text.trim()) {
    source.focus();
    byId("told").textContent = "There is no text yet.";
    return;
  }
  running?.abort();
  const own = (running = new AbortController());
  noProblem();
  output.setAttribute("aria-busy", "true");
  byId("told").textContent = "Translating…";
  byId("stop").hidden = false;
  try {
    const found = await translate(text, direction(), wanted(), own.signal);
    // Whoever typed on meanwhile sees the translation, but no marks at places that have moved.
    showTranslation(found, [found, ...found.others]);
    byId("told").textContent = summary(found.receipts);
  } catch (error) {
    if (running === own) byId("told").textContent = "";
    fail(error);
    if (error.status === 404) stored.try(() => stored.refresh()); // a ticked glossary was deleted meanwhile
  } finally {
    if (running === own) {
      atRest();
    }
  }
}

function atRest() {
  running = null;
  output.removeAttribute("aria-busy");
  if (document.activeElement === byId("stop")) byId("translate").focus();
  byId("stop").hidden = true;
}

function stop() {
  running?.abort();
  atRest();
  byId("told").textContent = "Stopped.";
}

function showTranslation(chosen, every) {
  shown = { ...chosen, original: shown?.every === every ? shown.original : source.value, every };
  hideReceipt();
  showTerms(output, chosen.text, chosen.receipts, "target");
  for (const mark of output.querySelectorAll("mark")) {
    mark.tabIndex = -1; // a text may have hundreds: the arrow keys reach them
    mark.setAttribute("aria-description", described(chosen.receipts[mark.dataset.receipt]));
  }
  showSourceTerms();
  showReceipts(chosen.receipts);
  showOthers(chosen, every);
  attention.show(chosen, shown.original, direction());
  byId("copy").disabled = false;
}

function showReceipts(receipts) {
  const rows = receipts.map((receipt) => {
    const row = document.createElement("tr");
    const { source: written, found, target, policy, probability } = receipt;
    const became = policy === "forbid" ? `not ${target}` : (found ?? `(${target})`);
    const status = document.createElement("mark");
    status.className = styleOf(receipt);
    status.textContent = receipt.status;
    for (const content of [written, became, status, probability === null ? "–" : percent(probability)]) {
      const apart = document.createElement("bdi"); // each cell has its own direction of writing
      apart.append(content);
      row.insertCell().append(apart);
    }
    return row;
  });
  byId("receipts").replaceChildren(...rows);
  byId("receipts-panel").hidden = !rows.length;
}

function showOthers(chosen, every) {
  const items = every.filter((own) => own !== chosen).map((own) => {
    const button = document.createElement("button");
    button.type = "button";
    const beginning = document.createElement("span"); // all of a short text; a long one would fill the page
    beginning.dir = "auto";
    beginning.textContent = own.text;
    button.append(beginning);
    button.addEventListener("click", () => {
      showTranslation(own, every);
      output.focus();
    });
    const item = document.createElement("li");
    item.append(button);
    return item;
  });
  byId("others").replaceChildren(...items);
  byId("others-panel").hidden = !items.length;
}

function summary(receipts) {
  if (!receipts.length) return "Translated.";
  const missed = receipts.filter((receipt) => styleOf(receipt) === "missed").length;
  const terms = receipts.length === 1 ? "1 term" : `${receipts.length} terms`;
  return missed ? `Translated; ${terms}, ${missed} not reached.` : `Translated; ${terms}, all as wanted.`;
}

/** The translation on the screen belongs to another text or direction. */
function forget() {
  running?.abort();
  atRest();
  shown = null;
  output.replaceChildren();
  hideReceipt();
  showSourceTerms();
  showReceipts([]);
  showOthers(null, []);
  attention.show(null);
  byId("copy").disabled = true;
  byId("told").textContent = "";
}

// Terms in the source, on the copy of the text behind the textarea

function showSourceTerms() {
  const current = shown !== null && shown.original === source.value;
  showTerms(backdrop, source.value, current ? shown.receipts : [], "source");
  backdrop.append("\n"); // a last empty line has no height otherwise
}

function showReceiptOf(mark) {
  if (!mark || !shown) return hideReceipt();
  const index = Number(mark.dataset.receipt);
  return showReceipt(shown.receipts[index], index, mark);
}

/** The mark the caret of the textarea stands in: receipts can be read by keyboard there too. */
function markAtCaret() {
  const caret = source.selectionStart;
  let position = 0;
  for (const node of backdrop.childNodes) {
    const end = position + node.textContent.length;
    if (caret >= position && caret <= end && node.nodeName === "MARK") return node;
    position = end;
  }
  return null;
}

function markUnder(event) {
  return document.elementsFromPoint(event.clientX, event.clientY).find((own) => own.matches("#backdrop mark"));
}

/** The mouse is at a mark, or at none: then the term that has the focus, by key or by finger, keeps its receipt. */
function pointAt(mark) {
  showReceiptOf(mark ?? document.activeElement.closest("#output mark"));
}

/** From the term that has the focus to the next one, or to the one before. */
function goToTerm(event) {
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  const marks = [...output.querySelectorAll("mark")];
  if (!step || !marks.length || event.shiftKey) return;
  const next = marks.indexOf(document.activeElement) + step;
  event.preventDefault();
  marks.at(next < 0 ? -1 : next % marks.length).focus();
}

output.addEventListener("keydown", goToTerm);
output.addEventListener("focusin", (event) => showReceiptOf(event.target.closest("mark")));
output.addEventListener("mouseover", (event) => pointAt(event.target.closest("mark")));
output.addEventListener("mouseleave", () => pointAt(null));
output.addEventListener("focusout", hideReceipt);
source.addEventListener("mousemove", (event) => pointAt(markUnder(event)));
source.addEventListener("mouseleave", () => pointAt(null));
source.addEventListener("blur", hideReceipt);
source.addEventListener("keyup", (event) => event.key !== "Escape" && showReceiptOf(markAtCaret()));
source.addEventListener("click", () => showReceiptOf(markAtCaret()));
source.addEventListener("input", showSourceTerms);
addEventListener("scroll", placeReceipt, { passive: true });
addEventListener("resize", placeReceipt);

// Controls

async function copy() {
  byId("told").textContent = await copyFrom(output);
}

addEventListener("keydown", (event) => {
  if (event.key === "Escape") hideReceipt();
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    run();
  }
});
byId("translate").addEventListener("click", run);
byId("stop").addEventListener("click", stop);
byId("copy").addEventListener("click", copy);
byId("swap").addEventListener("click", swap);
byId("direction").addEventListener("change", turn);
byId("problem-close").addEventListener("click", () => {
  noProblem();
  source.focus();
});
byId("access").addEventListener("submit", (event) => {
  event.preventDefault();
  useKey(byId("key").value);
  byId("access").hidden = true;
  noProblem();
  if (offered.length) stored.try(() => stored.refresh());
  else loadDirections().catch(fail);
});

loadDirections().catch(fail);
