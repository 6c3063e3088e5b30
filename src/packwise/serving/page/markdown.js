// Markdown as elements: headings, nested lists, tables, code, quotes, links, formulas and source
// markers. Everything is made as an element or as text, never as markup. Only web pages become
// links, and nothing is loaded: a picture is shown as a link to it.

import { el } from "./dom.js";
import { codeBlock } from "./highlight.js";
import { formula } from "./math.js";

const DEEPEST = 12;
const FENCE = /^(\s*)(`{3,}|~{3,})\s*([\w+#.-]*)/;
const ITEM = /^(\s*)(?:([-*+•])|(\d{1,9})[.)])(?:\s+|$)(.*)$/;
const RULE = /^\s{0,3}(?:(?:\*\s*){3,}|(?:-\s*){3,}|(?:_\s*){3,})$/;
const DIVIDER = /^\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$/;
const INLINE = new RegExp([
  "(?<math>\\\\\\([^\\n]+?\\\\\\)|\\$\\$[^$]+\\$\\$|(?<![\\w$])\\$(?=[^\\s$])[^$\\n]*?(?<=[^\\s\\\\])\\$(?![\\w$]))",
  "(?<escaped>\\\\[\\\\`*_{}\\[\\]()#+.!|~$<>-])",
  "(?<code>(?<tick>`+)(?!`)(?<inside>[\\s\\S]*?[^`])\\k<tick>(?!`))",
  "(?<link>!?\\[(?<label>[^\\[\\]]*(?:\\[[^\\[\\]]*\\][^\\[\\]]*)*)\\]\\((?<href>[^\\s()]*(?:\\([^\\s()]*\\)[^\\s()]*)*)(?:\\s+\"[^\"]*\")?\\))",
  "(?<cite>\\[\\d{1,3}(?:\\s*,\\s*\\d{1,3})*\\])",
  "(?<url>https?://[^\\s<>()\\[\\]]*[^\\s<>()\\[\\].,;:!?'\"*_])",
  "(?<strong>\\*\\*(?=\\S)[^*]*(?:\\*(?!\\*)[^*]*)*?(?<=\\S)\\*\\*|(?<!\\w)__(?=\\S)[^_]+(?<=\\S)__(?!\\w))",
  "(?<em>(?<!\\d)\\*(?=[^\\s*])[^*\\n]*(?<=\\S)\\*(?!\\*)|(?<!\\w)_(?=\\S)[^_\\n]*(?<=\\S)_(?!\\w))",
  "(?<strike>~~(?=\\S)[^~\\n]*(?<=\\S)~~)",
].join("|"), "g");

/** Only web pages become links. */
export function safeLink(url) {
  return /^https?:\/\//i.test(url ?? "") ? url : null;
}

export const webLink = (url, ...content) => el("a", { href: url, target: "_blank", rel: "noreferrer noopener", title: url }, content);

/** `cite(number)` gives the element for a marker, or null to leave it as text. */
export function markdown(text, cite = () => null) {
  return blocks(text.replaceAll("\r\n", "\n").split("\n"), cite, 0);
}

