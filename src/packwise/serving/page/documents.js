// The documents of a pack: a list, a reader with what is beside a document, and changes to the pack.

import * as api from "./api.js";
import { articleGraph, cleanName, graphView } from "./neighbourhood.js";
import { Characters, clear, count, el, plural, percent, debounce } from "./dom.js";
import { safeLink, webLink } from "./markdown.js";
import { notice } from "./notice.js";
import { reading, sections } from "./reading.js";
import { packTools } from "./pack_tools.js";

const PAGE = 50;

export function mount(root, page) {
  const filter = el("input", { type: "search", id: "browse-search", placeholder: "Find a document", "aria-label": "Find a document", autocomplete: "off", oninput: debounce(150, () => list(0)) });
  const status = el("p", { class: "soft small", role: "status" });
  const listed = el("ol", { class: "articles" });
  const more = el("button", { type: "button", class: "quiet", hidden: true, onclick: () => list(listed.children.length) }, "Show more");
  const reader = el("article", { class: "article", tabindex: "-1" });
  const frame = el("div", { class: "browser" }, el("div", { class: "index" }, filter, status, listed, more), reader);
  const title = el("h1", {});
  const tools = el("div", { class: "pack-tools" });
  root.append(title, tools, frame);
  let listing = null;
  let opening = null;
  let open = null;
  let toolsOf = null;

  async function list(offset) {
    listing?.abort();
    listing = new AbortController();
    try {
      const found = await api.articles({ store: page.store.name, q: filter.value.trim(), offset, limit: PAGE }, listing.signal);
      if (!offset) clear(listed);
      listed.append(...found.articles.map((entry) => row(entry)));
      status.textContent = `${plural(found.total, "document")}, most linked first`;
      more.hidden = offset + found.articles.length >= found.total;
      current();
    } catch (error) {
      if (error.name === "AbortError") return;
      if (!(error instanceof api.ApiError)) throw error;
      clear(listed, el("li", {}, notice(error, () => list(offset))));
    }
  }

  const address = (name) => page.address("documents", { store: page.store.name, article: name });

  function row(entry) {
    return el("li", {}, el("a", { href: address(entry.id), "data-article": entry.id },
      el("span", { class: "article-title" }, entry.title || entry.id),
      el("span", { class: "soft small path" }, entry.id)));
  }

  function current() {
    for (const link of listed.querySelectorAll("a")) {
      if (link.dataset.article === open) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  }

  async function read(name, focus) {
    opening?.abort();
    opening = new AbortController();
    const { signal } = opening;
    open = name;
    current();
    clear(reader, el("p", { class: "soft" }, "Opening…"));
    try {
      const article = await api.article(name, page.store.name);
      if (signal.aborted) return;
      const graphPlace = el("div", { class: "placeholder placeholder-small-graph" });
      clear(reader, content(article, graphPlace));
      if (focus) reader.focus({ preventScroll: true });
      if (reader.getBoundingClientRect().top < 0) reader.scrollIntoView();
      frame.classList.add("opened");
      page.announce(`${article.title} is open.`);
      const graph = await articleGraph(article.id, page.store.name, signal);
      clear(graphPlace, graphView(graph, page.store.name, (document) => { location.hash = address(document).slice(1); }));
    } catch (error) {
      if (error.name === "AbortError") return;
      if (!(error instanceof api.ApiError)) throw error;
      clear(reader, notice(error, () => read(name, focus)));
    }
  }

  function content(article, graphPlace) {
    const parts = sections(article, new Characters(article.text)).filter((section) => section.heading);
    const metadata = Object.entries(article.metadata).filter(([, value]) => typeof value !== "object").slice(0, 6);
    const box = (name, ...inner) => el("section", { class: "side-part" }, el("h3", {}, name), inner);
    return [
      el("a", { class: "back", href: page.address("documents", { store: page.store.name }) }, "← All documents"),
      el("h2", {}, article.title || article.id),
      el("p", { class: "soft small path" }, article.id, safeLink(article.url) ? [" · ", webLink(article.url, "original page")] : null),
      el("div", { class: "article-columns" },
        el("div", { class: "article-text" }, reading(article, { address })),
        el("aside", { class: "article-side", "aria-label": "About this document" },
          parts.length > 1 ? el("nav", { class: "toc side-part", "aria-label": "Sections" }, el("h3", {}, "Sections"), el("ol", {}, parts.map((section) =>
            el("li", { style: { "padding-left": `${Math.max(0, section.level - 2)}rem` } }, el("button", { type: "button", class: "link", onclick: () => jump(section.id) }, section.heading))))) : null,
          article.links.length ? box("Links to", el("ul", { class: "plain" }, article.links.map((link) => el("li", {}, el("a", { href: address(link.id) }, link.title))))) : null,
          article.names.length ? box("Names in this document", el("ul", { class: "tags" }, article.names.map(cleanName).filter(Boolean).slice(0, 16).map((name) => el("li", {}, name)))) : null,
          box("Related documents", graphPlace),
          article.facts.length ? el("details", { class: "side-part" }, el("summary", {}, plural(article.facts.length, "fact")), el("ul", { class: "fact-list" }, article.facts.slice(0, 8).map((fact) => el("li", {}, fact)))) : null,
          el("details", { class: "side-part" }, el("summary", {}, "Figures"), el("dl", { class: "facts" },
            [["PageRank", percent(article.pagerank)], ["passages", count(article.passages.length)], ["language", article.lang || "not known"], ...metadata.map(([name, value]) => [name, String(value)])]
              .map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))))))),
    ];
  }

  function jump(id) {
    const heading = reader.querySelector(`[id="${id}"]`);
    heading.setAttribute("tabindex", "-1");
    heading.focus({ preventScroll: true });
    heading.scrollIntoView({ block: "start" });
  }

  return {
    show({ article }) {
      if (!page.store) {
        title.textContent = "Documents";
        clear(tools, packTools(page));
        toolsOf = null;
        frame.hidden = true;
        return;
      }
      frame.hidden = false;
      frame.classList.toggle("opened", Boolean(article));
      root.classList.toggle("reading-one", Boolean(article));
      if (article && article !== open) read(article, true);
      else if (!article) {
        open = null;
        current();
        clear(reader, el("p", { class: "soft none-open" }, "Choose a document to read it."));
      }
    },
    store(store) {
      title.textContent = `Documents of ${store.name}`;
      filter.value = "";
      open = null;
      clear(reader);
      // What was just said about a change of the same pack stays.
      if (toolsOf !== store.name) clear(tools, packTools(page));
      toolsOf = store.name;
      list(0);
    },
    take: (files) => tools.firstElementChild?.take?.(files),
  };
}
