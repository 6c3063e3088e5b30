// Elements and numbers. Text from documents is inserted as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";
const MATHML = "http://www.w3.org/1998/Math/MathML";

function fill(node, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") {
      for (const [property, set] of Object.entries(value)) node.style.setProperty(property, set);
    } else if (name === "value") node.value = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** An HTML element: `el("p", {class: "soft"}, "text", child)`. */
export const el = (tag, props, ...children) => fill(document.createElement(tag), props, children);

/** An SVG element. */
export const svg = (tag, props, ...children) => fill(document.createElementNS(SVG, tag), props, children);

/** A MathML element. */
export const math = (tag, props, ...children) => fill(document.createElementNS(MATHML, tag), props, children);

export const clear = (node, ...children) => {
  node.replaceChildren(...children.flat(Infinity).filter(Boolean));
  return node;
};

/** Text for screen readers only. */
export const srOnly = (text) => el("span", { class: "sr-only" }, text);

const whole = new Intl.NumberFormat("en");
export const count = (n) => whole.format(n);
export const plural = (n, one, more = `${one}s`) => `${count(n)} ${n === 1 ? one : more}`;

export function time(ms) {
  if (ms >= 995) return `${(ms / 1000).toFixed(ms >= 9950 ? 0 : 1)} s`;
  if (ms >= 9.95) return `${Math.round(ms)} ms`;
  return `${ms >= 0.05 ? ms.toFixed(1) : "0"} ms`;
}

export const score = (value, digits = 3) =>
  value === null || value === undefined ? "–" : value.toFixed(Math.abs(value) >= 10 ? 1 : digits);

export const percent = (value) => `${(value * 100).toFixed(value < 0.1 ? 1 : 0)}%`;

/** Runs the action once there has been no call for `ms`. */
export function debounce(ms, action) {
  let waiting;
  return (...given) => {
    clearTimeout(waiting);
    waiting = setTimeout(() => action(...given), ms);
  };
}

/** Text by code points, which the server counts; JavaScript counts UTF-16 units. */
export class Characters {
  constructor(text) {
    this.plain = /^[\0-\ud7ff\ue000-\uffff]*$/.test(text);
    this.held = this.plain ? text : Array.from(text);
    this.length = this.held.length;
  }

  slice(start, end) {
    const part = this.held.slice(start, end);
    return this.plain ? part : part.join("");
  }
}