function blocks(lines, cite, depth) {
  const found = [];
  let waiting = [];
  const paragraph = () => {
    if (waiting.length) found.push(el("p", {}, isTerm(waiting) ? termed(waiting, cite, depth) : inline(waiting.join("\n"), cite, depth)));
    waiting = [];
  };
  for (let at = 0; at < lines.length; ) {
    const line = lines[at];
    const fence = FENCE.exec(line);
    const heading = /^\s{0,3}(#{1,6})\s+(.*?)\s*#*$/.exec(line);
    let taken = 0;
    if (fence) {
      paragraph();
      const length = lines.slice(at + 1).findIndex((other) => other.trim().startsWith(fence[2]));
      const end = length < 0 ? lines.length : at + 1 + length;
      const code = lines.slice(at + 1, end).map((other) => (other.startsWith(fence[1]) ? other.slice(fence[1].length) : other.trimStart()));
      found.push(codeBlock(code.join("\n"), fence[3]));
      taken = end + 1 - at;
    } else if (/^\s*(?:\$\$|\\\[)/.test(line)) {
      const close = line.trim().startsWith("$$") ? "$$" : "\\]";
      const rest = [line.trim().slice(2), ...lines.slice(at + 1)];
      const length = rest.findIndex((other) => other.includes(close));
      if (length >= 0) {
        paragraph();
        const last = rest[length].indexOf(close);
        found.push(el("div", { class: "formula" }, formula([...rest.slice(0, length), rest[length].slice(0, last)].join(" "), true)));
        rest[length] = rest[length].slice(last + 2);
        if (rest[length].trim()) waiting.push(rest[length].trim());
        taken = length + 1;
      }
    } else if (heading) {
      paragraph();
      found.push(el(heading[1].length > 2 ? "h4" : "h3", {}, inline(heading[2], cite, depth)));
      taken = 1;
    } else if (RULE.test(line) && !waiting.length) {
      found.push(el("hr", {}));
      taken = 1;
    } else if (/^\s{0,3}>/.test(line) && depth < DEEPEST) {
      paragraph();
      const end = lines.findIndex((other, index) => index > at && !/^\s{0,3}>/.test(other));
      const quoted = lines.slice(at, end < 0 ? lines.length : end);
      found.push(el("blockquote", {}, blocks(quoted.map((other) => other.replace(/^\s{0,3}>\s?/, "")), cite, depth + 1)));
      taken = quoted.length;
    } else if (isTable(lines, at)) {
      paragraph();
      taken = table(lines, at, cite, depth, found);
    } else if (ITEM.test(line) && depth < DEEPEST && (!waiting.length || !/^\s*\d+/.test(line) || /^\s*1[.)]/.test(line))) {
      paragraph();
      taken = list(lines, at, cite, depth, found);
    }
    if (!taken) {
      taken = 1;
      if (line.trim()) waiting.push(line.trim());
      else paragraph();
    }
    at += taken;
  }
  paragraph();
  return found;
}

/** Whether the first line names what the others say: prose is not broken that early. */
const isTerm = ([first, ...others]) => others.length > 0 && first.length <= 40 && !/[.,:;!?\]]$/.test(first) && /^["'(/\[]?[\p{Lu}/]/u.test(others[0]);

const termed = ([first, ...others], cite, depth) => [el("strong", {}, inline(first, cite, depth)), el("br", {}), inline(others.join("\n"), cite, depth)];

const indentOf = (line) => /^\s*/.exec(line)[0].replaceAll("\t", "    ").length;

/** A list from line `at` on, with what is indented below its items; returns the lines it takes. */
function list(lines, at, cite, depth, found) {
  const first = ITEM.exec(lines[at]);
  const ordered = Boolean(first[3]);
  const indent = indentOf(lines[at]);
  const holder = el(ordered ? "ol" : "ul", ordered && first[3] !== "1" ? { start: first[3] } : {});
  let index = at;
  while (index < lines.length) {
    const item = ITEM.exec(lines[index]);
    if (!item || indentOf(lines[index]) > indent + 1 || indentOf(lines[index]) < indent || Boolean(item[3]) !== ordered) break;
    const inner = [item[4]];
    index += 1;
    while (index < lines.length) {
      const line = lines[index];
      const blank = !line.trim();
      const following = lines[index + 1];
      if (blank && !(following?.trim() && indentOf(following) > indent)) break;
      if (!blank && indentOf(line) <= indent && (ITEM.test(line) || !lines[index - 1].trim() || /^\s*(?:#{1,6}\s|>|`{3}|\|)/.test(line))) break;
      inner.push(blank ? "" : line.slice(Math.min(indent + 2, /^\s*/.exec(line)[0].length)));
      index += 1;
    }
    const task = /^\[([ xX])\]\s+/.exec(inner[0]);
    if (task) inner[0] = `${task[1] === " " ? "☐" : "☑"} ${inner[0].slice(task[0].length)}`;
    const content = blocks(inner, cite, depth + 1);
    holder.append(el("li", {}, content.length && content[0].localName === "p" ? [[...content[0].childNodes], content.slice(1)] : content));
    // Items may be a blank line apart.
    if (!lines[index]?.trim() && ITEM.test(lines[index + 1] ?? "") && indentOf(lines[index + 1]) === indent) index += 1;
  }
  found.push(holder);
  return index - at;
}

const isRow = (line) => line !== undefined && line.includes("|") && line.trim() !== "|";

function isTable(lines, at) {
  if (!isRow(lines[at])) return false;
  if (DIVIDER.test(lines[at + 1] ?? "") && lines[at + 1].includes("-")) return true;
  // While an answer is written, the line below the head may not be there yet.
  return /^\s*\|.*\|\s*$/.test(lines[at]) && at >= lines.length - 2;
}

const cellsOf = (line) => line.trim().replace(/^\||(?<!\\)\|$/g, "").split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));

/** A number or a date, which stays on one line. */
export const FIGURE = /^[\d.,:/%+-]{1,12}$/;

function table(lines, at, cite, depth, found) {
  const head = cellsOf(lines[at]);
  const divided = DIVIDER.test(lines[at + 1] ?? "");
  const sides = divided ? cellsOf(lines[at + 1]).map((cell) => (cell.endsWith(":") ? (cell.startsWith(":") ? "middle" : "num") : null)) : [];
  let end = at + (divided ? 2 : 1);
  const rows = [];
  while (isRow(lines[end])) rows.push(cellsOf(lines[end++]));
  found.push(el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Table" }, el("table", {},
    el("thead", {}, el("tr", {}, head.map((cell, index) => el("th", { scope: "col", class: sides[index] }, inline(cell, cite, depth))))),
    el("tbody", {}, rows.map((cells) => el("tr", {}, head.map((_, index) => el("td", { class: sides[index] ?? (FIGURE.test(cells[index] ?? "") ? "one-line" : null) }, inline(cells[index] ?? "", cite, depth)))))))));
  return end - at;
}

