// The rank of each candidate after each stage, as a bump chart with one row per passage.

import { clear, el, score, svg, srOnly } from "./dom.js";
import { colour, fullName, inFinalOrder, nameParts } from "./candidates.js";
import { COLUMNS, REASONS, SCORES } from "./labels.js";

const ROW = 40;
const HEAD = 30;
const SHOWN = 10;

/** The chart of the candidates; `open(passage)` shows a passage. */
export function rankChart(view, open) {
  const all = inFinalOrder(view);
  const chart = el("div", { class: "rank-chart" });
  const card = el("div", { class: "score-card", "aria-live": "polite" });
  const more = el("button", { type: "button", class: "quiet" });
  let showAll = all.length <= SHOWN + 2;
  let chosen = all[0];

  const choose = (passage) => {
    chosen = passage;
    for (const node of chart.querySelectorAll("[data-id]")) node.classList.toggle("on", node.dataset.id === passage.id);
    for (const row of chart.querySelectorAll("button[data-id]")) row.setAttribute("aria-pressed", String(row.dataset.id === passage.id));
    clear(card, scores(passage, open));
  };
  const show = () => {
    const rows = showAll ? all : all.slice(0, SHOWN);
    clear(chart, draw(rows, view.columns, choose, open), el("ol", { class: "rank-rows" }, rows.map((passage) => row(passage, view.columns, choose, open))));
    more.textContent = showAll ? `Show the first ${SHOWN}` : `Show all ${all.length}`;
    choose(rows.includes(chosen) ? chosen : rows[0]);
  };
  more.addEventListener("click", () => {
    showAll = !showAll;
    show();
  });
  if (!all.length) return [el("p", { class: "soft" }, "Nothing was found.")];
  show();
  return [
    el("p", { class: "lead" }, `${all.length} candidates, with the rank of each after every step. `,
      view.gated ? (view.answer.gate.calibrated ? "It is too unlikely that they contain the answer." : "None is similar enough to the question.") : "Coloured ones are in the context, grey ones were left out."),
    el("div", { class: "rank-frame" }, chart, card),
    all.length > SHOWN + 2 ? more : null,
    table(all, view),
  ];
}

/** The rank of each row among the rows in a column. */
function ranksIn(rows, column) {
  const scored = rows.filter((passage) => passage.ranks[column]).sort((a, b) => a.ranks[column] - b.ranks[column]);
  return new Map(scored.map((passage, index) => [passage.id, index + 1]));
}

function draw(rows, columns, choose) {
  const width = Math.max(2, columns.length) * 100;
  const height = HEAD + rows.length * ROW;
  const x = (index) => (columns.length === 1 ? width : 26 + (index * (width - 52)) / (columns.length - 1));
  const y = (place) => HEAD + (place - 0.5) * ROW;
  const placed = new Map(columns.map((column) => [column, ranksIn(rows, column)]));
  const lines = [...rows].reverse().sort((a, b) => Number(a.marker !== null) - Number(b.marker !== null));
  const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", class: "bump", "aria-hidden": "true", height });
  columns.forEach((column, index) => root.append(svg("line", { class: "axis", x1: x(index), x2: x(index), y1: HEAD, y2: height - 8 })));
  for (const passage of lines) {
    const points = columns.map((column, index) => [x(index), placed.get(column).get(passage.id)]).filter(([, place]) => place).map(([at, place]) => [at, y(place)]);
    let path = `M${points[0]}`;
    for (let i = 1; i < points.length; i++) {
      const middle = (points[i - 1][0] + points[i][0]) / 2;
      path += `C${middle},${points[i - 1][1]} ${middle},${points[i][1]} ${points[i]}`;
    }
    root.append(svg("g", { class: `line ${colour(passage.marker)}`, "data-id": passage.id, onclick: () => choose(passage), onmouseenter: () => choose(passage) },
      svg("path", { class: "hit-area", d: path }), svg("path", { class: "stroke", d: path, "vector-effect": "non-scaling-stroke" })));
  }
  const dots = el("div", { class: "dots", "aria-hidden": "true" });
  const share = (at) => `${(at / width) * 100}%`;
  columns.forEach((column, index) => {
    dots.append(el("span", { class: `axis-name${index % 2 ? " high" : ""}`, style: { left: share(x(index)) } }, COLUMNS[column]));
    for (const passage of lines) {
      const place = placed.get(column).get(passage.id);
      if (!place) continue;
      dots.append(el("span", { class: `dot ${colour(passage.marker)}`, "data-id": passage.id, style: { left: share(x(index)), top: `${y(place)}px` } }));
    }
  });
  return el("div", { class: "bump-frame", style: { height: `${height}px` } }, root, dots);
}

function row(passage, columns, choose, open) {
  const ranks = columns.map((column) => `${COLUMNS[column]} ${passage.ranks[column] ?? "not scored"}`).join(", ");
  return el("li", {},
    el("button", {
      type: "button", class: "rank-row", "data-id": passage.id, "aria-pressed": "false",
      onfocus: () => choose(passage), onmouseenter: () => choose(passage), onclick: () => choose(passage), ondblclick: () => open(passage),
    },
    el("span", { class: `chip ${colour(passage.marker)}` }, passage.marker ?? "·"),
    el("span", { class: "rank-name" }, nameParts(passage)),
    el("span", { class: "rank-score" }, score(passage.scores.final)),
    srOnly(`. Ranks: ${ranks}. ${passage.marker === null ? `Left out: ${REASONS[passage.reason]?.[0]}` : `In the context as source ${passage.marker}`}.`)));
}

function scores(passage, open) {
  const named = Object.entries(passage.scores);
  return [
    el("p", { class: "card-name" }, nameParts(passage)),
    el("dl", { class: "scores" }, named.map(([name, value]) => {
      const bar = name !== "bm25" && value !== null && value >= 0 && value <= 1;
      return el("div", { title: SCORES[name] ?? "", class: value === null ? "absent" : null },
        el("dt", {}, name),
        el("dd", {}, el("span", { class: "meter" }, bar ? el("i", { style: { width: `${value * 100}%` } }) : null), score(value)));
    })),
    el("p", { class: "card-status" }, passage.marker === null
      ? [el("span", { class: "reason" }, REASONS[passage.reason]?.[0] ?? passage.reason), " ", REASONS[passage.reason]?.[1] ?? ""]
      : ["In the context as source ", el("span", { class: `chip ${colour(passage.marker)}` }, passage.marker)]),
    el("button", { type: "button", class: "quiet", onclick: () => open(passage) }, "Read the passage"),
  ];
}

function table(all, view) {
  const names = Object.keys(SCORES).filter((name) => all.some((passage) => passage.scores[name] !== null && passage.scores[name] !== undefined));
  return el("details", { class: "as-table" },
    el("summary", {}, "All scores as a table"),
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "All scores" }, el("table", {},
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "passage"), view.columns.map((column) => el("th", { scope: "col", class: "num" }, COLUMNS[column])),
        names.map((name) => el("th", { scope: "col", class: "num", title: SCORES[name] }, name)))),
      el("tbody", {}, all.map((passage) => el("tr", {},
        el("th", { scope: "row" }, fullName(passage)),
        view.columns.map((column) => el("td", { class: "num" }, passage.ranks[column] ?? "–")),
        names.map((name) => el("td", { class: "num" }, score(passage.scores[name])))))))));
}
