// One question and its answer: written as it comes, with its sources, and what can be done with it.

import * as api from "./api.js";
import { clear, count, el, percent, plural, svg, time } from "./dom.js";
import { colour, sectionText, whereIn } from "./candidates.js";
import { evidence, numbered, numbering, renumber, shortAnswer } from "./evidence.js";
import { howFound } from "./how_found.js";
import { markdown, safeLink, webLink } from "./markdown.js";
import { notice } from "./notice.js";
import { openPassage } from "./panel.js";

const WORDS = { likely: "Likely", unsure: "Unsure", "not covered": "Not covered" };
const ICONS = {
  right: "M2 9h3v8H2zM7 17V9l4-7c1 0 2 1 2 2l-1 4h5c1 0 2 1 2 2l-2 6c0 1-1 1-2 1z",
  wrong: "M2 3h3v8H2zM7 3v8l4 7c1 0 2-1 2-2l-1-4h5c1 0 2-1 2-2l-2-6c0-1-1-1-2-1z",
};
const icon = (name) => svg("svg", { viewBox: "0 0 20 20", width: 18, height: 18, "aria-hidden": "true", class: "icon-drawing" }, svg("path", { d: ICONS[name] }));

/** A turn of a conversation. `hooks`: `page`, whether how it was found is `opened`, `done(record)` once it is answered, `again(values)`
 * to ask once more, `link()` its address, and `judged(verdict)`. */
