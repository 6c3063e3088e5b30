// The articles related to an answer as a graph that works with the arrow keys.

import * as api from "./api.js";
import { clear, el, plural, percent, svg } from "./dom.js";
import { labels, layout } from "./force_layout.js";
import { colour, inContext } from "./candidates.js";

const MOST_NAMES = 8;
const MOST_ARTICLES = 22;
const MOST_ADDED = 10;

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

/** The names worth a node of their own: those that are words and not the title of an article. */
function shownNames(nodes) {
  const titles = new Set(nodes.filter((node) => node.kind === "article").map((node) => node.label.toLowerCase()));
  return nodes.filter((node) => node.kind === "name" && cleanName(node.label) && !titles.has(cleanName(node.label).toLowerCase()));
}

/** The most connected nodes; a name is kept only if articles share it. */
function pruned(nodes, edges) {
  const degree = new Map();
  for (const { source, target } of edges) for (const id of [source, target]) degree.set(id, (degree.get(id) ?? 0) + 1);
  const degreeOf = (node) => degree.get(node.id) ?? 0;
  const names = shownNames(nodes).filter((node) => degreeOf(node) > 1).sort((a, b) => degreeOf(b) - degreeOf(a)).slice(0, MOST_NAMES);
  const others = nodes.filter((node) => node.kind === "article" && !node.fixed).sort((a, b) => degreeOf(b) - degreeOf(a) || b.pagerank - a.pagerank);
  const kept = [...nodes.filter((node) => node.fixed), ...others.slice(0, MOST_ARTICLES), ...names];
  return { kept, left: nodes.filter((node) => node.kind === "article").length - kept.filter((node) => node.kind === "article").length };
}

const KINDS = [["cited", "in the answer"], ["article", "document"], ["name", "name"], ["line", "link"], ["thin", "mention"]];

/** What the signs mean. */
function legend(markers, nodes, edges) {
  const shown = {
    cited: nodes.some((node) => markers.has(node.document)) && markers.size > 1, article: true, name: nodes.some((node) => node.kind === "name"),
    line: edges.some((edge) => edge.kind !== "mentions"), thin: edges.some((edge) => edge.kind === "mentions"),
  };
  return el("ul", { class: "legend" }, KINDS.filter(([kind]) => shown[kind]).map(([kind, label]) => el("li", {}, el("i", { class: `sign sign-${kind}` }), label)));
}

/** The graph as elements; `open(document, title)` shows an article. A click on a node adds its own
 * neighbours. */
