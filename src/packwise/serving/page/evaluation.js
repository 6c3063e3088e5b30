// The evaluation report, if the server has one.

import * as api from "./api.js";
import { clear, count, el, svg, time } from "./dom.js";
import { notice } from "./notice.js";

const FIRST = ["ndcg@10", "recall@2", "recall@5", "recall@10", "recall@100", "mrr@10"];

export function mount(root) {
  const body = el("div", {});
  root.append(el("h1", {}, "Evaluation"), body);

  async function load() {
    clear(body, el("p", { class: "soft" }, "Opening the report…"));
    try {
      const report = await api.report();
      clear(body, content(report));
    } catch (error) {
      if (!(error instanceof api.ApiError)) throw error;
      clear(body, error.code === "no_report" ? instructions() : notice(error, load));
    }
  }
  return { show: load };
}

function instructions() {
  return [
    el("p", {}, "This server has no evaluation report. Run an evaluation and start the server with its result:"),
    el("pre", { class: "command", tabindex: "0", role: "region", "aria-label": "Commands" }, el("code", {}, "packwise eval FOLDER --json > report.json\npackwise serve STORE --report report.json")),
    el("p", { class: "soft" }, "FOLDER contains corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv."),
  ];
}

function content(report) {
  const all = Array.isArray(report) ? report : [report];
  const runs = all.flatMap((entry) => entry?.runs ?? (entry?.metrics ? [entry] : []));
  const differences = all.flatMap((entry) => entry?.differences ?? []);
  if (!runs.length) return el("p", { class: "notice" }, "The report contains no runs. Was it written by packwise eval --json?");
  const sets = Map.groupBy ? Map.groupBy(runs, (run) => run.dataset) : grouped(runs);
  return [[...sets].map(([name, held]) => dataset(name, held)), differences.length ? differenceTable(differences) : null];
}

function grouped(runs) {
  const sets = new Map();
  for (const run of runs) sets.set(run.dataset, [...(sets.get(run.dataset) ?? []), run]);
  return sets;
}

function dataset(name, runs) {
  const given = new Set(runs.flatMap((run) => Object.keys(run.metrics)));
  const metrics = [...FIRST.filter((metric) => given.has(metric)), ...[...given].filter((metric) => !FIRST.includes(metric)).sort()];
  const best = (metric) => Math.max(...runs.map((run) => run.metrics[metric] ?? -Infinity));
  return el("section", { class: "part" },
    el("h2", {}, name, " ", el("span", { class: "soft" }, `${count(runs[0].queries)} questions`)),
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Figures of ${name}` }, el("table", { class: "figures" },
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "variant"), metrics.map((metric) => el("th", { scope: "col", class: "num" }, metric)), el("th", { scope: "col", class: "num" }, "p50"), el("th", { scope: "col", class: "num" }, "p95"))),
      el("tbody", {}, runs.map((run) => el("tr", {},
        el("th", { scope: "row" }, run.variant),
        metrics.map((metric) => figure(run.metrics[metric], runs.length > 1 && run.metrics[metric] === best(metric))),
        el("td", { class: "num" }, time(run.latency_ms.p50)), el("td", { class: "num" }, time(run.latency_ms.p95))))))));
}

function figure(value, best) {
  if (value === undefined) return el("td", { class: "num" }, "–");
  const share = Math.min(1, Math.max(0, value));
  return el("td", { class: `num figure-cell${best ? " best" : ""}` }, value.toFixed(3), el("span", { class: "under" }, el("i", { style: { width: `${share * 100}%` } })));
}

function differenceTable(differences) {
  const limit = Math.max(0.02, ...differences.flatMap((entry) => entry.interval.map(Math.abs)));
  const x = (value) => 100 + (value / limit) * 94;
  return el("section", { class: "part" },
    el("h2", {}, "Paired differences"),
    el("p", { class: "soft" }, "The mean with its 95% interval. A difference is called reliable if p is below 0.05 and the interval excludes zero; otherwise it may be chance."),
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Paired differences" }, el("table", { class: "figures" },
      el("thead", {}, el("tr", {}, [["variants"], ["metric"], ["difference", "num"], ["interval"], ["p", "num"], ["verdict"], ["wins / ties / losses", "num"]].map(([name, kind]) => el("th", { scope: "col", class: kind }, name)))),
      el("tbody", {}, differences.map((entry) => {
        const [low, high] = entry.interval;
        const significant = (low > 0 || high < 0) && entry.p_value < 0.05;
        const sign = (value) => `${value >= 0 ? "+" : "−"}${Math.abs(value).toFixed(3)}`;
        return el("tr", { class: significant ? "significant" : null },
          el("th", { scope: "row" }, `${entry.a} − ${entry.b}`), el("td", {}, entry.metric),
          el("td", { class: "num" }, `${sign(entry.difference)} [${sign(low)}, ${sign(high)}]`),
          el("td", {}, svg("svg", { viewBox: "0 0 200 16", width: 200, height: 16, class: "interval", "aria-hidden": "true" },
            svg("line", { class: "zero", x1: 100, x2: 100, y1: 0, y2: 16 }), svg("line", { class: "range", x1: x(low), x2: x(high), y1: 8, y2: 8 }), svg("circle", { cx: x(entry.difference), cy: 8, r: 3.5 }))),
          el("td", { class: "num" }, entry.p_value < 0.001 ? "< 0.001" : entry.p_value.toFixed(3)),
          el("td", {}, significant ? "reliable" : "may be chance"),
          el("td", { class: "num" }, `${entry.wins} / ${entry.ties} / ${entry.losses}`));
      })))));
}
