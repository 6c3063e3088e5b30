// The settings of a question as form fields.

import { el } from "./dom.js";

const FIELDS = [
  { name: "graph", label: "Graph", options: { names: "names", pagerank: "PageRank", off: "off" } },
  { name: "rerank", label: "Reranker", options: { crossencoder: "cross-encoder", mmr: "diversity (MMR)", off: "off" } },
  { name: "fusion", label: "Fusion", options: { weighted: "weighted", rrf: "reciprocal ranks" } },
  { name: "mode", label: "Search", options: { hybrid: "both", vector: "meaning only", keyword: "keywords only" }, fallback: "hybrid" },
  { name: "policy", label: "Packing", options: { coverage: "coverage", seed: "seed", baseline: "baseline" } },
  { name: "expansion", label: "Expansion", options: { off: "off", local: "from the store", llm: "language model" } },
  { name: "budget", label: "Budget", low: 0, high: 200000, step: 50, unit: "tokens" },
  { name: "threshold", label: "Threshold", low: 0, high: 1, step: 0.05 },
  { name: "max_results", label: "Articles", low: 1, high: 20, step: 1, fallback: 5 },
];

/** Fields named `prefix-…`; `read()` returns those that differ from the store's defaults. */
export function settingsForm(prefix, { changed = () => {}, fields = FIELDS.map((field) => field.name) } = {}) {
  const controls = new Map();
  let defaults = null;
  const defaultOf = (field) => defaults?.[field.name] ?? field.fallback;

  const rows = FIELDS.filter((field) => fields.includes(field.name)).map((field) => {
    const id = `${prefix}-${field.name}`;
    const control = field.options
      ? el("select", { id, onchange: changed }, Object.entries(field.options).map(([value, text]) => el("option", { value }, text)))
      : el("input", { id, type: "number", min: field.low, max: field.high, step: field.step, inputmode: "decimal", oninput: changed });
    controls.set(field.name, { field, control });
    return el("div", { class: "field", "data-field": field.name }, el("label", { for: id }, field.label), control);
  });

  const set = (name, value) => {
    const { field, control } = controls.get(name);
    control.value = value ?? defaultOf(field) ?? "";
  };

  return {
    rows,
    set,
    use(given) {
      const before = defaults ? this.read() : {};
      defaults = given;
      for (const name of controls.keys()) set(name, before[name]);
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
