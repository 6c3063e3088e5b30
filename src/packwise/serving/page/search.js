// Search inside all packs: passages with their words highlighted, and filters.

import * as api from "./api.js";
import { clear, el, plural } from "./dom.js";
import { notice } from "./notice.js";
import { openPassage } from "./panel.js";
import { sectionText } from "./candidates.js";

const EACH = 30;
const SHOWN = 40;
const SNIPPET = 260;
const DATES = ["date", "modified", "updated", "published", "created", "sent"];

export function mount(root, page) {
  const box = el("input", { type: "search", id: "search-box", placeholder: "Words or a question", "aria-label": "Search in all packs", autocomplete: "off", maxlength: 2000 });
  const filters = {
    pack: el("select", { id: "filter-pack", onchange: run }),
    path: el("input", { type: "text", id: "filter-path", placeholder: "guides/", autocomplete: "off", onchange: run }),
    type: el("select", { id: "filter-type", onchange: draw }),
    lang: el("select", { id: "filter-lang", onchange: draw }),
    from: el("input", { type: "date", id: "filter-from", onchange: draw }),
    to: el("input", { type: "date", id: "filter-to", onchange: draw }),
  };
  const field = (name, label) => el("div", { class: "field" }, el("label", { for: `filter-${name}` }, label), filters[name]);
  const status = el("p", { class: "soft small", role: "status" });
  const results = el("ol", { class: "found" });
  root.append(el("h1", {}, "Search"),
    el("form", { class: "search-form", role: "search", onsubmit: (event) => { event.preventDefault(); run(); } },
      el("div", { class: "box" }, box, el("button", { type: "submit", class: "main" }, "Search")),
      el("details", { class: "with" }, el("summary", {}, "Filters"),
        el("div", { class: "fields" }, field("pack", "Pack"), field("path", "Path starts with"), field("type", "Type"), field("lang", "Language"), field("from", "Dated from"), field("to", "Dated to")))),
    status, results);
  let running = null;
  let found = [];
  let asked = "";

  function options(select, values, all) {
    const before = select.value;
    clear(select, el("option", { value: "" }, all), values.map((value) => el("option", { value }, value)));
    select.value = values.includes(before) ? before : "";
  }

  async function run() {
    const query = box.value.trim();
    if (!query) return box.focus();
    running?.abort();
    running = new AbortController();
    const { signal } = running;
    asked = query;
    page.go("search", { q: query, pack: filters.pack.value, path: filters.path.value.trim() });
    status.textContent = "Searching…";
    clear(results);
    const stores = page.stores.filter((store) => !filters.pack.value || store.name === filters.pack.value);
    const where = filters.path.value.trim() ? { path: filters.path.value.trim() } : {};
    const asking = stores.map(async (store) => {
      const { hits } = await api.search({ query, store: store.name, k: EACH, where }, signal);
      return hits.map((hit) => ({ ...hit, store: store.name, type: typeOf(hit.document), date: dateOf(hit.metadata) }));
    });
    const settled = await Promise.allSettled(asking);
    if (signal.aborted) return;
    const failed = settled.find((one) => one.status === "rejected");
    if (failed && !(failed.reason instanceof api.ApiError)) throw failed.reason;
    found = settled.flatMap((one) => (one.status === "fulfilled" ? one.value : [])).sort((a, b) => b.scores.final - a.scores.final);
    const known = (name) => [...new Set(found.map((hit) => hit[name]).filter(Boolean))].sort();
    options(filters.type, known("type"), "all types");
    options(filters.lang, known("lang"), "all languages");
    draw();
    if (failed) results.before(notice(failed.reason, run));
  }

  function draw() {
    const { type, lang, from, to } = filters;
    const kept = found.filter((hit) => (!type.value || hit.type === type.value) && (!lang.value || hit.lang === lang.value)
      && (!from.value || (hit.date && hit.date >= from.value)) && (!to.value || (hit.date && hit.date <= to.value)));
    if (!asked) return;
    const packs = new Set(kept.map((hit) => hit.store)).size;
    status.textContent = kept.length ? `${plural(kept.length, "passage")} in ${plural(packs, "pack")}, best first` : "Nothing found. Try other words or fewer filters.";
    page.announce(status.textContent);
    clear(results, kept.slice(0, SHOWN).map((hit) => el("li", {},
      el("button", { type: "button", class: "hit", onclick: () => openPassage({ ...hit, scores: null, section: hit.section_path, ids: [hit.id], quote: hit.text, evidence: { quote: best(hit.text, asked) } }, hit.store) },
        el("span", { class: "hit-title" }, hit.title || hit.document),
        el("span", { class: "soft small path" }, [hit.store, sectionText(hit.section_path), hit.place, hit.date].filter(Boolean).join(" · ")),
        el("span", { class: "snippet" }, marked(snippet(hit.text, asked), asked))))));
  }

  return {
    show(values) {
      options(filters.pack, page.stores.map((store) => store.name), "all packs");
      if (!values.q) {
        box.focus({ preventScroll: true });
        return;
      }
      if (values.q === asked) return;
      box.value = values.q;
      filters.pack.value = values.pack ?? "";
      filters.path.value = values.path ?? "";
      run();
    },
    store() {
      asked = "";
      found = [];
      clear(results);
      status.textContent = "";
    },
  };
}

