// The panel at the side: a passage with its article around it.

import * as api from "./api.js";
import { Characters, clear, el, many, percent, score } from "./dom.js";
import { colour, sectionText } from "./picture.js";
import { REASONS, SCORES } from "./labels.js";

const dialog = document.getElementById("panel");

dialog.addEventListener("click", (event) => {
  if (event.target === dialog) dialog.close();
});

/** A passage: `{ids, document, title, section, marker, reason, scores, url, quote}`. */
export async function openPassage(passage, store) {
  const ids = passage.ids ?? [passage.id];
  const body = el("div", { class: "panel-body" }, el("p", { class: "soft" }, "Opening the article…"));
  clear(
    dialog,
    el("header", { class: "panel-head" },
      el("div", {},
        el("h2", { id: "panel-title" }, passage.marker ? el("span", { class: `chip ${colour(passage.marker)}` }, passage.marker) : null, passage.title),
        el("p", { class: "soft" }, [sectionText(passage.section), passage.part].filter(Boolean).join(" ") || passage.document)),
      el("button", { class: "quiet", type: "button", "aria-label": "Close", onclick: () => dialog.close() }, "✕")),
    why(passage),
    body,
  );
  if (!dialog.open) dialog.showModal();
  try {
    const article = await api.article(passage.document, store);
    clear(body, text(article, ids, passage.quote, passage.sentence));
    (body.querySelector("mark.said") ?? body.querySelector("mark"))?.scrollIntoView({ block: "center" });
  } catch (error) {
    clear(body, el("p", { class: "notice", role: "alert" }, error.message));
  }
}

function why(passage) {
  const parts = [];
  if (passage.reason) {
    const [short, long] = REASONS[passage.reason] ?? [passage.reason, ""];
    parts.push(el("p", {}, el("span", { class: "reason" }, short), " ", long, passage.of ? el("span", { class: "soft" }, ` (${passage.of})`) : null));
  }
  const named = Object.entries(passage.scores ?? {}).filter(([, value]) => value !== null);
  if (named.length) {
    parts.push(el("dl", { class: "inline-scores" }, named.map(([name, value]) =>
      el("div", { title: SCORES[name] ?? "" }, el("dt", {}, name), el("dd", {}, score(value))))));
  }
  const link = safeLink(passage.url);
  if (link) parts.push(el("p", {}, el("a", { href: link, target: "_blank", rel: "noreferrer noopener" }, "The original page")));
  return parts.length ? el("div", { class: "panel-why" }, parts) : null;
}

/** Only what a browser shows as a page is made a link. */
export function safeLink(url) {
  return /^https?:\/\//i.test(url ?? "") ? url : null;
}

/** The article's text by sections: the passages of `ids` marked, or the part of them that was
 * quoted, and in it the sentence that the answer took. */
export function text(article, ids, quote, sentence) {
  const marked = article.passages.filter((passage) => ids.includes(passage.id)).map(({ start, end }) => [start, end]);
  const characters = new Characters(article.text);
  const at = quote ? article.text.indexOf(quote) : -1;
  const sure = at >= 0 && characters.plain ? [[at, at + quote.length]] : marked;
  const from = sentence && characters.plain && sure.length ? article.text.indexOf(sentence, sure[0][0]) : -1;
  const said = from >= 0 && from < sure.at(-1)[1] ? [[from, from + sentence.length]] : [];
  return el("div", { class: "reading" }, sections(article, characters).map(({ heading, level, start, end, id }) => [
    heading ? el(level > 2 ? "h4" : "h3", { id }, heading) : null,
    paragraphs(characters, start, end, sure, said),
  ]));
}

/** The sections in order, with what stands before the first. */
export function sections(article, characters) {
  const found = [];
  const given = [...article.sections].sort((a, b) => a.start - b.start);
  const first = given[0];
  if (!first) return [{ heading: null, level: 1, start: 0, end: characters.length }];
  given.forEach((section, index) => {
    const end = Math.min(section.end, given[index + 1]?.start ?? characters.length);
    found.push({ heading: section.path.at(-1) ?? null, level: section.path.length + 1, start: section.start, end, id: `section-${index}` });
  });
  return found;
}

function paragraphs(characters, start, end, marked, said) {
  const made = [];
  let from = start;
  const whole = characters.slice(start, end);
  for (const block of whole.split(/(\n{2,})/)) {
    const length = characters.plain ? block.length : Array.from(block).length;
    // What is indented is code or a table; its columns are kept.
    if (isTable(block)) made.push(asTable(block, from, characters, marked, said));
    else if (block.trim()) made.push(el("p", { class: /(^|\n)[ \t]{2,}\S/.test(block) ? "laid-out" : null }, runs(characters, from, from + length, marked, said)));
    from += length;
  }
  return made;
}

const CELLS = " | ";

/** Whether a block is the rows of a table: several lines with as many cells each. */
function isTable(block) {
  const cells = block.split("\n").map((line) => line.split(CELLS).length);
  return cells.length > 1 && cells[0] > 1 && cells.every((number) => number === cells[0]);
}

function asTable(block, start, characters, marked, said) {
  const length = (text) => (characters.plain ? text.length : Array.from(text).length);
  let from = start;
  const rows = block.split("\n").map((line) => {
    const cells = line.split(CELLS).map((cell) => {
      const shown = runs(characters, from, from + length(cell), marked, said);
      from += length(cell) + CELLS.length;
      return shown;
    });
    from += 1 - CELLS.length;
    return cells;
  });
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "A table" }, el("table", { class: "in-text" },
    el("thead", {}, el("tr", {}, rows[0].map((cell) => el("th", { scope: "col" }, cell)))),
    el("tbody", {}, rows.slice(1).map((cells) => el("tr", {}, cells.map((cell) => el("td", {}, cell)))))));
}

function runs(characters, start, end, marked, said) {
  const within = (ranges, from) => ranges.some(([a, b]) => a <= from && from < b);
  const cuts = new Set([start, end]);
  for (const [from, to] of [...marked, ...said]) for (const cut of [from, to]) if (cut > start && cut < end) cuts.add(cut);
  const points = [...cuts].sort((a, b) => a - b);
  return points.slice(0, -1).map((from, index) => {
    const part = characters.slice(from, points[index + 1]);
    if (within(said, from)) return el("mark", { class: "said" }, part);
    return within(marked, from) ? el("mark", {}, part) : part;
  });
}

/** A whole article, for the graph's nodes. */
export async function openArticle(document, title, store) {
  const body = el("div", { class: "panel-body" }, el("p", { class: "soft" }, "Opening the article…"));
  clear(
    dialog,
    el("header", { class: "panel-head" },
      el("h2", { id: "panel-title" }, title),
      el("button", { class: "quiet", type: "button", "aria-label": "Close", onclick: () => dialog.close() }, "✕")),
    body,
  );
  if (!dialog.open) dialog.showModal();
  try {
    const article = await api.article(document, store);
    clear(body,
      el("p", { class: "soft" }, `${many(article.passages.length, "passage")}, ${many(article.links.length, "link")}, PageRank ${percent(article.pagerank)}. `,
        el("a", { href: `#/browse?${new URLSearchParams({ article: document })}`, onclick: () => dialog.close() }, "Open in the browser")),
      text(article, []));
  } catch (error) {
    clear(body, el("p", { class: "notice", role: "alert" }, error.message));
  }
}
