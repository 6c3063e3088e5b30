// What in a source supports an answer: the sentence, table row or line, and the answer's own words
// in it. And the sources of an answer numbered in the order in which it cites them.

const MARKER = /\[(\d{1,3}(?:\s*,\s*\d{1,3})*)\]/g;
const RULING = /^[\s|:-]*-{3,}[\s|:-]*$/m;
const HEADING = /^(?:\*\*[^*\n]+\*\*|[^|\n]*:) \[(\d{1,3})\]$/;
const LEAST = 0.34;

/** The answer with its sources numbered from 1 in the order of citation, and all other passages
 * of its context after them. */
export function numbered(answer) {
  const numbers = numbering();
  const renumbered = renumber(answer.answer, numbers, new Set(answer.citations.map((citation) => citation.marker)));
  for (const citation of answer.citations) numbers.of(citation.marker);
  const selected = answer.trace.packing?.selected ?? [];
  for (const entry of [...selected].sort((a, b) => a.marker - b.marker)) numbers.of(entry.marker);
  const packing = answer.trace.packing && { ...answer.trace.packing, selected: selected.map((entry) => ({ ...entry, marker: numbers.of(entry.marker) })) };
  const citations = answer.citations.map((citation) => ({ ...citation, marker: numbers.of(citation.marker) }));
  return { ...answer, answer: renumbered, citations: citations.sort((a, b) => a.marker - b.marker), trace: { ...answer.trace, packing } };
}

/** Another packing of the same question with the numbers that its passages had before. */
export function numberedLike(before, answer) {
  const known = new Map((before.trace.packing?.selected ?? []).map((entry) => [entry.id, entry.marker]));
  let next = Math.max(0, ...known.values());
  const selected = (answer.trace.packing?.selected ?? []);
  const numbers = new Map();
  for (const entry of selected) if (known.has(entry.id) && !numbers.has(entry.marker)) numbers.set(entry.marker, known.get(entry.id));
  for (const entry of selected) if (!numbers.has(entry.marker)) numbers.set(entry.marker, ++next);
  const packing = answer.trace.packing && { ...answer.trace.packing, selected: selected.map((entry) => ({ ...entry, marker: numbers.get(entry.marker) })) };
  const citations = answer.citations.map((citation) => ({ ...citation, marker: numbers.get(citation.marker) ?? citation.marker }));
  return { ...answer, citations, trace: { ...answer.trace, packing } };
}

/** Numbers markers in the order in which they are first asked for. */
export function numbering() {
  const numbers = new Map();
  return {
    of(marker) {
      if (!numbers.has(marker)) numbers.set(marker, numbers.size + 1);
      return numbers.get(marker);
    },
  };
}

export function renumber(text, numbers, known = null) {
  return text.replace(MARKER, (whole, list) => {
    const given = list.split(",").map(Number);
    return known && !given.every((marker) => known.has(marker)) ? whole : `[${given.map((marker) => numbers.of(marker)).join(", ")}]`;
  });
}

const words = (text) => text.toLowerCase().match(/[\p{L}\p{N}][\p{L}\p{N}.'’-]*[\p{L}\p{N}]|[\p{L}\p{N}]/gu) ?? [];
const telling = (text) => new Set(words(text).filter((word) => word.length > 3 || /\p{N}/u.test(word)));

/** The claims of an answer that cite a marker: all text since the marker before it, then only the
 * paragraph, table or list that the marker closes; of a heading with the marker what stands below. */
function claims(answer, marker) {
  const found = [];
  const below = [];
  let since = [];
  let led = false;
  for (const block of answer.split(/\n{2,}/)) {
    const [, heading] = block.match(HEADING) ?? [];
    if (heading) led = Number(heading) === marker;
    else if (block.search(MARKER) >= 0) led = false;
    else if (led) below.push(block);
    let from = 0;
    for (const mark of block.matchAll(MARKER)) {
      // A marker in the head of a table stands for all of its rows.
      const text = RULING.test(block) ? block.replace(MARKER, "") : block.slice(from, mark.index).trim();
      from = mark.index + mark[0].length;
      const said = text ? [...since, text] : since;
      if (mark[1].split(",").map(Number).includes(marker)) found.push(said.join("\n\n"), said.at(-1));
      since = [];
    }
    const rest = block.slice(from).trim();
    if (rest && !(from && RULING.test(block))) since.push(rest);
  }
  return [below.join("\n\n"), ...found].filter(Boolean).map((text) => text.replace(/^[\s\-*•>]+/, ""));
}

/** The short answer that stands before the sentences, if there is one. */
export function shortAnswer(text) {
  const [first, ...rest] = text.split(/\n{2,}/);
  const short = first.replace(MARKER, "").replace(/[*_`]/g, "").trim();
  return short.length < 60 && !/[\n|:]/.test(short) && rest.join("\n").includes(short) ? short : "";
}

/** Where in a source's text its evidence is: `{quote, short}`, both parts of the text or empty. */
export function evidence(answer, citation, question) {
  const made = claims(answer, citation.marker);
  const short = shortAnswer(answer);
  for (const claim of made) {
    const plain = claim.replace(/[*`]/g, "");
    for (const text of [claim, plain]) {
      const held = text.length > 20 ? found(text, citation.text) : "";
      if (held) return { quote: narrowed(held, short, question), short: within(held, short) };
    }
  }
  const wanted = telling(`${made.join(" ")} ${short}`);
  const asked = made.some((claim) => claim.includes("|")) ? telling(question) : new Set();
  for (const word of asked) wanted.add(word);
  let best = { score: 0, text: "" };
  for (const unit of units(citation.text)) {
    const held = new Set(words(unit));
    const common = [...wanted].filter((word) => held.has(word)).length;
    const named = [...asked].filter((word) => held.has(word)).length / Math.max(1, asked.size);
    const score = common / Math.max(1, Math.min(wanted.size, held.size)) + named + (short && unit.includes(short) ? 1 : 0);
    if (score > best.score) best = { score, text: unit };
  }
  return best.score >= LEAST ? { quote: best.text, short: within(best.text, short) } : { quote: "", short: "" };
}

/** A claim as the source has it: a term and its definition may be on two lines there. */
function found(claim, source) {
  if (source.includes(claim)) return claim;
  const pattern = claim.trim().split(/\s+/).map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("\\s+");
  return source.match(new RegExp(pattern, "u"))?.[0] ?? "";
}

const within = (text, short) => (short && text.includes(short) ? short : "");

/** Of a long quoted text, the sentence with the short answer that shares most with the question. */
function narrowed(text, short, question) {
  const asked = telling(question);
  const holding = short ? units(text).filter((unit) => unit.includes(short)) : [];
  const shared = (unit) => words(unit).filter((word) => asked.has(word)).length;
  return holding.sort((a, b) => shared(b) - shared(a))[0] ?? text;
}

/** Sentences of prose, rows of a table, lines of a list or of code. */
function units(text) {
  return text.split("\n").flatMap((line) => (line.includes(" | ") ? [line] : line.split(/(?<=[.!?…。！？])\s+(?=[\p{Lu}\p{N}"“(])/u))).map((unit) => unit.trim()).filter(Boolean);
}
