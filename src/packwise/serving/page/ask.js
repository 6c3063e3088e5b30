// The question, the answer as it is written, and how it was found.

import * as api from "./api.js";
import { answerGraph, graphView } from "./neighbourhood.js";
import { budget } from "./budget.js";
import { confidence } from "./confidence.js";
import { clear, count, el, percent, plural, time } from "./dom.js";
import { rankChart } from "./rank_chart.js";
import { notice } from "./notice.js";
import { openArticle, openPassage, safeLink } from "./panel.js";
import { colour, loadCandidates, mergeCandidates, sectionText } from "./candidates.js";
import { prose } from "./prose.js";
import { questionBox } from "./question.js";
import { settingsForm } from "./settings.js";
import { stageRow } from "./stages.js";

export function mount(root, page) {
  const { box, set } = questionBox({
    id: "question", name: "q", placeholder: "What do you want to know?", "aria-label": "Question", "aria-keyshortcuts": "/",
  }, () => submit());
  const go = el("button", { type: "submit", class: "main" }, "Ask");
  const form = settingsForm("with", { fields: ["graph", "rerank", "fusion", "mode", "policy", "expansion", "max_results"] });
  const extractive = el("input", { type: "checkbox", id: "with-extractive" });
  const title = el("h1", {});
  const about = el("p", { class: "about soft" });
  const examples = el("div", { class: "examples" });
  const result = el("div", { class: "result", hidden: true });
  const extra = {};
  let running = null;
  let last = null;

  root.append(
    el("div", { class: "hero" }, title, about),
    el("form", { class: "question", role: "search", onsubmit: (event) => { event.preventDefault(); submit(); } },
      el("div", { class: "box" }, box, el("kbd", { class: "slash", "aria-hidden": "true" }, "/"), go),
      el("details", { class: "with" }, el("summary", {}, "Settings"),
        el("div", { class: "fields" }, form.rows,
          el("div", { class: "field check" }, extractive, el("label", { for: "with-extractive" }, "Sentences only, no language model"))))),
    examples, result);

  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || root.hidden) return;
    if (event.target.closest("input, textarea, select, dialog")) return;
    event.preventDefault();
    box.focus();
    box.select();
  });

  function setAsked(yes) {
    root.classList.toggle("asked", yes);
    examples.hidden = yes;
    result.hidden = !yes;
  }

  function submit() {
    const question = box.value.trim();
    if (!question) return box.focus();
    for (const name of Object.keys(extra)) delete extra[name];
    page.go("ask", { q: question });
    run(question);
  }

  async function run(question) {
    running?.abort();
    running = new AbortController();
    const { signal } = running;
    last = question;
    const body = { question, store: page.store.name, ...form.read(), ...extra };
    if (extractive.checked) body.extractive = true;
    setAsked(true);
    const written = el("div", { class: "answer", "aria-live": "polite", "aria-busy": "true", "aria-label": "Answer" }, el("p", { class: "waiting soft" }, "Searching…"));
    const aside = el("aside", { class: "sources", "aria-label": "Sources" });
    const meta = el("p", { class: "meta soft" });
    const below = el("div", { class: "trace" });
    const stop = el("button", { type: "button", class: "quiet", onclick: () => running.abort() }, "Stop");
    clear(result, el("div", { class: "answered" }, el("div", {}, written, meta, stop), aside), below);
    page.announce("Searching for an answer.");

    let text = "";
    let pieces = 0;
    try {
      for await (const { event, data } of api.stream(body, signal)) {
        if (event === "piece") {
          text += data.text;
          pieces += 1;
          clear(written, prose(text, (number) => el("span", { class: "cite" }, number)));
          if (pieces === 1) headline(written);
        } else if (event === "answer") {
          written.setAttribute("aria-busy", "false");
          stop.remove();
          answered(data, body, { written, aside, meta, below, signal });
          // Highlight a short answer only if it came in one piece: a longer one must not jump at its end.
          if (pieces <= 1) headline(written);
        }
      }
    } catch (error) {
      stop.remove();
      written.setAttribute("aria-busy", "false");
      if (error.name === "AbortError") {
        if (running.signal === signal) meta.textContent = "Stopped.";
        written.querySelector(".waiting")?.remove();
        return;
      }
      if (!(error instanceof api.ApiError)) throw error;
      if (!text) clear(written);
      written.after(notice(error, () => run(question)));
    }
  }

  function answered(answer, body, { written, aside, meta, below, signal }) {
    const cited = new Map(answer.citations.map((citation) => [citation.marker, citation]));
    const quotes = new Map(answer.citations.map((citation) => [citation.marker, sentence(answer.answer, citation)]));
    const openCitation = (citation) =>
      openPassage({ ...citation, section: citation.section_path, quote: citation.text, sentence: quotes.get(citation.marker) }, answer.store);
    const gated = answer.query_type === "confidence_gated_fallback";
    clear(written, prose(answer.answer, (number) => {
      const citation = cited.get(number);
      return citation && el("button", {
        type: "button", class: `cite ${colour(number)}`, "aria-label": `Source ${number}: ${citation.title}`, onclick: () => openCitation(citation),
      }, number);
    }));
    written.classList.toggle("gated", gated);
    const took = answer.trace.stages.reduce((sum, stage) => sum + stage.ms, 0);
    const own = gated && answer.answered_by !== "none" ? " from its own knowledge, because the pack does not cover the question" : "";
    const by = { extractive: "From the documents", none: gated ? "Held back by the confidence gate" : "No answer" }[answer.answered_by] ?? `Written by ${answer.answered_by}${own}`;
    const spent = answer.token_usage.api_calls ? `, ${count(answer.token_usage.input_tokens)} tokens in and ${count(answer.token_usage.output_tokens)} out` : "";
    clear(meta, `${by}${spent}. ${time(took)}.`);
    if (!gated) meta.prepend(el("span", { class: `certainty ${answer.certainty}` }, answer.certainty === "likely" ? "Likely right" : "Unsure"), ` ${percent(answer.probability)}. `);
    for (const line of answer.degraded) meta.after(el("p", { class: "degraded" }, line.charAt(0).toUpperCase() + line.slice(1)));
    clear(aside, answer.citations.length
      ? [el("h2", {}, answer.citations.length === 1 ? "Source" : "Sources"), el("ol", {}, answer.citations.map((citation) => el("li", {},
          el("button", { type: "button", class: "source", onclick: () => openCitation(citation) },
            el("span", { class: `chip ${colour(citation.marker)}` }, citation.marker),
            el("span", {}, el("b", {}, citation.title), el("span", { class: "soft path" }, sectionText(citation.section_path)), el("span", { class: "excerpt" }, excerpt(citation, quotes.get(citation.marker))))),
          safeLink(citation.url) ? el("a", { class: "small", href: citation.url, target: "_blank", rel: "noreferrer noopener" }, "original page") : null)))]
      : [el("h2", {}, "Sources"), el("p", { class: "soft" }, gated ? `None: ${answer.gate.calibrated ? "the answer is too unlikely to be in this pack" : "nothing in this pack is close enough to the question"}.` : "None.")]);
    page.announce(gated ? "The question was held back." : `Answered from ${plural(answer.citations.length, "source")}.`);
    if (answer.entities.length || answer.facts.length) meta.after(namesAndFacts(answer));
    showTrace(answer, body, below, signal);
  }

  function namesAndFacts({ entities, facts }) {
    return el("details", { class: "known" }, el("summary", {}, "Names and facts in the passages"),
      el("ul", { class: "tags" }, entities.map((name) => el("li", {}, name))),
      facts.length ? el("ul", { class: "fact-list" }, facts.map((fact) => el("li", {}, fact))) : null);
  }

  async function showTrace(answer, body, below, signal) {
    const part = (id, title, ...content) => el("section", { class: "part", id, "aria-labelledby": `${id}-title` }, el("h3", { id: `${id}-title` }, title), content);
    const open = (passage) => openPassage(passage, answer.store);
    // Placeholders as high as their content, so that the text below does not jump.
    const chartPlace = el("div", { class: "placeholder placeholder-ranks" });
    const budgetPlace = el("div", { class: "placeholder placeholder-budget" });
    const graphPlace = el("div", { class: "placeholder placeholder-graph" });
    const gated = !answer.trace.packing;
    clear(below,
      el("div", { class: "trace-head" }, el("h2", {}, "How it was found"),
        el("a", { class: "button", href: `#/compare?${new URLSearchParams({ q: body.question })}` }, "Compare settings"),
        el("button", { type: "button", class: "quiet", onclick: () => save(answer) }, "Save as JSON")),
      part("stages", "Steps", stageRow(answer.trace.stages)),
      part("candidates", gated ? "Closest passages" : "Candidates", chartPlace),
      gated ? null : part("budget", "Token budget", budgetPlace),
      part("confidence", "Confidence", confidence(answer, (value) => { extra.threshold = value; run(last); })),
      gated ? null : part("neighbourhood", "Related articles", graphPlace));
    // If the search behind the answer fails, its candidates are shown without their ranks.
    let view = mergeCandidates(answer, null);
    try {
      view = await loadCandidates(answer, body, signal);
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
        const repacked = await api.ask({ ...body, budget: tokens, extractive: true }, signal);
        return loadCandidates(repacked, body, signal);
      },
      use: (tokens) => { extra.budget = tokens; run(last); },
    }));
    try {
      clear(graphPlace, graphView(await answerGraph(view, answer.store, signal), (document, title) => openArticle(document, title, answer.store)));
    } catch (error) {
      if (error.name === "AbortError") return;
      if (!(error instanceof api.ApiError)) throw error;
      clear(graphPlace, notice(error));
    }
  }

  async function suggest(store) {
    clear(examples);
    title.textContent = `Ask ${store.name}`;
    about.textContent = store.documents === null
      ? "Answers come from its documents, with their sources."
      : `${plural(store.documents, "article")}, ${plural(store.passages, "passage")}, ${plural(store.links, "link")}. Answers come from these, with their sources.`;
    const { articles } = await api.articles({ store: store.name, limit: 3 });
    const made = await Promise.all(articles.map((entry) => api.article(entry.id, store.name)));
    if (page.store !== store) return;
    const asked = made.map((article) => {
      const headings = article.sections.map((section) => section.path.at(-1)).filter((heading) => heading && heading.length > 6 && heading !== article.title);
      const heading = headings.find((text) => text.split(" ").length >= 3) ?? headings[0];
      return heading ? `${article.title}: ${heading.charAt(0).toLowerCase()}${heading.slice(1)}` : article.title;
    });
    clear(examples, asked.length ? el("span", { class: "soft" }, "Try") : null,
      asked.map((text) => el("button", { type: "button", class: "example", onclick: () => { set(text); submit(); } }, text)));
  }

  return {
    show({ q }) {
      if (q && q !== last) {
        set(q);
        run(q);
      } else if (!q && last) {
        running?.abort();
        last = null;
        set("");
        setAsked(false);
      }
      if (!q) box.focus({ preventScroll: true });
    },
    store(store) {
      form.use(store.defaults);
      for (const name of Object.keys(extra)) delete extra[name];
      suggest(store).catch((error) => {
        if (!(error instanceof api.ApiError)) throw error;
        clear(examples); // Asking a question will show the error.
      });
      if (last && !root.hidden) run(last);
      else last = null; // Asked in another store: ask again when this view is shown.
    },
  };
}

