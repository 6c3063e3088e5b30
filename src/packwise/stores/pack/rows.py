"""Rows of ``pack.sqlite``: their checksums, and how they are read without being trusted.

A row that does not hold what it should raises ``StoreDamaged``, which names it.
"""

from __future__ import annotations

import json
import math
import sqlite3
import zlib
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from packwise.documents import Document, Link, Passage, Section, passage_id
from packwise.errors import StoreDamaged, StoreError
from packwise.stores.base import DocumentSummary
from packwise.stores.pack.database import schema_version
from packwise.stores.pack.queries import batches, marks
from packwise.stores.pack.schema import CHECKSUM_SCHEMA, LAYOUT_SCHEMA, row_checksum
from packwise.stores.pack.seal import DamagedIndex
from packwise.stores.pack.vectors import Half, Keys
from packwise.stores.records import read_blocks, read_layout

MOST_TEXT = 256 << 20
"""Bytes of a document's text; more is refused, and never expanded."""

_PASSAGE = """p.key, p.document, p.position, p.section_path, p.first, p.past, p.content_hash, p.url,
    p.text, d.id, d.title, d.url, d.lang, d.source_hash, d.metadata"""
_WRONG = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)
_TEXT, _NUMBER = frozenset({str}), frozenset({int})
_VERIFY = "packwise pack verify PACK"
_BLOCK = 1024


def passage_query(connection: sqlite3.Connection, first: str = "") -> str:
    """The beginning of a query whose rows ``read_passage`` reads, after the columns of
    ``first``. A pack of an earlier schema has no layouts and no checksums."""
    version = schema_version(connection)
    layout = "p.layout" if version >= LAYOUT_SCHEMA else "''"
    checksums = "p.checksum, d.checksum" if version >= CHECKSUM_SCHEMA else "NULL, NULL"
    return (
        f"SELECT {first}{_PASSAGE}, {layout}, {checksums}"
        " FROM passages AS p JOIN documents AS d ON d.key = p.document"
    )


def read_passage(row: Sequence[Any], embedder_version: str) -> tuple[int, Passage]:
    """A passage with its key, from a row of ``passage_query``."""
    key, document, position, path, first, past, digest, own_url, text, *rest = row
    doc, title, url, lang, source_hash, metadata, layout, checksum, document_checksum = rest
    try:
        _check(checksum, document, position, path, first, past, digest, own_url, text, layout)
        _integers(key, position, first, past)
        _texts(text, digest, layout, "" if own_url is None else own_url)
        sections, more = _strings(path), read_layout(layout)
        _texts(more["lead"], more["place"], more["reading"])
    except _WRONG as error:
        raise _damaged(f"passage {key}", error) from error
    try:
        known = _document_metadata(doc, title, url, lang, source_hash, metadata, document_checksum)
    except _WRONG as error:
        raise _damaged(f"document {doc}", error) from error
    return key, Passage(
        id=passage_id(doc, position),
        document=doc,
        doc_title=title,
        section_path=sections,
        order_index=position,
        text=text,
        start=first,
        end=past,
        content_hash=digest,
        embedder_version=embedder_version,
        url=url if own_url is None else own_url,
        lang=lang,
        metadata=known,
        **more,
    )


@lru_cache(maxsize=1024)
def _document_metadata(
    doc: Any, title: Any, url: Any, lang: Any, source_hash: Any, metadata: Any, checksum: int | None
) -> Mapping[str, str]:
    """The metadata in the columns of a document, which are checked. The passages that a search
    reads are often of the same documents."""
    _check(checksum, doc, title, url, lang, source_hash, metadata)
    _texts(doc, title, url, lang)
    return read_metadata(metadata)


