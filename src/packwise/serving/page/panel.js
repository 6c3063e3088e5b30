// The side panel: a passage within its article.

import * as api from "./api.js";
import { Characters, clear, el, plural, percent, score } from "./dom.js";
import { colour, sectionText } from "./candidates.js";
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
    reasonAndScores(passage),
    body,
  );
  if (!dialog.open) dialog.showModal();
  try {
    const article = await api.article(passage.document, store);
    clear(body, text(article, ids, passage.quote, passage.sentence));
    (body.querySelector("mark.quoted") ?? body.querySelector("mark"))?.scrollIntoView({ block: "center" });
  } catch (error) {
    clear(body, el("p", { class: "notice", role: "alert" }, error.message));
  }
}

function reasonAndScores(passage) {
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
  if (link) parts.push(el("p", {}, el("a", { href: link, target: "_blank", rel: "noreferrer noopener" }, "Original page")));
  return parts.length ? el("div", { class: "panel-why" }, parts) : null;
}

/** Only web pages become links. */
export function safeLink(url) {
  return /^https?:\/\//i.test(url ?? "") ? url : null;
}

/** The article's text by sections, with the passages of `ids` marked, or the quoted part of
 * them, and within that the sentence that the answer quotes. */
export function text(article, ids, quote, sentence) {
  const marked = article.passages.filter((passage) => ids.includes(passage.id)).map(({ start, end }) => [start, end]);
  const characters = new Characters(article.text);
  const at = quote ? article.text.indexOf(quote) : -1;
  const ranges = at >= 0 && characters.plain ? [[at, at + quote.length]] : marked;
  const from = sentence && characters.plain && ranges.length ? article.text.indexOf(sentence, ranges[0][0]) : -1;
  const quoted = from >= 0 && from < ranges.at(-1)[1] ? [[from, from + sentence.length]] : [];
  return el("div", { class: "reading" }, sections(article, characters).map(({ heading, level, start, end, id }) => [
    heading ? el(level > 2 ? "h4" : "h3", { id }, heading) : null,
    paragraphs(characters, start, end, ranges, quoted),
  ]));
}

/** The sections in order. */
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

function paragraphs(characters, start, end, marked, quoted) {
  const blocks = [];
  let from = start;
  const whole = characters.slice(start, end);
  for (const block of whole.split(/(\n{2,})/)) {
    const length = characters.plain ? block.length : Array.from(block).length;
    // Indented text is code or a table: keep its columns.
    if (isTable(block)) blocks.push(asTable(block, from, characters, marked, quoted));
    else if (block.trim()) blocks.push(el("p", { class: /(^|\n)[ \t]{2,}\S/.test(block) ? "preformatted" : null }, runs(characters, from, from + length, marked, quoted)));
    from += length;
  }
  return blocks;
}

const CELLS = " | ";

/** Whether a block is a table: several lines with the same number of cells. */
function isTable(block) {
  const cells = block.split("\n").map((line) => line.split(CELLS).length);
  return cells.length > 1 && cells[0] > 1 && cells.every((number) => number === cells[0]);
}

function asTable(block, start, characters, marked, quoted) {
  const length = (text) => (characters.plain ? text.length : Array.from(text).length);
  let from = start;
  const rows = block.split("\n").map((line) => {
    const cells = line.split(CELLS).map((cell) => {
      const shown = runs(characters, from, from + length(cell), marked, quoted);
      from += length(cell) + CELLS.length;
      return shown;
    });
    from += 1 - CELLS.length;
    return cells;
  });
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Table" }, el("table", { class: "in-text" },
    el("thead", {}, el("tr", {}, rows[0].map((cell) => el("th", { scope: "col" }, cell)))),
    el("tbody", {}, rows.slice(1).map((cells) => el("tr", {}, cells.map((cell) => el("td", {}, cell)))))));
}

function runs(characters, start, end, marked, quoted) {
  const within = (ranges, from) => ranges.some(([a, b]) => a <= from && from < b);
  const cuts = new Set([start, end]);
  for (const [from, to] of [...marked, ...quoted]) for (const cut of [from, to]) if (cut > start && cut < end) cuts.add(cut);
  const points = [...cuts].sort((a, b) => a - b);
  return points.slice(0, -1).map((from, index) => {
    const part = characters.slice(from, points[index + 1]);
    if (within(quoted, from)) return el("mark", { class: "quoted" }, part);
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
      el("p", { class: "soft" }, `${plural(article.passages.length, "passage")}, ${plural(article.links.length, "link")}, PageRank ${percent(article.pagerank)}. `,
        el("a", { href: `#/browse?${new URLSearchParams({ article: document })}`, onclick: () => dialog.close() }, "Open in Browse")),
      text(article, []));
  } catch (error) {
    clear(body, el("p", { class: "notice", role: "alert" }, error.message));
  }
}