export function turn(question, body, hooks) {
  const { page } = hooks;
  const written = el("div", { class: "answer", "aria-live": "polite", "aria-label": "Answer" });
  const sources = el("div", { class: "sources", role: "group", "aria-label": "Sources" });
  const meta = el("div", { class: "meta" });
  const actions = el("div", { class: "actions" });
  const below = el("div", {});
  const understood = el("p", { class: "understood soft small" });
  const node = el("li", { class: "turn" },
    el("h2", { class: "asked-question" }, question), understood,
    el("div", { class: "answered" }, written, sources, meta, actions, below));
  let running = null;

  async function ask() {
    running?.abort();
    running = new AbortController();
    const { signal } = running;
    const stop = el("button", { type: "button", class: "quiet", onclick: () => running.abort() }, "Stop");
    written.setAttribute("aria-busy", "true");
    written.classList.remove("gated");
    clear(written, el("p", { class: "waiting soft" }, "Searching…"));
    clear(actions, stop);
    for (const part of [understood, sources, meta, below]) clear(part);
    page.announce("Searching for an answer.");
    const numbers = numbering();
    let text = "";
    let pieces = 0;
    try {
      for await (const { event, data } of api.stream({ question, ...body }, signal)) {
        if (event === "question") {
          understand(data.text);
        } else if (event === "piece") {
          text += data.text;
          pieces += 1;
          clear(written, markdown(renumber(text, numbers), (number) => el("span", { class: "cite" }, number)));
          if (pieces === 1) headline(written, text);
        } else if (event === "answer") {
          const answer = numbered(data);
          show(answer, pieces <= 1);
          hooks.done(answer);
          page.announce(answer.certainty === "not covered" ? "The pack does not cover the question." : `Answered from ${plural(answer.citations.length, "source")}.`);
        }
      }
    } catch (error) {
      written.setAttribute("aria-busy", "false");
      clear(actions, button("Ask again", () => hooks.again({})));
      if (error.name === "AbortError") {
        if (running.signal === signal) clear(meta, el("p", { class: "soft" }, "Stopped."));
        written.querySelector(".waiting")?.remove();
        return;
      }
      if (!(error instanceof api.ApiError)) throw error;
      if (!text) clear(written);
      clear(meta, notice(error, ask));
      clear(actions);
    }
  }

  function understand(asked) {
    clear(understood, asked !== question ? `Understood as: ${asked}` : null);
  }

  /** Show an answer, now or from the history. */
  function show(answer, whole = true, judged = null) {
    written.setAttribute("aria-busy", "false");
    const gated = answer.query_type === "confidence_gated_fallback";
    const cited = new Map(answer.citations.map((citation) => [citation.marker, citation]));
    const open = (citation) => openPassage({
      ...citation, section: citation.section_path, quote: citation.text, evidence: evidence(answer.answer, citation, answer.question),
    }, answer.store);
    clear(written, markdown(answer.answer, (number) => {
      const citation = cited.get(number);
      return citation && el("button", { type: "button", class: `cite ${colour(number)}`, "aria-label": `Source ${number}`, title: citation.title, onclick: () => open(citation) }, number);
    }));
    joinLoneCitations(written);
    written.classList.toggle("gated", gated);
    // Highlight a short answer only if it came in one piece: a longer one must not jump at its end.
    if (whole) headline(written, answer.answer);
    if (answer.answered_by === "extractive") highlightShort(written, shortAnswer(answer.answer));
    clear(sources, sourceList(answer, open, gated));
    understand(answer.question);
    clear(meta, certainty(answer, gated),
      answer.degraded.map((line) => el("p", { class: "degraded" }, line.charAt(0).toUpperCase() + line.slice(1))));
    clear(actions, actionButtons(answer, judged));
    const how = howFound(answer, body, hooks.again);
    clear(below, how);
    if (hooks.opened) how.open = true;
  }

  function actionButtons(answer, judged) {
    const verdicts = el("span", { class: "verdicts", role: "group", "aria-label": "Was it right?" });
    const said = el("span", { class: "soft small", role: "status" });
    const form = el("div", { class: "correction" });
    const mark = (verdict) => {
      for (const one of verdicts.querySelectorAll("button")) one.setAttribute("aria-pressed", String(one.dataset.verdict === verdict));
    };
    const send = async (verdict, right) => {
      try {
        await api.feedback({
          store: answer.store, question: answer.question, answer: answer.answer, verdict, ...(right ? { right_answer: right } : {}),
          passages: answer.citations.flatMap((citation) => citation.ids),
        });
      } catch (error) {
        if (!(error instanceof api.ApiError)) throw error;
        clear(form, notice(error, () => send(verdict, right)));
        return;
      }
      clear(form);
      mark(verdict);
      said.textContent = "Thank you. It is saved with the pack.";
      hooks.judged(verdict);
    };
    const wrong = () => {
      const field = el("input", { type: "text", maxlength: 4000, id: "right-answer", autocomplete: "off" });
      clear(form, el("form", { class: "right-answer", onsubmit: (event) => { event.preventDefault(); send("wrong", field.value.trim()); } },
        el("label", { for: "right-answer" }, "What would be right? (optional)"), field, el("button", { type: "submit", class: "quiet" }, "Send")));
      field.focus();
    };
    verdicts.append(
      el("button", { type: "button", class: "quiet icon", "data-verdict": "right", "aria-label": "Right", title: "Right", "aria-pressed": "false", onclick: () => send("right", "") }, icon("right")),
      el("button", { type: "button", class: "quiet icon", "data-verdict": "wrong", "aria-label": "Wrong", title: "Wrong", "aria-pressed": "false", onclick: wrong }, icon("wrong")));
    if (judged) mark(judged);
    return [copyButton("Copy", () => copied(answer)), copyButton("Copy link", hooks.link), button("Ask again", () => hooks.again({})), verdicts, said, form];
  }

  return { node, ask, show, stop: () => running?.abort() };
}

const button = (label, action) => el("button", { type: "button", class: "quiet", onclick: action }, label);

function copyButton(label, text) {
  const made = button(label, async () => {
    try {
      await navigator.clipboard.writeText(text());
      made.textContent = "Copied";
    } catch {
      made.textContent = "Not allowed"; // The browser refuses pages that are not served securely.
    }
    setTimeout(() => { made.textContent = label; }, 1500);
  });
  return made;
}

