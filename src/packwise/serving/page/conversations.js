// Conversations, kept in this browser: with their answers, so that they reopen without asking again.

import { currentKey } from "./api.js";

const DATABASE = "packwise";
const STORE = "conversations";
const MOST = 200;

let opened = null;

/** The database; null where the browser keeps none, as in some private windows. */
function database() {
  opened ??= new Promise((resolve) => {
    const request = indexedDB.open(DATABASE, 1);
    request.onupgradeneeded = () => request.result.createObjectStore(STORE, { keyPath: "id" });
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => resolve(null);
    request.onblocked = () => resolve(null);
  });
  return opened;
}

async function run(mode, work) {
  const held = await database();
  if (!held) return undefined;
  return new Promise((resolve, reject) => {
    const transaction = held.transaction(STORE, mode);
    const request = work(transaction.objectStore(STORE));
    transaction.oncomplete = () => resolve(request?.result);
    transaction.onerror = () => reject(transaction.error);
    transaction.onabort = () => reject(transaction.error);
  });
}

// Whoever uses another key in this browser does not see these.
const owner = () => /^pw_([0-9a-f]+)_/.exec(currentKey() ?? "")?.[1] ?? "";

/** The conversations, newest first. */
export async function conversations() {
  const found = (await run("readonly", (store) => store.getAll())) ?? [];
  return found.filter((entry) => entry.owner === owner()).sort((a, b) => b.at - a.at);
}

export async function conversation(id) {
  const found = await run("readonly", (store) => store.get(id));
  return found?.owner === owner() ? found : undefined;
}

/** Keep a conversation; the oldest go when there are too many or the browser has no room. */
export async function keep(entry) {
  const record = { ...entry, owner: owner(), at: entry.at ?? Date.now() };
  const older = (await conversations()).filter((other) => other.id !== entry.id);
  for (const other of older.slice(MOST - 1)) await forget(other.id);
  try {
    await run("readwrite", (store) => store.put(record));
  } catch (error) {
    if (error?.name !== "QuotaExceededError" || !older.length) throw error;
    for (const other of older.slice(Math.floor(older.length / 2))) await forget(other.id);
    await run("readwrite", (store) => store.put(record));
  }
}

export const forget = (id) => run("readwrite", (store) => store.delete(id));

export const newId = () => Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) => byte.toString(16).padStart(2, "0")).join("");
