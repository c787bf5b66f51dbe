// A question before something is lost.

const byId = (id) => document.getElementById(id);
const dialog = byId("question");

/** Ask, and wait for the answer. `verb` stands on the button that goes ahead; Escape and the other button do not. */
export function confirmed(message, detail, verb) {
  byId("question-message").textContent = message;
  byId("question-detail").textContent = detail;
  byId("question-yes").textContent = verb;
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}

byId("question-yes").addEventListener("click", () => dialog.close("yes"));
byId("question-no").addEventListener("click", () => dialog.close());