const typeOf = (document) => /\.([a-z0-9]{1,5})(?:$|[#/])/i.exec(document)?.[1].toLowerCase() ?? "";

function dateOf(metadata) {
  for (const name of DATES) {
    const day = /^\d{4}-\d{2}-\d{2}/.exec(metadata[name] ?? "");
    if (day) return day[0];
  }
  return "";
}

const patterns = (query) => (query.toLowerCase().match(/[\p{L}\p{N}]{2,}/gu) ?? []).filter((word) => word.length > 2 || /\p{N}/u.test(word))
  // A word in another form begins the same.
  .map((word) => (word.length > 5 ? word.slice(0, Math.max(4, word.length - 2)) : word));

const matcher = (query) => {
  const wanted = patterns(query);
  return wanted.length ? new RegExp(`(?<![\\p{L}\\p{N}])(?:${wanted.join("|")})[\\p{L}\\p{N}]*`, "giu") : null;
};

/** The part of a text with most words of the query. */
function snippet(text, query) {
  const flat = text.replace(/\s+/g, " ");
  const hits = [...flat.matchAll(matcher(query) ?? /$^/g)].map((match) => match.index);
  if (flat.length <= SNIPPET) return flat;
  let start = 0;
  let most = -1;
  for (const at of hits) {
    const held = hits.filter((other) => other >= at && other < at + SNIPPET - 40).length;
    if (held > most) [start, most] = [Math.max(0, at - 40), held];
  }
  const from = start ? flat.indexOf(" ", start) + 1 : 0;
  return `${from ? "… " : ""}${flat.slice(from, from + SNIPPET)}${from + SNIPPET < flat.length ? " …" : ""}`;
}

function marked(text, query) {
  const pattern = matcher(query);
  if (!pattern) return [text];
  const parts = [];
  let from = 0;
  for (const match of text.matchAll(pattern)) {
    parts.push(text.slice(from, match.index), el("mark", {}, match[0]));
    from = match.index + match[0].length;
  }
  parts.push(text.slice(from));
  return parts;
}

/** The sentence or row of a passage that has most words of the query. */
function best(text, query) {
  const pattern = matcher(query);
  if (!pattern) return "";
  const units = text.split("\n").flatMap((line) => (line.includes(" | ") ? [line] : line.split(/(?<=[.!?])\s+/)));
  const kinds = (unit) => new Set((unit.match(pattern) ?? []).map((word) => word.toLowerCase())).size;
  return units.reduce((first, unit) => (kinds(unit) > kinds(first) ? unit : first), "").trim();
}
