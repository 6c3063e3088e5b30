"""JSON Lines: one document per line, plain or gzipped, read as a stream.

A row is an object with a ``text``; ``id`` (or ``_id``), ``title``, ``url``, ``lang``,
``metadata`` and ``links`` (ids of other rows, or URLs; also inside ``metadata``) are used if
present, and any other plain value becomes metadata.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, Any, cast

from packwise.documents import Document, Link
from packwise.errors import SourceError
from packwise.sources import front_matter
from packwise.sources.access import access, access_key, refuse_nested, refuse_unread
from packwise.sources.document_builder import DocumentBuilder
from packwise.sources.linked_text import clean
from packwise.sources.links import LinkResolver
from packwise.sources.readers import SourceFile
from packwise.sources.source_items import Entry, Item, Problem, hashed

_ROW_LIMIT = 64 << 20
"""The most bytes in a row; a longer one is a problem, and the rest of its file is not read."""

_MOST_BAD_ROWS = 100
"""A file with this many bad rows, and more bad than good ones, is given up."""

_MOST_BLANK_LINES = 10_000
_MOST_IDS = 1 << 17
_KNOWN = frozenset("id _id title text url lang language metadata links".split())
_NO_DOCUMENTS = LinkResolver(())
_BEIR_NAMES = ("corpus.jsonl", "corpus.jsonl.gz")
_own_ids: dict[str, str] = {}
"""The ids that rows name themselves, by the hash of the row. A build lists the ids of a file
before it reads the rows, and an unchanged row need not be parsed a second time."""


def beir_corpus(folder: Path) -> Path | None:
    """The corpus file of a BEIR folder; ``None`` if it is not one."""
    return next((folder / name for name in _BEIR_NAMES if (folder / name).is_file()), None)


def rows(file: SourceFile) -> Iterator[Entry]:
    """The documents of a file, with one row in memory at a time."""
    path, label = file.path, file.label
    number = bad = good = 0
    try:
        with _opened(path) as opened:
            for number, line in _numbered(opened):
                row = entry(line, f"{label}:{number}", f"{path.name}:{number}", file.prefix)
                yield row
                good += isinstance(row, Item)
                bad += isinstance(row, Problem)
                if (
                    not line.strip()
                    or len(line) > _ROW_LIMIT
                    or (bad >= _MOST_BAD_ROWS and bad > good)
                ):
                    found = f"{good} documents" if good else "no documents"
                    yield Problem(label, f"given up at line {number}: {found} so far")
                    return
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        yield Problem(label, f"cannot be read after line {number} ({reason})")


def may_hold_documents(path: Path) -> bool:
    """Whether a file's first row is a document, or reading the file will say why not."""
    try:
        with _opened(path) as file:
            for _, line in _numbered(file):
                row = None if len(line) > _ROW_LIMIT else json.loads(line)
                return not isinstance(row, dict) or isinstance(row.get("text"), str)
    except (OSError, EOFError, zlib.error, ValueError, RecursionError):
        return True
    return False


def _numbered(file: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """The rows that are not blank, with their line numbers. A few gzipped megabytes can hold
    gigabytes of nothing, so a row that is too long, or the last of very many blank lines, is
    the last row."""
    number = blank = 0
    while line := file.readline(_ROW_LIMIT + 1):
        number += 1
        blank = 0 if line.strip() else blank + 1
        if not blank or len(line) > _ROW_LIMIT:
            yield number, line
            if len(line) > _ROW_LIMIT:
                return
        elif blank == _MOST_BLANK_LINES:
            yield number, line
            return


def _opened(path: Path) -> IO[bytes]:
    if path.name.lower().endswith(".gz"):
        return cast("IO[bytes]", gzip.open(path, "rb"))
    return path.open("rb")


def entry(line: bytes, location: str, unnamed: str, prefix: str) -> Entry:
    """The document of a row, or what is wrong with it; without an id it is ``unnamed``."""
    source_hash = hashed(line.strip(), "rows", prefix)
    own = _own_ids.get(source_hash)
    if own is None:
        try:
            own = _own_id(_row(line))
        except SourceError as error:
            return Problem(location, error.message)
        if len(_own_ids) >= _MOST_IDS:
            _own_ids.clear()
        _own_ids[source_hash] = own
    row_id = prefix + (own or unnamed)
    return Item(
        id=row_id,
        source_hash=source_hash,
        location=location,
        load=partial(_load, line, row_id, prefix),
        warning="" if _is_utf8(line) else "not UTF-8: the bytes that do not fit were replaced",
    )


def _row(line: bytes) -> dict[str, Any]:
    """The row. Raises ``SourceError`` with the bare reason if it is not a document."""
    if len(line) > _ROW_LIMIT:
        raise SourceError(f"is longer than {_ROW_LIMIT >> 20} MiB")
    try:
        row = json.loads(line.decode("utf-8", "replace").lstrip("\ufeff"))
    except json.JSONDecodeError as error:
        raise SourceError(f"is not JSON ({error.msg} at column {error.colno})") from error
    except (ValueError, RecursionError) as error:
        raise SourceError("is not JSON that can be read") from error
    if not isinstance(row, dict):
        raise SourceError("is not a JSON object")
    found = cast("dict[str, Any]", row)
    if not isinstance(found.get("text"), str):
        raise SourceError('has no "text"')
    if not (found["text"].strip() or _text(found.get("title")).strip()):
        raise SourceError("has neither text nor a title")
    _access(found)
    return found


def _access(row: Mapping[str, Any]) -> dict[str, str]:
    """Who may see the row, from its own values and those of its ``metadata``."""
    given = row.get("metadata")
    inner = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    if isinstance(given, str):
        refuse_unread(given)
    outer = {name: value for name, value in row.items() if name != "metadata" or not inner}
    refuse_nested(chain(outer.items(), inner.items()))
    return access(chain(row.items(), inner.items()))


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _own_id(row: Mapping[str, Any]) -> str:
    """The row's id, else its URL; empty if it has neither."""
    for value in (row.get("_id"), row.get("id")):
        if isinstance(value, bool) or not isinstance(value, (str, int, type(None))):
            raise SourceError('has an "id" that is neither text nor a whole number')
        if value not in (None, ""):
            return clean(str(value))
    return clean(_text(row.get("url")))


def _load(line: bytes, document_id: str, prefix: str) -> Document:
    row = _row(line)
    given = row.get("metadata")
    metadata = dict(cast("dict[str, Any]", given)) if isinstance(given, dict) else {}
    linked = [row.get("links"), metadata.pop("links", None)]
    extra = {
        key: value
        for key, value in row.items()
        if key not in _KNOWN and not isinstance(value, (dict, list))
    }
    plain = {key: value for key, value in {**extra, **metadata}.items() if not access_key(key)}
    title = _text(row.get("title"))
    builder = DocumentBuilder(
        title=title,
        url=clean(_text(row.get("url"))),
        lang=clean(_text(row.get("lang")) or _text(row.get("language"))),
        metadata=front_matter.metadata(plain) | _access(row),
    )
    builder.plain_text(row["text"] if row["text"].strip() else title)
    document = builder.build(document_id, _NO_DOCUMENTS)
    links = tuple(Link(href) for href in _links(linked, prefix) if href != document_id)
    # A row without a title has none: its id means nothing to a reader.
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