/** An answer as text, with its sources below it. */
function copied(answer) {
  const lines = answer.citations.map((citation) => `[${citation.marker}] ${[citation.title, ...citation.section_path, citation.place, safeLink(citation.url)].filter(Boolean).join(", ")}`);
  return [answer.answer, ...(lines.length ? ["", ...lines] : [])].join("\n");
}

/** One word; the figures behind it on demand. */
function certainty(answer, gated) {
  const took = answer.trace.stages.reduce((sum, stage) => sum + stage.ms, 0);
  const own = gated && answer.answered_by !== "none" ? " from its own knowledge, because the pack does not cover the question" : "";
  const by = { extractive: "From the documents", none: gated ? "No answer in the documents" : "No answer" }[answer.answered_by] ?? `Written by ${answer.answered_by}${own}`;
  const spent = answer.token_usage.api_calls ? `, ${count(answer.token_usage.input_tokens)} tokens in and ${count(answer.token_usage.output_tokens)} out` : "";
  const figures = [
    answer.certainty === "not covered" ? null : `The answer is right with a probability of ${percent(answer.probability)}.`,
    `${answer.gate.calibrated ? "The chance that the search found it is" : "The similarity of the best passage is"} ${answer.confidence.toFixed(2)}; from ${answer.gate.threshold} on there is an answer.`,
    `It took ${time(took)}.`,
  ];
  return el("details", { class: `certain ${answer.certainty.replace(" ", "-")}` },
    el("summary", {}, el("span", { class: "certainty" }, WORDS[answer.certainty]), el("span", { class: "soft" }, `${by}${spent}.`)),
    el("p", { class: "soft small" }, figures.filter(Boolean).join(" ")));
}

function sourceList(answer, open, gated) {
  if (!answer.citations.length) {
    const why = answer.gate.calibrated ? "the answer is too unlikely to be in this pack" : "nothing in this pack is close enough to the question";
    return el("p", { class: "soft small" }, gated ? `No source: ${why}.` : "No source.");
  }
  return el("ol", {}, answer.citations.map((citation) => el("li", {},
    el("button", { type: "button", class: "source", onclick: () => open(citation) },
      el("span", { class: `chip ${colour(citation.marker)}` }, citation.marker),
      el("span", { class: "source-name" }, el("b", {}, citation.title), el("span", { class: "soft path" }, whereIn(sectionText(citation.section_path), citation.place)))),
    safeLink(citation.url) ? webLink(citation.url, "original page") : null)));
}

/** A citation behind several paragraphs ends the last of them, not a line of its own. */
function joinLoneCitations(written) {
  for (const alone of written.querySelectorAll(":scope > p")) {
    const before = alone.previousElementSibling;
    if (before?.matches("p") && !alone.textContent.trim().replace(/[\d\s]+/, "") && alone.querySelector(".cite")) {
      before.append(" ", ...alone.childNodes);
      alone.remove();
    }
  }
}

/** Set a short answer apart from the sentence that follows it. */
function headline(written, text) {
  const first = written.querySelector(":scope > p");
  if (first && first.nextElementSibling && first.textContent.length < 60 && !/[:|]\s*$/.test(first.textContent) && shortAnswer(text)) first.classList.add("short");
}

/** Mark the short answer in the passage below it. */
function highlightShort(written, short) {
  if (!short) return;
  const walker = document.createTreeWalker(written, NodeFilter.SHOW_TEXT);
  const found = [];
  while (walker.nextNode()) {
    const node = walker.currentNode;
    if (!node.parentElement.closest(".short, button, .code") && node.data.includes(short)) found.push(node);
  }
  for (const node of found.slice(0, 3)) {
    const rest = node.splitText(node.data.indexOf(short));
    rest.splitText(short.length);
    rest.replaceWith(el("mark", {}, short));
  }
}
