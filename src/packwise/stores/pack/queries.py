"""Reading ``pack.sqlite``: passages, documents, what a filter lets through, entities.

Text from a caller is bound, never put into a statement.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from packwise.candidates import Filter
from packwise.documents import Document, Link, Passage, Section, passage_id
from packwise.language.names import Extraction
from packwise.stores.checks import after_prefix, storable
from packwise.stores.entity_extraction import read_extraction
from packwise.stores.knowledge import EntityId, EntityRow, Key, PlaceRow
from packwise.stores.pack.database import KNOWLEDGE_SCHEMA, schema_version
from packwise.stores.records import read_blocks

PASSAGE_COLUMNS = """p.key, p.position, p.section_path, p.first, p.past, p.content_hash, p.url,
    p.text, d.id, d.title, d.url, d.lang, d.metadata"""
PASSAGE_TABLES = "passages AS p JOIN documents AS d ON d.key = p.document"

_BATCH = 500
"""Values bound in one statement; the oldest SQLite versions in use take 999."""

_KEY_RANGE = range(-(2**63), 2**63)
_ENTITY = "e.key, e.name, e.label, e.kind, e.description, e.passages"
_PLACE = "p.key, d.id, d.title"
_PLACED = "JOIN passages AS p ON p.key = x.passage JOIN documents AS d ON d.key = p.document"
_T = TypeVar("_T")
_FACTS = f"""SELECT e.name, x.text, {_PLACE} FROM facts AS x
    JOIN entities AS e ON e.key = x.entity {_PLACED}"""


def batches(values: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """The values in pieces that one statement can bind."""
    return (values[at : at + _BATCH] for at in range(0, len(values), _BATCH))


def marks(values: Sequence[Any]) -> str:
    """As many placeholders as there are values."""
    return ",".join("?" * len(values))


def integers(keys: Sequence[Key]) -> list[int]:
    """Those keys that can be a pack's."""
    return [key for key in keys if isinstance(key, int) and key in _KEY_RANGE]


def read_passage(row: Sequence[Any], embedder_version: str) -> tuple[int, Passage]:
    """A passage with its key, from a row of ``PASSAGE_COLUMNS``."""
    key, position, path, first, past, digest, own_url, text, doc, title, url, lang, metadata = row
    return key, Passage(
        id=passage_id(doc, position),
        document=doc,
        doc_title=title,
        section_path=tuple(json.loads(path)),
        order_index=position,
        text=text,
        start=first,
        end=past,
        content_hash=digest,
        embedder_version=embedder_version,
        url=url if own_url is None else own_url,
        lang=lang,
        metadata=json.loads(metadata),
    )


def read_document(connection: sqlite3.Connection, document_id: str) -> Document | None:
    """A document with everything that belongs to it."""
    row = connection.execute(
        "SELECT key, title, url, lang, source_hash, metadata, text FROM documents WHERE id = ?",
        (document_id,),
    ).fetchone()
    if row is None:
        return None
    key, title, url, lang, source_hash, metadata, text = row
    sections = connection.execute(
        "SELECT path, level, first, past, blocks FROM sections WHERE document = ?"
        " ORDER BY position",
        (key,),
    )
    links = connection.execute(
        "SELECT k.href, k.anchor, k.first, k.kind, t.id FROM links AS k"
        " LEFT JOIN documents AS t ON t.key = k.target WHERE k.document = ? ORDER BY k.position",
        (key,),
    )
    return Document(
        id=document_id,
        title=title,
        text=zlib.decompress(text).decode(),
        sections=tuple(
            Section(tuple(json.loads(path)), level, read_blocks(json.loads(blocks)), first, past)
            for path, level, first, past, blocks in sections
        ),
        links=tuple(
            Link(href=href, anchor=anchor, start=first, kind=kind, target=target)
            for href, anchor, first, kind, target in links
        ),
        url=url,
        lang=lang,
        metadata=json.loads(metadata),
        source_hash=source_hash,
    )