def read_document(connection: sqlite3.Connection, document_id: str) -> Document | None:
    """A document with everything that belongs to it."""
    checksum = "checksum" if schema_version(connection) >= CHECKSUM_SCHEMA else "NULL"
    row = connection.execute(
        "SELECT key, title, url, lang, source_hash, metadata, text,"
        f" {checksum} FROM documents WHERE id = ?",
        (document_id,),
    ).fetchone()
    if row is None:
        return None
    key, title, url, lang, source_hash, metadata, text, checksum = row
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
    with decoding(f"document {document_id}"):
        _check(checksum, document_id, title, url, lang, source_hash, metadata)
        _texts(title, url, lang, source_hash)
        return Document(
            id=document_id,
            title=title,
            text=expand(text),
            sections=tuple(_section(*columns) for columns in sections),
            links=tuple(
                read_link(href, anchor, first, target, kind)
                for href, anchor, first, kind, target in links
            ),
            url=url,
            lang=lang,
            metadata=read_metadata(metadata),
            source_hash=source_hash,
        )


def read_summary(columns: Sequence[Any], metadata: Any) -> DocumentSummary:
    """A document in brief: id, title, URL, language, hash, passages, PageRank; its metadata."""
    with decoding(f"document {columns[0]}"):
        _texts(*columns[:5])
        check_rank(columns[6])
        return DocumentSummary(*columns, metadata=read_metadata(metadata))


def read_link(href: Any, anchor: Any, first: Any, target: Any, kind: Any) -> Link:
    """A link of a document. Raises ``TypeError``."""
    _texts(href, anchor, kind, "" if target is None else target)
    _integers(first)
    return Link(href, anchor, first, target, kind)


def read_links(connection: sqlite3.Connection, names: Sequence[str]) -> list[tuple[str, Link]]:
    """The links of these documents to others, document by document."""
    found: dict[str, list[Link]] = {}
    for batch in batches(names):
        rows = connection.execute(
            "SELECT d.id, k.href, k.anchor, k.first, t.id, k.kind FROM links AS k"
            " JOIN documents AS d ON d.key = k.document"
            " JOIN documents AS t ON t.key = k.target"
            f" WHERE d.id IN ({marks(batch)}) ORDER BY k.document, k.position",
            batch,
        )
        for name, *columns in rows:
            with decoding(f"a link of document {name}"):
                found.setdefault(name, []).append(read_link(*columns))
    return [(name, link) for name in names for link in found.get(name, [])]


def read_ranks(connection: sqlite3.Connection, names: Sequence[str]) -> dict[str, float]:
    """The PageRank of those of these documents that are stored."""
    found: dict[str, float] = {}
    for batch in batches(names):
        rows = connection.execute(
            "SELECT d.id, r.pagerank FROM documents AS d JOIN ranks AS r ON r.document = d.key"
            f" WHERE d.id IN ({marks(batch)})",
            batch,
        )
        for name, rank in rows:
            with decoding(f"document {name}"):
                check_rank(rank)
            found[name] = rank
    return found


def check_rank(rank: Any) -> None:
    """Raise ``TypeError`` unless this is the PageRank of a document."""
    if not isinstance(rank, (int, float)) or not math.isfinite(rank):
        raise TypeError("it has a PageRank that is not a number")


def read_languages(connection: sqlite3.Connection) -> Iterator[str]:
    """The language of each document."""
    with decoding("the language of a document"):
        for (lang,) in connection.execute("SELECT lang FROM documents"):
            _texts(lang)
            yield lang


def _section(path: Any, level: Any, first: Any, past: Any, blocks: Any) -> Section:
    _integers(level, first, past)
    return Section(_strings(path), level, read_blocks(json.loads(blocks)), first, past)


def read_metadata(text: Any) -> dict[str, str]:
    """The metadata of a document. Raises ``ValueError`` or ``TypeError``."""
    values: Any = json.loads(text)
    if not isinstance(values, dict):
        raise TypeError("metadata is not an object")
    known = cast("dict[str, Any]", values)
    _texts(*known.values())
    return known


