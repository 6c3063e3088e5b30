// The panel beside the answer: a passage within its document. On a narrow screen it covers the page.

import * as api from "./api.js";
import { clear, el, score } from "./dom.js";
import { colour, sectionText, whereIn } from "./candidates.js";
import { REASONS, SCORES } from "./labels.js";
import { safeLink, webLink } from "./markdown.js";
import { reading } from "./reading.js";

const dialog = document.getElementById("panel");
const WIDE = matchMedia("(min-width: 68rem)");
let opener = null;

dialog.addEventListener("click", (event) => {
  if (event.target === dialog) dialog.close();
});
dialog.addEventListener("close", () => {
  document.body.classList.remove("beside");
  if (opener?.isConnected) opener.focus({ preventScroll: true });
  opener = null;
});
addEventListener("keydown", (event) => {
  if (event.key === "Escape" && dialog.open) dialog.close();
});
addEventListener("hashchange", () => dialog.close());
WIDE.addEventListener("change", () => dialog.close());

function show(title, about, ...content) {
  if (!dialog.contains(document.activeElement)) opener = document.activeElement;
  const close = el("button", { class: "quiet icon", type: "button", "aria-label": "Close", onclick: () => dialog.close() }, "✕");
  clear(dialog, el("div", { class: "panel-head" }, el("div", {}, el("h2", { id: "panel-title" }, title), about), close), content);
  if (!dialog.open) {
    document.body.classList.toggle("beside", WIDE.matches);
    if (WIDE.matches) dialog.show();
    else dialog.showModal();
  }
  dialog.scrollTop = 0;
  close.focus({ preventScroll: true });
}

const address = (store) => (document) => `#/documents?${new URLSearchParams({ store, article: document })}`;

/** A passage: `{ids, document, title, section, marker, reason, scores, url, quote, evidence}`. */
export async function openPassage(passage, store) {
  const ids = passage.ids ?? [passage.id];
  const body = el("div", { class: "panel-body" }, el("p", { class: "soft" }, "Opening the document…"));
  show([passage.marker ? el("span", { class: `chip ${colour(passage.marker)}` }, passage.marker) : null, passage.title],
    el("p", { class: "soft small" }, whereIn(sectionText(passage.section ?? []) || (passage.place ? "" : passage.document), [passage.place, passage.part].filter(Boolean).join(" · ")), " · ",
      el("a", { href: address(store)(passage.document) }, "Whole document")),
    reasonAndScores(passage), body);
  await fill(body, passage.document, store, { ids, quote: passage.quote, evidence: passage.evidence });
}

/** A whole document, for the graph's nodes. */
export async function openArticle(document, title, store) {
  const body = el("div", { class: "panel-body" }, el("p", { class: "soft" }, "Opening the document…"));
  show(title, el("p", { class: "soft small" }, el("a", { href: address(store)(document) }, "Whole document")), body);
  await fill(body, document, store, {});
}

async function fill(body, document, store, marks) {
  try {
    const article = await api.article(document, store);
    clear(body, reading(article, { ...marks, address: address(store), prefix: "panel" }));
    (body.querySelector("mark.exact") ?? body.querySelector("mark.quoted") ?? body.querySelector("mark"))?.scrollIntoView({ block: "center" });
  } catch (error) {
    if (!(error instanceof api.ApiError)) throw error;
    clear(body, el("p", { class: "notice", role: "alert" }, error.message));
  }
}

function reasonAndScores(passage) {
  const parts = [];
  if (passage.reason) {
    const [short, long] = REASONS[passage.reason] ?? [passage.reason, ""];
    parts.push(el("p", {}, el("span", { class: "reason" }, short), " ", long, passage.of ? el("span", { class: "soft" }, ` (${passage.of})`) : null));
  }
  const named = Object.entries(passage.scores ?? {}).filter(([, value]) => value !== null);
  if (named.length) {
    parts.push(el("dl", { class: "inline-scores" }, named.map(([name, value]) =>
      el("div", { title: SCORES[name] ?? "" }, el("dt", {}, name), el("dd", {}, score(value))))));
  }
  const link = safeLink(passage.url);
  if (link) parts.push(el("p", {}, webLink(link, "Original page")));
  return parts.length ? el("div", { class: "panel-why" }, parts) : null;
}
