"""What all tests of sources need: reading a text as a document, and the law of offsets."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from packwise.documents import Document
from packwise.sources import Item, Problem, combine, open_source
from packwise.sources.files import parse
from packwise.sources.links import LinkResolver


def check_offsets(document: Document) -> Document:
    """Sections and blocks lie in order in the text, and links stand where they say."""
    text = document.text
    for before, after in pairwise(document.sections):
        assert before.end <= after.start
    for section in document.sections:
        assert 0 <= section.start <= section.end <= len(text)
        assert all(section.path)
        for block in section.blocks:
            assert section.start <= block.start < block.end <= section.end
            piece = text[block.start : block.end]
            assert piece.strip()
            assert not piece.startswith("\n")
            assert piece == piece.rstrip()
        for one, other in pairwise(section.blocks):
            assert one.end < other.start
        if section.blocks:
            assert section.start == section.blocks[0].start
            assert section.end == section.blocks[-1].end
    for link in document.links:
        assert text[link.start : link.start + len(link.anchor)] == link.anchor
        assert link.anchor == link.anchor.strip()
        assert link.href
    text.encode("utf-8")
    return document


@pytest.fixture(scope="session")
def read() -> Callable[..., Document]:
    """Read a text in a format as a document among others; its offsets are checked."""

    def read_text(format: str, text: str, id: str = "page.md", among: tuple[str, ...] = ()):
        return check_offsets(parse(format, text).build(id, LinkResolver((*among, id))))

    return read_text


@pytest.fixture(scope="session")
def blocks() -> Callable[[Document], list[tuple[str, str]]]:
    """The blocks of a document as (kind, text)."""

    def listed(document: Document) -> list[tuple[str, str]]:
        return [
            (block.kind.value, document.text[block.start : block.end])
            for section in document.sections
            for block in section.blocks
        ]

    return listed


@pytest.fixture
def folder(tmp_path) -> Callable[..., Path]:
    """Write files into a folder of their own: ``folder({"a.md": "text"})``."""

    def write(files: dict[str, str | bytes], name: str = "docs") -> Path:
        root = tmp_path / name
        root.mkdir(parents=True, exist_ok=True)
        for path, content in files.items():
            file = root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return root

    return write


class Opened:
    """Everything sources hand out, sorted into what can be read and what cannot."""

    def __init__(self, *arguments: str | Path) -> None:
        self.sources = [open_source(str(argument)) for argument in arguments]
        entries = list(combine(self.sources))
        self.items = {entry.id: entry for entry in entries if isinstance(entry, Item)}
        self.problems = [entry for entry in entries if isinstance(entry, Problem)]

    @property
    def documents(self) -> dict[str, Document]:
        return {id: check_offsets(item.read()) for id, item in self.items.items()}

    @property
    def hashes(self) -> dict[str, str]:
        return {id: item.source_hash for id, item in self.items.items()}


@pytest.fixture(scope="session")
def opened() -> type[Opened]:
    return Opened


@pytest.fixture
def read_file(folder, opened):
    def read(name, content):
        return opened(folder({name: content})).documents[name]

    return read
