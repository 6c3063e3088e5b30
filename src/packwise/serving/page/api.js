// The server's API. Every failure is an `ApiError` with one line to show.

const KEY = "packwise.key";

export class ApiError extends Error {
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

/** `ask(refused)` shows the key field and resolves once `useKey` has been called. */
export function onKeyRequired(ask) {
  askForKey = ask;
}

export function useKey(key) {
  sessionStorage.setItem(KEY, key);
}

export const currentKey = () => sessionStorage.getItem(KEY);

async function send(path, { body, file, signal, method } = {}) {
  for (;;) {
    const key = sessionStorage.getItem(KEY);
    const headers = {};
    if (key) headers.Authorization = `Bearer ${key}`;
    if (body) headers["Content-Type"] = "application/json";
    if (file) headers["Content-Type"] = "application/octet-stream";
    let response;
    try {
      response = await fetch(path, {
        method: method ?? (body ? "POST" : "GET"),
        headers,
        body: file ?? (body ? JSON.stringify(body) : undefined),
        signal,
      });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new ApiError("down", "The server cannot be reached.", { fix: "Is packwise serve still running?" });
    }
    if (response.status !== 401) return response;
    asking ??= askForKey(Boolean(key)).finally(() => (asking = null));
    await asking;
  }
}

async function responseError(response) {
  let detail = {};
  try {
    detail = (await response.json()).error ?? {};
  } catch {
    detail = {}; // A proxy sends its own text; the status is enough.
  }
  return apiErrorOf(detail, response.status, Number(response.headers.get("Retry-After")) || null);
}

function apiErrorOf(detail, status, wait) {
  const { code = "failed", message = "", fix = null } = detail;
  if (status === 429) {
    return new ApiError(code, "Too many questions at once.", { status, wait, fix: wait ? `Ask again in ${wait} s.` : null });
  }
  if (status === 503 || status === 504) {
    return new ApiError(code, sentence(message || "The server is busy."), { status, wait, fix: fix && sentence(fix) });
  }
  if (status >= 500) {
    return new ApiError(code, "The server could not answer.", { status, fix: message ? sentence(message) : null });
  }
  return new ApiError(code, sentence(message || `The server refused the request (${status}).`), { status, fix: status === 403 && fix ? sentence(fix) : null });
}

const sentence = (text) => {
  const line = text.trim();
  return line.charAt(0).toUpperCase() + line.slice(1) + (/[.!?]$/.test(line) ? "" : ".");
};

async function json(path, options) {
  const response = await send(path, options);
  if (!response.ok) throw await responseError(response);
  try {
    return await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("broken", "The server's response was interrupted.", { fix: "Try again." });
  }
}

const query = (values) => {
  const set = Object.entries(values).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return set.length ? `?${new URLSearchParams(set)}` : "";
};
const path = (name) => name.split("/").map(encodeURIComponent).join("/");

export const stores = () => json("/v1/stores");
export const search = (body, signal) => json("/v1/search", { body, signal });
export const ask = (body, signal) => json("/v1/ask", { body, signal });
export const articles = (values, signal) => json(`/v1/articles${query(values)}`, { signal });
export const graph = (around, store, limit, signal) => json(`/v1/graph${query({ around, store, limit })}`, { signal });
export const report = () => json("/v1/report");
export const feedback = (body) => json("/v1/feedback", { body });

export const newUpload = () => json("/v1/uploads", { method: "POST" });
export const uploadFile = (upload, name, file) => json(`/v1/uploads/${upload}/${path(name)}`, { method: "PUT", file });
export const createStore = (body) => json("/v1/stores", { body });
export const storeFiles = (store) => json(`/v1/stores/${encodeURIComponent(store)}/files`);
export const changeStore = (store, body) => json(`/v1/stores/${encodeURIComponent(store)}/files`, { body });
export const renameStore = (store, name) => json(`/v1/stores/${encodeURIComponent(store)}`, { method: "PATCH", body: { name } });
export const deleteStore = (store) => json(`/v1/stores/${encodeURIComponent(store)}`, { method: "DELETE" });
export const job = (id) => json(`/v1/jobs/${id}`);

const articleCache = new Map();

/** An article; requested once and cached. */
export function article(name, store) {
  const at = `/v1/articles/${path(name)}${query({ store })}`;
  if (!articleCache.has(at)) {
    if (articleCache.size > 60) articleCache.delete(articleCache.keys().next().value);
    articleCache.set(at, json(at));
    articleCache.get(at).catch(() => articleCache.delete(at));
  }
  return articleCache.get(at);
}

/** Forget the articles of before, as a pack has changed. */
export const forgetArticles = () => articleCache.clear();

/** The events of a streamed answer: `{event, data}`. */
export async function* stream(body, signal) {
  const response = await send("/v1/ask", { body: { ...body, stream: true }, signal });
  if (!response.ok) throw await responseError(response);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
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
    buffer += part.value;
    const events = buffer.split("\n\n");
    buffer = events.pop();
    for (const text of events) {
      const read = { event: "message", data: "" };
      for (const line of text.split("\n")) {
        const at = line.indexOf(": ");
        if (at > 0) read[line.slice(0, at)] = line.slice(at + 2);
      }
      if (!read.data) continue; // A comment, sent so that the connection stays open.
      const data = JSON.parse(read.data);
      if (read.event === "error") throw apiErrorOf(data.error ?? {}, 500, null);
      if (read.event === "answer") ended = true;
      yield { event: read.event, data };
    }
  }
  if (!ended) throw new ApiError("broken", "The answer was interrupted.", { fix: "Try again." });
}
