// The glossary editor: rows that stay in this browser, are checked by the server, and can be read from and written to files.

import { keep, recall, watch } from "./memory.js";
import { confirmed } from "./question.js";
import { convert, lint, notReady, Problem, readGlossary } from "./server.js";

const COLUMNS = ["source", "target", "policy", "case", "note"];
const EMPTY = { source: "", target: "", policy: "must", case: "carry", note: "" };
const BETWEEN = "|"; // between alternatives; a target that holds one itself has it as \|
const PATIENCE = 400; // milliseconds without typing before the rows are checked
export const MOST = 1000; // what one request may bring

export const AT_A_GLANCE = 8; // more of them want a search field

const byId = (id) => document.getElementById(id);

export class GlossaryEditor {
  /** `failed` is called with what goes wrong. */
  constructor(failed) {
    this.failed = failed;
    this.direction = null;
    this.rows = [];
    this.opened = null; // the stored glossary the rows come from: {id, name, version, isChanged}
    this.checking = 0;
    this.checks = 0;
    byId("add").addEventListener("click", () => this.try(() => this.add()));
    byId("terms-filter").addEventListener("input", () => this.filter());
    byId("clear").addEventListener("click", () => this.try(() => this.clear()));
    byId("export").addEventListener("click", () => this.try(() => this.export()));
    byId("take").addEventListener("click", () => this.try(() => this.paste()));
    byId("upload").addEventListener("change", (event) => this.try(() => this.upload(event.target)));
    watch((name) => {
      if (this.direction && name === this.key) this.open(this.direction);
    });
  }

  async try(action) {
    try {
      if (!this.direction) throw notReady();
      await action();
    } catch (error) {
      this.failed(error);
    }
  }

  /** The terms of another direction are shown. */
  open(direction) {
    this.direction = direction;
    const { rows, opened } = recall(this.key, { rows: [], opened: null });
    this.rows = rows;
    this.opened = opened;
    byId("save-name").value = opened?.name ?? "";
    this.show();
  }

  get key() {
    return `termweave-terms-${this.direction.source}-${this.direction.target}`;
  }

  /** As the server takes them. A row that is not finished is no term yet. */
  get terms() {
    return this.rows.filter(isFinished).map(({ source, target, policy, case: rule }) => {
      const [first, ...alternatives] = targetsOf(target);
      return { source, target: policy === "keep" ? null : first, alternatives, policy, case: rule };
    });
  }

  /** The rows that are terms, as a table; how many they are, and how many are none yet. */
  get finished() {
    const rows = this.rows.filter(isFinished);
    if (!rows.length) throw new Problem("There are no terms yet", "Add one first.");
    return { table: table(rows), count: rows.length, left: this.filled - rows.length };
  }

  /** How many rows are not empty. */
  get filled() {
    return this.rows.filter(isFilled).length;
  }

  get isUnsaved() {
    return this.filled > 0 && (!this.opened || this.opened.isChanged);
  }

  /** The terms of a stored glossary take the place of the rows. */
  fill(terms, opened) {
    this.rows = terms.map(asRow);
    this.saved(opened);
    byId("save-name").value = opened.name;
    this.show();
    byId("glossary-told").textContent = `${opened.name} is open.`;
    (byId("terms").querySelector("input") ?? byId("add")).focus();
  }

  /** The rows are those of a stored glossary. */
  saved(opened) {
    this.opened = { ...opened, isChanged: false };
    this.keep();
  }

  /** A stored glossary is there no longer. */
  forget(id) {
    if (this.opened?.id !== id) return;
    this.opened = null;
    this.keep();
  }

  changed() {
    if (this.opened) this.opened.isChanged = true;
  }

  add() {
    if (this.rows.length >= MOST) throw new Problem("The editor is full", `It holds ${MOST} terms.`);
    const row = { ...EMPTY };
    this.rows.push(row);
    const element = this.element(row, this.rows.length - 1);
    byId("terms").append(element);
    byId("terms-filter").value = "";
    this.filter();
    this.keep();
    element.querySelector("input").focus();
  }