def filter_key(where: Filter) -> Hashable:
    """Equal for filters that let the same passages through."""
    return (
        where.tenant,
        where.space,
        frozenset(where.acl),
        where.lang,
        where.node_type,
        frozenset(where.documents),
        where.path_prefix,
        frozenset(where.metadata.items()),
    )


def allowed_keys(connection: sqlite3.Connection, where: Filter) -> NDArray[np.int64]:
    """The keys of the passages that pass a filter, ascending."""
    conditions: list[str] = []
    values: list[str] = []

    def require(condition: str, *bound: str) -> None:
        conditions.append(condition)
        values.extend(bound)

    if where.documents:
        keys = document_keys(connection, where.documents)
        require("d.key IN (SELECT value FROM json_each(?))", json.dumps(list(keys.values())))
    if where.path_prefix:
        prefix = storable(where.path_prefix)
        require("d.id >= ?", prefix)
        past = after_prefix(prefix)
        if past is not None:
            require("d.id < ?", past)
    if where.lang:
        require("d.lang = ?", storable(where.lang))
    for name, value in _metadata(where):
        require(
            "d.key IN (SELECT document FROM document_metadata WHERE name = ? AND value = ?)",
            storable(name),
            storable(value),
        )
    if where.acl:
        shared = marks(where.acl)
        require(
            "(NOT EXISTS (SELECT 1 FROM document_groups AS g WHERE g.document = d.key)"
            " OR EXISTS (SELECT 1 FROM document_groups AS g WHERE g.document = d.key"
            f" AND g.name IN ({shared})))",
            *(storable(group.strip()) for group in where.acl),
        )
    rows = connection.execute(
        "SELECT p.key FROM documents AS d JOIN passages AS p ON p.document = d.key"
        f" WHERE {' AND '.join(conditions) or '1'}",
        values,
    )
    return np.sort(np.fromiter((key for (key,) in rows), dtype=np.int64))


def document_keys(connection: sqlite3.Connection, ids: Sequence[str]) -> dict[str, int]:
    """The row keys of those documents that are there."""
    found: dict[str, int] = {}
    for batch in batches([storable(name) for name in dict.fromkeys(ids)]):
        rows = connection.execute(
            f"SELECT id, key FROM documents WHERE id IN ({marks(batch)})", batch
        )
        found.update(rows.fetchall())
    return found


def _metadata(where: Filter) -> list[tuple[str, str]]:
    named = [("tenant", where.tenant), ("space", where.space), ("node_type", where.node_type)]
    return [(name, value) for name, value in named if value] + list(where.metadata.items())


def counts(connection: sqlite3.Connection) -> dict[str, int]:
    """The number of entities, facts and relations; empty for a pack of schema 1."""
    if schema_version(connection) < KNOWLEDGE_SCHEMA:
        return {}
    row = connection.execute(
        "SELECT (SELECT count(*) FROM entities WHERE known), (SELECT count(*) FROM facts),"
        " (SELECT count(*) FROM relations)"
    ).fetchone()
    return dict(zip(("entities", "facts", "relations"), row, strict=True))