function inline(text, cite, depth) {
  const parts = [];
  let from = 0;
  for (const found of text.matchAll(INLINE)) {
    if (found.index > from) parts.push(...lineBreaks(text.slice(from, found.index)));
    from = found.index + found[0].length;
    parts.push(depth > DEEPEST ? found[0] : element(found[0], found.groups, cite, depth + 1));
  }
  parts.push(...lineBreaks(text.slice(from)));
  return parts.flat();
}

const lineBreaks = (text) => text.split(/(?: {2,}|\\)\n/).flatMap((part, index) => (index ? [el("br", {}), part] : [part]));

function element(text, groups, cite, depth) {
  if (groups.math) return formula(text.replace(/^(?:\$\$?|\\\()|(?:\$\$?|\\\))$/g, ""), false);
  if (groups.escaped) return text.slice(1);
  if (groups.code) return el("code", {}, groups.inside.replace(/^ (.*) $/s, "$1"));
  if (groups.link) {
    const url = safeLink(groups.href);
    const label = groups.label || groups.href;
    return url ? webLink(url, text.startsWith("!") ? `picture: ${label}` : inline(label, () => null, depth)) : text;
  }
  if (groups.cite) return text.slice(1, -1).split(",").map((number) => cite(Number(number)) ?? `[${number.trim()}]`);
  if (groups.url) return webLink(text, text);
  if (groups.strong) return el("strong", {}, inline(text.slice(2, -2), cite, depth));
  if (groups.em) return el("em", {}, inline(text.slice(1, -1), cite, depth));
  return el("s", {}, inline(text.slice(2, -2), cite, depth));
}
