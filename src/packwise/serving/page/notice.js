// One-line error messages.

import { el } from "./dom.js";

/** A line for an `ApiError`, with a button to try again. */
export function notice(error, again) {
  return el("div", { class: "notice", role: "alert" },
    el("p", {}, el("strong", {}, error.message), error.fix ? ` ${error.fix}` : null),
    again ? el("button", { type: "button", class: "quiet", onclick: again }, "Try again") : null);
}
