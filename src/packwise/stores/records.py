"""Documents and their passages as stores keep them: checked, and as JSON."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypedDict

from packwise.documents import Block, BlockKind, Document, Link, Passage, Section, passage_id
from packwise.errors import EmbedderMismatch, StoreError
from packwise.language.names import Extraction
from packwise.reading.passage_reading import stored_reading
from packwise.stores.checks import storable
from packwise.stores.extractions import extraction_payload, read_extraction

ACL = "acl"
"""The metadata key that holds the groups that may see a document, separated by commas."""

_MOST_PAYLOAD = 512 << 20
"""Bytes that a staged document may unpack to: twice the longest text."""

_MOST_CHARACTERS = 1 << 40
_KINDS: Mapping[str, BlockKind] = {str(kind.value): kind for kind in BlockKind}

LinkParts = tuple[str, str, int, str]
"""Href, anchor, start and kind of a link."""


class PassageRecord(NamedTuple):
    """What a passage adds to its document; the text is a slice of the document's.

    ``url`` is ``None`` where it is the document's. ``layout`` holds its lead, blocks, place and
    reading as JSON; it is empty where they are not known.
    """

    position: int
    section_path: tuple[str, ...]
    start: int
    end: int
    content_hash: str
    url: str | None
    layout: str = ""


def groups(metadata: Mapping[str, str]) -> list[str]:
    """The groups that may see a document; none means everyone (``checked_document`` refuses a
    list that names none)."""
    names = (name.strip() for name in metadata.get(ACL, "").split(","))
    return list(dict.fromkeys(name for name in names if name))


def checked_document(
    document: Document, passages: Sequence[Passage], embedder_version: str
) -> tuple[Document, list[PassageRecord]]:
    """The document and its passages, ready to store. Raises ``StoreError`` where a passage
    does not belong to the document, ``EmbedderMismatch`` where another embedder read it."""
    if any(key.lower() == ACL for key in document.metadata) and not groups(document.metadata):
        raise StoreError(
            f"{document.id}: its access list names no group, so everyone could see it",
            fix=f'give "{ACL}" the groups that may see it, separated by commas',
        )
    stored = _storable_document(document)
    records: dict[int, PassageRecord] = {}
    for passage in passages:
        _check_passage(document, passage, embedder_version)
        if passage.order_index in records:
            raise StoreError(f"{document.id}: two passages have order {passage.order_index}")
        path, text = tuple(map(storable, passage.section_path)), storable(passage.text)
        as_stored = passage
        if (stored.title, path, text) != (passage.doc_title, passage.section_path, passage.text):
            as_stored = replace(passage, doc_title=stored.title, section_path=path, text=text)
        records[passage.order_index] = PassageRecord(
            passage.order_index,
            path,
            passage.start,
            passage.end,
            passage.content_hash,
            None if passage.url == document.url else storable(passage.url),
            layout_text(as_stored),
        )
    return stored, list(records.values())


def passage_of(document: Document, record: PassageRecord, embedder_version: str) -> Passage:
    """The passage that a record of a document stands for."""
    return Passage(
        id=passage_id(document.id, record.position),
        document=document.id,
        doc_title=document.title,
        section_path=record.section_path,
        order_index=record.position,
        text=document.text[record.start : record.end],
        start=record.start,
        end=record.end,
        content_hash=record.content_hash,
        embedder_version=embedder_version,
        url=document.url if record.url is None else record.url,
        lang=document.lang,
        metadata=document.metadata,
        **read_layout(record.layout),
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
    inner = [at for b in passage.blocks for at in (b.start, b.end)]
    edges = [passage.start, *inner, passage.end]
    if edges != sorted(edges):
        raise StoreError(f"passage {passage.id} has blocks outside of it or out of order")
    if not passage.content_hash:
        raise StoreError(f"passage {passage.id} has no content hash")
    own = (passage.id, passage.document, passage.doc_title, passage.lang, dict(passage.metadata))
    name = passage_id(document.id, passage.order_index)
    if own != (name, document.id, document.title, document.lang, dict(document.metadata)):
        raise StoreError(
            f"passage {passage.id} does not carry its document's id, title, language and metadata"
        )


def _storable_document(document: Document) -> Document:
    texts = ("id", "title", "text", "url", "lang", "source_hash")
    return replace(
        document,
        **{name: storable(getattr(document, name)) for name in texts},
        metadata={storable(k): storable(v) for k, v in document.metadata.items()},
        sections=tuple(
            s if (path := tuple(map(storable, s.path))) == s.path else replace(s, path=path)
            for s in document.sections
        ),
        links=tuple(
            replace(k, href=storable(k.href), anchor=storable(k.anchor), kind=storable(k.kind))
            for k in document.links
        ),
    )


def pack_payload(
    document: Document, passages: Sequence[PassageRecord], extractions: Sequence[Extraction] = ()
) -> bytes:
    """A staged document with its passages and what was extracted from them, compressed."""
    content = {
        "title": document.title,
        "text": document.text,
        "url": document.url,
        "lang": document.lang,
        "metadata": dict(document.metadata),
        "sections": _section_rows(document),
        "links": _link_rows(document),
        "passages": [
            (p.position, p.section_path, p.start, p.end, p.content_hash, p.url, p.layout)
            for p in passages
        ],
        "extractions": [extraction_payload(extraction) for extraction in extractions],
    }
    return zlib.compress(storable(json.dumps(content, ensure_ascii=False)).encode(), 3)


def unpack_payload(
    document_id: str, source_hash: str, payload: bytes
) -> tuple[Document, list[PassageRecord], list[Extraction]]:
    """The inverse of ``pack_payload``. Raises ``ValueError`` and the like on anything else."""
    unpacking = zlib.decompressobj()
    try:
        packed = unpacking.decompress(payload, _MOST_PAYLOAD)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if not unpacking.eof:
        raise ValueError("what was staged is incomplete or too large")
    content = json.loads(packed)
    document = Document(
        id=document_id,
        source_hash=source_hash,
        sections=_sections(content["sections"]),
        links=tuple(
            Link(href=href, anchor=anchor, start=start, kind=kind)
            for href, anchor, start, kind in content["links"]
        ),
        **{name: content[name] for name in ("title", "text", "url", "lang", "metadata")},
    )
    passages = [
        PassageRecord(position, tuple(path), *rest) for position, path, *rest in content["passages"]
    ]
    return document, passages, [read_extraction(e) for e in content.get("extractions", ())]


def sections_text(document: Document) -> str:
    """The sections of a document with their blocks, as JSON."""
    return json.dumps(_section_rows(document), ensure_ascii=False)


def read_sections(text: str) -> tuple[Section, ...]:
    """The inverse of ``sections_text``."""
    return _sections(json.loads(text))


def links_text(document: Document) -> str:
    """The links of a document as their author wrote them, as JSON."""
    return json.dumps(_link_rows(document), ensure_ascii=False)


def read_links(text: str) -> list[LinkParts]:
    """The inverse of ``links_text``."""
    return [(href, anchor, start, kind) for href, anchor, start, kind in json.loads(text)]


_NO_LAYOUT: tuple[Any, ...] = ("", (), "", "")


class PassageLayout(TypedDict):
    """The fields of a passage that are stored as one text."""

    lead: str
    blocks: tuple[Block, ...]
    place: str
    reading: str


def layout_text(passage: Passage) -> str:
    """The lead, the blocks, the place and the reading of a passage as JSON."""
    lead = storable(passage.lead)
    reading = stored_reading(passage if lead == passage.lead else replace(passage, lead=lead))
    rows = [lead, block_rows(passage.blocks), storable(passage.place), reading]
    return json.dumps(rows, ensure_ascii=False, separators=(",", ":"))


def read_layout(text: str) -> PassageLayout:
    """The inverse of ``layout_text``; earlier builds stored less, or nothing at all."""
    rows: list[Any] = json.loads(text) if text else []
    lead, blocks, place, reading = [*rows, *_NO_LAYOUT[len(rows) :]]
    return PassageLayout(lead=lead, blocks=read_blocks(blocks), place=place, reading=reading)


def block_rows(blocks: Iterable[Block]) -> list[list[Any]]:
    """Blocks as plain JSON values."""
    return [[block.kind.value, block.start, block.end] for block in blocks]


def read_blocks(rows: Iterable[Sequence[Any]]) -> tuple[Block, ...]:
    """The inverse of ``block_rows``. Raises ``TypeError`` or ``ValueError`` on other rows."""
    blocks: list[Block] = []
    for kind, start, end in rows:
        if type(start) is not int or type(end) is not int:
            raise TypeError("a block has a place that is not a number")
        if not 0 <= start <= end < _MOST_CHARACTERS:
            raise ValueError("a block has a place outside its text")
        blocks.append(Block(_KINDS.get(kind) or BlockKind(kind), start, end))
    return tuple(blocks)


def _section_rows(document: Document) -> list[list[Any]]:
    return [
        [list(s.path), s.level, s.start, s.end, block_rows(s.blocks)] for s in document.sections
    ]


def _sections(rows: Iterable[Sequence[Any]]) -> tuple[Section, ...]:
    return tuple(
        Section(tuple(path), level, read_blocks(blocks), start, end)
        for path, level, start, end, blocks in rows
    )


def _link_rows(document: Document) -> list[list[Any]]:
    return [[link.href, link.anchor, link.start, link.kind] for link in document.links]
