// A heat map: what the model looked at while it produced each piece of a sentence.

import { inspect } from "./server.js";

const byId = (id) => document.getElementById(id);
const SPACE = "▁"; // how subwords write the space before a word

/** The heat map of one translation, drawn when it is asked for. */
export class AttentionPanel {
  constructor(failed) {
    this.failed = failed;
    this.pairs = [];
    byId("attention-panel").addEventListener("toggle", () => this.draw());
    byId("attention-sentence").addEventListener("change", () => this.draw());
  }

  /** translation: as the server gave it, null for none; original: the text it was made of. */
  show(translation, original, direction) {
    this.direction = direction;
    this.pairs = translation ? translation.sentences.map((pair) => sentenceOf(pair, translation, original)) : [];
    const choice = byId("attention-sentence");
    choice.replaceChildren(...this.pairs.map(({ text }, place) => new Option(`${place + 1}. ${text}`)));
    byId("attention-choice").hidden = this.pairs.length < 2;
    byId("attention-panel").hidden = !this.pairs.length;
    byId("attention").replaceChildren();
    this.draw();
  }

  async draw() {
    const pair = this.pairs[byId("attention-sentence").selectedIndex];
    if (!pair || !byId("attention-panel").open) return;
    try {
      const seen = await inspect(pair, this.direction);
      if (this.pairs.includes(pair)) byId("attention").replaceChildren(...tableOf(seen));
    } catch (error) {
      this.failed(error);
    }
  }
}

function sentenceOf({ source_span: here, target_span: there }, { text, receipts }, original) {
  const told = receipts.filter(
    ({ policy, status, source_span: [start, end] }) =>
      policy !== "forbid" && status !== "conflict" && start >= here[0] && end <= here[1],
  );
  return {
    text: Array.from(original).slice(...here).join(""),
    translation: Array.from(text).slice(...there).join(""),
    terms: told.map(({ source, target }) => ({ source, target })),
  };
}

/** Columns are what was looked at, terms after the sentence; rows are the pieces of the translation. */
function tableOf({ source_pieces: pieces, term_pieces: terms, output_pieces: rows, attention }) {
  const head = document.createElement("thead");
  const names = head.insertRow();
  names.insertCell(); // the corner
  names.append(...pieces.map((piece) => header(piece, "col")));
  names.append(...terms.map((piece) => header(piece, "col", "term-piece")));
  const body = document.createElement("tbody");
  attention.forEach((weights, place) => {
    const row = body.insertRow();
    row.append(header(rows[place], "row"));
    for (const weight of weights) {
      const cell = row.insertCell();
      const figure = document.createElement("span");
      figure.textContent = weight.toFixed(2);
      cell.append(figure);
      cell.title = weight.toFixed(2);
      cell.style.setProperty("--weight", `${Math.round(100 * Math.sqrt(weight))}%`); // small ones are seen, too
    }
  });
  return [head, body];
}

function header(piece, scope, name = "") {
  const cell = document.createElement("th");
  cell.scope = scope;
  cell.className = name;
  cell.textContent = piece.replaceAll(SPACE, " ").trim() || piece;
  return cell;
}
