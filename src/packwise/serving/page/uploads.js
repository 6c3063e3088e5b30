// Documents dropped onto the page or chosen: sent one by one, then built into a pack.

import * as api from "./api.js";
import { clear, count, el, plural } from "./dom.js";
import { notice } from "./notice.js";

const AT_ONCE = 3;
const FORMATS = "PDF, Word, PowerPoint, Excel, CSV, Markdown, HTML, text, e-mail, EPUB, notebooks and source code";

/** What a server without a pack says: what to do, and where to drop documents. */
export function emptyStart(page) {
  if (!page.canCreate) {
    return el("div", { class: "start" }, el("h1", {}, "There is no pack yet"),
      el("p", {}, "Someone with an admin key can make one here. On the server's machine: ", el("code", {}, "packwise build DOCUMENTS --out PACK"), "."));
  }
  return el("div", { class: "start" },
    el("h1", {}, "Ask your documents"),
    el("p", { class: "lead-in" }, "Add documents and ask them questions. Every answer shows the sentence it comes from. The documents stay where this server runs."),
    el("ol", { class: "steps" },
      el("li", {}, "Drop files or a folder below."), el("li", {}, "They become a pack: their text, indexed for search."), el("li", {}, "Ask it.")),
    uploader(page, null));
}

/** A place for documents. `store` is the pack they go to; null makes a new one. */
export function uploader(page, store) {
  const holder = el("div", { class: "uploader" });
  const choose = (folder) => {
    const input = el("input", { type: "file", multiple: true, class: "sr-only", tabindex: "-1", "aria-label": folder ? "Folder to add" : "Files to add", webkitdirectory: folder, onchange: () => {
      take([...input.files].map((file) => ({ path: file.webkitRelativePath || file.name, file })));
      input.value = "";
    } });
    return [input, el("button", { type: "button", class: "quiet", onclick: () => input.click() }, folder ? "Choose a folder" : "Choose files")];
  };
  const drop = el("div", { class: "drop", ondragover: (event) => { event.preventDefault(); drop.classList.add("over"); }, ondragleave: () => drop.classList.remove("over") },
    el("p", {}, el("strong", {}, "Drop files or a folder here")),
    el("p", { class: "soft small" }, `${FORMATS}; up to ${size(page.fileBytes)} each.`),
    el("div", { class: "drop-buttons" }, choose(false), choose(true)));
  const below = el("div", {});
  holder.append(drop, below);

  function take(files) {
    const shown = files.filter(({ path }) => path.split("/").every((part) => part && !part.startsWith(".")));
    if (!shown.length) return;
    if (store) send(store.name, shown, false);
    else confirmName(shown);
  }
  holder.take = take;

  /** A new pack needs a name; one is suggested. */
  function confirmName(files) {
    const folders = new Set(files.map(({ path }) => (path.includes("/") ? path.split("/")[0] : "")));
    const suggested = folders.size === 1 && ![...folders][0] === false ? [...folders][0] : "my-pack";
    const field = el("input", { type: "text", id: "pack-name", maxlength: 64, required: true, pattern: "[A-Za-z0-9][A-Za-z0-9._\\-]*", title: "Letters, digits, dots, dashes and underscores", value: named(suggested), autocomplete: "off" });
    clear(below, el("form", { class: "new-pack", onsubmit: (event) => { event.preventDefault(); send(field.value.trim(), files, true); } },
      el("p", {}, `${plural(files.length, "file")}, ${size(files.reduce((sum, { file }) => sum + file.size, 0))}: `, el("span", { class: "soft" }, listed(files.map(({ path }) => path)))),
      el("label", { for: "pack-name" }, "Name of the pack"), field,
      el("button", { type: "submit", class: "main" }, "Make the pack")));
    field.focus();
    field.select();
  }

  async function send(name, files, isNew) {
    const bar = el("progress", { max: files.length, value: 0, "aria-label": "Progress" });
    const status = el("p", { class: "soft", role: "status" }, `Sending ${plural(files.length, "file")}…`);
    clear(below, el("div", { class: "progress" }, bar, status));
    const refused = [];
    try {
      const { id } = await api.newUpload();
      let sent = 0;
      const waiting = [...files];
      await Promise.all(Array.from({ length: AT_ONCE }, async () => {
        for (let next = waiting.shift(); next; next = waiting.shift()) {
          try {
            if (next.file.size > page.fileBytes) throw new api.ApiError("file_too_large", `it is larger than ${size(page.fileBytes)}`, { status: 413 });
            await api.uploadFile(id, next.path, next.file);
          } catch (error) {
            if (!(error instanceof api.ApiError) || ![400, 413].includes(error.status)) throw error;
            refused.push(`${next.path}: ${error.message}`);
          }
          bar.value = ++sent;
        }
      }));
      if (refused.length === files.length) {
        clear(below, refusals(refused, "None of these can be read."));
        return;
      }
      const job = isNew ? await api.createStore({ name, upload: id }) : await api.changeStore(name, { upload: id });
      await follow(page, job, below, refused);
    } catch (error) {
      if (!(error instanceof api.ApiError)) throw error;
      clear(below, notice(error, () => (isNew ? confirmName(files) : send(name, files, false))));
    }
  }
  return holder;
}

