// The stages in a row, each with its time.

import { el, time } from "./dom.js";
import { STAGES, stageNote } from "./labels.js";

export function stageRow(stages) {
  const total = stages.reduce((sum, stage) => sum + stage.ms, 0);
  const longest = Math.max(...stages.map((stage) => stage.ms), 0.001);
  return [
    el("p", { class: "lead" }, `${stages.length} steps, ${time(total)} in all.`),
    el("ol", { class: "stages" }, stages.map((stage) => {
      const [name, meaning] = STAGES[stage.name] ?? [stage.name.replaceAll("_", " "), ""];
      return el("li", { title: meaning, class: stage.ms === longest ? "longest" : null },
        el("span", { class: "stage-name" }, name),
        el("span", { class: "stage-time" }, time(stage.ms)),
        el("span", { class: "stage-bar" }, el("i", { style: { width: `${Math.max(1.5, (stage.ms / longest) * 100)}%` } })),
        el("span", { class: "stage-note" }, stageNote(stage)));
    })),
  ];
}
