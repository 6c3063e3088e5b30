// How an answer was found: one line, and all of it once that is opened.

import * as api from "./api.js";
import { answerGraph, graphView } from "./neighbourhood.js";
import { budget } from "./budget.js";
import { confidence } from "./confidence.js";
import { clear, el, plural, time } from "./dom.js";
import { rankChart } from "./rank_chart.js";
import { notice } from "./notice.js";
import { openArticle, openPassage } from "./panel.js";
import { loadCandidates, mergeCandidates } from "./candidates.js";
import { numberedLike } from "./evidence.js";
import { stageRow } from "./stages.js";

/** `again(values)` asks with another budget or threshold. */
export function howFound(answer, body, again) {
  const place = el("div", { class: "trace" });
  const { stages, packing } = answer.trace;
  const took = stages.reduce((sum, stage) => sum + stage.ms, 0);
  const held = packing ? `, ${plural(new Set(packing.selected.map((entry) => entry.marker)).size, "passage")} read` : "";
  const details = el("details", { class: "how", name: "how-found", ontoggle: () => {
    running?.abort();
    running = new AbortController();
    if (details.open) show(answer, body, place, again, running.signal);
    else clear(place);
  } }, el("summary", {}, el("span", {}, `How it was found: ${plural(stages.length, "step")}, ${time(took)}${held}`)), place);
  let running = null;
  return details;
}

async function show(answer, body, below, again, signal) {
  const part = (id, title, ...content) => el("section", { class: "part", id, "aria-labelledby": `${id}-title` }, el("h3", { id: `${id}-title` }, title), content);
  const open = (passage) => openPassage(passage, answer.store);
  // Placeholders as high as their content, so that the text below does not jump.
  const chartPlace = el("div", { class: "placeholder placeholder-ranks" });
  const budgetPlace = el("div", { class: "placeholder placeholder-budget" });
  const graphPlace = el("div", { class: "placeholder placeholder-graph" });
  const gated = !answer.trace.packing;
  clear(below,
    el("div", { class: "trace-head" },
      el("a", { class: "button", href: `#/compare?${new URLSearchParams({ store: answer.store, q: answer.question })}` }, "Compare settings"),
      el("button", { type: "button", class: "quiet", onclick: () => save(answer) }, "Save as JSON")),
    part("stages", "Steps", stageRow(answer.trace.stages)),
    answer.entities.length || answer.facts.length ? part("known", "Names and facts in the passages", namesAndFacts(answer)) : null,
    part("candidates", gated ? "Closest passages" : "Candidates", chartPlace),
    gated ? null : part("budget", "Token budget", budgetPlace),
    part("confidence", "Confidence", confidence(answer, (threshold) => again({ threshold }))),
    gated ? null : part("neighbourhood", "Related documents", graphPlace));
  // If the search behind the answer fails, its candidates are shown without their ranks.
  const asked = { ...body, question: answer.question, earlier: undefined };
  let view = mergeCandidates(answer, null);
  try {
    view = await loadCandidates(answer, asked, signal);
  } catch (error) {
    if (error.name === "AbortError") return;
    if (!(error instanceof api.ApiError)) throw error;
    chartPlace.before(notice(error));
  }
  clear(chartPlace, rankChart(view, open));
  if (gated) return;
  clear(budgetPlace, budget(view, {
    open,
    repack: async (tokens) => {
      const repacked = await api.ask({ ...asked, budget: tokens, extractive: true }, signal);
      return loadCandidates(numberedLike(answer, repacked), asked, signal);
    },
    use: (tokens) => again({ budget: tokens }),
  }));
  try {
    const graph = await answerGraph(view, answer.store, signal);
    clear(graphPlace, graphView(graph, answer.store, (document, title) => openArticle(document, title, answer.store)));
  } catch (error) {
    if (error.name === "AbortError") return;
    if (!(error instanceof api.ApiError)) throw error;
    clear(graphPlace, notice(error));
  }
}

function namesAndFacts({ entities, facts }) {
  return [
    el("ul", { class: "tags" }, entities.map((name) => el("li", {}, name))),
    facts.length ? el("ul", { class: "fact-list" }, facts.map((fact) => el("li", {}, fact))) : null,
  ];
}

/** The whole answer with its trace, as a file. */
function save(answer) {
  const address = URL.createObjectURL(new Blob([JSON.stringify(answer, null, 2)], { type: "application/json" }));
  el("a", { href: address, download: `answer-${answer.trace_id}.json` }).click();
  URL.revokeObjectURL(address);
}