/** Show how far a build is until it ends; then the page knows the new packs. */
export async function follow(page, started, place, refused = []) {
  const bar = el("progress", { "aria-label": "Progress" });
  const status = el("p", { class: "soft", role: "status" });
  clear(place, el("div", { class: "progress" }, bar, status));
  let job = started;
  while (job.state === "waiting" || job.state === "running") {
    if (job.total) {
      bar.max = job.total;
      bar.value = job.documents;
    }
    status.textContent = job.state === "waiting" ? "Waiting for another build…"
      : job.step === "saving" ? "Writing the index…"
        : job.total ? `Reading: ${count(job.documents)} of ${plural(job.total, "document")}, ${plural(job.passages, "passage")} so far` : "Reading…";
    await new Promise((resolve) => setTimeout(resolve, 250));
    job = await api.job(job.id);
  }
  if (job.state === "failed") {
    clear(place, notice(new api.ApiError("failed", `The documents could not be added: ${job.error}.`)));
    return;
  }
  const done = [[job.added, "added"], [job.changed, "updated"], [job.removed, "removed"]].filter(([number]) => number).map(([number, word]) => `${count(number)} ${word}`);
  const unread = [...refused, ...job.problems];
  const said = `${job.store} is ready${done.length ? `: ${done.join(", ")}` : ": nothing has changed"}.`;
  clear(place, el("div", { class: "built", role: "status" }, el("p", {}, el("strong", {}, said)), el("a", { class: "button", href: page.address("ask", { store: job.store }) }, `Ask ${job.store}`)),
    refusals(unread, "Not read, or only in part:"));
  page.announce(said);
  await page.reload(job.store);
  if (unread.length && !place.isConnected) page.notify(refusals(unread, "Not read, or only in part:"));
}

const refusals = (lines, head) => (lines.length ? el("div", { class: "refused" }, el("p", {}, head), el("ul", {}, lines.map((line) => el("li", {}, line)))) : null);

const listed = (names) => (names.length > 5 ? `${names.slice(0, 4).join(", ")} and ${count(names.length - 4)} more` : names.join(", "));

const named = (text) => text.normalize("NFKD").replace(/[^A-Za-z0-9._-]+/g, "-").replace(/^[^A-Za-z0-9]+|[-.]+$/g, "").slice(0, 64) || "my-pack";

export function size(bytes) {
  if (bytes < 1000) return plural(bytes, "byte");
  return bytes < 1e6 ? `${Math.round(bytes / 1000)} kB` : `${(bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0)} MB`;
}

/** The files of a drop, those in folders too. */
export async function dropped(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (!entries.length) return [...transfer.files].map((file) => ({ path: file.name, file }));
  const found = [];
  const walk = async (entry, path) => {
    if (entry.isFile) {
      found.push({ path, file: await new Promise((resolve, reject) => entry.file(resolve, reject)) });
      return;
    }
    const reader = entry.createReader();
    for (;;) {
      // A folder is listed in parts; an empty part ends it.
      const part = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
      if (!part.length) break;
      for (const inner of part) await walk(inner, `${path}/${inner.name}`);
    }
  };
  for (const entry of entries) await walk(entry, entry.name);
  return found;
}
