// Copying, also where a browser does not let a page do it: it does so on this machine and over HTTPS only.

/** Copy the text of an element, or else select it. Tells which, in words. */
export async function copyFrom(element) {
  try {
    await navigator.clipboard.writeText(element.textContent);
    return "Copied.";
  } catch {
    getSelection().selectAllChildren(element);
    return "Selected; copy it with Ctrl + C.";
  }
}
