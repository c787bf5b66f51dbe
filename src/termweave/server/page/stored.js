// Glossaries on the server: ticked to translate with, opened into the editor, saved from it, deleted.

import { AT_A_GLANCE, formatOf, MOST } from "./glossary.js";
import { keep, recall, watch } from "./memory.js";
import { confirmed } from "./question.js";
import {
  deleteGlossary,
  notReady,
  openGlossary,
  Problem,
  replaceGlossary,
  storedGlossaries,
  storeGlossary,
} from "./server.js";

const MOST_TICKED = 5; // what one request may name

const byId = (id) => document.getElementById(id);

export class StoredGlossaries {
  /** `failed` is called with what goes wrong; `editor` is where glossaries are opened, and saved from. */
  constructor(failed, editor) {
    this.failed = failed;
    this.editor = editor;
    this.direction = null;
    this.all = [];
    this.ticked = []; // [{id, name}], in the order of the list
    byId("refresh").addEventListener("click", () => this.try(() => this.refresh("The list is up to date.")));
    byId("store").addEventListener("change", (event) => this.try(() => this.store(event.target)));
    byId("stored-filter").addEventListener("input", () => this.filter());
    byId("save").addEventListener("submit", (event) => {
      event.preventDefault();
      this.try(() => this.save());
    });
    watch((name) => {
      if (!this.direction || name !== this.key) return;
      this.ticked = recall(this.key, []);
      this.show();
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

  /** Those of another direction are shown. */
  open(direction) {
    this.direction = direction;
    this.ticked = recall(this.key, []);
    this.show();
    return this.try(() => this.refresh());
  }

  get key() {
    return `termweave-ticked-${this.direction.source}-${this.direction.target}`;
  }

  get ids() {
    return this.ticked.map(({ id }) => id);
  }

  get fitting() {
    return this.all.filter((glossary) => dictionaryOf(glossary, this.direction));
  }

  async refresh(told = "") {
    this.all = await storedGlossaries();
    const known = new Set(this.fitting.map(({ glossary_id: id }) => id));
    const gone = this.ticked.filter(({ id }) => !known.has(id)).map(({ name }) => name);
    if (gone.length) this.tick(this.ticked.filter(({ id }) => known.has(id)));
    this.show();
    this.tell(gone.length ? `No longer there, and ticked no longer: ${gone.join(", ")}.` : told);
  }

  tell(text) {
    byId("stored-told").textContent = text;
  }

  tick(chosen) {
    this.ticked = chosen;
    keep(this.key, chosen);
  }

  show() {
    const fitting = this.fitting;
    byId("stored").replaceChildren(...fitting.map((glossary) => this.element(glossary)));
    byId("stored-none").hidden = fitting.length > 0;
    byId("stored-search").hidden = fitting.length <= AT_A_GLANCE;
    this.limit();
    this.filter();
  }

  element(glossary) {
    const { glossary_id: id, name, creation_time: created } = glossary;
    const element = byId("stored-template").content.firstElementChild.cloneNode(true);
    const box = element.querySelector("input");
    box.value = id;
    box.checked = this.ids.includes(id);
    box.addEventListener("change", () => this.choose());
    const count = dictionaryOf(glossary, this.direction).entry_count;
    element.querySelector(".name").textContent = name;
    element.querySelector(".hint").textContent = `${terms(count)}, made on ${new Date(created).toLocaleDateString()}`;
    for (const hidden of element.querySelectorAll("button .hidden")) hidden.textContent = ` ${name}`;
    element.querySelector(".open").addEventListener("click", () => this.try(() => this.edit(glossary, count)));
    element.querySelector(".delete").addEventListener("click", () => this.try(() => this.delete(glossary)));
    return element;
  }

  choose() {
    const boxes = [...document.querySelectorAll("#stored input:checked")].map(({ value }) => value);
    const chosen = this.fitting.filter(({ glossary_id: id }) => boxes.includes(id));
    this.tick(chosen.map(({ glossary_id: id, name }) => ({ id, name })));
    this.limit();
    this.tell(chosen.length < MOST_TICKED ? "" : `Up to ${MOST_TICKED} can be ticked at once.`);
  }

  limit() {
    for (const box of document.querySelectorAll("#stored input")) {
      box.disabled = !box.checked && this.ticked.length >= MOST_TICKED;
    }
  }

  filter() {
    const fitting = this.fitting;
    const wanted = fitting.length > AT_A_GLANCE ? byId("stored-filter").value.trim().toLowerCase() : "";
    [...byId("stored").children].forEach((element, place) => {
      element.hidden = !fitting[place].name.toLowerCase().includes(wanted);
    });
  }

  // Between the server and the editor

  async edit(glossary, count) {
    const { glossary_id: id, name } = glossary;
    if (count > MOST) {
      const remedy = `Tick it to translate with it, or change it as a file: GET and PUT /v1/glossaries/${id}/file.`;
      throw new Problem(`${name} has ${count.toLocaleString("en")} terms, the editor holds ${MOST}`, remedy);
    }
    const lost = `The terms in the editor are not saved: ${terms(this.editor.filled)}.`;
    if (this.editor.isUnsaved && !(await confirmed(`Open ${name} in their place?`, lost, "Open it"))) return;
    const { terms: found, version } = await openGlossary(id, this.direction);
    this.editor.fill(found, { id, name, version });
  }

  async save() {
    const name = byId("save-name").value.trim();
    const { table, count, left } = this.editor.finished;
    if (!name) throw new Problem("The glossary has no name", "Write one before you save it.");
    await this.refresh(); // somebody else may have made one of this name
    const older = this.named(name);
    const stored = older ? await this.replace(older, table) : await storeGlossary(name, table, "tsv", this.direction);
    if (!stored) return;
    this.editor.saved({ id: stored.glossary_id, name, version: stored.version });
    const unfinished = left ? ` Unfinished, and left out: ${terms(left)}.` : "";
    byId("glossary-told").textContent = `Saved on the server as ${name}: ${terms(count)}.${unfinished}`;
    await this.refresh();
  }

  /** The glossary a name means: the one that is open, or the only one called so. */
  named(name) {
    const candidates = this.all.filter((glossary) => glossary.name === name);
    const opened = candidates.find(({ glossary_id: id }) => id === this.editor.opened?.id);
    if (!opened && candidates.length > 1) {
      throw new Problem(`${candidates.length} glossaries are called ${name}`, "Choose another name, or open one first.");
    }
    return opened ?? candidates[0];
  }

  /** Null if it is better not done. What was opened is replaced without a question, unless it was changed meanwhile. */
  async replace(older, table) {
    const { glossary_id: id, name } = older;
    const opened = this.editor.opened?.id === id ? this.editor.opened : null;
    const there = dictionaryOf(older, this.direction);
    const detail = there
      ? `What it has now is lost: ${terms(there.entry_count)}.`
      : `It has no terms for ${this.direction.name} yet; those for other directions stay.`;
    if (!opened && !(await confirmed(`Replace the glossary ${name}?`, detail, "Replace it"))) return null;
    try {
      return await replaceGlossary(id, table, this.direction, there && opened?.version);
    } catch (error) {
      if (error.status !== 412) throw error;
      const changed = "Somebody else, or another tab, has saved it since you opened it. What they changed would be lost.";
      if (!(await confirmed(`Replace the glossary ${name}?`, changed, "Replace it"))) return null;
      return replaceGlossary(id, table, this.direction);
    }
  }

  async delete(glossary) {
    const { glossary_id: id, name, dictionaries } = glossary;
    const several = dictionaries.length > 1 ? ` It has terms for ${dictionaries.length} directions.` : "";
    const detail = `It is gone for everybody who uses this server, for good.${several}`;
    if (!(await confirmed(`Delete the glossary ${name}?`, detail, "Delete it"))) return;
    try {
      await deleteGlossary(id);
    } catch (error) {
      if (error.status !== 404) throw error; // somebody was faster
    }
    this.tick(this.ticked.filter((own) => own.id !== id));
    this.editor.forget(id);
    await this.refresh(`${name} was deleted.`);
    byId("stored-title").focus(); // the button that had the focus is gone
  }

  async store(input) {
    const [file] = input.files;
    input.value = "";
    if (!file) return;
    const { name } = await storeGlossary(file.name.replace(/\.[^.]+$/u, ""), file, formatOf(file), this.direction);
    await this.refresh(`${file.name} was stored as ${name}.`);
  }
}

function dictionaryOf({ dictionaries }, { source, target }) {
  return dictionaries.find((own) => own.source_lang === source && own.target_lang === target);
}

function terms(count) {
  return count === 1 ? "1 term" : `${count.toLocaleString("en")} terms`;
}
