"""How a commit turns staged documents into the pack's content, inside one transaction."""

from __future__ import annotations

import json
import sqlite3
from array import array
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from packwise.documents import Document
from packwise.errors import StoreError
from packwise.language.names import Extraction
from packwise.stores.entity_extraction import find_in_new_passages, update_entities
from packwise.stores.extractions import extraction_payload
from packwise.stores.lifecycle import CommitPlan
from packwise.stores.links import document_ranks
from packwise.stores.pack.entity_rows import PackEntityTables, is_current
from packwise.stores.pack.queries import batches, marks
from packwise.stores.pack.rows import compress
from packwise.stores.pack.schema import row_checksum
from packwise.stores.pack.segments import IndexChange
from packwise.stores.records import PassageRecord, block_rows, groups, unpack_payload

# What a link leads to: the document of that id, else the one at that URL, else the same
# for the link without its fragment. A document's link to itself leads nowhere.
_TARGET = """nullif(coalesce(
    (SELECT key FROM documents WHERE id = links.href),
    (SELECT key FROM documents WHERE url = links.href AND url <> '' ORDER BY id LIMIT 1),
    (SELECT key FROM documents WHERE id = links.page),
    (SELECT key FROM documents WHERE url = links.page AND url <> '' ORDER BY id LIMIT 1)
), links.document)"""

_FEW_PASSAGES = 500
"""Up to this many, the names in a passage are looked up one by one. Beyond it, reading the titles
of all documents once costs less."""


def apply_plan(connection: sqlite3.Connection, plan: CommitPlan, embedder: int) -> IndexChange:
    """Replace, add and remove documents inside the caller's transaction, then bring links,
    ranks and entities up to date. ``embedder`` is the key of the embedder whose vectors were
    staged; what that changes in the indexes."""
    entities = PackEntityTables(connection)
    current = is_current(connection)
    same_titles = current and _keeps_titles(connection, plan)
    before = entities.titles() if current and not same_titles else None
    for table in (
        "touched (name TEXT PRIMARY KEY)",
        "written (key INTEGER PRIMARY KEY)",
        "unused_vectors (key INTEGER PRIMARY KEY)",
    ):
        connection.execute(f"CREATE TEMP TABLE IF NOT EXISTS {table}")
        connection.execute(f"DELETE FROM temp.{table.split()[0]}")
    # Vectors that were stored since the last commit, and those of passages that go.
    connection.execute(
        "INSERT INTO temp.unused_vectors SELECT key FROM vectors"
        " WHERE key > (SELECT coalesce(max(vector), 0) FROM passages)"
    )
    replaced = [plan.stored[name] for name in plan.replaced]
    links_before = _links(connection, replaced)
    removed: list[int] = []
    for name in (*plan.removed, *plan.replaced):
        key = plan.stored[name]
        entities.before_removal(key)
        rows = connection.execute("SELECT key, vector FROM passages WHERE document = ?", (key,))
        for passage, vector in rows.fetchall():
            removed.append(passage)
            connection.execute("INSERT OR IGNORE INTO temp.unused_vectors VALUES (?)", (vector,))
    for name in plan.removed:
        _touch(connection, plan.stored[name])
        connection.execute("DELETE FROM documents WHERE key = ?", (plan.stored[name],))
    added = array("q")
    for name in plan.taken:
        added.extend(_take(connection, name, plan.stored.get(name), embedder))
    entities.relink("SELECT key FROM temp.written")
    for column in ("href", "page"):
        entities.relink(
            f"SELECT document FROM links WHERE {column} IN (SELECT name FROM temp.touched)"
        )
    _resolve_links(connection)
    (touched,) = connection.execute("SELECT count(*) FROM temp.touched").fetchone()
    if touched or not current or _links(connection, replaced) != links_before:
        _rank(connection)
    if same_titles:
        passages = entities.passages(sorted(added))
        entities.write(find_in_new_passages(passages, entities.aliases_among), None)
    else:
        update_entities(entities, before, added)
    left = 0
    if plan.prune:
        left = connection.execute("DELETE FROM staged").rowcount
    collect_vectors(connection, "vectors" if left or not same_titles else "temp.unused_vectors")
    documents, changed = entities.changes() or (None, None)
    return IndexChange(
        np.array(removed, dtype=np.int64), np.array(added, dtype=np.int64), documents, changed
    )


def _keeps_titles(connection: sqlite3.Connection, plan: CommitPlan) -> bool:
    """Whether a commit only replaces a few passages, and no document gets another title."""
    if plan.removed or len(plan.replaced) < len(plan.taken):
        return False
    count = 0
    for name in plan.taken:
        document, passages, _ = _staged(connection, name)
        row = connection.execute("SELECT title FROM documents WHERE id = ?", (name,)).fetchone()
        count += len(passages)
        if row != (document.title,) or count > _FEW_PASSAGES:
            return False
    return True


def _staged(
    connection: sqlite3.Connection, document_id: str
) -> tuple[Document, list[PassageRecord], list[Extraction]]:
    source_hash, payload = connection.execute(
        "SELECT source_hash, payload FROM staged WHERE id = ?", (document_id,)
    ).fetchone()
    return unpack_payload(document_id, source_hash, payload)


def _links(connection: sqlite3.Connection, documents: Sequence[int]) -> set[tuple[int, int]]:
    """Which documents these lead to."""
    found: set[tuple[int, int]] = set()
    for batch in batches(documents):
        rows = connection.execute(
            "SELECT document, target FROM links WHERE target IS NOT NULL"
            f" AND document IN ({marks(batch)})",
            batch,
        )
        found.update(rows.fetchall())
    return found


