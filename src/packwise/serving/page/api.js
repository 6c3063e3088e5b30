// The server's API. Every failure is a `Trouble` with one line that can be shown.

const KEY = "packwise.key";

export class Trouble extends Error {
  constructor(code, message, { fix = null, status = 0, wait = null } = {}) {
    super(message);
    this.code = code;
    this.fix = fix;
    this.status = status;
    this.wait = wait;
  }
}

let askForKey = async () => false;
let asking = null;

/** `ask(refused)` shows the key field and resolves once `useKey` was called. */
export function onKeyWanted(ask) {
  askForKey = ask;
}

export function useKey(key) {
  sessionStorage.setItem(KEY, key);
}

async function send(path, { body, signal, method } = {}) {
  for (;;) {
    const key = sessionStorage.getItem(KEY);
    const headers = {};
    if (key) headers.Authorization = `Bearer ${key}`;
    if (body) headers["Content-Type"] = "application/json";
    let response;
    try {
      response = await fetch(path, {
        method: method ?? (body ? "POST" : "GET"),
        headers,
        body: body ? JSON.stringify(body) : undefined,
        signal,
      });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Trouble("down", "The server cannot be reached.", { fix: "Is packwise serve still running?" });
    }
    if (response.status !== 401) return response;
    asking ??= askForKey(Boolean(key)).finally(() => (asking = null));
    await asking;
  }
}

async function trouble(response) {
  let told = {};
  try {
    told = (await response.json()).error ?? {};
  } catch {
    told = {}; // A proxy in between answers in its own words; the status is enough.
  }
  return troubleOf(told, response.status, Number(response.headers.get("Retry-After")) || null);
}

function troubleOf(told, status, wait) {
  const { code = "failed", message = "", fix = null } = told;
  if (status === 429) {
    return new Trouble(code, "Too many questions at once.", { status, wait, fix: wait ? `Ask again in ${wait} s.` : null });
  }
  if (status === 503 || status === 504) {
    return new Trouble(code, sentence(message || "The server is busy."), { status, wait, fix: fix && sentence(fix) });
  }
  if (status >= 500) {
    return new Trouble(code, "The server could not answer.", { status, fix: message ? sentence(message) : null });
  }
  return new Trouble(code, sentence(message || `The server refused this (${status}).`), { status });
}

const sentence = (text) => {
  const said = text.trim();
  return said.charAt(0).toUpperCase() + said.slice(1) + (/[.!?]$/.test(said) ? "" : ".");
};

async function json(path, options) {
  const response = await send(path, options);
  if (!response.ok) throw await trouble(response);
  try {
    return await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Trouble("broken", "The server's answer broke off.", { fix: "Try again." });
  }
}

const query = (values) => {
  const set = Object.entries(values).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return set.length ? `?${new URLSearchParams(set)}` : "";
};
const path = (name) => name.split("/").map(encodeURIComponent).join("/");

export const stores = () => json("/v1/stores").then((found) => found.stores);
export const search = (body, signal) => json("/v1/search", { body, signal });
export const ask = (body, signal) => json("/v1/ask", { body, signal });
export const articles = (values, signal) => json(`/v1/articles${query(values)}`, { signal });
export const graph = (around, store, limit, signal) => json(`/v1/graph${query({ around, store, limit })}`, { signal });
export const report = () => json("/v1/report");

const known = new Map();

/** An article; asked for once. */
export function article(name, store) {
  const at = `/v1/articles/${path(name)}${query({ store })}`;
  if (!known.has(at)) {
    if (known.size > 60) known.delete(known.keys().next().value);
    known.set(at, json(at));
    known.get(at).catch(() => known.delete(at));
  }
  return known.get(at);
}

/** The events of a streamed answer: `{event, data}`. */
export async function* stream(body, signal) {
  const response = await send("/v1/ask", { body: { ...body, stream: true }, signal });
  if (!response.ok) throw await trouble(response);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  let ended = false;
  for (;;) {
    let part;
    try {
      part = await reader.read();
    } catch (error) {
      if (error.name === "AbortError") throw error;
      break;
    }
    if (part.done) break;
    held += part.value;
    const events = held.split("\n\n");
    held = events.pop();
    for (const text of events) {
      const read = { event: "message", data: "" };
      for (const line of text.split("\n")) {
        const at = line.indexOf(": ");
        if (at > 0) read[line.slice(0, at)] = line.slice(at + 2);
      }
      const data = JSON.parse(read.data);
      if (read.event === "error") throw troubleOf(data.error ?? {}, 500, null);
      if (read.event === "answer") ended = true;
      yield { event: read.event, data };
    }
  }
  if (!ended) throw new Trouble("broken", "The answer broke off.", { fix: "Try again." });
}
