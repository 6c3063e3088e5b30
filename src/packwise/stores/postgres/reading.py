"""Rows of PostgreSQL as passages and documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from packwise.documents import Block, BlockKind, Document, Link, Passage, Section, passage_id
from packwise.stores.postgres.text import given, given_map

PASSAGE = """p.key, p.position, p.section_path, p.first, p.past, p.content_hash, p.url, p.text,
    d.id, d.title, d.url, d.lang, d.metadata"""
PASSAGES = "packwise_passages AS p JOIN packwise_documents AS d ON d.key = p.document"


def read_passage(row: Sequence[Any], embedder_version: str) -> tuple[int, Passage]:
    """A passage with its key, from a row of ``PASSAGE``."""
    key, position, path, first, past, digest, own_url, text, doc, title, url, lang, metadata = row
    document = given(doc)
    return key, Passage(
        id=passage_id(document, position),
        document=document,
        doc_title=given(title),
        section_path=tuple(map(given, path)),
        order_index=position,
        text=given(text),
        start=first,
        end=past,
        content_hash=digest,
        embedder_version=embedder_version,
        url=given(url if own_url is None else own_url),
        lang=given(lang),
        metadata=given_map(metadata),
    )


def read_link(href: str, anchor: str, first: int, target: str | None, kind: str) -> Link:
    """A link from its columns."""
    to = None if target is None else given(target)
    return Link(given(href), given(anchor), first, to, given(kind))


def read_document(row: Sequence[Any], links: Sequence[Link]) -> Document:
    """A document from its columns."""
    name, title, url, lang, source_hash, metadata, sections, text = row
    return Document(
        id=given(name),
        title=given(title),
        text=given(text),
        sections=tuple(
            Section(
                tuple(map(given, path)),
                level,
                tuple(Block(BlockKind(kind), first, past) for kind, first, past in blocks),
                start,
                end,
            )
            for path, level, start, end, blocks in sections
        ),
        links=tuple(links),
        url=given(url),
        lang=given(lang),
        metadata=given_map(metadata),
        source_hash=given(source_hash),
    )