  async clear() {
    const detail = "They are removed from this browser; glossaries on the server stay as they are.";
    if (this.isUnsaved && !(await confirmed("Remove all terms?", detail, "Remove them"))) return;
    this.rows = [];
    this.opened = null;
    byId("save-name").value = "";
    this.show();
    byId("glossary-told").textContent = "All terms were removed.";
    byId("add").focus();
  }

  remove(row) {
    const place = this.rows.indexOf(row);
    this.rows.splice(place, 1);
    this.changed();
    byId("terms").children[place].remove();
    [...byId("terms").children].forEach(number);
    this.filter();
    this.keep();
    const shown = [...byId("terms").children].filter((element) => !element.hidden);
    const next = shown.find((element) => element === byId("terms").children[place]) ?? shown.at(-1);
    (next?.querySelector("input") ?? byId("add")).focus();
  }

  async upload(input) {
    const [file] = input.files;
    input.value = ""; // so that the same file can be chosen again
    if (!file) return;
    await this.take(file, formatOf(file), file.name);
  }

  async paste() {
    const text = byId("paste").value;
    if (!text.trim()) return;
    await this.take(text, text.includes("\t") ? "tsv" : "csv", "the table");
    byId("paste").value = "";
  }

  async take(content, format, name) {
    const { terms, findings } = await readGlossary(content, format, this.direction);
    const read = terms.map(asRow);
    const known = new Set(this.rows.map(identity));
    const fresh = read.filter((row) => !known.has(identity(row)));
    if (this.rows.length + fresh.length > MOST) {
      const remedy = "Store a large glossary on the server, with “Store a file” below.";
      throw new Problem(`${name}: too many terms`, `The editor holds ${MOST}. ${remedy}`);
    }
    this.rows = [...this.rows.filter(isFilled), ...fresh];
    this.changed();
    this.show();
    const refused = findings.filter(({ severity }) => severity === "error");
    const lost = refused.map(({ line, message }) => ` Line ${line} was left out: ${message}.`).join("");
    byId("glossary-told").textContent = `${fresh.length} of ${terms.length} terms of ${name} are new.${lost}`;
  }

  async export() {
    const to = byId("export-format").value;
    const link = document.createElement("a");
    link.href = URL.createObjectURL(await convert(this.finished.table, to, this.direction));
    link.download = `glossary.${this.direction.source}-${this.direction.target}.${to}`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href));
  }

  show() {
    byId("terms").replaceChildren(...this.rows.map((row, index) => this.element(row, index)));
    this.filter();
    this.keep();
  }

  /** Only rows with what is looked for stay in sight; a few are seen at a glance. */
  filter() {
    const isLong = this.rows.length > AT_A_GLANCE;
    byId("terms-search").hidden = !isLong;
    const wanted = isLong ? byId("terms-filter").value.trim().toLowerCase() : "";
    [...byId("terms").children].forEach((element, place) => {
      const { source, target, note } = this.rows[place];
      element.hidden = ![source, target, note].join("\t").toLowerCase().includes(wanted);
    });
  }

  element(row, index) {
    const element = byId("term-template").content.firstElementChild.cloneNode(true);
    number(element, index);
    for (const field of element.querySelectorAll("[data-field]")) {
      const name = field.dataset.field;
      field.value = row[name];
      field.addEventListener("input", () => {
        row[name] = field.value;
        this.changed();
        this.keep();
      });
    }
    element.querySelector(".remove").addEventListener("click", () => this.remove(row));
    return element;
  }

  /** Remember the rows, and have them checked when nothing is typed for a while. */
  keep() {
    keep(this.key, { rows: this.rows, opened: this.opened });
    byId("opened").textContent = openedAs(this.opened);
    this.checks += 1;
    clearTimeout(this.checking);
    this.checking = setTimeout(() => this.check().catch((error) => this.unchecked(error)), PATIENCE);
  }

  /** Whoever types on while the server does not answer is not interrupted for it. */
  unchecked(error) {
    if (error.status === 403 || !(error instanceof Problem)) this.failed(error);
    else byId("glossary-told").textContent = `The terms are not checked: ${error.message}.`;
  }

  async check() {
    const own = this.checks;
    const filled = this.rows.map((_, place) => place).filter((place) => isFilled(this.rows[place]));
    const rows = filled.map((place) => this.rows[place]);
    const { findings } = rows.length ? await lint(table(rows), this.direction) : { findings: [] };
    if (own !== this.checks) return; // they are other rows by now
    const rowOf = (line) => filled[line - 2]; // the first line has the names of the columns
    const lists = document.querySelectorAll("#terms .findings");
    lists.forEach((list) => list.replaceChildren());
    for (const { line, severity, message, remedy } of findings) {
      const item = document.createElement("li");
      item.className = severity;
      const said = message.replace(/\bon line (\d+)/gu, (_, other) => `in row ${rowOf(other) + 1}`);
      item.textContent = remedy ? `${severity}: ${said}; ${remedy}` : `${severity}: ${said}`;
      lists[rowOf(line)]?.append(item);
    }
  }
}

