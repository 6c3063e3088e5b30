// The token budget as a bar: what is in it, and greyed what was left out and why.

import { clear, count, el, many, settled, unseen } from "./dom.js";
import { colour, fullName, inside, nameParts, outside } from "./picture.js";
import { REASONS } from "./labels.js";

const LEAST = 50;
const STEPS = 400;

/** `again(budget)` packs anew and gives a picture; `use(budget)` answers with it. */
export function budget(drawn, { again, use, open }) {
  const most = Math.max(16000, drawn.packing.budget);
  const toStep = (tokens) => Math.round((Math.log(Math.max(LEAST, tokens) / LEAST) / Math.log(most / LEAST)) * STEPS);
  const fromStep = (step) => {
    const exact = LEAST * (most / LEAST) ** (step / STEPS);
    const unit = exact < 1000 ? 10 : exact < 4000 ? 50 : 100;
    return Math.round(exact / unit) * unit;
  };
  const asked = drawn.packing.budget;
  const slider = el("input", { type: "range", id: "budget-slider", min: 0, max: STEPS, step: 1, value: toStep(asked), "aria-label": "Token budget", "aria-valuetext": many(asked, "token") });
  const number = el("input", { type: "number", id: "budget-number", min: 0, max: 200000, step: 10, value: asked, "aria-label": "Token budget in tokens" });
  const shown = el("div", { class: "packed" });
  const told = el("p", { class: "budget-told", role: "status" });
  const answer = el("button", { type: "button", class: "quiet", hidden: true, onclick: () => use(Number(number.value)) }, "Answer with this budget");
  let latest = 0;

  const repack = settled(180, async (tokens) => {
    const turn = ++latest;
    shown.setAttribute("aria-busy", "true");
    try {
      const now = await again(tokens);
      if (turn !== latest) return;
      clear(shown, picture(now, open));
      clear(told, line(now, drawn, tokens));
      answer.hidden = tokens === asked;
    } catch (error) {
      if (turn === latest && error.name !== "AbortError") clear(told, error.message);
    } finally {
      if (turn === latest) shown.removeAttribute("aria-busy");
    }
  });
  slider.addEventListener("input", () => {
    number.value = fromStep(Number(slider.value));
    slider.setAttribute("aria-valuetext", many(Number(number.value), "token"));
    repack(Number(number.value));
  });
  number.addEventListener("input", () => {
    if (number.value === "" || !number.checkValidity() && Number(number.value) > 200000) return;
    slider.value = toStep(Number(number.value));
    slider.setAttribute("aria-valuetext", many(Number(number.value), "token"));
    repack(Math.max(0, Math.round(Number(number.value))));
  });

  clear(shown, picture(drawn, open));
  clear(told, line(drawn, drawn, asked));
  return [
    el("div", { class: "budget-controls" }, slider, el("span", { class: "unit" }, number, " tokens"), answer),
    told,
    shown,
  ];
}

function line(now, asked, tokens) {
  if (now.gated) return "Nothing was packed.";
  const held = new Set(inside(now).map((passage) => passage.id));
  const sources = asked.answer.citations.filter((cited) => cited.ids.length && !cited.ids.some((id) => held.has(id))).map((cited) => cited.marker);
  const { packing } = now;
  return [
    `${many(new Set(inside(now).map((passage) => passage.marker)).size, "passage")} in ${count(packing.tokens)} of ${many(tokens, "token")}; `,
    `${many(packing.dropped.length, "candidate")} left out here, ${outside(now).length - packing.dropped.length} before.`,
    sources.length ? el("strong", { class: "warn" }, ` What the answer cites as [${sources.join("], [")}] would be left out.`) : null,
  ];
}

function picture(drawn, open) {
  const { packing } = drawn;
  const held = inside(drawn);
  const left = outside(drawn);
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
        return el("i", { class: colour(marker), title: `[${marker}] ${fullName(parts[0])}: ${many(tokens, "token")}`, ...width(tokens) }, el("span", {}, marker));
      }),
      packing.header_tokens ? el("i", { class: "heads", title: `Titles and markers: ${many(packing.header_tokens, "token")}`, ...width(packing.header_tokens) }) : null),
    dropped.length ? el("div", { class: "bar out", role: "img", "aria-label": `${sum} tokens left out` },
      dropped.map((passage) => el("i", { title: `${fullName(passage)}: ${REASONS[passage.reason]?.[0]}`, style: { width: `${(passage.tokens / out) * 100}%` } }))) : null,
    el("p", { class: "scale" }, el("span", {}, "0"),
      el("span", {}, `${many(packing.header_tokens, "token")} of titles and markers, ${count(free)} free`, dropped.length ? `; hatched: ${count(sum)} left out` : ""),
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
  const how = parts.length > 1 ? `${parts.length} passages joined` : taken < of ? `${taken} of ${many(of, "sentence")}` : "whole";
  return el("li", {}, el("button", { type: "button", class: "pack-row", onclick: () => open({ ...best, ids: parts.map((part) => part.id) }) },
    el("span", { class: `chip ${colour(marker)}` }, marker),
    el("span", { class: "pack-name" }, nameParts(best)),
    el("span", { class: "pack-how" }, how),
    el("span", { class: "pack-tokens" }, count(tokens), unseen(" tokens"))));
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
    el("span", { class: "pack-tokens" }, passage.tokens === null ? "" : count(passage.tokens), passage.tokens === null ? null : unseen(" tokens"))));
}