export function graphView({ nodes: first, edges: between, markers, left: omitted }, store, open) {
  let graph = { nodes: first, edges: between };
  let kept = pruned(graph.nodes, graph.edges);
  let left = omitted + kept.left;
  let nodes = kept.kept;
  let edges = graph.edges;
  if (nodes.length < 2) return [el("p", { class: "soft alone" }, nodes.length ? "No other article links to it or shares a name with it." : "No articles to show.")];
  const expanded = new Set(nodes.filter((node) => node.fixed).map((node) => node.id));
  const frame = el("div", { class: "graph" });
  const status = el("p", { class: "graph-status soft", role: "status" });
  const actions = el("div", { class: "graph-actions" });
  const signs = el("div", {});
  const help = "Larger dots are linked more. Click a dot to see its neighbours; drag to move.";
  const view = { x: 0, y: 0, zoom: 1 };
  let size = { width: 0, height: 0 };
  status.textContent = help;
  const draw = () => {
    const wide = Math.max(260, frame.clientWidth || 700);
    size = { width: wide, height: wide < 420 ? 320 : 440 };
    clear(frame, render(size.width, size.height), tools);
    clear(signs, legend(markers, nodes, edges));
    look();
  };
  function look() {
    const width = size.width / view.zoom;
    const height = size.height / view.zoom;
    frame.querySelector("svg").setAttribute("viewBox", `${view.x + (size.width - width) / 2} ${view.y + (size.height - height) / 2} ${width} ${height}`);
  }
  function zoom(by) {
    view.zoom = by ? Math.min(6, Math.max(0.4, view.zoom * by)) : 1;
    if (!by) view.x = view.y = 0;
    look();
  }
  const control = (label, text, by) => el("button", { type: "button", class: "quiet icon", "aria-label": label, title: label, onclick: () => zoom(by) }, text);
  const tools = el("div", { class: "graph-tools" }, control("Zoom in", "+", 1.4), control("Zoom out", "−", 1 / 1.4), control("Show all", "⤢", 0));
  frame.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoom(event.deltaY < 0 ? 1.15 : 1 / 1.15);
  }, { passive: false });
  let dragged = null;
  frame.addEventListener("pointerdown", (event) => { dragged = { x: event.clientX, y: event.clientY, moved: false }; });
  frame.addEventListener("pointermove", (event) => {
    if (!dragged || !event.buttons) return;
    const [dx, dy] = [event.clientX - dragged.x, event.clientY - dragged.y];
    if (!dragged.moved && Math.abs(dx) + Math.abs(dy) < 6) return;
    Object.assign(dragged, { x: event.clientX, y: event.clientY, moved: true });
    view.x -= dx / view.zoom;
    view.y -= dy / view.zoom;
    look();
  });

  /** Choose a node: what it is, how to open it, and its neighbours. */
  async function choose(node, description) {
    status.textContent = description;
    clear(actions, node.document ? el("button", { type: "button", class: "quiet", onclick: () => open(node.document, node.label) }, `Open ${cut(cleanName(node.label))}`) : null);
    if (expanded.has(node.id)) return;
    expanded.add(node.id);
    try {
      const more = await api.graph(node.document ?? node.label, store, 24);
      const joined = merged([{ ...graph, centre: null }, { ...more, centre: null }]);
      const fixed = new Set(graph.nodes.filter((held) => held.fixed).map((held) => held.id));
      const names = new Set(shownNames(joined.nodes).map((held) => held.id));
      const added = more.nodes.filter((held) => (held.kind === "article" || names.has(held.id)) && !nodes.some((shown) => shown.id === held.id)).slice(0, MOST_ADDED);
      graph = { nodes: joined.nodes.map((held) => ({ ...held, fixed: fixed.has(held.id) })), edges: joined.edges };
      nodes = [...nodes, ...added];
      edges = graph.edges;
      const shown = new Set(nodes.map((held) => held.id));
      edges = edges.filter((edge) => shown.has(edge.source) && shown.has(edge.target));
      draw();
      frame.querySelector(`[data-node="${CSS.escape(node.id)}"]`)?.focus();
      status.textContent = added.length ? `${description}. ${plural(added.length, "neighbour")} added.` : `${description}. It has no other neighbours.`;
    } catch (error) {
      if (!(error instanceof api.ApiError)) throw error;
      expanded.delete(node.id);
      status.textContent = error.message;
    }
  }

  function render(width, height) {
    const most = Math.max(...nodes.map((node) => node.pagerank ?? 0), 1e-9);
    const sized = nodes.map((node) => ({
      ...node, label: cleanName(node.label) || node.label, size: node.kind === "article" ? 4.5 + 9 * Math.sqrt((node.pagerank ?? 0) / most) : 3.2,
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
        : `${node.label}: name, in ${plural(node.passages, "passage")}`;
      const group = svg("g", {
        class: `node ${node.kind} ${marker ? colour(marker) : ""}`, tabindex: "-1", role: "button", "aria-label": node.label, "data-node": node.id,
        onfocus: () => highlight(node.id, description), onblur: () => highlight(null), onmouseenter: () => highlight(node.id, description), onmouseleave: () => highlight(null),
        onclick: () => dragged?.moved || choose(node, description),
        onkeydown: (event) => moveFocus(event, point),
      },
      svg("circle", { class: "halo", cx: point.x, cy: point.y, r: Math.max(20, node.size + 5) }),
      svg("circle", { class: "body", cx: point.x, cy: point.y, r: node.size }),
      svg("text", {
        class: label ? null : "hidden-label", x: label?.x ?? point.x, y: label?.y ?? point.y - node.size - 6, "text-anchor": label?.anchor ?? "middle",
      }, cut(node.label)));
      return { group, point };
    }

    function highlight(id, description) {
      if (description) status.textContent = description;
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
        if (event.key === "Enter" && from.node.document) open(from.node.document, from.node.label);
        else choose(from.node, `${from.node.label}`);
        return;
      }
      if (event.key === "+" || event.key === "-") return zoom(event.key === "+" ? 1.4 : 1 / 1.4);
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

  const named = () => nodes.filter((node) => node.kind === "article");
  let width = 0;
  new ResizeObserver(() => {
    if (frame.clientWidth && Math.abs(frame.clientWidth - width) > 8) {
      width = frame.clientWidth;
      draw();
    }
  }).observe(frame);
  const asList = el("details", { ontoggle: () => clear(listPlace, el("ul", { class: "as-list" }, named().map((node) => el("li", {},
    el("button", { type: "button", class: "link", onclick: () => open(node.document, node.label) }, cleanName(node.label) || node.label))))) },
  el("summary", {}, "As a list"));
  const listPlace = el("div", {});
  asList.append(listPlace);
  return [frame, signs, status, actions, left ? el("p", { class: "soft small" }, `${plural(left, "further article")} not shown.`) : null, asList];
}

/** A name as it is shown: on one line, without quotes around it; "" if it has no letter. */
export function cleanName(name) {
  const text = name.replace(/\s+/g, " ").replace(/^[\s"'“”‘’`*_#>|.,;:()[\]{}-]+|[\s"'“”‘’`*_#>|,;:([{-]+$/g, "");
  return /\p{L}/u.test(text) && text.length < 120 ? text : "";
}

const cut = (text) => (text.length > 26 ? `${text.slice(0, 25)}…` : text);