class PackKnowledge:
    """``KnowledgeQueries`` of one snapshot of a pack."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._has_entities = schema_version(connection) >= KNOWLEDGE_SCHEMA

    def entities(self, keys: Sequence[str]) -> Iterator[EntityRow]:
        return self._each(
            f"SELECT {_ENTITY} FROM entities AS e WHERE e.known AND e.name IN ({{}})", keys
        )

    def entities_like(self, key: str, most: int) -> Iterator[EntityRow]:
        words = key.split()
        return self._select(
            f"SELECT {_ENTITY} FROM entities AS e WHERE e.known AND"
            + " AND ".join(["' ' || e.name || ' ' LIKE ? ESCAPE '\\'"] * len(words))
            + " ORDER BY e.name <> ?, e.passages DESC, length(e.name), e.name LIMIT ?",
            (*(f"% {_escaped(word)} %" for word in words), key, most),
        )

    def titles(self, entities: Sequence[EntityId]) -> Iterator[tuple[EntityId, str, str]]:
        return self._each(
            "SELECT a.entity, d.id, d.title FROM aliases AS a JOIN documents AS d"
            " ON d.key = a.document WHERE a.entity IN ({}) ORDER BY d.id",
            entities,
        )

    def mentioned(
        self, passages: Sequence[Key]
    ) -> tuple[Iterator[PlaceRow], Iterator[tuple[Key, EntityRow]]]:
        keys = integers(passages)
        places = self._each(
            f"SELECT {_PLACE} FROM passages AS p JOIN documents AS d ON d.key = p.document"
            " WHERE p.key IN ({})",
            keys,
        )
        rows = self._each(
            f"SELECT m.passage, {_ENTITY} FROM mentions AS m JOIN entities AS e"
            " ON e.key = m.entity WHERE e.known AND m.passage IN ({})"
            " ORDER BY m.passage, m.entity",
            keys,
        )
        return places, ((passage, tuple(row)) for passage, *row in rows)

    def mentioning(
        self, entities: Sequence[EntityId], most: int
    ) -> Iterator[tuple[EntityId, PlaceRow]]:
        # One statement each stops at the last row it needs; a window over all does not.
        for entity in integers(entities):
            for place in self._select(
                f"SELECT {_PLACE} FROM mentions AS x {_PLACED}"
                " WHERE x.entity = ? ORDER BY x.passage LIMIT ?",
                (entity, most),
            ):
                yield entity, place

    def first_passages(self, documents: Sequence[str], most: int) -> Iterator[tuple[str, Key]]:
        for document in documents:
            for (key,) in self._connection.execute(
                "SELECT key FROM passages WHERE document = (SELECT key FROM documents WHERE id = ?)"
                " ORDER BY position LIMIT ?",
                (document, most),
            ):
                yield document, key

    def facts_about(self, keys: Sequence[str], most: int) -> Iterator[tuple[str, str, PlaceRow]]:
        order = "WHERE e.name IN ({}) ORDER BY d.id, p.position, x.position"
        for about, text, *place in self._each(f"{_FACTS} {order}", keys):
            yield about, text, tuple(place)

    def facts_in(self, passages: Sequence[Key]) -> Iterator[tuple[str, str, PlaceRow]]:
        order = "WHERE x.passage IN ({}) ORDER BY x.passage, x.position"
        for about, text, *place in self._each(f"{_FACTS} {order}", integers(passages)):
            yield about, text, tuple(place)

    def relations(
        self, keys: Sequence[str], most: int
    ) -> Iterator[tuple[str, str, str, str, PlaceRow]]:
        rows = self._each(
            f"SELECT s.name, x.relation, t.name, x.context, {_PLACE} FROM relations AS x"
            f" JOIN entities AS s ON s.key = x.source JOIN entities AS t ON t.key = x.target"
            f" {_PLACED} WHERE s.name IN ({{0}}) OR t.name IN ({{0}})"
            " ORDER BY d.id, p.position, x.position",
            keys,
            times=2,
        )
        for source, relation, target, context, *place in rows:
            yield source, relation, target, context, tuple(place)

    def extractions(self, passages: Sequence[Key]) -> Iterator[tuple[Key, Extraction]]:
        rows = self._each(
            "SELECT passage, payload FROM extractions WHERE passage IN ({})", integers(passages)
        )
        return ((key, read_extraction(json.loads(text))) for key, text in rows)

    def _each(self, query: str, values: Sequence[Any], times: int = 1) -> Iterator[Any]:
        """The rows of a query with ``{}`` for the values, in batches SQLite can bind."""
        for batch in batches(values):
            yield from self._select(query.format(marks(batch)), [*batch] * times)

    def _select(self, query: str, values: Sequence[Any]) -> Iterator[Any]:
        if self._has_entities:
            yield from self._connection.execute(query, values)


def _escaped(word: str) -> str:
    return word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
