"""Manuals of GNU Info, whole or in parts (``tar.info-1``).

A node is a section under its underlined heading. Menus, indexes and the lines that lead from node
to node are left out. ``info_layout`` reads the text of a node by its indentation.
"""

from __future__ import annotations

import re

from packwise.sources.decoding import decode, file_bytes
from packwise.sources.document_builder import DocumentBuilder
from packwise.sources.info_layout import add_nodes
from packwise.sources.readers import SourceFile

_NODE = re.compile(rb"\x1f[\n\r\f]*File: [^\n]*\n")
_AFTER_NODES = re.compile(rb"\x1f[\n\r\f]*(?!File: )")
_INDEX = b"\x00\x08[index\x00\x08]"
_IMAGE = re.compile(rb"\x00\x08\[[^\x00]{0,400}\x00\x08\]")
_MANUAL = re.compile(r"This is ([\w+.-]+?)(?:\.info)?, produced by")
_MENU = re.compile(r"(?m)^\* Menu:[ \t]*$")
_WHOLE_MENU = "The Detailed Node Listing"
"""Begins the menu of all nodes, which ends the first one."""
_ENTRY = re.compile(r"\* [^\n]{1,200}:|\s|$")
# A name may go on in the next line; the name of the node after it is for the program.
_NOTE = re.compile(r"(?:\b[Ss]ee\s+)?\*[Nn]ote\s+([^:*]{1,120}?)\s*(?:::|:\s[^.,:]{1,120}[.,])")


def read(builder: DocumentBuilder, file: SourceFile) -> None:
    """Add the nodes of a file."""
    head, *nodes = _NODE.split(file_bytes(file.path))
    manual = _MANUAL.search(decode(head.replace(b"\x1f", b""))[0])
    builder.fallback_title = manual[1] if manual else ""
    texts = (
        _text(decode(_IMAGE.sub(b"", _AFTER_NODES.split(node)[0]))[0])
        for node in nodes
        if _INDEX not in node
    )
    add_nodes(builder, texts)


def _text(node: str) -> str:
    """The text of a node without its menu."""
    if menu := _MENU.search(node):
        rest = node[menu.end() :].partition(_WHOLE_MENU)[0].split("\n")
        # There may be text after the entries and the lines that go on with them.
        past = next((n for n, line in enumerate(rest) if not _ENTRY.match(line)), len(rest))
        node = node[: menu.start()] + "\n".join(rest[past:])
    return _NOTE.sub(lambda note: "see " + note[1].replace("\n", " "), node)
