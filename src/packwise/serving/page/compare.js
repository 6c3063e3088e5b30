// Two settings side by side on one question, with what differs marked.

import * as api from "./api.js";
import { clear, count, el, plural, percent, time, srOnly } from "./dom.js";
import { notice } from "./notice.js";
import { openPassage } from "./panel.js";
import { numbered } from "./evidence.js";
import { colour, inContext, inFinalOrder, loadCandidates, nameParts } from "./candidates.js";
import { markdown } from "./markdown.js";
import { questionBox } from "./question.js";
import { settingsForm } from "./settings.js";
import { REASONS } from "./labels.js";

const SIDES = ["A", "B"];
const LISTED = 12;

/** An answer without its markers: each side numbers its own passages. */
const textOnly = (answer) => answer.answer.replace(/\s*\[[\d,\s]+\]/g, "");

const probabilityText = ({ probability }) => (typeof probability === "number" ? percent(probability) : "–");

export function mount(root, page) {
  const { box, set } = questionBox({ id: "compare-question", placeholder: "A question for both", "aria-label": "Question for both" }, () => run());
  const forms = SIDES.map((side) => settingsForm(`side-${side}`, { changed: () => markDifferences() }));
  const table = el("div", { class: "settings-table", role: "group", "aria-label": "Settings" });
  const write = el("input", { type: "checkbox", id: "compare-write" });
  const result = el("div", { class: "compared" });
  let running = null;
  let fresh = true;

  const cells = forms[0].names.map((name, index) => {
    const [a, b] = forms.map((form) => form.rows[index]);
    a.querySelector("label").classList.add("sr-only");
    b.querySelector("label").classList.add("sr-only");
    forms.forEach((form, side) => form.rows[index].querySelector("select, input").setAttribute("aria-label", `${form.label(name)}, side ${SIDES[side]}`));
    return el("div", { class: "settings-row", "data-field": name }, el("span", { class: "settings-name" }, forms[0].label(name)), a, b);
  });
  table.append(el("div", { class: "settings-row head" }, el("span", {}), SIDES.map((side) => el("span", { class: `side side-${side}` }, side))), ...cells);

  root.append(
    el("h1", {}, "Compare two settings"),
    el("form", { class: "compare-form", novalidate: true, onsubmit: (event) => { event.preventDefault(); run(); } },
      el("div", { class: "box" }, box, el("button", { type: "submit", class: "main" }, "Compare")),
      table,
      el("div", { class: "field check" }, write, el("label", { for: "compare-write" }, "Let the language model write both answers"))),
    result);

  function markDifferences() {
    for (const cell of cells) {
      const name = cell.dataset.field;
      cell.classList.toggle("differs", forms[0].value(name) !== forms[1].value(name));
    }
  }

  async function run() {
    const question = box.value.trim();
    if (!question) return box.focus();
    running?.abort();
    running = new AbortController();
    const { signal } = running;
    page.go("compare", { store: page.store.name, q: question });
    clear(result, el("p", { class: "soft" }, "Asking both…"));
    page.announce("Asking with both settings.");
    try {
      const sides = await Promise.all(forms.map(async (form) => {
        const body = { question, store: page.store.name, ...form.read(), ...(write.checked ? {} : { extractive: true }) };
        const answer = await api.ask(body, signal);
        return loadCandidates(numbered(answer), body, signal);
      }));
      if (!signal.aborted) clear(result, summary(sides), el("div", { class: "sides" }, sides.map((view, index) => column(view, sides[1 - index], index))));
      page.announce("Both have answered.");
    } catch (error) {
      if (error.name === "AbortError") return;
      if (!(error instanceof api.ApiError)) throw error;
      clear(result, notice(error, run));
    }
  }

  function summary(sides) {
    const held = sides.map((view) => new Set(inContext(view).map((passage) => passage.id)));
    const both = [...held[0]].filter((id) => held[1].has(id)).length;
    const same = textOnly(sides[0].answer) === textOnly(sides[1].answer);
    const changed = forms[0].names.filter((name) => forms[0].value(name) !== forms[1].value(name));
    const facts = [
      changed.length ? `${changed.map((name) => `“${forms[0].label(name)}”`).join(", ").replace(/, (?=[^,]*$)/, " and ")} ${changed.length === 1 ? "differs" : "differ"}.` : "The settings are the same.",
      same ? " The answer is the same." : " The answers differ.",
      ` ${plural(both, "passage")} in both contexts, ${held[0].size - both} only in A, ${held[1].size - both} only in B.`,
    ];
    return el("p", { class: "comparison-summary", role: "status" }, facts);
  }

  function column(view, other, index) {
    const { answer } = view;
    const side = SIDES[index];
    const others = new Map(inFinalOrder(other).map((passage) => [passage.id, passage]));
    const differs = textOnly(answer) !== textOnly(other.answer);
    const took = answer.trace.stages.reduce((sum, stage) => sum + stage.ms, 0);
    const facts = [
      ["confidence", answer.confidence.toFixed(2), other.answer.confidence.toFixed(2)],
      ["probability", probabilityText(answer), probabilityText(other.answer)],
      ["tokens", view.packing ? count(view.packing.tokens) : "0", other.packing ? count(other.packing.tokens) : "0"],
      ["sources", String(answer.citations.length), String(other.answer.citations.length)],
      ["time", time(took), null],
    ];
    return el("section", { class: "side-column", "aria-label": `Side ${side}` },
      el("h2", {}, el("span", { class: `side side-${side}` }, side), " ", changedText(index)),
      el("div", { class: `answer small-answer${differs ? " differs" : ""}` }, markdown(answer.answer, (number) => el("span", { class: `cite ${colour(number)}` }, number))),
      el("dl", { class: "facts" }, facts.map(([name, value, theirValue]) => el("div", { class: theirValue !== null && theirValue !== value ? "differs" : null }, el("dt", {}, name), el("dd", {}, value)))),
      el("h3", {}, "Final order"),
      el("ol", { class: "ranked" }, inFinalOrder(view).slice(0, LISTED).map((passage) => ranked(passage, others.get(passage.id), answer.store))));
  }

  function changedText(index) {
    const changed = forms[0].names.filter((name) => forms[0].value(name) !== forms[1].value(name));
    return el("span", { class: "soft" }, changed.map((name) => `${forms[index].label(name).toLowerCase()} ${forms[index].text(name)}`).join(", "));
  }

  function ranked(passage, there, store) {
    const moved = there ? there.ranks.final - passage.ranks.final : null;
    const badge = moved === null ? ["only here", "new"] : moved > 0 ? [`▲ ${moved}`, "up"] : moved < 0 ? [`▼ ${-moved}`, "down"] : ["", "same"];
    const difference = !there || (there.marker === null) !== (passage.marker === null) ? " differs" : "";
    const meaning = moved === null ? "only on this side" : moved > 0 ? `${moved} higher than on the other side` : moved < 0 ? `${-moved} lower than on the other side` : "";
    return el("li", {}, el("button", { type: "button", class: `pack-row${difference}${passage.marker === null ? " out" : ""}`, onclick: () => openPassage(passage, store) },
      el("span", { class: `chip ${colour(passage.marker)}` }, passage.marker ?? "·"),
      el("span", { class: "pack-name" }, nameParts(passage), passage.marker === null ? srOnly(`, left out: ${REASONS[passage.reason]?.[0]}`) : null),
      el("span", { class: `badge ${badge[1]}`, "aria-hidden": "true" }, badge[0]), meaning ? srOnly(`, ${meaning}`) : null));
  }

  return {
    show({ q }) {
      if (q && q !== box.value) {
        set(q);
        run();
      } else if (!q && !box.value) box.focus({ preventScroll: true });
    },
    store(store) {
      for (const form of forms) form.use(store.defaults);
      if (fresh) forms[1].set("graph", "off");
      fresh = false;
      markDifferences();
      clear(result);
    },
  };
}