def _touch(connection: sqlite3.Connection, document: int) -> None:
    connection.execute(
        "INSERT OR IGNORE INTO touched SELECT id FROM documents WHERE key = ?1"
        " UNION SELECT url FROM documents WHERE key = ?1 AND url <> ''",
        (document,),
    )


def _take(
    connection: sqlite3.Connection, document_id: str, key: int | None, embedder: int
) -> list[int]:
    """Move one document out of the staging table; the keys of its passages."""
    document, passages, extractions = _staged(connection, document_id)
    old = connection.execute("SELECT url FROM documents WHERE key = ?", (key,)).fetchone()
    # Links find it under the same names as before, unless it is new or has moved.
    moved = key is None or old != (document.url,)
    if moved and key is not None:
        _touch(connection, key)
    key = _write_document(connection, document, key)
    added = [_write_passage(connection, key, document, passage, embedder) for passage in passages]
    at = {row.position: passage for row, passage in zip(passages, added, strict=True)}
    connection.executemany(
        "INSERT INTO extractions (passage, payload) VALUES (?, ?)",
        [
            (at[e.order_index], json.dumps(extraction_payload(e), ensure_ascii=False))
            for e in extractions
        ],
    )
    connection.execute("INSERT OR IGNORE INTO written VALUES (?)", (key,))
    if moved:
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


def resolve_links_again(connection: sqlite3.Connection) -> None:
    """Find the document that each link leads to."""
    connection.execute(f"UPDATE links SET target = {_TARGET}")


def _rank(connection: sqlite3.Connection) -> None:
    documents = [key for (key,) in connection.execute("SELECT key FROM documents ORDER BY key")]
    links = connection.execute(
        "SELECT DISTINCT document, target FROM links WHERE target IS NOT NULL"
    )
    ranks = document_ranks(documents, links)
    connection.execute("DELETE FROM ranks")
    connection.executemany("INSERT INTO ranks (document, pagerank) VALUES (?, ?)", ranks)


def collect_vectors(connection: sqlite3.Connection, among: str = "vectors") -> None:
    """Remove the vectors no passage uses, unless staged documents may still need them."""
    if connection.execute("SELECT 1 FROM staged LIMIT 1").fetchone() is None:
        connection.execute(
            # Both are read from indexes: the rows of vectors are large.
            f"DELETE FROM vectors WHERE key IN (SELECT key FROM {among} AS u WHERE NOT EXISTS"
            " (SELECT 1 FROM passages WHERE vector = u.key))"
        )


def _write_document(connection: sqlite3.Connection, document: Document, key: int | None) -> int:
    """Write a document with its sections, links and metadata; the row's key.

    With ``key`` the document of that key is replaced, so that links to it stay whole.
    """
    row: dict[str, Any] = {
        "id": document.id,
        "title": document.title,
        "url": document.url,
        "lang": document.lang,
        "source_hash": document.source_hash,
        "metadata": _json(dict(document.metadata)),
    }
    row["checksum"] = row_checksum(*row.values())
    row["text"] = compress(document.id, document.text)
    if key is None:
        statement = f"INSERT INTO documents ({', '.join(row)}) VALUES ({marks(list(row))})"
        key = connection.execute(statement, tuple(row.values())).lastrowid
        assert key is not None
    else:
        values = ", ".join(f"{name} = ?" for name in row)
        connection.execute(f"UPDATE documents SET {values} WHERE key = ?", (*row.values(), key))
        for table in ("document_metadata", "document_groups", "sections", "links", "passages"):
            connection.execute(f"DELETE FROM {table} WHERE document = ?", (key,))
    write_filters(connection, key, document.metadata)
    _insert(
        connection,
        "sections",
        ["document", "position", "path", "level", "first", "past", "blocks"],
        [
            (key, i, _json(list(s.path)), s.level, s.start, s.end, _json(block_rows(s.blocks)))
            for i, s in enumerate(document.sections)
        ],
    )
    _insert(
        connection,
        "links",
        ["document", "position", "href", "page", "anchor", "first", "kind"],
        [
            (key, i, k.href, k.href.partition("#")[0], k.anchor, k.start, k.kind)
            for i, k in enumerate(document.links)
        ],
    )
    return key


def write_filters(
    connection: sqlite3.Connection, document: int, metadata: Mapping[str, str]
) -> None:
    """Write what filters use of a document's metadata."""
    values = [(document, name, value) for name, value in metadata.items()]
    _insert(connection, "document_metadata", ["document", "name", "value"], values)
    named = [(document, group) for group in groups(metadata)]
    _insert(connection, "document_groups", ["document", "name"], named)


def _write_passage(
    connection: sqlite3.Connection, key: int, document: Document, p: PassageRecord, embedder: int
) -> int:
    """Write a passage of the document with this key; its vector must be stored already. The
    passage's key."""
    text, path = document.text[p.start : p.end], _json(list(p.section_path))
    row = (key, p.position, path, p.start, p.end, p.content_hash, p.url, text, p.layout)
    cursor = connection.execute(
        "INSERT INTO passages (document, position, section_path, first, past, content_hash, url,"
        " text, layout, checksum, vector) SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, v.key"
        " FROM vectors AS v WHERE v.content_hash = ? AND v.embedder = ?",
        (*row, row_checksum(*row), p.content_hash, embedder),
    )
    if cursor.rowcount != 1 or cursor.lastrowid is None:
        raise StoreError(f"{document.id}: passage {p.position} has no vector")
    return cursor.lastrowid


def _insert(
    connection: sqlite3.Connection, table: str, columns: list[str], rows: list[tuple[Any, ...]]
) -> None:
    if rows:
        connection.executemany(
            f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks(columns)})", rows
        )


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