def read_vector(passage: Any, blob: Any, dim: int, checksum: int | None = None) -> NDArray[Any]:
    """The vector of a passage, as stored."""
    with decoding(f"the vector of passage {passage}"):
        if not isinstance(blob, bytes) or len(blob) != 2 * dim:
            raise ValueError(f"it does not have {dim} dimensions")
        if checksum is not None and row_checksum(blob) != checksum:
            raise ValueError("its checksum differs")
        return np.frombuffer(blob, dtype="<f2")


def compress(document: str, text: str) -> bytes:
    """A text as ``documents`` holds it. Raises ``StoreError`` on one that is too long."""
    content = text.encode()
    if len(content) > MOST_TEXT:
        raise StoreError(f"{document} has more than {MOST_TEXT >> 20} MB of text", fix="split it")
    return zlib.compress(content)


def expand(blob: Any) -> str:
    """The inverse. Raises ``ValueError`` or ``TypeError``."""
    unpacking = zlib.decompressobj()
    try:
        content = unpacking.decompress(blob, MOST_TEXT + 1)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if len(content) > MOST_TEXT:
        raise ValueError(f"its text is larger than {MOST_TEXT >> 20} MB")
    if not unpacking.eof or unpacking.unused_data:
        raise ValueError("its text is incomplete")
    return content.decode()


@contextmanager
def decoding(what: str) -> Generator[None]:
    """Turn what wrong values raise into ``StoreDamaged``, which names what holds them."""
    try:
        yield
    except _WRONG as error:
        raise _damaged(what, error) from error


def _damaged(what: str, error: Exception) -> StoreDamaged:
    reason = " ".join(str(error).split())[:200]
    return StoreDamaged(f"{what} is damaged: {reason}", fix=_VERIFY)


def _check(checksum: int | None, *values: Any) -> None:
    if checksum is not None and row_checksum(*values) != checksum:
        raise ValueError("its checksum differs")


def _texts(*values: Any) -> None:
    if not _TEXT.issuperset(map(type, values)):
        raise TypeError("it holds a value that is not text")


def _integers(*values: Any) -> None:
    if not _NUMBER.issuperset(map(type, values)) or min(values) < 0:
        raise TypeError("it holds a value that is not a number")


def _strings(text: Any) -> tuple[str, ...]:
    values: Any = json.loads(text)
    if not isinstance(values, list):
        raise TypeError("it holds a value that is not a list")
    _texts(*cast("list[Any]", values))
    return tuple(cast("list[str]", values))


def stored_vectors(connection: sqlite3.Connection, keys: Keys, dim: int) -> Half:
    """The vectors of these keys (ascending), as stored."""
    blocks = [half for _, half in vector_blocks(connection, keys, dim)]
    return np.concatenate(blocks) if blocks else np.empty((0, dim), dtype="<f2")


def vector_blocks(
    connection: sqlite3.Connection, keys: Keys, dim: int
) -> Iterator[tuple[Keys, Half]]:
    """The same, some at a time."""
    checksum = "v.checksum" if schema_version(connection) >= CHECKSUM_SCHEMA else "NULL"
    select = (
        f"SELECT p.key, v.vector, {checksum}"
        " FROM passages AS p JOIN vectors AS v ON v.key = p.vector"
    )
    for at in range(0, len(keys), _BLOCK):
        block = keys[at : at + _BLOCK]
        rows = list(rows_of_keys(connection, select, block))
        if [key for key, _, _ in rows] != block.tolist():
            raise DamagedIndex("the database holds other passages than the index")
        yield block, np.stack([read_vector(key, blob, dim, crc) for key, blob, crc in rows])


def rows_of_keys(connection: sqlite3.Connection, select: str, keys: Keys) -> Iterator[Any]:
    """The rows of a query over passages ``p`` with these keys (ascending)."""
    for batch in batches(keys.tolist()):
        yield from connection.execute(
            f"{select} WHERE p.key IN ({marks(batch)}) ORDER BY p.key", batch
        )
