// A question before something is lost.

const byId = (id) => document.getElementById(id);
const dialog = byId("question");
let settle = null; // takes the answer to the question that is open

/** Ask, and wait for the answer. `verb` stands on the button that goes ahead; Escape and the other button do not. */
export function confirmed(message, detail, verb) {
  byId("question-message").textContent = message;
  byId("question-detail").textContent = detail;
  byId("question-yes").textContent = verb;
  dialog.showModal();
  return new Promise((resolve) => {
    settle = resolve;
  });
}

function answer(value) {
  dialog.close();
  settle?.(value);
  settle = null;
}

byId("question-yes").addEventListener("click", () => answer(true));
byId("question-no").addEventListener("click", () => answer(false));
// Escape. The event comes late: by then the next question may be open already, and it is not the one that was closed.
dialog.addEventListener("close", () => {
  if (!dialog.open) answer(false);
});
