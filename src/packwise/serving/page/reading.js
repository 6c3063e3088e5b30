// A document as it looks: headings, paragraphs, nested lists, tables, code, links and pages, with
// the passages of an answer marked in it.

import { Characters, el } from "./dom.js";
import { codeBlock } from "./highlight.js";
import { FIGURE, webLink } from "./markdown.js";

const CELLS = " | ";
const URLS = /https?:\/\/[^\s<>()[\]]*[^\s<>()[\].,;:!?'"]/g;

/** `{ids, quote, evidence, address, prefix}`: the passages to mark, the text cited of them, its
 * sentence and short answer, the address of another document, and what ids start with. */
export function reading(article, { ids = [], quote = "", evidence = {}, address = null, prefix = "section" } = {}) {
  const page = new Page(article, address);
  page.mark(ids, quote, evidence);
  let place = "";
  return el("div", { class: "reading", lang: article.lang || null }, sections(article, page.characters, prefix).map(({ heading, level, start, end, id }) => [
    heading ? el(level > 2 ? "h4" : "h3", { id }, heading) : null,
    page.blocks(start, end).map((block) => {
      const here = page.place(block.start);
      const label = here && here !== place && !here.startsWith("line") ? el("span", { class: "place" }, here) : null;
      place = here || place;
      return [label, page.block(block)];
    }),
  ]));
}

/** The sections in order. */
export function sections(article, characters, prefix = "section") {
  const given = [...article.sections].sort((a, b) => a.start - b.start);
  if (!given.length) return [{ heading: null, level: 1, start: 0, end: characters.length }];
  return given.map((section, index) => ({
    heading: section.path.at(-1) ?? null, level: section.path.length + 1, start: section.start,
    end: Math.min(section.end, given[index + 1]?.start ?? characters.length), id: `${prefix}-${index}`,
  }));
}

class Page {
  constructor(article, address) {
    this.article = article;
    this.characters = new Characters(article.text);
    this.notes = [];
    for (const link of address ? article.links : []) {
      for (const [start, end] of link.spans) this.notes.push({ start, end, kind: "link", href: address(link.id) });
    }
    for (const found of article.text.matchAll(URLS)) this.note(found.index, found[0], { kind: "url", href: found[0] });
    this.places = article.passages.filter((passage) => passage.place).sort((a, b) => a.start - b.start);
  }

  /** Note a part of the text that starts at a UTF-16 unit. */
  note(index, text, values) {
    const { plain } = this.characters;
    const start = plain ? index : Array.from(this.article.text.slice(0, index)).length;
    this.notes.push({ start, end: start + (plain ? text.length : Array.from(text).length), ...values });
  }

  mark(ids, quote, { quote: sentence = "", short = "" }) {
    const { text, passages } = this.article;
    const passed = passages.filter((passage) => ids.includes(passage.id));
    const from = passed.length ? Math.min(...passed.map((passage) => passage.start)) : 0;
    const first = this.characters.plain ? from : this.characters.slice(0, from).length;
    const at = quote ? text.indexOf(quote, Math.max(0, first - 1)) : -1;
    if (at >= 0) this.note(at, quote, { kind: "passage" });
    else for (const { start, end } of passed) this.notes.push({ start, end, kind: "passage" });
    const begin = at >= 0 ? at : first;
    const cited = sentence && passed.length ? text.indexOf(sentence, begin) : -1;
    if (cited < 0) return;
    this.note(cited, sentence, { kind: "quoted" });
    const exact = short ? sentence.indexOf(short) : -1;
    if (exact >= 0) this.note(cited + exact, short, { kind: "answer" });
  }

  place(start) {
    const held = this.places.findLast((passage) => passage.start <= start && start < passage.end);
    return held?.place ?? "";
  }

  /** The blocks between two places; what no block names is prose. */
  blocks(start, end) {
    const given = this.article.passages.flatMap((passage) => passage.blocks)
      .filter((block) => block.end > start && block.start < end).sort((a, b) => a.start - b.start || b.end - a.end);
    const found = [];
    let at = start;
    const prose = (to) => {
      if (to > at && this.characters.slice(at, to).trim()) found.push({ kind: "text", start: at, end: to });
    };
    for (const block of given) {
      const last = found.at(-1);
      // Passages overlap, and a long block is divided among several.
      if (last && block.kind === last.kind && block.kind !== "text" && block.start <= last.end + 1) {
        last.end = Math.max(last.end, Math.min(block.end, end));
        at = Math.max(at, last.end);
        continue;
      }
      if (block.end <= at) continue;
      prose(Math.max(at, block.start));
      at = Math.max(at, block.start, start);
      found.push({ kind: block.kind, start: at, end: Math.min(block.end, end) });
      at = Math.min(block.end, end);
    }
    prose(end);
    return found;
  }

  block({ kind, start, end }) {
    const text = this.characters.slice(start, end);
    if (kind === "code") {
      const marked = this.notes.some((note) => note.kind !== "url" && note.end > start && note.start < end);
      return codeBlock(text, "", marked ? this.runs(start, end) : null);
    }
    if (kind === "list") return this.list(start, text);
    if (isTable(text)) return this.table(start, text);
    let from = start;
    return text.split(/(\n{2,})/).map((part) => {
      const length = this.length(part);
      from += length;
      if (!part.trim()) return null;
      if (isTable(part)) return this.table(from - length, part);
      return el("p", { class: /(^|\n)[ \t]{2,}\S/.test(part) ? "preformatted" : null }, this.runs(from - length, from));
    });
  }

  length(text) {
    return this.characters.plain ? text.length : Array.from(text).length;
  }

  list(start, text) {
    const root = { indent: -1, node: el("div", { class: "list" }), item: null };
    const open = [root];
    let from = start;
    for (const line of text.split("\n")) {
      const [, space, bullet, number, content] = /^(\s*)(?:([-*•])\s+|(\d+[.)])\s+)?(.*)$/s.exec(line);
      const begin = from + this.length(line) - this.length(content);
      const shown = this.runs(begin, begin + this.length(content));
      from += this.length(line) + 1;
      if (!bullet && !number) {
        if (content.trim()) (open.at(-1).item ?? open.at(-1).node).append(" ", ...shown);
        continue;
      }
      while (open.at(-1).indent > space.length) open.pop();
      if (open.at(-1).indent < space.length) {
        const node = el(number ? "ol" : "ul", number && parseInt(number, 10) !== 1 ? { start: parseInt(number, 10) } : {});
        (open.at(-1).item ?? open.at(-1).node).append(node);
        open.push({ indent: space.length, node, item: null });
      }
      open.at(-1).item = el("li", {}, shown);
      open.at(-1).node.append(open.at(-1).item);
    }
    return root.node;
  }

  table(start, text) {
    let from = start;
    const rows = text.split("\n").filter((line) => line.trim()).map((line) => {
      const cells = line.split(CELLS).map((cell) => {
        const shown = this.runs(from, from + this.length(cell));
        from += this.length(cell) + CELLS.length;
        return FIGURE.test(cell) ? el("span", { class: "one-line" }, shown) : shown;
      });
      from += 1 - CELLS.length;
      return cells;
    });
    return el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Table" }, el("table", { class: "in-text" },
      el("thead", {}, el("tr", {}, rows[0].map((cell) => el("th", { scope: "col" }, cell)))),
      el("tbody", {}, rows.slice(1).map((cells) => el("tr", {}, cells.map((cell) => el("td", {}, cell)))))));
  }

  /** The text between two places with its marks and links. */
  runs(start, end) {
    const notes = this.notes.filter((note) => note.end > start && note.start < end);
    const cuts = new Set([start, end]);
    for (const note of notes) for (const cut of [note.start, note.end]) if (cut > start && cut < end) cuts.add(cut);
    const points = [...cuts].sort((a, b) => a - b);
    return points.slice(0, -1).map((from, index) => {
      let shown = this.characters.slice(from, points[index + 1]);
      const here = new Map(notes.filter((note) => note.start <= from && from < note.end).map((note) => [note.kind, note]));
      if (here.has("answer")) shown = el("mark", { class: "quoted exact" }, shown);
      else if (here.has("quoted")) shown = el("mark", { class: "quoted" }, shown);
      else if (here.has("passage")) shown = el("mark", {}, shown);
      if (here.has("link")) return el("a", { href: here.get("link").href }, shown);
      return here.has("url") ? webLink(here.get("url").href, shown) : shown;
    });
  }
}

/** Whether a text is a table: several lines of cells, none with more than the first. */
function isTable(text) {
  const cells = text.trim().split("\n").map((line) => line.split(CELLS).length);
  return cells.length > 1 && cells.every((number) => number > 1 && number <= cells[0]);
}
