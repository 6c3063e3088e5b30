"""Manuals of GNU Info, whole or in parts (``tar.info-1``).

A node is a section under its underlined heading. Menus, indexes and the lines that lead from node
to node are left out.
"""

from __future__ import annotations

import re

from packwise.sources import plain_rst
from packwise.sources.decoding import decode, file_bytes
from packwise.sources.document_builder import DocumentBuilder
from packwise.sources.readers import SourceFile

_NODE = re.compile(rb"\x1f[\n\r\f]*File: [^\n]*\n")
_AFTER_NODES = re.compile(rb"\x1f[\n\r\f]*(?!File: )")
_INDEX = b"\x00\x08[index\x00\x08]"
_IMAGE = re.compile(rb"\x00\x08\[[^\x00]{0,400}\x00\x08\]")
_MANUAL = re.compile(r"This is ([\w+.-]+?)(?:\.info)?, produced by")
_MENU = re.compile(r"(?m)^\* Menu:[ \t]*$")
_ENTRY = re.compile(r"\* [^\n]{1,200}:|\s|$")
_NOTE = re.compile(r"\*[Nn]ote\s+([^:*\n]{1,120})(?:::|:\s[^.,\n]{1,120}[.,])")
# The first line of a paragraph is indented by three, code by five.
_PARAGRAPH = re.compile(r"(?m)(?<=\n\n) {3}(?=\S[^\n]*(?:\n\S|\n\n|\Z))")


def read(builder: DocumentBuilder, file: SourceFile) -> None:
    """Add the nodes of a file."""
    head, *nodes = _NODE.split(file_bytes(file.path))
    manual = _MANUAL.search(decode(head.replace(b"\x1f", b""))[0])
    builder.fallback_title = manual[1] if manual else ""
    texts = [
        _text(decode(_IMAGE.sub(b"", _AFTER_NODES.split(node)[0]))[0])
        for node in nodes
        if _INDEX not in node
    ]
    plain_rst.read(builder, "\n\n".join(texts))


def _text(node: str) -> str:
    """The text of a node without its menu."""
    if menu := _MENU.search(node):
        rest = node[menu.end() :].split("\n")
        # There may be text after the entries and the lines that go on with them.
        past = next((n for n, line in enumerate(rest) if not _ENTRY.match(line)), len(rest))
        node = node[: menu.start()] + "\n".join(rest[past:])
    return _PARAGRAPH.sub("", _NOTE.sub(r"see \1", f"\n\n{node.strip()}\n"))
