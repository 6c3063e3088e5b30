"""A document's sections and links as one text each, for stores that keep them whole."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from packwise.documents import Block, BlockKind, Document, Section

LinkParts = tuple[str, str, int, str]
"""Href, anchor, start and kind of a link."""


def sections_text(document: Document) -> str:
    """The sections of a document with their blocks."""
    rows = [[list(s.path), s.level, s.start, s.end, _blocks(s)] for s in document.sections]
    return json.dumps(rows, ensure_ascii=False)


def read_sections(text: str) -> tuple[Section, ...]:
    """The inverse of ``sections_text``."""
    return tuple(
        Section(tuple(path), level, _read_blocks(blocks), start, end)
        for path, level, start, end, blocks in json.loads(text)
    )


def links_text(document: Document) -> str:
    """The links of a document as their author wrote them."""
    rows = [[link.href, link.anchor, link.start, link.kind] for link in document.links]
    return json.dumps(rows, ensure_ascii=False)


def read_links(text: str) -> list[LinkParts]:
    """The inverse of ``links_text``."""
    return [(href, anchor, start, kind) for href, anchor, start, kind in json.loads(text)]


def _blocks(section: Section) -> list[list[Any]]:
    return [[block.kind, block.start, block.end] for block in section.blocks]


def _read_blocks(rows: Sequence[Sequence[Any]]) -> tuple[Block, ...]:
    return tuple(Block(BlockKind(kind), start, end) for kind, start, end in rows)
