// Formulas in the notation of LaTeX as MathML, which browsers draw themselves.

import { math } from "./dom.js";

const DEEPEST = 24;
const SYMBOLS = {
  alpha: "α", beta: "β", gamma: "γ", delta: "δ", epsilon: "ε", varepsilon: "ε", zeta: "ζ", eta: "η", theta: "θ", vartheta: "ϑ", iota: "ι", kappa: "κ",
  lambda: "λ", mu: "μ", nu: "ν", xi: "ξ", pi: "π", rho: "ρ", sigma: "σ", tau: "τ", upsilon: "υ", phi: "φ", varphi: "φ", chi: "χ", psi: "ψ", omega: "ω",
  Gamma: "Γ", Delta: "Δ", Theta: "Θ", Lambda: "Λ", Xi: "Ξ", Pi: "Π", Sigma: "Σ", Phi: "Φ", Psi: "Ψ", Omega: "Ω", infty: "∞", partial: "∂", nabla: "∇",
  emptyset: "∅", ell: "ℓ", hbar: "ℏ", Re: "ℜ", Im: "ℑ", aleph: "ℵ", degree: "°", ldots: "…", dots: "…", cdots: "⋯", vdots: "⋮", prime: "′",
};
const OPERATORS = {
  cdot: "⋅", times: "×", div: "÷", pm: "±", mp: "∓", le: "≤", leq: "≤", ge: "≥", geq: "≥", ne: "≠", neq: "≠", approx: "≈", equiv: "≡", sim: "∼", simeq: "≃",
  propto: "∝", to: "→", rightarrow: "→", leftarrow: "←", Rightarrow: "⇒", Leftarrow: "⇐", Leftrightarrow: "⇔", mapsto: "↦", implies: "⇒", iff: "⇔",
  in: "∈", notin: "∉", subset: "⊂", subseteq: "⊆", supset: "⊃", cup: "∪", cap: "∩", setminus: "∖", forall: "∀", exists: "∃", neg: "¬", land: "∧", lor: "∨",
  wedge: "∧", vee: "∨", oplus: "⊕", otimes: "⊗", mid: "∣", parallel: "∥", perp: "⊥", angle: "∠", ll: "≪", gg: "≫", ast: "∗", star: "⋆", circ: "∘", bullet: "∙",
  langle: "⟨", rangle: "⟩", lfloor: "⌊", rfloor: "⌋", lceil: "⌈", rceil: "⌉", lvert: "|", rvert: "|", lVert: "‖", rVert: "‖", colon: ":",
};
const LARGE = { sum: "∑", prod: "∏", int: "∫", iint: "∬", oint: "∮", bigcup: "⋃", bigcap: "⋂" };
const FUNCTIONS = new Set("sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh log ln lg exp min max sup inf lim arg det dim gcd deg ker Pr".split(" "));
const ACCENTS = { hat: "^", bar: "¯", overline: "¯", vec: "→", tilde: "~", dot: "˙", ddot: "¨", underline: "_" };
const SPACES = { ",": ".17em", ":": ".22em", ";": ".28em", "!": "0", " ": ".25em", quad: "1em", qquad: "2em" };
const TEXT = new Set(["text", "mathrm", "mathbf", "mathit", "mathsf", "operatorname", "textbf", "textit", "mathcal", "mathbb"]);
const FENCES = { matrix: ["", ""], pmatrix: ["(", ")"], bmatrix: ["[", "]"], vmatrix: ["|", "|"], cases: ["{", ""], aligned: ["", ""], align: ["", ""] };

/** The formula as an element; `block` puts it on a line of its own. */
export function formula(source, block) {
  const tokens = source.match(/\\[A-Za-z]+\*?|\\.|\d+(?:\.\d+)?|[^\s]|\s+/gu) ?? [];
  const reader = { tokens, at: 0, depth: 0 };
  const root = math("math", { display: block ? "block" : "inline" }, math("mrow", {}, row(reader, () => false)));
  root.setAttribute("aria-label", source.trim());
  return root;
}

const peek = (reader) => {
  while (/^\s+$/.test(reader.tokens[reader.at] ?? "")) reader.at += 1;
  return reader.tokens[reader.at];
};

/** The elements up to the token that `ends` names, which is not read. */
function row(reader, ends) {
  const found = [];
  for (let token = peek(reader); token !== undefined && !ends(token); token = peek(reader)) {
    if (token === "}") {
      reader.at += 1;
      continue;
    }
    found.push(scripted(reader));
  }
  return found;
}

