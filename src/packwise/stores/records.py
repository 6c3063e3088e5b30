"""Documents and their passages as stores keep them: checked, and as JSON."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any

from packwise.documents import Block, BlockKind, Document, Link, Passage, Section, passage_id
from packwise.errors import EmbedderMismatch, StoreError
from packwise.language.names import Extraction
from packwise.stores.checks import storable
from packwise.stores.entity_extraction import extraction_payload, read_extraction

ACL = "acl"
"""The metadata key that holds the groups that may see a document, separated by commas."""

LinkParts = tuple[str, str, int, str]
"""Href, anchor, start and kind of a link."""


@dataclass(frozen=True, slots=True)
class PassageRecord:
    """What a passage adds to its document; the text is a slice of the document's.

    ``url`` is ``None`` where it is the document's. ``layout`` holds its lead and blocks as
    JSON; it is empty where they are not known.
    """

    position: int
    section_path: tuple[str, ...]
    start: int
    end: int
    content_hash: str
    url: str | None
    layout: str = ""


def groups(metadata: Mapping[str, str]) -> list[str]:
    """The groups that may see a document; none means everyone."""
    names = (name.strip() for name in metadata.get(ACL, "").split(","))
    return list(dict.fromkeys(name for name in names if name))


def checked_document(
    document: Document, passages: Sequence[Passage], embedder_version: str
) -> tuple[Document, list[PassageRecord]]:
    """The document and its passages, ready to store. Raises ``StoreError`` where a passage
    does not belong to the document, ``EmbedderMismatch`` where another embedder read it."""
    records: dict[int, PassageRecord] = {}
    for passage in passages:
        _check_passage(document, passage, embedder_version)
        if passage.order_index in records:
            raise StoreError(f"{document.id}: two passages have order {passage.order_index}")
        records[passage.order_index] = PassageRecord(
            passage.order_index,
            tuple(map(storable, passage.section_path)),
            passage.start,
            passage.end,
            passage.content_hash,
            None if passage.url == document.url else storable(passage.url),
            layout_text(passage),
        )
    return _storable_document(document), list(records.values())


def passage_of(document: Document, record: PassageRecord, embedder_version: str) -> Passage:
    """The passage that a record of a document stands for."""
    lead, blocks = read_layout(record.layout)
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
        lead=lead,
        blocks=blocks,
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
    edges = [passage.start, *(at for b in passage.blocks for at in (b.start, b.end)), passage.end]
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
        sections=tuple(replace(s, path=tuple(map(storable, s.path))) for s in document.sections),
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
        "passages": [astuple(passage) for passage in passages],
        "extractions": [extraction_payload(extraction) for extraction in extractions],
    }
    return zlib.compress(storable(json.dumps(content, ensure_ascii=False)).encode(), 3)


def unpack_payload(
    document_id: str, source_hash: str, payload: bytes
) -> tuple[Document, list[PassageRecord], list[Extraction]]:
    """The inverse of ``pack_payload``."""
    content = json.loads(zlib.decompress(payload))
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


def layout_text(passage: Passage) -> str:
    """The lead and the blocks of a passage as JSON; empty if there is neither."""
    if not passage.lead and not passage.blocks:
        return ""
    rows = [storable(passage.lead), block_rows(passage.blocks)]
    return json.dumps(rows, ensure_ascii=False, separators=(",", ":"))


def read_layout(text: str) -> tuple[str, tuple[Block, ...]]:
    """The inverse of ``layout_text``."""
    lead, rows = json.loads(text) if text else ("", ())
    return lead, read_blocks(rows)


def block_rows(blocks: Iterable[Block]) -> list[list[Any]]:
    """Blocks as plain JSON values."""
    return [[block.kind.value, block.start, block.end] for block in blocks]


def read_blocks(rows: Iterable[Sequence[Any]]) -> tuple[Block, ...]:
    """The inverse of ``block_rows``."""
    return tuple(Block(BlockKind(kind), start, end) for kind, start, end in rows)


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
