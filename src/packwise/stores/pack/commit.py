"""How a commit turns staged documents into the pack's content, inside one transaction."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from packwise.stores.entity_extraction import extraction_payload, update_entities
from packwise.stores.pack.entity_rows import PackEntityTables, is_current
from packwise.stores.pack.index import Change
from packwise.stores.pack.rows import insert_document, insert_passage, unpack_payload
from packwise.stores.pagerank import pagerank

# What a link leads to: the document of that id, else the one at that URL, else the same
# for the link without its fragment. A document's link to itself leads nowhere.
_TARGET = """nullif(coalesce(
    (SELECT key FROM documents WHERE id = links.href),
    (SELECT key FROM documents WHERE url = links.href AND url <> '' ORDER BY id LIMIT 1),
    (SELECT key FROM documents WHERE id = links.page),
    (SELECT key FROM documents WHERE url = links.page AND url <> '' ORDER BY id LIMIT 1)
), links.document)"""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a commit does, by document id."""

    taken: list[str]
    removed: list[str]
    stored: Mapping[str, int]
    prune: bool

    @property
    def added(self) -> int:
        return len(self.taken) - self.changed

    @property
    def changed(self) -> int:
        return sum(name in self.stored for name in self.taken)

    @property
    def unchanged(self) -> int:
        return len(self.stored) - len(self.removed) - self.changed


def take_over(connection: sqlite3.Connection, plan: Plan, embedder: int) -> Change:
    """Replace, add and remove documents within the caller's transaction; work out links,
    ranks and entities again. ``embedder`` is the key of the embedder whose vectors were
    staged."""
    entities = PackEntityTables(connection)
    before = entities.titles() if is_current(connection) else None
    connection.execute("CREATE TEMP TABLE IF NOT EXISTS touched (name TEXT PRIMARY KEY)")
    connection.execute("CREATE TEMP TABLE IF NOT EXISTS written (key INTEGER PRIMARY KEY)")
    connection.execute("DELETE FROM touched")
    connection.execute("DELETE FROM written")
    removed: list[int] = []
    for name in (*plan.removed, *(name for name in plan.taken if name in plan.stored)):
        key = plan.stored[name]
        _touch(connection, key)
        removed.extend(
            passage
            for (passage,) in connection.execute(
                "SELECT key FROM passages WHERE document = ?", (key,)
            )
        )
    for name in plan.removed:
        connection.execute("DELETE FROM documents WHERE key = ?", (plan.stored[name],))
    added: list[int] = []
    for name in plan.taken:
        added.extend(_take(connection, name, plan.stored.get(name), embedder))
    _resolve_links(connection)
    _rank(connection)
    update_entities(entities, before, added)
    if plan.prune:
        connection.execute("DELETE FROM staged")
    collect_vectors(connection)
    return Change(np.array(removed, dtype=np.int64), np.array(added, dtype=np.int64))


def _touch(connection: sqlite3.Connection, document: int) -> None:
    connection.execute(
        "INSERT OR IGNORE INTO touched SELECT id FROM documents WHERE key = ?", (document,)
    )
    connection.execute(
        "INSERT OR IGNORE INTO touched SELECT url FROM documents WHERE key = ? AND url <> ''",
        (document,),
    )


def _take(
    connection: sqlite3.Connection, document_id: str, key: int | None, embedder: int
) -> list[int]:
    """Move one document out of the staging table; the keys of its passages."""
    source_hash, payload = connection.execute(
        "SELECT source_hash, payload FROM staged WHERE id = ?", (document_id,)
    ).fetchone()
    document, passages, extractions = unpack_payload(document_id, source_hash, payload)
    key = insert_document(connection, document, key)
    added = [insert_passage(connection, key, document, passage, embedder) for passage in passages]
    at = {row.position: passage for row, passage in zip(passages, added, strict=True)}
    connection.executemany(
        "INSERT INTO extractions (passage, payload) VALUES (?, ?)",
        [
            (at[e.order_index], json.dumps(extraction_payload(e), ensure_ascii=False))
            for e in extractions
        ],
    )
    connection.execute("INSERT OR IGNORE INTO written VALUES (?)", (key,))
    _touch(connection, key)
    connection.execute("DELETE FROM staged WHERE id = ?", (document_id,))
    return added


def _resolve_links(connection: sqlite3.Connection) -> None:
    connection.execute(
        f"UPDATE links SET target = {_TARGET} WHERE document IN (SELECT key FROM temp.written)"
    )
    rest = connection.execute(
        "SELECT 1 FROM documents WHERE key NOT IN (SELECT key FROM temp.written) LIMIT 1"
    )
    if rest.fetchone() is None:
        return
    for column in ("href", "page"):
        connection.execute(
            f"UPDATE links SET target = {_TARGET} WHERE {column} IN (SELECT name FROM temp.touched)"
        )


def _rank(connection: sqlite3.Connection) -> None:
    documents = np.array(
        [key for (key,) in connection.execute("SELECT key FROM documents ORDER BY key")],
        dtype=np.int64,
    )
    links = np.array(
        connection.execute(
            "SELECT DISTINCT document, target FROM links WHERE target IS NOT NULL"
        ).fetchall(),
        dtype=np.int64,
    ).reshape(-1, 2)
    positions = np.searchsorted(documents, links)
    ranks = pagerank(len(documents), positions[:, 0], positions[:, 1])
    connection.execute("DELETE FROM ranks")
    connection.executemany(
        "INSERT INTO ranks (document, pagerank) VALUES (?, ?)",
        zip(documents.tolist(), ranks.tolist(), strict=True),
    )


def collect_vectors(connection: sqlite3.Connection) -> None:
    """Remove the vectors no passage uses, unless staged documents may still need them."""
    if connection.execute("SELECT 1 FROM staged LIMIT 1").fetchone() is None:
        connection.execute(
            "DELETE FROM vectors WHERE NOT EXISTS"
            " (SELECT 1 FROM passages WHERE passages.vector = vectors.key)"
        )
