// The articles related to an answer as a graph that works with the arrow keys.

import * as api from "./api.js";
import { clear, el, plural, percent, svg } from "./dom.js";
import { labels, layout } from "./force_layout.js";
import { colour, inContext } from "./candidates.js";

const MOST_NAMES = 8;
const MOST_ARTICLES = 22;

/** The graph of the articles in the context, the cited ones first. */
export async function answerGraph(view, store, signal) {
  const held = inContext(view);
  const markers = new Map();
  for (const passage of [...held].sort((a, b) => Number(Boolean(b.cited)) - Number(Boolean(a.cited)))) {
    if (!markers.has(passage.document)) markers.set(passage.document, passage.marker);
  }
  const centres = [...markers.keys()].slice(0, 3);
  const limit = centres.length > 1 ? 26 : 36;
  const asked = await Promise.allSettled(centres.map((name) => api.graph(name, store, limit, signal)));
  const graphs = asked.filter((one) => one.status === "fulfilled").map((one) => one.value);
  if (!graphs.length && asked.length) throw asked[0].reason;
  return { ...merged(graphs), markers, left: graphs.reduce((sum, graph) => sum + graph.left_out, 0) };
}

export async function articleGraph(name, store, signal) {
  const graph = await api.graph(name, store, 36, signal);
  return { ...merged([graph]), markers: new Map([[name, 1]]), left: graph.left_out };
}

function merged(graphs) {
  const nodes = new Map();
  const edges = new Map();
  for (const graph of graphs) {
    for (const node of graph.nodes) nodes.set(node.id, { ...node, fixed: nodes.get(node.id)?.fixed || node.id === graph.centre });
    for (const edge of graph.edges) edges.set(`${edge.source}\n${edge.target}`, edge);
  }
  return { nodes: [...nodes.values()], edges: [...edges.values()] };
}

/** The most connected nodes; a name is kept only if articles share it. */
function pruned(nodes, edges) {
  const degree = new Map();
  for (const { source, target } of edges) for (const id of [source, target]) degree.set(id, (degree.get(id) ?? 0) + 1);
  const degreeOf = (node) => degree.get(node.id) ?? 0;
  const names = nodes.filter((node) => node.kind === "name" && degreeOf(node) > 1).sort((a, b) => degreeOf(b) - degreeOf(a)).slice(0, MOST_NAMES);
  const others = nodes.filter((node) => node.kind === "article" && !node.fixed).sort((a, b) => degreeOf(b) - degreeOf(a) || b.pagerank - a.pagerank);
  const kept = [...nodes.filter((node) => node.fixed), ...others.slice(0, MOST_ARTICLES), ...names];
  return { kept, left: nodes.filter((node) => node.kind === "article").length - kept.filter((node) => node.kind === "article").length };
}

