// The confidence, its threshold, and what would have happened at another one.

import { clear, el } from "./dom.js";

/** `use(threshold)` asks again with it. */
export function confidence(answer, use) {
  const value = answer.confidence;
  const { calibrated, threshold, refuse_below: refuseBelow } = answer.gate;
  const gated = answer.query_type === "confidence_gated_fallback";
  const status = el("p", { class: "gate-status", role: "status" });
  const again = el("button", { type: "button", class: "quiet", hidden: true, onclick: () => use(Number(slider.value)) }, "Ask with this threshold");
  const slider = el("input", {
    type: "range", id: "threshold", min: 0, max: 1, step: 0.01, value: threshold, "aria-label": "Confidence threshold",
    oninput: () => update(Number(slider.value)),
  });
  const gauge = el("div", { class: "gauge" },
    el("div", { class: "gauge-track" }, el("i", { class: "gauge-fill", style: { width: `${value * 100}%` } }),
      refuseBelow ? el("i", { class: "gauge-tick", style: { left: `${refuseBelow * 100}%` } }) : null),
    slider);

  function update(at) {
    const passes = value >= at;
    gauge.classList.toggle("held", !passes);
    slider.setAttribute("aria-valuetext", `${at.toFixed(2)}: ${passes ? "answered" : "held back"}`);
    const same = Math.abs(at - threshold) < 0.005;
    const start = `At a threshold of ${(same ? threshold : at).toFixed(2)} the question `;
    clear(status, passes
      ? [start, el("strong", {}, same ? "is answered" : "would be answered"), " from the pack."]
      : [start, el("strong", {}, same ? "is held back" : "would be held back"), same ? ": no source is shown for it." : ": no source would be shown for it."]);
    again.hidden = same || passes === !gated;
  }
  update(threshold);
  return [
    el("div", { class: "confidence" },
      el("p", { class: "figure" }, el("span", { class: "big" }, value.toFixed(2)), el("span", { class: "soft" }, calibrated ? "search confidence: the probability that the answer was found" : "search confidence: the similarity of the best passage")),
      el("div", {}, gauge, el("p", { class: "scale" }, el("span", {}, "0"), el("span", {}, "threshold"), el("span", {}, "1")), status, again,
        el("ul", { class: "figure-notes soft small" }, figures(answer, value, refuseBelow).map((line) => el("li", {}, line))))),
  ];
}

function figures(answer, value, refuseBelow) {
  const lines = [];
  if (refuseBelow) {
    lines.push(value < refuseBelow
      ? `According to the calibration, the answer is almost certainly not in the pack below ${refuseBelow.toFixed(2)}.`
      : `According to the calibration, the answer may be in the pack from ${refuseBelow.toFixed(2)} on; below that, almost certainly not.`);
  }
  return lines;
}
