// Files: chosen or dropped, translated by the server, and given back.

import { documentResult, documentStatus, Problem, uploadDocument } from "./server.js";

const byId = (id) => document.getElementById(id);
const PAUSE = 500; // milliseconds between two questions how far a file is

export class FilePanel {
  /** `job` gives the direction and the terms at the time a file is chosen. */
  constructor(failed, job) {
    this.failed = failed;
    this.job = job;
    byId("file").addEventListener("change", (event) => {
      this.take([...event.target.files]);
      event.target.value = "";
    });
    const area = byId("drop");
    addEventListener("dragover", (event) => {
      event.preventDefault(); // a file that misses the area would replace the page
      area.classList.toggle("over", area.contains(event.target));
    });
    addEventListener("drop", (event) => {
      event.preventDefault();
      area.classList.remove("over");
      if (area.contains(event.target)) this.take([...event.dataTransfer.files]);
    });
  }

  take(files) {
    for (const file of files) this.translate(file).catch(this.failed);
  }

  async translate(file) {
    const { direction, terms } = this.job();
    if (!direction) throw new Problem("There is no direction yet", "The server has not told what it translates.");
    const { item, progress, told } = this.item(file.name);
    try {
      const handle = await uploadDocument(file, direction, terms);
      const status = await this.finished(handle, progress, told);
      if (status.status === "error") throw new Problem(`${file.name} was not translated`, status.error_message);
      const { blob, name } = await documentResult(handle);
      const link = document.createElement("a");
      link.href = URL.createObjectURL(blob);
      link.download = name;
      link.textContent = `Save ${name}`;
      told.replaceChildren(link);
      progress.value = 1;
    } catch (error) {
      item.remove();
      throw error;
    }
  }

  async finished(handle, progress, told) {
    for (;;) {
      const status = await documentStatus(handle);
      if (status.status === "done" || status.status === "error") return status;
      if (status.status === "translating") progress.value = status.progress;
      const seconds = status.seconds_remaining;
      told.textContent = seconds ? `about ${seconds} s left` : status.status;
      await new Promise((resolve) => setTimeout(resolve, PAUSE));
    }
  }

  item(name) {
    const item = document.createElement("li");
    const progress = document.createElement("progress");
    const told = document.createElement("span");
    progress.max = 1;
    progress.value = 0;
    progress.setAttribute("aria-label", name);
    item.append(name, progress, told);
    byId("files").append(item);
    return { item, progress, told };
  }
}