/** The graph as elements; `open(document, title)` shows an article. */
export function graphView({ nodes: all, edges, markers, left: omitted }, open) {
  const { kept: nodes, left: dropped } = pruned(all, edges);
  const left = omitted + dropped;
  if (nodes.length < 2) return [el("p", { class: "soft alone" }, nodes.length ? "No other article links to it or shares a name with it." : "No articles to show.")];
  const frame = el("div", { class: "graph" });
  const status = el("p", { class: "graph-status soft", role: "status" });
  const help = "Dot size shows PageRank. Coloured articles are in the context; rings are names they share. Use the arrow keys to move and Enter to open.";
  status.textContent = help;
  const draw = () => {
    const wide = Math.max(300, frame.clientWidth || 700);
    clear(frame, render(wide, wide < 560 ? 420 : 440));
  };

  function render(width, height) {
    const most = Math.max(...nodes.map((node) => node.pagerank ?? 0), 1e-9);
    const sized = nodes.map((node) => ({
      ...node, size: node.kind === "article" ? 4.5 + 9 * Math.sqrt((node.pagerank ?? 0) / most) : 3.2,
    }));
    const at = layout(sized, edges, width, height);
    const points = [...at.values()];
    const rank = ({ node }) => (markers.has(node.document) ? 2 : 0) + (node.kind === "article" ? 1 : 0) + node.size / 100;
    const canvas = document.createElement("canvas").getContext("2d");
    canvas.font = "12px sans-serif";
    const shown = labels(points, [...points].sort((a, b) => rank(b) - rank(a)), (text) => canvas.measureText(cut(text)).width, width);
    const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": `Graph of ${plural(nodes.length, "node")} and ${plural(edges.length, "edge")}` });
    root.append(svg("g", { class: "edges" }, edges.map((edge) => {
      const a = at.get(edge.source);
      const b = at.get(edge.target);
      return a && b ? svg("line", { class: edge.kind === "mentions" ? "thin" : null, "data-a": edge.source, "data-b": edge.target, x1: a.x, y1: a.y, x2: b.x, y2: b.y }) : null;
    })));
    const drawnNodes = points.map((point) => drawNode(point, shown.get(point.node.id)));
    root.append(...drawnNodes.map(({ group }) => group));
    const start = drawnNodes.find(({ point }) => point.node.fixed) ?? drawnNodes[0];
    start.group.setAttribute("tabindex", "0");
    return root;

    function drawNode(point, label) {
      const { node } = point;
      const marker = markers.get(node.document);
      const near = edges.filter((edge) => edge.source === node.id || edge.target === node.id).length;
      const description = node.kind === "article"
        ? `${node.label}: article, ${plural(node.passages, "passage")}, PageRank ${percent(node.pagerank)}, ${plural(near, "edge")} here`
        : `${node.label}: a name, in ${plural(node.passages, "passage")}`;
      const group = svg("g", {
        class: `node ${node.kind} ${marker ? colour(marker) : ""}`, tabindex: "-1", role: node.kind === "article" ? "button" : "img", "aria-label": description,
        onfocus: () => highlight(node.id, description), onblur: () => highlight(null, help), onmouseenter: () => highlight(node.id, description), onmouseleave: () => highlight(null, help),
        onclick: () => node.document && open(node.document, node.label),
        onkeydown: (event) => moveFocus(event, point),
      },
      svg("circle", { class: "halo", cx: point.x, cy: point.y, r: Math.max(14, node.size + 5) }),
      svg("circle", { class: "body", cx: point.x, cy: point.y, r: node.size }),
      svg("text", {
        class: label ? null : "hidden-label", x: label?.x ?? point.x, y: label?.y ?? point.y - node.size - 6, "text-anchor": label?.anchor ?? "middle",
      }, cut(node.label)));
      return { group, point };
    }

    function highlight(id, description) {
      status.textContent = description;
      root.classList.toggle("highlighting", id !== null);
      const near = new Set([id]);
      for (const line of root.querySelectorAll("line")) {
        const on = line.dataset.a === id || line.dataset.b === id;
        line.classList.toggle("on", on);
        if (on) near.add(line.dataset.a).add(line.dataset.b);
      }
      for (const { group, point } of drawnNodes) {
        group.classList.toggle("on", near.has(point.node.id));
        group.classList.toggle("self", point.node.id === id);
      }
    }

    function moveFocus(event, from) {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        if (from.node.document) open(from.node.document, from.node.label);
        return;
      }
      const direction = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
      if (!direction) return;
      event.preventDefault();
      let best = null;
      for (const candidate of drawnNodes) {
        const x = candidate.point.x - from.x;
        const y = candidate.point.y - from.y;
        const along = x * direction[0] + y * direction[1];
        const aside = Math.abs(x * direction[1]) + Math.abs(y * direction[0]);
        if (along > 0.5 && (!best || along + 2 * aside < best.cost)) best = { group: candidate.group, cost: along + 2 * aside };
      }
      if (!best) return;
      for (const { group } of drawnNodes) group.setAttribute("tabindex", "-1");
      best.group.setAttribute("tabindex", "0");
      best.group.focus();
    }
  }

  const named = nodes.filter((node) => node.kind === "article");
  let width = 0;
  new ResizeObserver(() => {
    if (frame.clientWidth && Math.abs(frame.clientWidth - width) > 8) {
      width = frame.clientWidth;
      draw();
    }
  }).observe(frame);
  return [
    frame,
    status,
    left ? el("p", { class: "soft small" }, `${plural(left, "further article")} not shown.`) : null,
    el("details", {}, el("summary", {}, `${plural(named.length, "article")} as a list`),
      el("ul", { class: "as-list" }, named.map((node) => el("li", {}, el("button", { type: "button", class: "link", onclick: () => open(node.document, node.label) }, node.label))))),
  ];
}

const cut = (text) => (text.length > 26 ? `${text.slice(0, 25)}…` : text);
