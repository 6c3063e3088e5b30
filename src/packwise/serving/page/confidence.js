// The confidence, what it is held against, and what would have happened at another threshold.

import { clear, el, percent } from "./dom.js";

/** `use(threshold)` asks again with it. */
export function confidence(answer, use) {
  const sure = answer.confidence;
  const { calibrated, threshold, refuse_below: surelyNot } = answer.gate;
  const gated = answer.query_type === "confidence_gated_fallback";
  const told = el("p", { class: "gate-told", role: "status" });
  const again = el("button", { type: "button", class: "quiet", hidden: true, onclick: () => use(Number(slider.value)) }, "Ask with this threshold");
  const slider = el("input", {
    type: "range", id: "threshold", min: 0, max: 1, step: 0.01, value: threshold, "aria-label": "Confidence threshold",
    oninput: () => tell(Number(slider.value)),
  });
  const gauge = el("div", { class: "gauge" },
    el("div", { class: "gauge-track" }, el("i", { class: "gauge-fill", style: { width: `${sure * 100}%` } }),
      surelyNot ? el("i", { class: "gauge-tick", style: { left: `${surelyNot * 100}%` } }) : null),
    slider);

  function tell(at) {
    const passes = sure >= at;
    gauge.classList.toggle("held", !passes);
    slider.setAttribute("aria-valuetext", `${at.toFixed(2)}: ${passes ? "answered" : "held back"}`);
    const same = Math.abs(at - threshold) < 0.005;
    const start = `At a threshold of ${(same ? threshold : at).toFixed(2)} the question `;
    clear(told, passes
      ? [start, el("strong", {}, same ? "is answered" : "would be answered"), " from the pack."]
      : [start, el("strong", {}, same ? "is held back" : "would be held back"), same ? ": the pack gives no source for it." : ": the pack would give no source for it."]);
    again.hidden = same || passes === !gated;
  }
  tell(threshold);
  return [
    el("div", { class: "confidence" },
      el("p", { class: "figure" }, el("span", { class: "big" }, sure.toFixed(2)), el("span", { class: "soft" }, calibrated ? "confidence: the chance that the answer is there" : "confidence: how close the best passage is")),
      el("div", {}, gauge, el("p", { class: "scale" }, el("span", {}, "0"), el("span", {}, "threshold"), el("span", {}, "1")), told, again,
        el("ul", { class: "figures-told soft small" }, figures(answer, sure, surelyNot).map((line) => el("li", {}, line))))),
  ];
}

function figures(answer, sure, surelyNot) {
  const { calibrated } = answer.gate;
  const best = answer.trace.stages.find((stage) => stage.name === "vector")?.best;
  const chance = answer.probability;
  const lines = [];
  if (typeof chance === "number" && !calibrated) {
    lines.push(`That the answer is in what was found has a probability of ${percent(chance)}. The gate looks at it once the pack is calibrated (packwise calibrate).`);
  }
  if (surelyNot) {
    lines.push(sure < surelyNot
      ? `Below ${surelyNot.toFixed(2)} the answer is as good as surely not in the pack, by its calibration.`
      : `From ${surelyNot.toFixed(2)} on the answer may be in the pack, by its calibration; below, it is as good as surely not.`);
  }
  if (best) lines.push(`The best cosine was ${best.toFixed(2)}.`);
  return lines;
}
