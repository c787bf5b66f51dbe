// The glossary editor: rows that stay in this browser, are checked by the server, and can be read from and written to files.

import { convert, lint, Problem, readGlossary } from "./server.js";

const COLUMNS = ["source", "target", "policy", "case", "note"];
const EMPTY = { source: "", target: "", policy: "must", case: "carry", note: "" };
const BETWEEN = "|"; // between alternatives
const PATIENCE = 400; // milliseconds without typing before the rows are checked
const MOST = 1000; // what one request may bring

const byId = (id) => document.getElementById(id);

export class GlossaryEditor {
  /** `failed` is called with what goes wrong. */
  constructor(failed) {
    this.failed = failed;
    this.direction = null;
    this.rows = [];
    this.checking = 0;
    byId("add").addEventListener("click", () => this.add());
    byId("clear").addEventListener("click", () => this.clear());
    byId("export").addEventListener("click", () => this.try(() => this.export()));
    byId("take").addEventListener("click", () => this.try(() => this.paste()));
    byId("upload").addEventListener("change", (event) => this.try(() => this.upload(event.target)));
  }

  async try(action) {
    try {
      await action();
    } catch (error) {
      this.failed(error);
    }
  }

  /** The terms of another direction are shown. */
  open(direction) {
    this.direction = direction;
    this.rows = stored(this.name);
    this.show();
  }

  get name() {
    return `termweave-terms-${this.direction.source}-${this.direction.target}`;
  }

  /** As the server takes them. A row that is not finished is no term yet. */
  get terms() {
    return this.rows.filter(isFinished).map(({ source, target, policy, case: rule }) => {
      const [first, ...alternatives] = targetsOf(target);
      return { source, target: policy === "keep" ? null : first, alternatives, policy, case: rule };
    });
  }

  add() {
    this.rows.push({ ...EMPTY });
    this.show();
    byId("terms").lastElementChild.querySelector("input").focus();
  }

  clear() {
    this.rows = [];
    this.show();
    byId("glossary-told").textContent = "All terms were removed.";
    byId("add").focus();
  }

  remove(row) {
    const place = this.rows.indexOf(row);
    this.rows.splice(place, 1);
    this.show();
    const next = byId("terms").children[Math.min(place, this.rows.length - 1)];
    (next?.querySelector("input") ?? byId("add")).focus();
  }

  async upload(input) {
    const [file] = input.files;
    input.value = ""; // so that the same file can be chosen again
    if (!file) return;
    const suffix = file.name.toLowerCase().split(".").pop();
    await this.take(file, { xml: "tbx", txt: "tsv", tab: "tsv" }[suffix] ?? suffix, file.name);
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
      const remedy = "Store a large glossary on the server: POST /v1/glossaries.";
      throw new Problem(`${name}: too many terms`, `This page holds ${MOST}. ${remedy}`);
    }
    this.rows = [...this.rows.filter((row) => row.source || row.target), ...fresh];
    this.show();
    const refused = findings.filter(({ severity }) => severity === "error");
    const lost = refused.map(({ line, message }) => ` Line ${line} was left out: ${message}.`).join("");
    byId("glossary-told").textContent = `${fresh.length} of ${terms.length} terms of ${name} are new.${lost}`;
  }

  async export() {
    const to = byId("export-format").value;
    const rows = this.rows.filter(isFinished);
    if (!rows.length) throw new Problem("There is nothing to export", "Add a term first.");
    const link = document.createElement("a");
    link.href = URL.createObjectURL(await convert(table(rows), to, this.direction));
    link.download = `glossary.${this.direction.source}-${this.direction.target}.${to}`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href));
  }

  show() {
    byId("terms").replaceChildren(...this.rows.map((row, index) => this.element(row, index)));
    this.keep();
  }

  element(row, index) {
    const element = byId("term-template").content.firstElementChild.cloneNode(true);
    element.querySelector("legend").textContent = `Term ${index + 1}`;
    element.querySelector(".findings").id = `findings-${index}`;
    for (const field of element.querySelectorAll("[data-field]")) {
      const name = field.dataset.field;
      field.value = row[name];
      field.setAttribute("aria-describedby", `findings-${index}`);
      field.addEventListener("input", () => {
        row[name] = field.value;
        this.keep();
      });
    }
    element.querySelector(".remove").addEventListener("click", () => this.remove(row));
    return element;
  }

  /** Remember the rows, and have them checked when nothing is typed for a while. */
  keep() {
    localStorage.setItem(this.name, JSON.stringify(this.rows));
    clearTimeout(this.checking);
    this.checking = setTimeout(() => this.try(() => this.check()), PATIENCE);
  }

  async check() {
    const filled = this.rows.map((_, place) => place).filter((place) => this.rows[place].source || this.rows[place].target);
    const rows = filled.map((place) => this.rows[place]);
    const { findings } = rows.length ? await lint(table(rows), this.direction) : { findings: [] };
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

function stored(name) {
  try {
    return JSON.parse(localStorage.getItem(name) ?? "[]").map((row) => ({ ...EMPTY, ...row }));
  } catch {
    return [];
  }
}

function asRow({ source, targets, policy, case: rule, note }) {
  const line = (text) => text.replace(/\s+/gu, " ");
  return { source: line(source), target: line(targets.join(` ${BETWEEN} `)), policy, case: rule, note: line(note) };
}

function targetsOf(target) {
  return target.split(BETWEEN).map((own) => own.trim()).filter(Boolean);
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
