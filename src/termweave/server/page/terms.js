// Terms in a text: shown as marks, each with its receipt.

const REACHED = new Set(["met", "met by alternative", "kept"]);
const tooltip = document.getElementById("receipt");
let marked = null; // what the receipt stands beside

/**
 * Fill an element with a text whose terms are marked. `side` is "source" or "target".
 * Places are counted in characters by the server, in units of UTF-16 by browsers, so the text is taken apart first.
 */
export function showTerms(element, text, receipts, side) {
  const characters = Array.from(text);
  const places = receipts
    .map((receipt, index) => ({ receipt, index, span: receipt[`${side}_span`] }))
    .filter(({ span }) => span !== null)
    .sort((one, other) => one.span[0] - other.span[0]);
  const parts = [];
  let position = 0;
  for (const { receipt, index, span } of places) {
    if (span[0] < position) continue; // two terms at one place, such as a wish and what is forbidden: the first is shown
    parts.push(characters.slice(position, span[0]).join(""), mark(characters.slice(...span).join(""), receipt, index));
    position = span[1];
  }
  parts.push(characters.slice(position).join(""));
  element.replaceChildren(...parts);
}

function mark(text, receipt, index) {
  const element = document.createElement("mark");
  element.textContent = text;
  element.className = styleOf(receipt);
  element.dataset.receipt = index;
  return element;
}

export function styleOf({ status }) {
  if (status === "kept") return "kept";
  return REACHED.has(status) ? "met" : "missed";
}

/** What a receipt says, a line for each thing. */
export function described(receipt) {
  const target = receipt.policy === "forbid" ? `not ${receipt.target}` : (receipt.found ?? receipt.target);
  const lines = [`${receipt.source} → ${target}`, `${receipt.status} (${receipt.policy})`];
  if (receipt.probability !== null) lines.push(`probability ${percent(receipt.probability)}`);
  if (receipt.reason) lines.push(receipt.reason);
  return lines.join("\n");
}

export function percent(probability) {
  const share = 100 * probability;
  return share > 0 && share < 0.1 ? "below 0.1 %" : `${share.toFixed(share < 10 ? 1 : 0)} %`;
}

/** Show a receipt beside one of its marks, and outline the term on both sides. */
export function showReceipt(receipt, index, beside) {
  outline(index);
  marked = beside;
  tooltip.textContent = described(receipt);
  tooltip.hidden = false;
  placeReceipt();
}

/** When the page moves, the receipt moves with its mark. */
export function placeReceipt() {
  if (tooltip.hidden) return;
  const around = marked.getBoundingClientRect();
  const left = Math.min(around.left, innerWidth - tooltip.offsetWidth - 8);
  const below = around.bottom + 6;
  const fits = below + tooltip.offsetHeight < innerHeight;
  tooltip.style.left = `${Math.max(left, 8)}px`;
  tooltip.style.top = `${fits ? below : around.top - tooltip.offsetHeight - 6}px`;
}

export function hideReceipt() {
  outline(-1);
  tooltip.hidden = true;
}

function outline(index) {
  for (const element of document.querySelectorAll("mark[data-receipt]")) {
    element.classList.toggle("shown", Number(element.dataset.receipt) === index);
  }
}
