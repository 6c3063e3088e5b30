// The token budget as a bar: the passages in it, and in grey those left out and why.

import { clear, count, el, plural, debounce, srOnly } from "./dom.js";
import { colour, fullName, inContext, nameParts, leftOut } from "./candidates.js";
import { REASONS } from "./labels.js";

const LEAST = 50;
const STEPS = 400;

/** `repack(budget)` packs again and returns the candidates; `use(budget)` answers with it. */
export function budget(view, { repack, use, open }) {
  const most = Math.max(16000, view.packing.budget);
  const toStep = (tokens) => Math.round((Math.log(Math.max(LEAST, tokens) / LEAST) / Math.log(most / LEAST)) * STEPS);
  const fromStep = (step) => {
    const exact = LEAST * (most / LEAST) ** (step / STEPS);
    const unit = exact < 1000 ? 10 : exact < 4000 ? 50 : 100;
    return Math.round(exact / unit) * unit;
  };
  const initial = view.packing.budget;
  const slider = el("input", { type: "range", id: "budget-slider", min: 0, max: STEPS, step: 1, value: toStep(initial), "aria-label": "Token budget", "aria-valuetext": plural(initial, "token") });
  const number = el("input", { type: "number", id: "budget-number", min: 0, max: 200000, step: 10, value: initial, "aria-label": "Token budget in tokens" });
  const shown = el("div", { class: "packed" });
  const status = el("p", { class: "budget-status", role: "status" });
  const answer = el("button", { type: "button", class: "quiet", hidden: true, onclick: () => use(Number(number.value)) }, "Answer with this budget");
  let latest = 0;

  const update = debounce(180, async (tokens) => {
    const request = ++latest;
    shown.setAttribute("aria-busy", "true");
    try {
      const now = await repack(tokens);
      if (request !== latest) return;
      clear(shown, bars(now, open));
      clear(status, summary(now, view, tokens));
      answer.hidden = tokens === initial;
    } catch (error) {
      if (request === latest && error.name !== "AbortError") clear(status, error.message);
    } finally {
      if (request === latest) shown.removeAttribute("aria-busy");
    }
  });
  slider.addEventListener("input", () => {
    number.value = fromStep(Number(slider.value));
    slider.setAttribute("aria-valuetext", plural(Number(number.value), "token"));
    update(Number(number.value));
  });
  number.addEventListener("input", () => {
    if (number.value === "" || !number.checkValidity() && Number(number.value) > 200000) return;
    slider.value = toStep(Number(number.value));
    slider.setAttribute("aria-valuetext", plural(Number(number.value), "token"));
    update(Math.max(0, Math.round(Number(number.value))));
  });

  clear(shown, bars(view, open));
  clear(status, summary(view, view, initial));
  return [
    el("div", { class: "budget-controls" }, slider, el("span", { class: "unit" }, number, " tokens"), answer),
    status,
    shown,
  ];
}

function summary(now, before, tokens) {
  if (now.gated) return "Nothing was packed.";
  const held = new Set(inContext(now).map((passage) => passage.id));
  const sources = before.answer.citations.filter((cited) => cited.ids.length && !cited.ids.some((id) => held.has(id))).map((cited) => cited.marker);
  const { packing } = now;
  return [
    `${plural(new Set(inContext(now).map((passage) => passage.marker)).size, "passage")} in ${count(packing.tokens)} of ${plural(tokens, "token")}; `,
    `${plural(packing.dropped.length, "candidate")} left out here, ${leftOut(now).length - packing.dropped.length} earlier.`,
    sources.length ? el("strong", { class: "warn" }, ` Cited in the answer, but would be left out: [${sources.join("], [")}].`) : null,
  ];
}

function bars(view, open) {
  const { packing } = view;
  const held = inContext(view);
  const left = leftOut(view);
  const groups = new Map();
  for (const passage of held) groups.set(passage.marker, [...(groups.get(passage.marker) ?? []), passage]);
  const dropped = left.filter((passage) => passage.tokens);
  const scale = Math.max(packing.budget, packing.tokens, 1);
  const width = (tokens) => ({ style: { width: `${(tokens / scale) * 100}%` } });
  const free = Math.max(0, packing.budget - packing.tokens);
  const sum = dropped.reduce((total, passage) => total + passage.tokens, 0);
  const out = Math.max(scale, sum);

  return [
    el("div", { class: "bar", role: "img", "aria-label": `${packing.tokens} of ${packing.budget} tokens used` },
      [...groups].map(([marker, parts]) => {
        const tokens = parts.reduce((total, passage) => total + passage.tokens, 0);
        return el("i", { class: colour(marker), title: `[${marker}] ${fullName(parts[0])}: ${plural(tokens, "token")}`, ...width(tokens) }, el("span", {}, marker));
      }),
      packing.header_tokens ? el("i", { class: "headers", title: `Titles and markers: ${plural(packing.header_tokens, "token")}`, ...width(packing.header_tokens) }) : null),
    dropped.length ? el("div", { class: "bar out", role: "img", "aria-label": `${sum} tokens left out` },
      dropped.map((passage) => el("i", { title: `${fullName(passage)}: ${REASONS[passage.reason]?.[0]}`, style: { width: `${(passage.tokens / out) * 100}%` } }))) : null,
    el("p", { class: "scale" }, el("span", {}, "0"),
      el("span", {}, `${plural(packing.header_tokens, "token")} of titles and markers, ${count(free)} free`, dropped.length ? `; hatched: ${count(sum)} left out` : ""),
      el("span", {}, count(scale))),
    el("div", { class: "columns" },
      el("div", {}, el("h4", {}, "In the context"),
        held.length ? el("ul", { class: "packing" }, [...groups].map(([marker, parts]) => inRow(marker, parts, open))) : el("p", { class: "soft" }, "Nothing fits.")),
      el("div", {}, el("h4", {}, "Left out, and why"),
        left.length ? outList(left, open) : el("p", { class: "soft" }, "Nothing was left out."))),
  ];
}

function inRow(marker, parts, open) {
  const best = parts.find((passage) => !passage.attached) ?? parts[0];
  const tokens = parts.reduce((total, passage) => total + passage.tokens, 0);
  const [taken, of] = best.sentences ?? [0, 0];
  const how = parts.length > 1 ? `${parts.length} passages joined` : taken < of ? `${taken} of ${plural(of, "sentence")}` : "whole";
  return el("li", {}, el("button", { type: "button", class: "pack-row", onclick: () => open({ ...best, ids: parts.map((part) => part.id) }) },
    el("span", { class: `chip ${colour(marker)}` }, marker),
    el("span", { class: "pack-name" }, nameParts(best)),
    el("span", { class: "pack-how" }, how),
    el("span", { class: "pack-tokens" }, count(tokens), srOnly(" tokens"))));
}

function outList(left, open) {
  const first = left.slice(0, 8);
  const rest = left.slice(8);
  const list = (passages) => el("ul", { class: "packing greyed" }, passages.map((passage) => outRow(passage, open)));
  return [list(first), rest.length ? el("details", {}, el("summary", {}, `${rest.length} more`), list(rest)) : null];
}

function outRow(passage, open) {
  const [short, long] = REASONS[passage.reason] ?? [passage.reason, ""];
  return el("li", {}, el("button", { type: "button", class: "pack-row", title: long, "data-reason": passage.reason, onclick: () => open(passage) },
    el("span", { class: "pack-name" }, nameParts(passage)),
    el("span", { class: "reason" }, short),
    el("span", { class: "pack-tokens" }, passage.tokens === null ? "" : count(passage.tokens), passage.tokens === null ? null : srOnly(" tokens"))));
}
