// The pack itself: its articles by PageRank, and each with its sections, links and names.

import * as api from "./api.js";
import { aroundArticle, drawing } from "./neighbourhood.js";
import { Characters, clear, count, el, many, percent, settled } from "./dom.js";
import { notice } from "./notice.js";
import { safeLink, sections, text } from "./panel.js";

const PAGE = 50;

export function mount(root, page) {
  const wanted = el("input", { type: "search", id: "browse-search", placeholder: "Find an article by its title", "aria-label": "Find an article", autocomplete: "off", oninput: settled(150, () => list(0)) });
  const told = el("p", { class: "soft small", role: "status" });
  const listed = el("ol", { class: "articles" });
  const more = el("button", { type: "button", class: "quiet", hidden: true, onclick: () => list(listed.children.length) }, "Show more");
  const shown = el("article", { class: "article", tabindex: "-1" });
  const frame = el("div", { class: "browser" }, el("div", { class: "index" }, wanted, told, listed, more), shown);
  root.append(el("h1", {}, "Browse the pack"), frame);
  let listing = null;
  let opening = null;
  let open = null;

  async function list(offset) {
    listing?.abort();
    listing = new AbortController();
    try {
      const found = await api.articles({ store: page.store.name, q: wanted.value.trim(), offset, limit: PAGE }, listing.signal);
      if (!offset) clear(listed);
      const most = Number(listed.dataset.most) || found.articles[0]?.pagerank || 1;
      if (!offset && !wanted.value) listed.dataset.most = most;
      listed.append(...found.articles.map((entry) => row(entry, most)));
      told.textContent = `${many(found.total, "article")}, highest PageRank first`;
      more.hidden = offset + found.articles.length >= found.total;
      current();
    } catch (error) {
      if (error.name === "AbortError") return;
      if (!(error instanceof api.Trouble)) throw error;
      clear(listed, el("li", {}, notice(error, () => list(offset))));
    }
  }

  const address = (name) => `#/browse?${new URLSearchParams({ article: name })}`;

  function row(entry, most) {
    return el("li", {}, el("a", { href: address(entry.id), "data-article": entry.id },
      el("span", { class: "article-title" }, entry.title || entry.id),
      el("span", { class: "soft small" }, many(entry.passages, "passage")),
      el("span", { class: "rank-bar", title: `PageRank ${percent(entry.pagerank)}` }, el("i", { style: { width: `${Math.min(100, (entry.pagerank / most) * 100)}%` } }))));
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
    clear(shown, el("p", { class: "soft" }, "Opening…"));
    try {
      const article = await api.article(name, page.store.name);
      if (signal.aborted) return;
      const near = el("div", {});
      clear(shown, content(article, near));
      if (focus) shown.focus({ preventScroll: true });
      if (shown.getBoundingClientRect().top < 0) shown.scrollIntoView();
      frame.classList.add("opened");
      page.say(`${article.title} is open.`);
      await neighbourhood(article, near, signal);
    } catch (error) {
      if (error.name === "AbortError") return;
      if (!(error instanceof api.Trouble)) throw error;
      clear(shown, notice(error, () => read(name, focus)));
    }
  }

  function content(article, near) {
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
      near,
      el("h3", {}, "Text"),
      text(article, []),
    ];
  }

  function jump(id) {
    const heading = shown.querySelector(`[id="${id}"]`);
    heading.setAttribute("tabindex", "-1");
    heading.focus({ preventScroll: true });
    heading.scrollIntoView({ block: "start" });
  }

  async function neighbourhood(article, near, signal) {
    const links = (name, entries) => entries.length
      ? el("div", {}, el("h3", {}, name), el("ul", { class: "as-list plain" }, entries.map(([id, title]) => el("li", {}, el("a", { href: address(id) }, title))))) : null;
    const graph = await aroundArticle(article.id, page.store.name, signal);
    const centre = `article:${article.id}`;
    const nodes = new Map(graph.nodes.map((node) => [node.id, node]));
    const into = [...new Set(graph.edges.filter((edge) => edge.target === centre).map((edge) => edge.source))].map((id) => nodes.get(id)).filter((node) => node?.document);
    clear(near,
      el("div", { class: "columns" },
        links("Leads to", article.links.map((link) => [link.id, link.title])),
        links("Named or linked by", into.map((node) => [node.document, node.label]))),
      article.names.length ? el("div", {}, el("h3", {}, "Names in it"), el("ul", { class: "tags" }, article.names.map((name) => el("li", {}, name)))) : null,
      article.facts.length ? el("div", {}, el("h3", {}, "Facts"), el("ul", { class: "fact-list" }, article.facts.slice(0, 8).map((fact) => el("li", {}, fact)))) : null,
      el("h3", {}, "Around it"),
      el("div", {}, drawing(graph, (document) => { location.hash = address(document).slice(1); })));
  }

  return {
    show({ article }) {
      frame.classList.toggle("opened", Boolean(article));
      if (article && article !== open) read(article, true);
      else if (!article) {
        open = null;
        current();
        clear(shown, el("p", { class: "soft empty" }, "Choose an article to read it with its sections, links and neighbours."));
      }
    },
    store() {
      delete listed.dataset.most;
      wanted.value = "";
      open = null;
      clear(shown);
      list(0);
      if (!root.hidden && location.hash.includes("article=")) location.hash = "#/browse";
    },
  };
}

