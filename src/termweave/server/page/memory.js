// What this browser keeps for the page: it stays when the tab is closed, and other tabs see it.

/** What was kept under a name; `otherwise`, if there is nothing that can be read. */
export function recall(name, otherwise) {
  try {
    return JSON.parse(localStorage.getItem(name)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

export function keep(name, value) {
  localStorage.setItem(name, JSON.stringify(value));
}

/** Call `changed` with the name of what another tab has kept. */
export function watch(changed) {
  addEventListener("storage", ({ key }) => key && changed(key));
}
