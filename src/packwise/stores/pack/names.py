"""Which passages share which names, as arrays that are mapped from a file.

Graph ranking reads from here what would otherwise be hundreds of rows of SQL per search
(``name_arrays``).
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from packwise.language.names import name_key
from packwise.stores.pack.database import schema_version
from packwise.stores.pack.schema import KNOWLEDGE_SCHEMA

NAMES = "names.bin"
_ALIGNMENT = 64
_MOST_HEADER = 1 << 16
_PAIRS = 1 << 16

Array = NDArray[Any]
Keys = NDArray[np.int64]
Pairs = Iterable[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class NameTable:
    """Entities, documents and passages, each ascending by key, and what belongs to each.

    ``x_ends[i - 1] : x_ends[i]`` is where the list of row ``i`` stands in ``x``. ``hashes`` are
    those of the names, ascending, and ``hashed`` the row of each. ``mentioned`` and ``contents``
    are rows of passages; ``titled``, ``homes`` and ``mentions`` are keys.
    """

    entities: Array
    known: Array
    counts: Array
    names: Array
    names_ends: Array
    hashes: Array
    hashed: Array
    titled: Array
    titled_ends: Array
    mentioned: Array
    mentioned_ends: Array
    documents: Array
    articles: Array
    titles: Array
    titles_ends: Array
    contents: Array
    contents_ends: Array
    passages: Array
    homes: Array
    passage_articles: Array
    mentions: Array
    mentions_ends: Array

    @classmethod
    def empty(cls) -> NameTable:
        """A table of nothing."""
        return _table((), (), (), (), ())

    def write(self, path: Path) -> None:
        """Write all arrays into one file."""
        header: dict[str, list[Any]] = {}
        at = 0
        for field in fields(self):
            content: Array = getattr(self, field.name)
            header[field.name] = [content.dtype.str, len(content), at]
            at += -(-content.nbytes // _ALIGNMENT) * _ALIGNMENT
        text = json.dumps(header).encode()
        text += b" " * (-(len(text) + 8) % _ALIGNMENT)
        with path.open("wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            for field in fields(self):
                _write_padded(file, getattr(self, field.name))

    @classmethod
    def open(cls, path: Path) -> NameTable:
        """Map the arrays of a file. Raises ``ValueError`` where it is not one."""
        content = np.memmap(path, dtype=np.uint8, mode="r")
        length = int.from_bytes(content[:8].tobytes(), "little")
        if not 0 < length < min(_MOST_HEADER, len(content)):
            raise ValueError(f"{path.name} does not begin as a table of names")
        header = json.loads(content[8 : 8 + length].tobytes())
        arrays: list[Array] = []
        for field in fields(cls):
            kind, count, at = header[field.name]
            dtype = np.dtype(kind)
            start = 8 + length + at
            arrays.append(np.asarray(content[start : start + count * dtype.itemsize]).view(dtype))
        return cls(*arrays)

    def list_of(self, name: str, row: int) -> Array:
        """A list of one row."""
        ends: Array = getattr(self, f"{name}_ends")
        return getattr(self, name)[ends[row - 1] if row else 0 : ends[row]]

    def lists_of(self, name: str, rows: Keys) -> list[Array]:
        """The lists of several rows."""
        values: Array = getattr(self, name)
        ends: Array = getattr(self, f"{name}_ends")
        starts = np.where(rows > 0, ends[rows - 1], 0).tolist()
        return [values[a:b] for a, b in zip(starts, ends[rows].tolist(), strict=True)]

    def text(self, name: str, row: int) -> str:
        """A list of bytes as text."""
        return self.list_of(name, row).tobytes().decode()


def _write_padded(file: IO[bytes], content: Array) -> None:
    file.write(content.data)
    file.write(b"\0" * (-content.nbytes % _ALIGNMENT))


def read_names(connection: sqlite3.Connection) -> NameTable:
    """The table of everything a pack holds."""
    known = schema_version(connection) >= KNOWLEDGE_SCHEMA
    run = connection.execute
    return _table(
        run("SELECT key, name, known, passages FROM entities ORDER BY key") if known else (),
        run(
            "SELECT a.entity, a.document FROM aliases AS a JOIN documents AS d"
            " ON d.key = a.document ORDER BY a.entity, d.id"
        )
        if known
        else (),
        run("SELECT passage, entity FROM mentions ORDER BY passage, entity") if known else (),
        run("SELECT key, id, title FROM documents ORDER BY key"),
        run("SELECT key, document, position FROM passages ORDER BY key"),
    )


def read_changed_names(
    connection: sqlite3.Connection, documents: Keys, entities: Keys
) -> NameTable:
    """The table of some documents, and of some entities besides those they mention. An entity
    that is no longer there is kept as an unknown one."""
    for table, keys in (("named_documents", documents), ("named_entities", entities)):
        connection.execute(f"CREATE TEMP TABLE IF NOT EXISTS {table} (key INTEGER PRIMARY KEY)")
        connection.execute(f"DELETE FROM temp.{table}")
        rows = ((key,) for key in keys.tolist())
        connection.executemany(f"INSERT INTO temp.{table} VALUES (?)", rows)
    # CROSS JOIN keeps the order of tables: from the few keys to the many rows.
    mentioned = (
        "temp.named_documents AS n CROSS JOIN passages AS p ON p.document = n.key"
        " CROSS JOIN mentions AS m ON m.passage = p.key"
    )
    run = connection.execute
    run(f"INSERT OR IGNORE INTO temp.named_entities SELECT m.entity FROM {mentioned}")
    return _table(
        run(
            "SELECT n.key, coalesce(e.name, ''), coalesce(e.known, 0), coalesce(e.passages, 0)"
            " FROM temp.named_entities AS n LEFT JOIN entities AS e ON e.key = n.key"
            " ORDER BY n.key"
        ),
        run(
            "SELECT a.entity, a.document FROM temp.named_entities AS n CROSS JOIN aliases AS a"
            " ON a.entity = n.key CROSS JOIN documents AS d ON d.key = a.document"
            " ORDER BY a.entity, d.id"
        ),
        run(f"SELECT m.passage, m.entity FROM {mentioned} ORDER BY m.passage, m.entity"),
        run(
            "SELECT d.key, d.id, d.title FROM temp.named_documents AS n CROSS JOIN documents AS d"
            " ON d.key = n.key ORDER BY d.key"
        ),
        run(
            "SELECT p.key, p.document, p.position FROM temp.named_documents AS n"
            " CROSS JOIN passages AS p ON p.document = n.key ORDER BY p.key"
        ),
    )


def _table(
    entity_rows: Iterable[tuple[int, str, int, int]],
    titled_pairs: Pairs,
    mention_pairs: Pairs,
    document_rows: Iterable[tuple[int, str, str]],
    passage_rows: Iterable[tuple[int, int, int]],
) -> NameTable:
    """The table of rows that are ascending by their first columns."""
    entities, known, counts, hashes = array("q"), array("B"), array("I"), array("Q")
    names = _Texts()
    for key, name, surely, count in entity_rows:
        entities.append(key)
        known.append(surely)
        counts.append(count)
        hashes.append(name_hash(name))
        names.append(name)
    documents, articles, titles = array("q"), array("Q"), _Texts()
    for key, name, title in document_rows:
        documents.append(key)
        articles.append(name_hash(name_key(title) or f"#{name}"))
        titles.append(title)
    passages = _columns(passage_rows, 3)
    reading = np.lexsort((passages[:, 2], passages[:, 1]))
    mentions = _mentions(mention_pairs, passages[:, 0], _frozen(entities))
    titled = _columns(titled_pairs, 2)
    entity_keys, document_keys = _frozen(entities), _frozen(documents)
    document_articles = _frozen(articles)
    name_hashes = _frozen(hashes)
    by_hash = np.argsort(name_hashes, kind="stable")
    return NameTable(
        entities=entity_keys,
        known=_frozen(known),
        counts=_frozen(counts),
        names=names.array(),
        names_ends=names.ends(),
        hashes=name_hashes[by_hash],
        hashed=by_hash.astype(np.uint32),
        titled=_small(titled[:, 1]),
        titled_ends=_ends(entity_keys, titled[:, 0]),
        mentioned=mentions.passages,
        mentioned_ends=mentions.passages_ends,
        documents=document_keys,
        articles=document_articles,
        titles=titles.array(),
        titles_ends=titles.ends(),
        contents=reading.astype(np.uint32),
        contents_ends=_ends(document_keys, passages[reading, 1]),
        passages=passages[:, 0].copy(),
        homes=_small(passages[:, 1]),
        passage_articles=document_articles[_places(document_keys, passages[:, 1])],
        mentions=mentions.entities,
        mentions_ends=mentions.entities_ends,
    )


class _Mentions(NamedTuple):
    """The entities that each passage mentions, and the rows of the passages that mention each
    entity, with the ends of these lists."""

    entities: Array
    entities_ends: Keys
    passages: Array
    passages_ends: Keys


def _mentions(pairs: Pairs, passages: Keys, entities: Keys) -> _Mentions:
    """The lists of (passage, entity) pairs.

    There are some twenty pairs for each passage, so that each is never held as more than the two
    numbers of the lists.
    """
    keys = array(_typecode(entities))
    lengths = np.zeros(len(passages), dtype=np.int64)
    counts = np.zeros(len(entities), dtype=np.int64)
    pairs = iter(pairs)
    while len(block := _columns(islice(pairs, _PAIRS), 2)):
        keys.frombytes(block[:, 1].astype(keys.typecode).tobytes())
        for all_keys, found, number in ((passages, 0, lengths), (entities, 1, counts)):
            rows, times = np.unique(_places(all_keys, block[:, found]), return_counts=True)
            number[rows] += times
    mentioned, ends = _frozen(keys), np.cumsum(lengths)
    homes = np.empty(len(mentioned), dtype=np.uint32)
    free = np.cumsum(counts) - counts
    for at in range(0, len(mentioned), _PAIRS):
        rows = _places(entities, mentioned[at : at + _PAIRS])
        order = np.argsort(rows, kind="stable")
        found, first, times = np.unique(rows[order], return_index=True, return_counts=True)
        nth = np.arange(len(rows)) - np.repeat(first, times)
        homes[free[rows[order]] + nth] = np.searchsorted(ends, at + order, side="right")
        free[found] += times
    return _Mentions(mentioned, ends, homes, np.cumsum(counts))


class _Texts:
    """Texts one after the other, as UTF-8."""

    def __init__(self) -> None:
        self._content = bytearray()
        self._ends = array("q")

    def append(self, text: str) -> None:
        self._content += text.encode()
        self._ends.append(len(self._content))

    def array(self) -> Array:
        return np.frombuffer(self._content, dtype=np.uint8)

    def ends(self) -> Array:
        return np.frombuffer(self._ends, dtype=np.int64)


def _frozen(values: array[int]) -> Array:
    return np.frombuffer(values, dtype=values.typecode)


def _columns(rows: Iterable[tuple[int, ...]], width: int) -> Array:
    """Rows of integers as a matrix."""
    flat = np.fromiter(chain.from_iterable(rows), dtype=np.int64)
    return flat.reshape(-1, width)


def _places(keys: Keys, wanted: Keys) -> Array:
    """The rows of keys. Raises ``ValueError`` if one is not there."""
    places = np.searchsorted(keys, wanted)
    if len(wanted) and (places.max() >= len(keys) or (keys[places] != wanted).any()):
        raise ValueError("a row refers to another that is not there")
    return places.astype(np.uint32)


def _ends(keys: Keys, owners: Keys) -> Array:
    """Where the list of each key ends; ``owners`` (ascending) are those of the elements."""
    return np.searchsorted(owners, keys, side="right").astype(np.int64)


def _small(values: Keys) -> Array:
    """The same in 4 bytes each, where they fit."""
    return values.astype(_typecode(values))


def _typecode(values: Keys) -> str:
    """That of 4 bytes where these keys fit in them, else of 8."""
    return "I" if len(values) == 0 or int(values.max()) < 1 << 32 else "q"


@lru_cache(maxsize=1 << 14)
def name_hash(text: str) -> int:
    """A name as 64 bits."""
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")
