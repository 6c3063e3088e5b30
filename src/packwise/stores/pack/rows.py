"""Documents and passages as rows of ``pack.sqlite``, and back."""

from __future__ import annotations

import json
import re
import sqlite3
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from packwise.documents import (
    Block,
    BlockKind,
    Document,
    Link,
    Passage,
    Section,
    passage_id,
)
from packwise.errors import EmbedderMismatch, StoreError
from packwise.language.names import Extraction
from packwise.stores.entity_extraction import extraction_payload, read_extraction

ACL = "acl"
"""The metadata key that holds, separated by commas, the groups that may see a document."""

_BATCH = 500
"""Values bound in one statement; the oldest SQLite still about takes 999."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_T = TypeVar("_T")

PASSAGE_COLUMNS = """p.key, p.position, p.section_path, p.first, p.past, p.content_hash, p.url,
    p.text, d.id, d.title, d.url, d.lang, d.metadata"""
PASSAGE_TABLES = "passages AS p JOIN documents AS d ON d.key = p.document"


@dataclass(frozen=True, slots=True)
class PassageRow:
    """What a passage adds to its document; the text is a slice of the document's."""

    position: int
    section_path: tuple[str, ...]
    start: int
    end: int
    content_hash: str
    url: str | None


def batches(values: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """The values in pieces that one statement can bind."""
    return (values[at : at + _BATCH] for at in range(0, len(values), _BATCH))


def marks(values: Sequence[Any]) -> str:
    """As many placeholders as there are values."""
    return ",".join("?" * len(values))


def storable(text: str) -> str:
    """The text without lone surrogates, which UTF-8 cannot hold; its length is kept."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def checked(
    document: Document, passages: Sequence[Passage], embedder_version: str
) -> tuple[Document, list[PassageRow]]:
    """The document and its passages, fit to store. Raises on what breaks their laws."""
    rows: list[PassageRow] = []
    seen: set[int] = set()
    for passage in passages:
        _check_passage(document, passage, embedder_version)
        if passage.order_index in seen:
            raise StoreError(f"{document.id}: two passages have order {passage.order_index}")
        seen.add(passage.order_index)
        rows.append(
            PassageRow(
                passage.order_index,
                tuple(storable(header) for header in passage.section_path),
                passage.start,
                passage.end,
                passage.content_hash,
                None if passage.url == document.url else storable(passage.url),
            )
        )
    return _storable_document(document), rows


def passage_of(document: Document, row: PassageRow, embedder_version: str) -> Passage:
    """The passage that a checked row means."""
    return Passage(
        id=passage_id(document.id, row.position),
        document=document.id,
        doc_title=document.title,
        section_path=row.section_path,
        order_index=row.position,
        text=document.text[row.start : row.end],
        start=row.start,
        end=row.end,
        content_hash=row.content_hash,
        embedder_version=embedder_version,
        url=document.url if row.url is None else row.url,
        lang=document.lang,
        metadata=document.metadata,
    )


def _check_passage(document: Document, passage: Passage, embedder_version: str) -> None:
    if passage.embedder_version not in ("", embedder_version):
        raise EmbedderMismatch(
            f"passage {passage.id} was embedded by {passage.embedder_version}, "
            f"this build writes {embedder_version}",
            fix="embed it with the embedder of the build",
        )
    if document.text[passage.start : passage.end] != passage.text:
        raise StoreError(f"passage {passage.id} is not the text at its own offsets")
    if not passage.content_hash:
        raise StoreError(f"passage {passage.id} has no content hash")
    own = (
        passage.id,
        passage.document,
        passage.doc_title,
        passage.lang,
        dict(passage.metadata),
    )
    expected = (
        passage_id(document.id, passage.order_index),
        document.id,
        document.title,
        document.lang,
        dict(document.metadata),
    )
    if own != expected:
        raise StoreError(
            f"passage {passage.id} does not carry its document's id, title, language and metadata"
        )


def _storable_document(document: Document) -> Document:
    return replace(
        document,
        id=storable(document.id),
        title=storable(document.title),
        text=storable(document.text),
        url=storable(document.url),
        lang=storable(document.lang),
        source_hash=storable(document.source_hash),
        metadata={storable(k): storable(v) for k, v in document.metadata.items()},
        sections=tuple(
            replace(section, path=tuple(storable(header) for header in section.path))
            for section in document.sections
        ),
        links=tuple(
            replace(
                link,
                href=storable(link.href),
                anchor=storable(link.anchor),
                kind=storable(link.kind),
            )
            for link in document.links
        ),
    )


def pack_payload(
    document: Document, passages: Sequence[PassageRow], extractions: Sequence[Extraction] = ()
) -> bytes:
    """A staged document with its passages and what was extracted from them, compressed."""
    content = {
        "title": document.title,
        "text": document.text,
        "url": document.url,
        "lang": document.lang,
        "metadata": dict(document.metadata),
        "sections": [
            [list(s.path), s.level, s.start, s.end, _blocks(s.blocks)] for s in document.sections
        ],
        "links": [[k.href, k.anchor, k.start, k.kind] for k in document.links],
        "passages": [
            [p.position, list(p.section_path), p.start, p.end, p.content_hash, p.url]
            for p in passages
        ],
        "extractions": [extraction_payload(extraction) for extraction in extractions],
    }
    return zlib.compress(storable(json.dumps(content, ensure_ascii=False)).encode(), 3)


def unpack_payload(
    document_id: str, source_hash: str, payload: bytes
) -> tuple[Document, list[PassageRow], list[Extraction]]:
    """The inverse of ``pack_payload``."""
    content = json.loads(zlib.decompress(payload))
    document = Document(
        id=document_id,
        title=content["title"],
        text=content["text"],
        url=content["url"],
        lang=content["lang"],
        metadata=content["metadata"],
        source_hash=source_hash,
        sections=tuple(
            Section(tuple(path), level, _as_blocks(blocks), start, end)
            for path, level, start, end, blocks in content["sections"]
        ),
        links=tuple(
            Link(href=href, anchor=anchor, start=start, kind=kind)
            for href, anchor, start, kind in content["links"]
        ),
    )
    passages = [
        PassageRow(position, tuple(path), start, end, content_hash, url)
        for position, path, start, end, content_hash, url in content["passages"]
    ]
    return document, passages, [read_extraction(e) for e in content.get("extractions", ())]


def insert_document(connection: sqlite3.Connection, document: Document, key: int | None) -> int:
    """Write a document with its sections, links and metadata; the row's key.

    With ``key`` the document of that key is replaced, so that links to it stay whole.
    """
    columns = (
        document.id,
        document.title,
        document.url,
        document.lang,
        document.source_hash,
        json.dumps(dict(document.metadata), ensure_ascii=False),
        zlib.compress(document.text.encode()),
    )
    if key is None:
        cursor = connection.execute(
            "INSERT INTO documents (id, title, url, lang, source_hash, metadata, text)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            columns,
        )
        assert cursor.lastrowid is not None
        key = cursor.lastrowid
    else:
        connection.execute(
            "UPDATE documents SET id = ?, title = ?, url = ?, lang = ?, source_hash = ?,"
            " metadata = ?, text = ? WHERE key = ?",
            (*columns, key),
        )
        for table in ("document_metadata", "document_groups", "sections", "links", "passages"):
            connection.execute(f"DELETE FROM {table} WHERE document = ?", (key,))
    connection.executemany(
        "INSERT INTO document_metadata (document, name, value) VALUES (?, ?, ?)",
        [(key, name, value) for name, value in document.metadata.items()],
    )
    connection.executemany(
        "INSERT INTO document_groups (document, name) VALUES (?, ?)",
        [(key, group) for group in groups(document.metadata)],
    )
    connection.executemany(
        "INSERT INTO sections (document, position, path, level, first, past, blocks)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        [
            (key, i, _json(list(s.path)), s.level, s.start, s.end, _json(_blocks(s.blocks)))
            for i, s in enumerate(document.sections)
        ],
    )
    connection.executemany(
        "INSERT INTO links (document, position, href, page, anchor, first, kind)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        [
            (key, i, k.href, k.href.partition("#")[0], k.anchor, k.start, k.kind)
            for i, k in enumerate(document.links)
        ],
    )
    return key


def insert_passage(
    connection: sqlite3.Connection,
    document_key: int,
    document: Document,
    passage: PassageRow,
    embedder: int,
) -> int:
    """Write a passage; its vector must be there already. The passage's key."""
    cursor = connection.execute(
        "INSERT INTO passages (document, position, section_path, first, past, content_hash,"
        " url, vector, text) SELECT ?, ?, ?, ?, ?, ?, ?, v.key, ? FROM vectors AS v"
        " WHERE v.content_hash = ? AND v.embedder = ?",
        (
            document_key,
            passage.position,
            _json(list(passage.section_path)),
            passage.start,
            passage.end,
            passage.content_hash,
            passage.url,
            document.text[passage.start : passage.end],
            passage.content_hash,
            embedder,
        ),
    )
    if cursor.rowcount != 1 or cursor.lastrowid is None:
        raise StoreError(f"{document.id}: passage {passage.position} has no vector")
    return cursor.lastrowid


def groups(metadata: Mapping[str, str]) -> list[str]:
    """The groups that may see a document; none means everybody."""
    names = (name.strip() for name in metadata.get(ACL, "").split(","))
    return list(dict.fromkeys(name for name in names if name))


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
            Section(tuple(json.loads(path)), level, _as_blocks(json.loads(blocks)), first, past)
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


def to_half(vectors: NDArray[np.float32]) -> NDArray[np.float16]:
    """Vectors as stored: L2-normalised, then rounded to half precision."""
    return normalised(np.asarray(vectors, dtype=np.float32)).astype("<f2")


def normalised(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Rows of length 1; a row of zeros stays as it is."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)


def from_blob(blob: bytes) -> NDArray[np.float32]:
    """A stored vector, L2-normalised again."""
    return normalised(np.frombuffer(blob, dtype="<f2").astype(np.float32))


def _blocks(blocks: Sequence[Block]) -> list[list[Any]]:
    return [[block.kind.value, block.start, block.end] for block in blocks]


def _as_blocks(blocks: Sequence[Sequence[Any]]) -> tuple[Block, ...]:
    return tuple(Block(BlockKind(kind), start, end) for kind, start, end in blocks)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
