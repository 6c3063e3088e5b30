// Conversations: questions, their answers, and those of before.

import { conversation, conversations, forget, keep, newId } from "./conversations.js";
import { clear, el, plural } from "./dom.js";
import { questionBox } from "./question.js";
import { settingsForm, settingsOf } from "./settings.js";
import { turn } from "./turn.js";
import { emptyStart } from "./uploads.js";

const LONGEST_TITLE = 80;

export function mount(root, page) {
  const { box, set } = questionBox({
    id: "question", name: "q", placeholder: "What do you want to know?", "aria-label": "Question", "aria-keyshortcuts": "/",
  }, () => submit());
  const go = el("button", { type: "submit", class: "main" }, "Ask");
  const form = settingsForm("with", { changed: () => settingsChanged() });
  const extractive = el("input", { type: "checkbox", id: "with-extractive", onchange: () => settingsChanged() });
  const title = el("h1", {});
  const about = el("p", { class: "about soft" });
  const examples = el("div", { class: "examples" });
  const list = el("ol", { class: "turns" });
  const past = el("ul", { class: "past" });
  const start = el("div", {});
  const history = el("aside", { class: "history", "aria-label": "Conversations" },
    el("a", { class: "button new", href: "#/ask" }, "New question"), past);
  const older = el("details", { class: "older", hidden: true }, el("summary", {}, "Conversations"));
  const wide = matchMedia("(min-width: 60rem)");
  const placeHistory = () => (wide.matches ? frame.prepend(history) : older.append(history));
  const frame = el("div", { class: "chat-frame" },
    el("div", { class: "chat" }, older,
      el("div", { class: "hero" }, title, about), start, list,
      el("form", { class: "question", role: "search", onsubmit: (event) => { event.preventDefault(); submit(); } },
        el("div", { class: "box" }, box, el("kbd", { class: "slash", "aria-hidden": "true" }, "/"), go),
        el("details", { class: "with" }, el("summary", {}, "Settings"),
          el("div", { class: "fields" }, form.rows,
            el("div", { class: "field check" }, extractive, el("label", { for: "with-extractive" }, "Sentences only, no language model"),
              el("p", { class: "help" }, "Quotes the documents instead of writing a text about them."))))),
      examples));
  root.append(frame);
  placeHistory();
  wide.addEventListener("change", placeHistory);

  let current = null; // {id, title, store, turns: [{question, body, answer, judged}]}
  let shown = [];

  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || root.hidden) return;
    if (event.target.closest("input, textarea, select")) return;
    event.preventDefault();
    box.focus();
    box.select();
  });

  function setAsked(yes) {
    root.classList.toggle("asked", yes);
    examples.hidden = yes;
    box.placeholder = yes ? "Ask a follow-up" : "What do you want to know?";
  }

  const settings = () => ({ ...form.read(), ...(extractive.checked ? { extractive: true } : {}) });

  function submit() {
    const question = box.value.trim();
    if (!question || !page.store) return box.focus();
    set("");
    begin(question);
  }

  function begin(question) {
    if (!current) {
      clear(list);
      shown = [];
      current = { id: newId(), title: question.slice(0, LONGEST_TITLE), store: page.store.name, turns: [] };
    }
    setAsked(true);
    add({ question, body: body(current.turns), answer: null, judged: null }).ask();
    showAddress();
  }

  function body(turns) {
    const earlier = turns.map((entry) => entry.answer?.question ?? entry.question);
    return { store: page.store.name, ...settings(), ...(earlier.length ? { earlier: earlier.slice(-16) } : {}) };
  }

  /** Add a turn to the conversation and show it, and how it was found if `opened`. */
  function add(entry, opened = false) {
    const at = current.turns.push(entry) - 1;
    const conversationOf = current;
    const made = turn(entry.question, entry.body, {
      page,
      opened,
      done: (answer) => {
        entry.answer = answer;
        save(conversationOf);
        if (current === conversationOf) showAddress();
      },
      again: (values) => repeat(at, values),
      link: () => new URL(linkOf(entry), location.href).href,
      judged: (verdict) => {
        entry.judged = verdict;
        save(conversationOf);
      },
    });
    shown[at] = made;
    list.append(made.node);
    if (at) made.node.scrollIntoView({ block: "start" });
    else scrollTo(0, 0);
    return made;
  }

  /** Ask a turn again, with these settings or those of the form. */
  function repeat(at, values) {
    for (const [name, value] of Object.entries(values)) form.set(name, value);
    const entry = current.turns[at];
    // What came after it rested on the answer that goes now.
    for (const made of shown.slice(at)) {
      made.stop();
      made.node.remove();
    }
    shown.length = at;
    current.turns.length = at;
    add({ question: entry.question, body: body(current.turns), answer: null, judged: null }, Object.keys(values).length > 0).ask();
    showAddress();
  }

  function settingsChanged() {
    if (current?.turns.length) repeat(current.turns.length - 1, {});
  }

  /** The address of a question that asks the same of the same pack anywhere. */
  function linkOf(entry) {
    const { earlier, store, ...chosen } = entry.body;
    return page.address("ask", { store, q: entry.answer?.question ?? entry.question, ...chosen });
  }

  function showAddress() {
    const last = current.turns.at(-1);
    const { earlier, store, ...chosen } = last.body;
    page.go("ask", { store, q: last.answer?.question ?? last.question, ...chosen, c: current.id }, current.turns.length > 1 || last.answer);
  }

  async function save(entry) {
    await keep({ ...entry, at: Date.now(), turns: entry.turns.filter((held) => held.answer) });
    await showPast();
  }

  async function showPast() {
    const held = await conversations();
    history.classList.toggle("none", !held.length);
    older.hidden = !held.length;
    clear(past, held.map((entry) => pastRow(entry)));
  }

  function pastRow(entry) {
    const last = entry.turns.at(-1);
    const tools = el("div", { class: "past-tools", hidden: true });
    const more = el("button", { type: "button", class: "icon plain", "aria-label": `Change ${entry.title}`, "aria-expanded": "false", onclick: () => {
      tools.hidden = !tools.hidden;
      more.setAttribute("aria-expanded", String(!tools.hidden));
    } }, "⋯");
    const rename = () => {
      const field = el("input", { type: "text", maxlength: LONGEST_TITLE, value: entry.title, "aria-label": "Name of the conversation" });
      clear(tools, el("form", { onsubmit: async (event) => {
        event.preventDefault();
        if (!field.value.trim()) return;
        await keep({ ...entry, title: field.value.trim() });
        if (current?.id === entry.id) current.title = field.value.trim();
        await showPast();
      } }, field, el("button", { type: "submit", class: "quiet" }, "Save")));
      field.focus();
    };
    tools.append(
      el("button", { type: "button", class: "quiet", onclick: rename }, "Rename"),
      el("button", { type: "button", class: "quiet", onclick: async () => {
        await forget(entry.id);
        if (current?.id === entry.id) location.hash = "#/ask";
        await showPast();
      } }, "Delete"));
    return el("li", {},
      el("div", { class: "past-row" },
        el("a", { href: page.address("ask", { store: entry.store, q: last?.answer.question, c: entry.id }), "aria-current": current?.id === entry.id ? "true" : null },
          el("span", { class: "past-title" }, entry.title), el("span", { class: "soft small" }, `${entry.store} · ${plural(entry.turns.length, "question")}`)), more),
      tools);
  }

  /** Show a conversation of before; nothing is asked. */
  function reopen(entry) {
    stopAll();
    current = { ...entry, turns: [] };
    shown = [];
    clear(list);
    setAsked(true);
    for (const held of entry.turns) add({ ...held }).show(held.answer, true, held.judged);
    form.use(page.store.defaults, settingsOf(entry.turns.at(-1)?.body ?? {}));
    extractive.checked = Boolean(entry.turns.at(-1)?.body.extractive);
  }

  function stopAll() {
    for (const made of shown) made.stop();
  }

  function suggest(store) {
    title.textContent = `Ask ${store.name}`;
    about.textContent = store.documents === null
      ? "Answers come from its documents, with their sources."
      : `Answers come from its ${plural(store.documents, "document")}, with their sources.`;
    const asked = store.questions ?? [];
    clear(examples, asked.length ? el("span", { class: "soft" }, "Try") : null,
      asked.map((text) => el("button", { type: "button", class: "example", onclick: () => begin(text) }, text)));
  }

  return {
    async show(values) {
      if (!page.store) {
        root.classList.add("empty");
        clear(start, emptyStart(page));
        return;
      }
      root.classList.remove("empty");
      clear(start);
      const { c, q } = values;
      if (c && c === current?.id) return;
      const before = current;
      const held = c ? await conversation(c) : undefined;
      await showPast();
      if (current !== before) return; // A question was asked meanwhile.
      // A conversation can be read when its pack has gone.
      if (held && (held.store === page.store.name || !page.stores.some((store) => store.name === held.store))) {
        reopen(held);
        await showPast();
      } else if (q) {
        stopAll();
        current = null;
        form.use(page.store.defaults, settingsOf(values));
        extractive.checked = values.extractive === "true";
        begin(q);
      } else {
        stopAll();
        current = null;
        shown = [];
        clear(list);
        setAsked(false);
        box.focus({ preventScroll: true });
        await showPast();
      }
    },
    store(store) {
      form.use(store.defaults);
      suggest(store);
    },
  };
}
