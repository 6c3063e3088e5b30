// The articles of the pack by PageRank, each with its sections, links and names.

import * as api from "./api.js";
import { articleGraph, graphView } from "./neighbourhood.js";
import { Characters, clear, count, el, plural, percent, debounce } from "./dom.js";
import { notice } from "./notice.js";
import { safeLink, sections, text } from "./panel.js";

const PAGE = 50;

export function mount(root, page) {
  const filter = el("input", { type: "search", id: "browse-search", placeholder: "Find an article by its title", "aria-label": "Find an article", autocomplete: "off", oninput: debounce(150, () => list(0)) });
  const status = el("p", { class: "soft small", role: "status" });
  const listed = el("ol", { class: "articles" });
  const more = el("button", { type: "button", class: "quiet", hidden: true, onclick: () => list(listed.children.length) }, "Show more");
  const reader = el("article", { class: "article", tabindex: "-1" });
  const frame = el("div", { class: "browser" }, el("div", { class: "index" }, filter, status, listed, more), reader);
  root.append(el("h1", {}, "Browse the pack"), frame);
  let listing = null;
  let opening = null;
  let open = null;

  async function list(offset) {
    listing?.abort();
    listing = new AbortController();
    try {
      const found = await api.articles({ store: page.store.name, q: filter.value.trim(), offset, limit: PAGE }, listing.signal);
      if (!offset) clear(listed);
      const highest = Number(listed.dataset.most) || found.articles[0]?.pagerank || 1;
      if (!offset && !filter.value) listed.dataset.most = highest;
      listed.append(...found.articles.map((entry) => row(entry, highest)));
      status.textContent = `${plural(found.total, "article")}, highest PageRank first`;
      more.hidden = offset + found.articles.length >= found.total;
      current();
    } catch (error) {
      if (error.name === "AbortError") return;
      if (!(error instanceof api.ApiError)) throw error;
      clear(listed, el("li", {}, notice(error, () => list(offset))));
    }
  }

  const address = (name) => `#/browse?${new URLSearchParams({ article: name })}`;

  function row(entry, highest) {
    return el("li", {}, el("a", { href: address(entry.id), "data-article": entry.id },
      el("span", { class: "article-title" }, entry.title || entry.id),
      el("span", { class: "soft small" }, plural(entry.passages, "passage")),
      el("span", { class: "rank-bar", title: `PageRank ${percent(entry.pagerank)}` }, el("i", { style: { width: `${Math.min(100, (entry.pagerank / highest) * 100)}%` } }))));
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
      const graphPlace = el("div", {});
      clear(reader, content(article, graphPlace));
      if (focus) reader.focus({ preventScroll: true });
      if (reader.getBoundingClientRect().top < 0) reader.scrollIntoView();
      frame.classList.add("opened");
      page.announce(`${article.title} is open.`);
      await neighbourhood(article, graphPlace, signal);
    } catch (error) {
      if (error.name === "AbortError") return;
      if (!(error instanceof api.ApiError)) throw error;
      clear(reader, notice(error, () => read(name, focus)));
    }
  }

  function content(article, graphPlace) {
    const parts = sections(article, new Characters(article.text)).filter((section) => section.heading);
    const facts = [
      ["PageRank", percent(article.pagerank)], ["passages", count(article.passages.length)], ["sections", count(parts.length)], ["links", count(article.links.length)],
      ...Object.entries(article.metadata).filter(([, value]) => typeof value !== "object").slice(0, 6).map(([name, value]) => [name, String(value)]),
    ];
    return [
      el("a", { class: "back", href: "#/browse" }, "← All articles"),
      el("h2", {}, article.title || article.id),
      el("p", { class: "soft small path" }, article.id, safeLink(article.url) ? [" · ", el("a", { href: article.url, target: "_blank", rel: "noreferrer noopener" }, "original page")] : null),
      el("dl", { class: "facts" }, facts.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)))),
      el("p", {}, el("a", { class: "button", href: `#/ask?${new URLSearchParams({ q: article.title || article.id })}` }, "Ask about it")),
      parts.length > 1 ? el("nav", { class: "toc", "aria-label": "Sections" }, el("h3", {}, "Sections"), el("ol", {}, parts.map((section) =>
        el("li", { style: { "padding-left": `${Math.max(0, section.level - 2)}rem` } }, el("button", { type: "button", class: "link", onclick: () => jump(section.id) }, section.heading))))) : null,
      graphPlace,
      el("h3", {}, "Text"),
      text(article, []),
    ];
  }

  function jump(id) {
    const heading = reader.querySelector(`[id="${id}"]`);
    heading.setAttribute("tabindex", "-1");
    heading.focus({ preventScroll: true });
    heading.scrollIntoView({ block: "start" });
  }

  async function neighbourhood(article, graphPlace, signal) {
    const links = (name, entries) => entries.length
      ? el("div", {}, el("h3", {}, name), el("ul", { class: "as-list plain" }, entries.map(([id, title]) => el("li", {}, el("a", { href: address(id) }, title))))) : null;
    const graph = await articleGraph(article.id, page.store.name, signal);
    const centre = `article:${article.id}`;
    const nodes = new Map(graph.nodes.map((node) => [node.id, node]));
    const into = [...new Set(graph.edges.filter((edge) => edge.target === centre).map((edge) => edge.source))].map((id) => nodes.get(id)).filter((node) => node?.document);
    clear(graphPlace,
      el("div", { class: "columns" },
        links("Links to", article.links.map((link) => [link.id, link.title])),
        links("Linked from or mentioned in", into.map((node) => [node.document, node.label]))),
      article.names.length ? el("div", {}, el("h3", {}, "Names in this article"), el("ul", { class: "tags" }, article.names.map((name) => el("li", {}, name)))) : null,
      article.facts.length ? el("div", {}, el("h3", {}, "Facts"), el("ul", { class: "fact-list" }, article.facts.slice(0, 8).map((fact) => el("li", {}, fact)))) : null,
      el("h3", {}, "Related articles"),
      el("div", {}, graphView(graph, (document) => { location.hash = address(document).slice(1); })));
  }

  return {
    show({ article }) {
      frame.classList.toggle("opened", Boolean(article));
      if (article && article !== open) read(article, true);
      else if (!article) {
        open = null;
        current();
        clear(reader, el("p", { class: "soft empty" }, "Choose an article to read it with its sections, links and related articles."));
      }
    },
    store() {
      delete listed.dataset.most;
      filter.value = "";
      open = null;
      clear(reader);
      list(0);
      if (!root.hidden && location.hash.includes("article=")) location.hash = "#/browse";
    },
  };
}

