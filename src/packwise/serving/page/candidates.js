// The candidates of one answered question: each once, with its rank after each stage, and with
// its marker or the reason why it is not in the context.

import * as api from "./api.js";
import { el } from "./dom.js";
import { COLUMNS } from "./labels.js";

const CANDIDATES = 30;

/** Search with the settings of the answer, and merge both. */
export async function loadCandidates(answer, body, signal) {
  const options = {};
  for (const name of ["store", "mode", "fusion", "graph", "rerank"]) if (body[name] !== undefined) options[name] = body[name];
  const expansion = answer.trace.stages?.find((stage) => stage.name === "expansion");
  if (expansion?.alternatives?.length) options.alternatives = expansion.alternatives.slice(0, 8);
  const ranking = await api.search({ ...options, query: body.question, k: CANDIDATES, trace: true }, signal);
  return mergeCandidates(answer, ranking);
}

export function mergeCandidates(answer, ranking) {
  const packing = answer.trace.packing;
  const gated = packing === null || packing === undefined;
  const passages = new Map();
  const at = (id) => {
    if (!passages.has(id)) {
      const document = id.includes("#") ? id.slice(0, id.lastIndexOf("#")) : id;
      passages.set(id, {
        id, document, title: document, section: [], text: null, scores: {}, ranks: {},
        marker: null, reason: null, of: null, tokens: null, place: null,
      });
    }
    return passages.get(id);
  };

  for (const hit of ranking?.hits ?? []) {
    Object.assign(at(hit.id), {
      document: hit.document, title: hit.title || hit.document, section: hit.section_path, text: hit.text, scores: hit.scores,
    });
  }
  for (const candidate of ranking?.trace?.candidates ?? []) at(candidate.id).ranks = { ...candidate.ranks };
  for (const cited of answer.citations ?? []) {
    for (const id of cited.ids) {
      const passage = at(id);
      Object.assign(passage, { document: cited.document, title: cited.title, cited: true });
      if (!passage.section.length) passage.section = cited.section_path;
    }
  }
  const titles = new Map([...passages.values()].map((passage) => [passage.document, passage.title]));
  for (const entry of packing?.selected ?? []) {
    const { marker, tokens, sentences, reduced, attached_to: attached, rank, scores, quality, document } = entry;
    Object.assign(at(entry.id), { marker, tokens, sentences, reduced, attached, place: attached ? null : rank, scores, quality, document });
  }
  for (const entry of packing?.dropped ?? []) {
    const { reason, of, tokens, rank, scores, quality, document } = entry;
    Object.assign(at(entry.id), { reason, of, tokens, place: rank, scores, quality, document });
  }
  for (const entry of answer.trace.dropped ?? []) {
    const passage = at(entry.id);
    if (passage.marker === null && passage.reason === null && entry.reason.startsWith("same text as ")) {
      Object.assign(passage, { reason: "same_text", of: entry.reason.replace(/^same text as /, "") });
    }
  }
  for (const passage of passages.values()) {
    if (titles.has(passage.document)) passage.title = titles.get(passage.document);
    if (passage.marker === null && passage.reason === null) passage.reason = gated ? "gated" : "other_articles";
  }
  numberDuplicates(passages);
  return { answer, packing, gated, passages, columns: ranked(passages) };
}

/** Number the passages that share a title and section. */
function numberDuplicates(passages) {
  const names = new Map();
  for (const passage of passages.values()) names.set(fullName(passage), (names.get(fullName(passage)) ?? 0) + 1);
  for (const passage of passages.values()) {
    const number = passage.id.slice(passage.id.lastIndexOf("#") + 1);
    passage.part = names.get(fullName(passage)) > 1 && /^\d+$/.test(number) ? `¶${Number(number) + 1}` : "";
  }
}

/** Give every candidate its rank in each column; returns the columns that have any. */
function ranked(passages) {
  const listed = [...passages.values()].filter((passage) => !passage.attached && passage.reason !== "same_text");
  const before = (passage) => passage.ranks.final ?? CANDIDATES * 2;
  listed.sort((a, b) => (a.place ?? Infinity) - (b.place ?? Infinity) || before(a) - before(b));
  const retrieved = listed.filter((passage) => passage.ranks.final);
  if (retrieved.some((passage) => passage.scores.graph)) {
    for (const passage of retrieved) passage.ranks.graph = passage.ranks.final;
  }
  listed.forEach((passage, index) => (passage.ranks.final = index + 1));
  return Object.keys(COLUMNS).filter((column) => listed.some((passage) => passage.ranks[column]));
}

/** The candidates in their final order. */
export const inFinalOrder = (view) =>
  [...view.passages.values()].filter((passage) => passage.ranks.final).sort((a, b) => a.ranks.final - b.ranks.final);

/** The passages in the context, in its order. */
export const inContext = (view) =>
  [...view.passages.values()].filter((passage) => passage.marker !== null).sort((a, b) => a.marker - b.marker || a.id.localeCompare(b.id, "en", { numeric: true }));

/** The passages left out, best first. */
export const leftOut = (view) =>
  [...view.passages.values()].filter((passage) => passage.marker === null).sort((a, b) => (a.ranks.final ?? 99) - (b.ranks.final ?? 99));

export const colour = (marker) => (marker === null || marker === undefined ? "c-none" : `c-${Math.min(marker - 1, 9)}`);

export const sectionText = (section) => section.filter(Boolean).join(" › ");

/** A section and the place in its file; "lines 12-19" stays on one line. */
export const whereIn = (section, place) => [section, section && place ? " · " : "", place ? el("span", { class: "one-line" }, place) : null];

/** Title, section and number, as a row shows them. */
export const nameParts = (passage) => {
  const section = sectionText(passage.section);
  return [
    el("b", {}, passage.title), " ", section ? el("span", { class: "soft within" }, "› ") : null,
    el("span", { class: "soft" }, [section, passage.part].filter(Boolean).join(" ")),
  ];
};

export const fullName = (passage) => [passage.title, sectionText(passage.section)].filter(Boolean).join(", ");
