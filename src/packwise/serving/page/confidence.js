// The confidence, and what would have happened at another threshold.

import { clear, el, percent } from "./dom.js";

/** `use(threshold)` asks again with it. */
export function confidence(answer, threshold, use) {
  const sure = answer.confidence;
  const gated = answer.query_type === "confidence_gated_fallback";
  const best = answer.trace.stages.find((stage) => stage.name === "vector")?.best;
  const chance = answer.probability;
  const figures = [
    best ? `The best cosine was ${best.toFixed(2)}.` : null,
    typeof chance === "number" ? `That the answer is in what was found has a probability of ${percent(chance)}.` : null,
  ].filter(Boolean).join(" ");
  const told = el("p", { class: "gate-told", role: "status" });
  const again = el("button", { type: "button", class: "quiet", hidden: true, onclick: () => use(Number(slider.value)) }, "Ask with this threshold");
  const slider = el("input", {
    type: "range", id: "threshold", min: 0, max: 1, step: 0.01, value: threshold, "aria-label": "Confidence threshold",
    oninput: () => tell(Number(slider.value)),
  });
  const gauge = el("div", { class: "gauge" },
    el("div", { class: "gauge-track" }, el("i", { class: "gauge-fill", style: { width: `${sure * 100}%` } })),
    slider);

  function tell(at) {
    const passes = sure >= at;
    gauge.classList.toggle("held", !passes);
    slider.setAttribute("aria-valuetext", `${at.toFixed(2)}: ${passes ? "answered" : "held back"}`);
    const same = at === threshold;
    clear(told, passes
      ? [`At a threshold of ${at.toFixed(2)} the question `, el("strong", {}, same ? "is answered" : "would be answered"), " from the pack."]
      : [`At a threshold of ${at.toFixed(2)} the question `, el("strong", {}, same ? "is held back" : "would be held back"), same ? ": the pack gives no source for it." : ": the pack would give no source for it."]);
    again.hidden = same || passes === !gated;
  }
  tell(threshold);
  return [
    el("div", { class: "confidence" },
      el("p", { class: "figure" }, el("span", { class: "big" }, sure.toFixed(2)), el("span", { class: "soft" }, "confidence")),
      el("div", {}, gauge, el("p", { class: "scale" }, el("span", {}, "0"), el("span", {}, "threshold"), el("span", {}, "1")), told, again,
        figures ? el("p", { class: "soft small" }, figures) : null)),
  ];
}
