// The page: which view is shown, which store is asked, and the key the server may want.

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
const shown = new Map();
const said = document.getElementById("said");
const noticed = document.getElementById("notice");
let stores = [];

const page = {
  store: null,
  say(text) {
    said.textContent = text;
  },
  go(view, values = {}) {
    const set = Object.entries(values).filter(([, value]) => value);
    const hash = `#/${view}${set.length ? `?${new URLSearchParams(set)}` : ""}`;
    if (location.hash !== hash) history.pushState(null, "", hash);
    mark(view);
  },
};

function where() {
  const [, name, values] = /^#\/(\w+)(?:\?(.*))?$/.exec(location.hash) ?? [];
  return { view: name in VIEWS ? name : "ask", values: Object.fromEntries(new URLSearchParams(values ?? "")) };
}

function mark(view) {
  for (const link of document.querySelectorAll("#views a")) {
    if (link.dataset.view === view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${NAMES[view]} · Packwise`;
}

async function show() {
  const { view, values } = where();
  mark(view);
  if (!page.store) return;
  if (!shown.has(view)) {
    shown.set(view, VIEWS[view]().then((module) => {
      const made = module.mount(document.getElementById(view), page);
      made.store?.(page.store);
      return made;
    }));
  }
  let made;
  try {
    made = await shown.get(view);
  } catch (error) {
    if (!(error instanceof TypeError) || !/import|module/i.test(error.message)) throw error;
    shown.delete(view);
    // A browser may remember that a module could not be had: only a reload asks for it again.
    clear(noticed, notice({ message: "This part of the page could not be loaded.", fix: "Is packwise serve still running?" }, () => location.reload()));
    return;
  }
  if (where().view !== view) return;
  for (const name of Object.keys(VIEWS)) document.getElementById(name).hidden = name !== view;
  made.show(values);
}

async function choose(name) {
  page.store = stores.find((store) => store.name === name) ?? stores[0];
  sessionStorage.setItem("packwise.store", page.store.name);
  for (const made of shown.values()) (await made).store?.(page.store);
}

function chooser() {
  const place = document.getElementById("store");
  if (stores.length < 2) {
    clear(place, el("span", { class: "soft" }, page.store.name));
    return;
  }
  clear(place, el("label", { class: "unseen", for: "store-name" }, "Store"),
    el("select", { id: "store-name", onchange: (event) => choose(event.target.value) },
      stores.map((store) => el("option", { value: store.name, selected: store === page.store }, store.name))));
}

api.onKeyWanted((refused) => new Promise((resolve) => {
  const field = el("input", { type: "password", id: "key", autocomplete: "off", required: true, "aria-describedby": "key-told" });
  clear(noticed, el("form", { class: "notice key", onsubmit: (event) => {
    event.preventDefault();
    api.useKey(field.value.trim());
    clear(noticed);
    resolve();
  } },
  el("p", { id: "key-told", role: "alert" }, refused ? "That key is not known here. " : "This server asks for an API key. ", el("span", { class: "soft" }, "It is kept until this tab is closed.")),
  el("label", { class: "unseen", for: "key" }, "API key"), field,
  el("button", { type: "submit", class: "quiet" }, "Use it")));
  field.focus();
}));

async function start() {
  clear(noticed);
  try {
    stores = await api.stores();
  } catch (error) {
    if (!(error instanceof api.Trouble)) throw error;
    clear(noticed, notice(error, start));
    return;
  }
  await choose(where().values.store ?? sessionStorage.getItem("packwise.store"));
  chooser();
  await show();
}

addEventListener("hashchange", show);
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  document.getElementById("main").focus();
});
start();
