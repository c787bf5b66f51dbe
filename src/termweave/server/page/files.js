// Files: chosen or dropped, translated by the server, and given back.

import { documentResult, documentStatus, notReady, Problem, uploadDocument } from "./server.js";

const byId = (id) => document.getElementById(id);
const PAUSE = 500; // milliseconds between two questions how far a file is
const PASSING = new Set([0, 429, 503]); // no answer, or not now: what may be over soon

export class FilePanel {
  /** `failed` is called with what stands in the way of all files; `job` gives the direction and the terms wanted now. */
  constructor(failed, job) {
    this.failed = failed;
    this.job = job;
    byId("file").addEventListener("change", (event) => {
      this.take([...event.target.files]);
      event.target.value = "";
    });
    addEventListener("dragover", (event) => {
      if (!bringsFiles(event)) return;
      event.preventDefault(); // or else the file would replace the page
      byId("drop").classList.add("over");
    });
    addEventListener("dragleave", (event) => event.relatedTarget ?? byId("drop").classList.remove("over"));
    addEventListener("drop", (event) => {
      if (!bringsFiles(event)) return;
      event.preventDefault();
      byId("drop").classList.remove("over");
      this.take([...event.dataTransfer.files]);
      byId("files").lastElementChild?.scrollIntoView({ block: "nearest" });
    });
  }

  take(files) {
    for (const file of files) this.translate(file);
  }

  async translate(file) {
    const own = this.item(file.name);
    try {
      const { direction, wanted } = this.job();
      if (!direction) throw notReady();
      const handle = await uploadDocument(file, direction, wanted);
      const status = await this.finished(handle, own);
      if (status.status === "error") throw new Problem("It was not translated", status.error_message);
      own.give(await this.patiently(() => documentResult(handle), own));
    } catch (error) {
      own.fail(error);
      if (error.status === 403) this.failed(error);
    }
  }

  async finished(handle, own) {
    for (;;) {
      const status = await this.patiently(() => documentStatus(handle), own);
      if (status.status === "done" || status.status === "error") return status;
      own.tell(status);
      await pause(PAUSE);
    }
  }

  /** Ask again while the server does not answer: the file is still there when it does. */
  async patiently(ask, own) {
    for (;;) {
      try {
        return await ask();
      } catch (error) {
        if (!PASSING.has(error.status) || !own.isShown) throw error;
        own.told.textContent = `${error.message}; asking again…`;
        await pause(4 * PAUSE);
      }
    }
  }

  item(name) {
    const own = new FileItem(name);
    byId("files").append(own.element);
    return own;
  }
}

/** A file on the list: how far it is, and then its translation or what is wrong with it. */
class FileItem {
  constructor(name) {
    this.element = byId("file-template").content.firstElementChild.cloneNode(true);
    this.progress = this.element.querySelector("progress");
    this.told = this.element.querySelector(".told");
    this.element.querySelector(".name").textContent = name;
    this.element.querySelector("button .hidden").textContent = ` Remove ${name} from the list`;
    this.element.querySelector("button").addEventListener("click", () => this.remove());
    this.progress.setAttribute("aria-label", name);
    this.told.textContent = "sending";
  }

  get isShown() {
    return this.element.isConnected;
  }

  tell({ status, progress, seconds_remaining: seconds }) {
    if (status === "translating") this.progress.value = progress;
    this.told.textContent = seconds ? `about ${seconds} s left` : status;
  }

  give({ blob, name }) {
    this.link = document.createElement("a");
    this.link.href = URL.createObjectURL(blob);
    this.link.download = name;
    this.link.textContent = `Save ${name}`;
    this.told.replaceChildren(this.link);
    this.progress.value = 1;
  }

  fail({ message, detail }) {
    this.progress.remove();
    this.told.classList.add("error");
    this.told.textContent = detail ? `${message}: ${detail}` : message;
  }

  remove() {
    const next = this.element.nextElementSibling ?? this.element.previousElementSibling;
    this.element.remove();
    if (this.link) URL.revokeObjectURL(this.link.href);
    (next?.querySelector("button") ?? byId("file")).focus();
  }
}

/** Text that is dragged is left to the browser. */
function bringsFiles({ dataTransfer }) {
  return dataTransfer?.types.includes("Files");
}

function pause(milliseconds) {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}
