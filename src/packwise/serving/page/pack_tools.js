// Changes to packs: add, replace and remove documents, make, rename and delete packs.

import * as api from "./api.js";
import { clear, el, plural } from "./dom.js";
import { notice } from "./notice.js";
import { follow, size, uploader } from "./uploads.js";

/** The tools for the current pack, as far as the caller may use them. */
export function packTools(page) {
  const { store, canCreate } = page;
  if (!store) return el("div", {}, canCreate ? uploader(page, null) : el("p", { class: "soft" }, "There is no pack yet."));
  if (!store.editable && !canCreate) return null;
  const place = el("div", { class: "tool-place" });
  const buttons = [];
  let opened = null;
  const tool = (label, fill) => {
    const button = el("button", { type: "button", class: "quiet", "aria-expanded": "false", onclick: () => show(button, fill) }, label);
    buttons.push(button);
    return button;
  };
  function show(button, fill) {
    const again = opened === button && place.childElementCount;
    for (const other of buttons) other.setAttribute("aria-expanded", "false");
    clear(place);
    opened = button;
    if (again) return;
    button.setAttribute("aria-expanded", "true");
    clear(place, fill());
  }

  const add = store.editable ? tool("Add documents", () => uploader(page, store)) : null;
  const make = canCreate ? tool("New pack", () => uploader(page, null)) : null;
  const holder = el("div", {},
    el("div", { class: "tool-row" }, add, store.editable ? tool("Files", () => fileList(page, store)) : null,
      store.editable ? tool("Rename", () => renameForm(page, store)) : null, store.editable ? tool("Delete", () => deleteForm(page, store)) : null, make),
    place);
  /** Files that were dropped anywhere on the page. */
  holder.take = (files) => {
    opened = null;
    show(add ?? make, () => uploader(page, add ? store : null));
    place.querySelector(".uploader").take(files);
  };
  return holder;
}

function fileList(page, store) {
  const holder = el("div", {}, el("p", { class: "soft" }, "Opening…"));
  const below = el("div", {});
  async function load() {
    try {
      const { files, elsewhere } = await api.storeFiles(store.name);
      const remove = (path) => apply(() => api.changeStore(store.name, { remove: [path] }));
      const reread = () => apply(() => api.changeStore(store.name, {}));
      clear(holder,
        elsewhere ? el("p", {}, `Some documents come from ${plural(elsewhere, "place")} on the server's machine. `, el("button", { type: "button", class: "quiet", onclick: reread }, "Read them again")) : null,
        el("ul", { class: "files" }, files.map((file) => el("li", {},
          el("span", { class: "path" }, file.path), el("span", { class: "soft small" }, size(file.bytes)),
          el("button", { type: "button", class: "quiet", "aria-label": `Remove ${file.path}`, onclick: () => remove(file.path) }, "Remove")))),
        files.length ? el("p", { class: "soft small" }, "Adding a file of the same name replaces it.") : null);
    } catch (error) {
      if (!(error instanceof api.ApiError)) throw error;
      clear(holder, notice(error, load));
    }
  }
  async function apply(change) {
    try {
      await follow(page, await change(), below);
      await load();
    } catch (error) {
      if (!(error instanceof api.ApiError)) throw error;
      clear(below, notice(error));
    }
  }
  load();
  return [holder, below];
}

function renameForm(page, store) {
  const field = el("input", { type: "text", id: "new-name", maxlength: 64, required: true, pattern: "[A-Za-z0-9][A-Za-z0-9._\\-]*", title: "Letters, digits, dots, dashes and underscores", value: store.name });
  const below = el("div", {});
  return el("form", { class: "new-pack", onsubmit: async (event) => {
    event.preventDefault();
    try {
      await api.renameStore(store.name, field.value.trim());
      await page.reload(field.value.trim());
    } catch (error) {
      if (!(error instanceof api.ApiError)) throw error;
      clear(below, notice(error));
    }
  } }, el("label", { for: "new-name" }, "New name"), field, el("button", { type: "submit", class: "quiet" }, "Rename it"), below);
}

function deleteForm(page, store) {
  const below = el("div", {});
  return el("div", { class: "notice" },
    el("p", {}, el("strong", {}, `Delete ${store.name}?`), ` The pack and the files that were added here are removed${store.documents === null ? "" : `, with ${plural(store.documents, "document")}`}. This cannot be undone.`),
    el("button", { type: "button", class: "quiet danger", onclick: async () => {
      try {
        await api.deleteStore(store.name);
        await page.reload(null);
      } catch (error) {
        if (!(error instanceof api.ApiError)) throw error;
        clear(below, notice(error));
      }
    } }, "Delete it"), below);
}
