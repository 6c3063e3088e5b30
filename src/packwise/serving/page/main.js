// The page: the current view, the current pack, and the API key if the server requires one.

import * as api from "./api.js";
import * as ask from "./ask.js";
import * as compare from "./compare.js";
import * as documents from "./documents.js";
import * as evaluation from "./evaluation.js";
import * as search from "./search.js";
import { clear, el } from "./dom.js";
import { notice } from "./notice.js";
import { dropped } from "./uploads.js";

const VIEWS = { ask, search, documents, compare, evaluation };
const NAMES = { ask: "Ask", search: "Search", documents: "Documents", compare: "Compare", evaluation: "Evaluation" };
const OLD_NAMES = { browse: "documents" };
const mountedViews = new Map();
const announcer = document.getElementById("announcer");
const noticeArea = document.getElementById("notice");

const page = {
  store: null,
  stores: [],
  canCreate: false,
  fileBytes: 0,
  announce(text) {
    announcer.textContent = text;
  },
  address(view, values = {}) {
    const set = Object.entries(values).filter(([, value]) => value !== undefined && value !== null && value !== "" && value !== false);
    return `#/${view}${set.length ? `?${new URLSearchParams(set)}` : ""}`;
  },
  /** Show an address; `instead` of the current one in the history. */
  go(view, values = {}, instead = false) {
    const hash = page.address(view, values);
    if (location.hash !== hash) history[instead ? "replaceState" : "pushState"](null, "", hash);
    markCurrent(view);
  },
  /** Read the packs again after one was made, changed, renamed or deleted. */
  async reload(name) {
    api.forgetArticles();
    await load();
    await selectStore(name);
    const { view, values } = currentRoute();
    if (values.store && values.store !== page.store?.name) page.go(view, { store: page.store?.name }, true);
    await show();
  },
  /** Say something that outlasts the view. */
  notify(...content) {
    clear(noticeArea, el("div", { class: "notice", role: "status" }, content));
  },
};

function currentRoute() {
  const [, name, values] = /^#\/(\w+)(?:\?(.*))?$/.exec(location.hash) ?? [];
  const view = OLD_NAMES[name] ?? name;
  return { view: view in VIEWS ? view : "ask", values: Object.fromEntries(new URLSearchParams(values ?? "")) };
}

function markCurrent(view) {
  for (const link of document.querySelectorAll("#views a")) {
    if (link.dataset.view === view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${NAMES[view]} · Packwise`;
}

function mounted(view) {
  if (!mountedViews.has(view)) {
    mountedViews.set(view, VIEWS[view].mount(document.getElementById(view), page));
    if (page.store) mountedViews.get(view).store?.(page.store);
  }
  return mountedViews.get(view);
}

async function show() {
  const { view, values } = currentRoute();
  markCurrent(view);
  const wanted = page.stores.find((store) => store.name === values.store);
  if (values.store && !wanted) {
    clear(noticeArea, notice({ message: `This server has no pack named ${values.store}.`, fix: "The link may be from another server." }));
    if (values.q && !values.c) return;
  } else {
    clear(noticeArea);
  }
  if (wanted && wanted.name !== page.store?.name) await selectStore(wanted.name);
  for (const name of Object.keys(VIEWS)) document.getElementById(name).hidden = name !== view;
  await mounted(view).show(values);
}

async function selectStore(name) {
  page.store = page.stores.find((store) => store.name === name) ?? page.stores[0] ?? null;
  if (page.store) sessionStorage.setItem("packwise.store", page.store.name);
  showStores();
  for (const view of mountedViews.values()) if (page.store) view.store?.(page.store);
}

/** Another pack was chosen: what is shown belongs to the one before. */
async function switchStore(name) {
  await selectStore(name);
  const { view, values } = currentRoute();
  const kept = view === "documents" ? {} : { q: view === "ask" ? undefined : values.q };
  page.go(view, { ...kept, store: name });
  await show();
}

function showStores() {
  const place = document.getElementById("store");
  if (page.stores.length < 2) {
    clear(place, el("span", { class: "soft" }, page.store?.name ?? ""));
    return;
  }
  clear(place, el("label", { class: "sr-only", for: "store-name" }, "Pack"),
    el("select", { id: "store-name", onchange: (event) => switchStore(event.target.value) },
      page.stores.map((store) => el("option", { value: store.name, selected: store === page.store }, store.name))));
}

api.onKeyRequired((refused) => new Promise((resolve) => {
  const field = el("input", { type: "password", id: "key", autocomplete: "off", required: true, "aria-describedby": "key-note" });
  clear(noticeArea, el("form", { class: "notice key", onsubmit: (event) => {
    event.preventDefault();
    api.useKey(field.value.trim());
    clear(noticeArea);
    resolve();
  } },
  el("p", { id: "key-note", role: "alert" }, refused ? "This key is not valid. " : "This server requires an API key. ", el("span", { class: "soft" }, "It is kept until you close this tab.")),
  el("label", { class: "sr-only", for: "key" }, "API key"), field,
  el("button", { type: "submit", class: "quiet" }, "Use it")));
  field.focus();
}));

async function load() {
  const found = await api.stores();
  page.stores = found.stores;
  page.canCreate = found.can_create;
  page.fileBytes = found.file_bytes;
}

async function start() {
  clear(noticeArea);
  try {
    await load();
  } catch (error) {
    if (!(error instanceof api.ApiError)) throw error;
    clear(noticeArea, notice(error, start));
    return;
  }
  await selectStore(currentRoute().values.store ?? sessionStorage.getItem("packwise.store"));
  await show();
}

// Files may be dropped anywhere.
const mayDrop = (event) => event.dataTransfer?.types.includes("Files") && (page.canCreate || page.store?.editable);
addEventListener("dragover", (event) => {
  if (!mayDrop(event)) return;
  event.preventDefault();
  document.body.classList.add("dragging");
});
addEventListener("dragleave", (event) => {
  if (!event.relatedTarget) document.body.classList.remove("dragging");
});
addEventListener("drop", async (event) => {
  document.body.classList.remove("dragging");
  if (!mayDrop(event)) return;
  event.preventDefault();
  const files = await dropped(event.dataTransfer);
  const here = event.target.closest?.(".uploader") ?? document.querySelector("section:not([hidden]) .uploader");
  if (here) return here.take(files);
  page.go("documents", { store: page.store?.name });
  await show();
  mounted("documents").take(files);
});

addEventListener("hashchange", show);
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  document.getElementById("main").focus();
});
start();
