// An answer's text as elements: paragraphs, lists, code, emphasis, and source markers.
// Links and images stay as text: an answer cannot make the page load anything.

import { el } from "./dom.js";

const INLINE = /(`[^`]+`|\*\*[^*]+\*\*|\[\d+(?:\s*,\s*\d+)*\])/;

/** `cite(number)` gives the element for a marker, or null to leave it as text. */
export function prose(text, cite) {
  const blocks = [];
  let list = null;
  let lines = [];
  const paragraph = () => {
    if (lines.length) blocks.push(el("p", {}, inline(lines.join(" "), cite)));
    lines = [];
  };
  let code = null;
  let table = null;
  for (const line of text.split("\n")) {
    if (code === null && line.startsWith("|") && line.trimEnd().endsWith("|")) {
      paragraph();
      list = null;
      if (!table) blocks.push(el("div", { class: "table-scroll" }, (table = el("table", {}))));
      const cells = line.trim().slice(1, -1).split(" | ");
      if (!/^[\s|:-]+$/.test(line)) {
        const kind = table.childElementCount ? "td" : "th";
        table.append(el("tr", {}, cells.map((cell) => el(kind, {}, inline(cell.trim(), cite)))));
      }
      continue;
    }
    table = null;
    if (line.trimStart().startsWith("```")) {
      paragraph();
      list = null;
      if (code === null) code = [];
      else {
        blocks.push(el("pre", {}, el("code", {}, code.join("\n"))));
        code = null;
      }
      continue;
    }
    if (code !== null) {
      code.push(line);
      continue;
    }
    const item = /^\s*(?:([-*•])|(\d+)[.)])\s+(.*)$/.exec(line);
    const heading = /^#{1,6}\s+(.*)$/.exec(line);
    if (item) {
      paragraph();
      const kind = item[1] ? "ul" : "ol";
      if (list?.localName !== kind) blocks.push((list = el(kind, item[2] ? { start: item[2] } : {})));
      list.append(el("li", {}, inline(item[3], cite)));
    } else if (heading) {
      paragraph();
      list = null;
      blocks.push(el("p", {}, el("strong", {}, inline(heading[1], cite))));
    } else if (line.trim()) {
      list = null;
      lines.push(line.trim());
    } else {
      paragraph();
      list = null;
    }
  }
  if (code?.length) blocks.push(el("pre", {}, el("code", {}, code.join("\n"))));
  paragraph();
  return blocks;
}

function inline(text, cite) {
  return text.split(INLINE).filter(Boolean).map((part) => {
    if (part.length > 2 && part.startsWith("`") && part.endsWith("`")) return el("code", {}, part.slice(1, -1));
    if (part.length > 4 && part.startsWith("**") && part.endsWith("**")) return el("strong", {}, inline(part.slice(2, -2), cite));
    if (/^\[\d[\d\s,]*\]$/.test(part)) {
      const marks = part.slice(1, -1).split(",").map((number) => cite(Number(number)) ?? `[${number.trim()}]`);
      return marks;
    }
    // A row of a table: its separators are muted.
    return part.split(" | ").flatMap((cell, index) => (index ? [" ", el("span", { class: "cell" }, "|"), ` ${cell}`] : [cell]));
  });
}
