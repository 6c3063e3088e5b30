"""JSON Lines: one document a line, plain or gzipped, read as a stream.

A row is an object with a ``text``; ``id`` (or ``_id``), ``title``, ``url``, ``lang``,
``metadata`` and ``links`` (ids of other rows, or URLs; also inside ``metadata``) are
taken if present, and any other plain value joins the metadata.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, Any, cast

from packwise.documents import Document, Link
from packwise.sources import front_matter
from packwise.sources.composing import compose
from packwise.sources.flow import Draft, Flow, clean
from packwise.sources.items import Entry, Item, Problem, hashed
from packwise.sources.links import Catalogue
from packwise.sources.text import write_paragraphs

ROW_LIMIT = 64 << 20
"""Bytes in a row; a longer one is a problem, and so is the rest of its file."""

_HOPELESS = 100
_TAKEN = frozenset("id _id title text url lang language metadata links".split())
_NO_DOCUMENTS = Catalogue(())


@dataclass(frozen=True, slots=True)
class RowsSource:
    """A file of rows as a source; ``label`` names the file in messages."""

    name: str
    location: str
    path: Path
    label: str

    @property
    def skipped(self) -> Mapping[str, int]:
        return {}

    def ids(self) -> Iterator[str]:
        return (row.id for row in rows(self.path, self.label) if isinstance(row, Item))

    def items(self) -> Iterator[Entry]:
        return rows(self.path, self.label)


def rows(path: Path, label: str, prefix: str = "") -> Iterator[Entry]:
    """The documents of a file, one row in memory at a time; ``prefix`` leads every id."""
    number = bad = good = 0
    try:
        with _opened(path) as lines:
            while line := lines.readline(ROW_LIMIT + 1):
                number += 1
                if not line.strip():
                    continue
                entry = _entry(line, f"{label}:{number}", f"{path.name}:{number}", prefix)
                yield entry
                good += isinstance(entry, Item)
                bad += isinstance(entry, Problem)
                if len(line) > ROW_LIMIT or (bad >= _HOPELESS and not good):
                    yield Problem(label, f"given up at line {number}: no documents so far")
                    return
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        yield Problem(label, f"cannot be read after line {number} ({reason})")


def may_hold_documents(path: Path) -> bool:
    """Whether a file's first row is a document, or the file has to be read to say why not."""
    try:
        with _opened(path) as lines:
            for line in lines:
                if line.strip():
                    row = json.loads(line)
                    return not isinstance(row, dict) or isinstance(row.get("text"), str)
    except (OSError, EOFError, zlib.error, ValueError, RecursionError):
        return True
    return False


def _opened(path: Path) -> IO[bytes]:
    if path.name.lower().endswith(".gz"):
        return cast("IO[bytes]", gzip.open(path, "rb"))
    return path.open("rb")


def _entry(line: bytes, location: str, unnamed: str, prefix: str) -> Entry:
    row, reason = _row(line)
    if row is None:
        return Problem(location, reason)
    row_id = _row_id(row, unnamed)
    if row_id is None:
        return Problem(location, 'has an "id" that is neither text nor a whole number')
    return Item(
        id=prefix + row_id,
        source_hash=hashed(line.strip(), "rows", prefix),
        location=location,
        load=partial(_load, line, prefix + row_id, prefix),
        warning="" if _is_utf8(line) else "not UTF-8: the bytes that do not fit were replaced",
    )


def _row(line: bytes) -> tuple[dict[str, Any] | None, str]:
    """The row, or ``None`` and the reason why it is no document."""
    if len(line) > ROW_LIMIT:
        return None, f"is longer than {ROW_LIMIT >> 20} MiB"
    try:
        row = json.loads(line.decode("utf-8", "replace").lstrip("\ufeff"))
    except json.JSONDecodeError as error:
        return None, f"is not JSON ({error.msg} at column {error.colno})"
    except (ValueError, RecursionError):
        return None, "is not JSON that can be read"
    if not isinstance(row, dict):
        return None, "is not a JSON object"
    found = cast("dict[str, Any]", row)
    if not isinstance(found.get("text"), str):
        return None, 'has no "text"'
    if not (found["text"].strip() or _text(found.get("title")).strip()):
        return None, "has neither text nor a title"
    return found, ""


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _row_id(row: Mapping[str, Any], unnamed: str) -> str | None:
    """The row's id, else its URL, else the file and line it stands at."""
    for key in ("_id", "id"):
        value = row.get(key)
        if isinstance(value, bool) or not isinstance(value, (str, int, type(None))):
            return None
        if value not in (None, ""):
            return clean(str(value))
    return clean(_text(row.get("url"))) or unnamed


def _load(line: bytes, document_id: str, prefix: str) -> Document:
    row, _ = _row(line)
    assert row is not None
    given = row.get("metadata")
    metadata = dict(cast("dict[str, Any]", given)) if isinstance(given, dict) else {}
    linked = [row.get("links"), metadata.pop("links", None)]
    extra = {
        key: value
        for key, value in row.items()
        if key not in _TAKEN and not isinstance(value, (dict, list))
    }
    title = _text(row.get("title"))
    flow = Flow()
    write_paragraphs(flow, row["text"] if row["text"].strip() else title)
    draft = Draft(
        flow,
        title=title,
        url=clean(_text(row.get("url"))),
        lang=clean(_text(row.get("lang")) or _text(row.get("language"))),
        metadata=front_matter.metadata({**extra, **metadata}),
    )
    document = compose(draft, document_id, _NO_DOCUMENTS)
    links = tuple(Link(href) for href in _links(linked, prefix) if href != document_id)
    # A row without a title has none: its id says nothing to a reader.
    return replace(document, title=document.title if title.strip() else "", links=links)


def _links(given: list[Any], prefix: str) -> Iterator[str]:
    for group in given:
        if isinstance(group, list):
            for href in cast("list[Any]", group):
                if isinstance(href, (str, int)) and not isinstance(href, bool) and href != "":
                    text = clean(str(href))
                    yield text if "://" in text else prefix + text


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