/** One element with what stands above and below it. */
function scripted(reader) {
  const base = single(reader);
  let below = null;
  let above = null;
  for (let token = peek(reader); token === "_" || token === "^" || token === "'"; token = peek(reader)) {
    reader.at += 1;
    if (token === "_") below ??= single(reader);
    else above = token === "'" ? math("mo", {}, "′") : single(reader);
  }
  const limits = base.localName === "mo" && Object.values(LARGE).includes(base.textContent);
  if (below && above) return math(limits ? "munderover" : "msubsup", {}, base, below, above);
  if (below) return math(limits || base.textContent === "lim" ? "munder" : "msub", {}, base, below);
  return above ? math(limits ? "mover" : "msup", {}, base, above) : base;
}

function single(reader) {
  const token = peek(reader);
  if (token === undefined) return math("mrow", {});
  reader.at += 1;
  if (reader.depth > DEEPEST) return math("mtext", {}, token);
  reader.depth += 1;
  try {
    if (token === "{") return group(reader);
    if (token.startsWith("\\") && token.length > 1) return command(reader, token.slice(1));
    if (/^\d/.test(token)) return math("mn", {}, token);
    if (/^\p{L}$/u.test(token)) return math("mi", {}, token);
    return math("mo", {}, token === "-" ? "−" : token);
  } finally {
    reader.depth -= 1;
  }
}

function group(reader) {
  const inner = row(reader, (token) => token === "}");
  reader.at += 1;
  return math("mrow", {}, inner);
}

/** The raw text of a group, for words within a formula. */
function rawGroup(reader) {
  if (peek(reader) !== "{") return reader.tokens[reader.at++] ?? "";
  let text = "";
  let open = 0;
  for (; reader.at < reader.tokens.length; reader.at += 1) {
    const token = reader.tokens[reader.at];
    if (token === "{") open += 1;
    else if (token === "}" && --open === 0) break;
    else text += token;
  }
  reader.at += 1;
  return text;
}

function command(reader, name) {
  if (name === "frac" || name === "dfrac" || name === "tfrac") return math("mfrac", {}, single(reader), single(reader));
  if (name === "binom") return math("mrow", {}, math("mo", {}, "("), math("mfrac", { linethickness: "0" }, single(reader), single(reader)), math("mo", {}, ")"));
  if (name === "sqrt") {
    if (peek(reader) !== "[") return math("msqrt", {}, single(reader));
    reader.at += 1;
    const index = math("mrow", {}, row(reader, (token) => token === "]"));
    reader.at += 1;
    return math("mroot", {}, single(reader), index);
  }
  if (TEXT.has(name)) return math(name === "text" ? "mtext" : "mi", {}, rawGroup(reader));
  if (name === "left" || name === "right" || /^[bB]igg?[lr]?$/.test(name)) {
    const fence = reader.tokens[reader.at++] ?? "";
    return math("mo", { stretchy: "true" }, fence === "." ? "" : OPERATORS[fence.slice(1)] ?? fence.replace(/^\\/, ""));
  }
  if (name === "begin") return table(reader, rawGroup(reader).replace("*", ""));
  if (name === "end") return math("mrow", {}, (rawGroup(reader), []));
  if (name in ACCENTS) return math(name === "underline" ? "munder" : "mover", { accent: "true" }, single(reader), math("mo", {}, ACCENTS[name]));
  if (name in SPACES) return math("mspace", { width: SPACES[name] });
  if (name in SYMBOLS) return math("mi", {}, SYMBOLS[name]);
  if (name in OPERATORS) return math("mo", {}, OPERATORS[name]);
  if (name in LARGE) return math("mo", {}, LARGE[name]);
  if (FUNCTIONS.has(name)) return math("mi", {}, name);
  if (/^[A-Za-z]/.test(name)) return math("mtext", {}, `\\${name}`);
  return math("mo", {}, name);
}

function table(reader, kind) {
  const rows = [[]];
  const ends = (token) => token === "&" || token === "\\\\" || token === "\\end";
  for (;;) {
    rows.at(-1).push(math("mtd", {}, row(reader, ends)));
    const token = reader.tokens[reader.at];
    reader.at += 1;
    if (token === "\\\\") rows.push([]);
    else if (token !== "&") break;
  }
  rawGroup(reader);
  const [open, close] = FENCES[kind] ?? ["", ""];
  return math("mrow", {}, open ? math("mo", { stretchy: "true" }, open) : null,
    math("mtable", {}, rows.map((cells) => math("mtr", {}, cells))), close ? math("mo", { stretchy: "true" }, close) : null);
}
