// The page: the current view, the current store, and the API key if the server requires one.

import * as api from "./api.js";
import { clear, el } from "./dom.js";
import { notice } from "./notice.js";

const VIEWS = {
  ask: () => import("./ask.js"),
  compare: () => import("./compare.js"),
  browse: () => import("./browse.js"),
  evaluation: () => import("./evaluation.js"),
};
const NAMES = { ask: "Ask", compare: "Compare", browse: "Browse", evaluation: "Evaluation" };
const mountedViews = new Map();
const announcer = document.getElementById("announcer");
const noticeArea = document.getElementById("notice");
let stores = [];

const page = {
  store: null,
  announce(text) {
    announcer.textContent = text;
  },
  go(view, values = {}) {
    const set = Object.entries(values).filter(([, value]) => value);
    const hash = `#/${view}${set.length ? `?${new URLSearchParams(set)}` : ""}`;
    if (location.hash !== hash) history.pushState(null, "", hash);
    markCurrent(view);
  },
};

function currentRoute() {
  const [, name, values] = /^#\/(\w+)(?:\?(.*))?$/.exec(location.hash) ?? [];
  return { view: name in VIEWS ? name : "ask", values: Object.fromEntries(new URLSearchParams(values ?? "")) };
}

function markCurrent(view) {
  for (const link of document.querySelectorAll("#views a")) {
    if (link.dataset.view === view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${NAMES[view]} · Packwise`;
}

async function show() {
  const { view, values } = currentRoute();
  markCurrent(view);
  if (!page.store) return;
  if (!mountedViews.has(view)) {
    mountedViews.set(view, VIEWS[view]().then((module) => {
      const mounted = module.mount(document.getElementById(view), page);
      mounted.store?.(page.store);
      return mounted;
    }));
  }
  let mounted;
  try {
    mounted = await mountedViews.get(view);
  } catch (error) {
    if (!(error instanceof TypeError) || !/import|module/i.test(error.message)) throw error;
    mountedViews.delete(view);
    // A browser may remember a failed import: only a reload tries it again.
    clear(noticeArea, notice({ message: "This part of the page could not be loaded.", fix: "Is packwise serve still running?" }, () => location.reload()));
    return;
  }
  if (currentRoute().view !== view) return;
  for (const name of Object.keys(VIEWS)) document.getElementById(name).hidden = name !== view;
  mounted.show(values);
}

async function selectStore(name) {
  page.store = stores.find((store) => store.name === name) ?? stores[0];
  sessionStorage.setItem("packwise.store", page.store.name);
  for (const mounted of mountedViews.values()) (await mounted).store?.(page.store);
}

function showStores() {
  const place = document.getElementById("store");
  if (stores.length < 2) {
    clear(place, el("span", { class: "soft" }, page.store.name));
    return;
  }
  clear(place, el("label", { class: "sr-only", for: "store-name" }, "Store"),
    el("select", { id: "store-name", onchange: (event) => selectStore(event.target.value) },
      stores.map((store) => el("option", { value: store.name, selected: store === page.store }, store.name))));
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

async function start() {
  clear(noticeArea);
  try {
    stores = await api.stores();
  } catch (error) {
    if (!(error instanceof api.ApiError)) throw error;
    clear(noticeArea, notice(error, start));
    return;
  }
  await selectStore(currentRoute().values.store ?? sessionStorage.getItem("packwise.store"));
  showStores();
  await show();
}

addEventListener("hashchange", show);
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  document.getElementById("main").focus();
});
start();
