// The settings of a question as form fields, each with a line of help.

import { el } from "./dom.js";

const FIELDS = [
  { name: "mode", label: "Search by", options: { hybrid: "meaning and words", vector: "meaning only", keyword: "words only" }, fallback: "hybrid", help: "Words find exact names and codes; meaning finds other phrasings." },
  { name: "max_results", label: "Documents", low: 1, high: 20, step: 1, fallback: 5, help: "How many documents an answer may draw on." },
  { name: "budget", label: "Length of the context", low: 0, high: 200000, step: 50, unit: "tokens", help: "How much text is read for an answer, in tokens. More costs more." },
  { name: "threshold", label: "Answer from confidence", low: 0, high: 1, step: 0.05, help: "Below it no answer is given. 0 always answers, 1 never." },
  { name: "graph", label: "Follow links", options: { names: "by shared names", pagerank: "by PageRank", off: "no" }, help: "Documents that are linked or share names with good ones rank higher." },
  { name: "rerank", label: "Second reading", options: { crossencoder: "with the question (slower)", mmr: "for variety", off: "no" }, help: "Reads the best passages again to order them better." },
  { name: "expansion", label: "Other phrasings", options: { off: "no", local: "from the pack", llm: "from the language model" }, help: "Also searches for the question in other words." },
  { name: "fusion", label: "Combine both searches", options: { weighted: "by their scores", rrf: "by their ranks" }, help: "How results by meaning and by words become one list." },
  { name: "policy", label: "Choose passages", options: { coverage: "for coverage", seed: "with limits per document", baseline: "best first" }, help: "How the context is filled: all sides of a question, or simply the best." },
];
const HELD = FIELDS.map((field) => field.name);

/** The settings among the values of an address. */
export const settingsOf = (values) => Object.fromEntries(Object.entries(values).filter(([name]) => HELD.includes(name)));

/** Fields named `prefix-…`; `read()` returns those that differ from the store's defaults. */
export function settingsForm(prefix, { changed = () => {}, fields = HELD } = {}) {
  const controls = new Map();
  let defaults = null;
  const defaultOf = (field) => defaults?.[field.name] ?? field.fallback;

  const rows = FIELDS.filter((field) => fields.includes(field.name)).map((field) => {
    const id = `${prefix}-${field.name}`;
    const shared = { id, "aria-describedby": `${id}-help`, onchange: changed };
    const control = field.options
      ? el("select", shared, Object.entries(field.options).map(([value, text]) => el("option", { value }, text)))
      : el("input", { ...shared, type: "number", min: field.low, max: field.high, step: field.step, inputmode: "decimal" });
    controls.set(field.name, { field, control });
    return el("div", { class: "field", "data-field": field.name },
      el("label", { for: id }, field.label, field.unit ? ` (${field.unit})` : ""), control, el("p", { class: "help", id: `${id}-help` }, field.help));
  });

  const set = (name, value) => {
    const { field, control } = controls.get(name);
    control.value = value ?? defaultOf(field) ?? "";
  };

  return {
    rows,
    set,
    /** Use the defaults of a store, and these values, or those that were chosen before. */
    use(given, values = null) {
      const chosen = values ?? (defaults ? this.read() : {});
      defaults = given;
      for (const name of controls.keys()) set(name, chosen[name]);
    },
    read() {
      const body = {};
      for (const [name, { field, control }] of controls) {
        if (control.value === "" || control.value === String(defaultOf(field))) continue;
        if (field.options) body[name] = control.value;
        else {
          const value = Math.min(field.high, Math.max(field.low, Number(control.value)));
          if (Number.isFinite(value)) body[name] = Number.isInteger(field.step) ? Math.round(value) : value;
        }
      }
      return body;
    },
    value: (name) => controls.get(name).control.value,
    text(name) {
      const { field, control } = controls.get(name);
      return field.options ? field.options[control.value] : control.value;
    },
    label: (name) => controls.get(name).field.label,
    names: [...controls.keys()],
  };
}