/** Rows are counted from 1, and what is wrong with one belongs to its fields. */
function number(element, index) {
  element.querySelector("legend").textContent = `Term ${index + 1}`;
  element.querySelector(".findings").id = `findings-${index}`;
  for (const field of element.querySelectorAll("[data-field]")) {
    field.setAttribute("aria-describedby", `findings-${index}`);
  }
}

function openedAs(opened) {
  if (!opened) return "";
  return opened.isChanged ? `${opened.name} is open; changed since it was saved` : `${opened.name} is open`;
}

const FORMATS = { tsv: "tsv", tab: "tsv", txt: "tsv", csv: "csv", tbx: "tbx", xml: "tbx" };

/** The format of a glossary file, by its name. */
export function formatOf({ name }) {
  const format = FORMATS[name.toLowerCase().split(".").pop()];
  if (!format) throw new Problem(`${name} is no glossary`, "Choose a .tsv, .csv or .tbx file.");
  return format;
}

function asRow({ source, targets, policy, case: rule, note }) {
  const line = (text) => text.replace(/\s+/gu, " ");
  const target = targets.map(escaped).join(` ${BETWEEN} `);
  return { source: line(source), target: line(target), policy, case: rule, note: line(note) };
}

/** A backslash stays as it is unless it would be read as an escape: paths and commands keep their looks. */
function escaped(target) {
  return target.replace(/\\(?=[\\|])|\|/gu, "\\$&");
}

function targetsOf(target) {
  const parts = target.match(/(?:\\[\\|]|[^|])+/gu) ?? [];
  return parts.map((own) => own.trim().replace(/\\([\\|])/gu, "$1")).filter(Boolean);
}

function isFilled({ source, target }) {
  return Boolean(source || target);
}

function isFinished({ source, target, policy }) {
  if (policy === "keep") return Boolean(source.trim()) && !target.trim();
  return Boolean(targetsOf(target).length) && (policy === "forbid" || Boolean(source.trim()));
}

function identity(row) {
  return JSON.stringify(COLUMNS.map((name) => row[name]));
}

/** Rows as TSV with a line of column names; every further target is an alternative. */
function table(rows) {
  const width = Math.max(1, ...rows.map(({ target }) => targetsOf(target).length));
  const lines = [["source", ...Array(width).fill("target"), "policy", "case", "note"]];
  for (const { source, target, policy, case: rule, note } of rows) {
    const targets = targetsOf(target);
    lines.push([source, ...targets, ...Array(width - targets.length).fill(""), policy, rule, note]);
  }
  return lines.map((cells) => cells.map(quoted).join("\t") + "\n").join("");
}

function quoted(cell) {
  return /["\t\r\n]/u.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell;
}