/** Highlight a short answer that comes before its sentence. */
function headline(written) {
  const paragraphs = written.querySelectorAll(":scope > p");
  if (paragraphs.length > 1 && paragraphs[0].textContent.length < 60) paragraphs[0].classList.add("short");
}

/** The whole answer with its trace, as a file. */
function save(answer) {
  const address = URL.createObjectURL(new Blob([JSON.stringify(answer, null, 2)], { type: "application/json" }));
  el("a", { href: address, download: `answer-${answer.trace_id}.json` }).click();
  URL.revokeObjectURL(address);
}

/** The sentence of a source that the answer quotes before citing it; "" if it uses other words. */
function sentence(answer, citation) {
  for (const line of answer.split("\n")) {
    let from = 0;
    for (const mark of line.matchAll(/\s*\[(\d+)\]/g)) {
      const quote = line.slice(from, mark.index).replace(/^[\s\-*•]+/, "").trim();
      from = mark.index + mark[0].length;
      if (Number(mark[1]) === citation.marker && quote.length > 20 && citation.text.includes(quote)) return quote;
    }
  }
  return "";
}

/** The start of a source, or the text around the quoted sentence. */
function excerpt(citation, quote) {
  const at = quote ? citation.text.indexOf(quote) : 0;
  if (at < 120) return citation.text;
  const start = citation.text.indexOf(" ", at - 60) + 1;
  return `… ${citation.text.slice(start)}`;
}
