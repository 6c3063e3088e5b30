"""JSON Lines: one document per line, plain or gzipped, read as a stream.

A row is an object with a ``text``; ``id`` (or ``_id``), ``title``, ``url``, ``lang``,
``metadata`` and ``links`` (ids of other rows, or URLs; also inside ``metadata``) are used if
present, and any other plain value becomes metadata.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, Any, TypeVar, cast

from packwise.documents import Document, Link
from packwise.errors import SourceError
from packwise.file_hashes import remembered
from packwise.sources import front_matter
from packwise.sources.access import access, access_key, refuse_nested, refuse_unread
from packwise.sources.document_builder import DocumentBuilder
from packwise.sources.linked_text import clean
from packwise.sources.links import LinkResolver
from packwise.sources.readers import SourceFile
from packwise.sources.row_listing import RowListing, digest_of, keep_content, kept_content
from packwise.sources.source_items import Entry, Item, Problem, hashed

_ROW_LIMIT = 64 << 20
"""The most bytes in a row; a longer one is a problem, and the rest of its file is not read."""

_MOST_BAD_ROWS = 100
"""A file with this many bad rows, and more bad than good ones, is given up."""

_MOST_BLANK_LINES = 10_000
_MOST_IDS = 1 << 17
_KNOWN = frozenset("id _id title text url lang language metadata links".split())
_NO_DOCUMENTS = LinkResolver(())
_BUFFER = 1 << 20
_KEPT_BYTES = 1 << 20
"""Bytes of a file from which what was found in it is kept: a smaller one is read in no time."""
_ODD = "not UTF-8: the bytes that do not fit were replaced"
_BEIR_NAMES = ("corpus.jsonl", "corpus.jsonl.gz")
_T = TypeVar("_T")
_own_ids: dict[str, str] = {}
"""The ids that rows name themselves, by the hash of the row. A build lists the ids of a file
before it reads the rows, and an unchanged row need not be parsed a second time."""


def beir_corpus(folder: Path) -> Path | None:
    """The corpus file of a BEIR folder; ``None`` if it is not one."""
    return next((folder / name for name in _BEIR_NAMES if (folder / name).is_file()), None)


def rows(file: SourceFile) -> Iterator[Entry]:
    """The documents of a file, with one row in memory at a time."""

    def made(line: bytes, number: int, _: int) -> Entry:
        return entry(line, f"{file.label}:{number}", f"{file.path.name}:{number}", file.prefix)

    return _entries(file, made)


def _entries(
    file: SourceFile, made: Callable[[bytes, int, int], _T | Problem]
) -> Iterator[_T | Problem]:
    """What ``made`` makes of the rows of a file, their numbers and places; and why a file is not
    read to its end."""
    number = bad = good = 0
    try:
        with _opened(file.path) as opened:
            for number, start, line in _numbered(opened):
                row = made(line, number, start)
                yield row
                wrong = isinstance(row, Problem)
                good, bad = good + (not wrong), bad + wrong
                if (
                    len(line) > _ROW_LIMIT
                    or (bad >= _MOST_BAD_ROWS and bad > good)
                    or line.isspace()
                ):
                    found = f"{good} documents" if good else "no documents"
                    yield Problem(file.label, f"given up at line {number}: {found} so far")
                    return
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        yield Problem(file.label, f"cannot be read after line {number} ({reason})")


class RowFile:
    """The rows of a file that is not packed, which is read only once: for the hashes and ids of
    all rows. A document is read from its place in the file when it is needed."""

    def __init__(self, file: SourceFile) -> None:
        self._file = file
        self._read_at: tuple[int, ...] = ()
        self._rows = RowListing()

    def ids(self) -> list[str]:
        """The ids of the documents in the file as it is now."""
        path, prefix = self._file.path, self._file.prefix
        now = _stamp(path)
        if not now:
            self._read()
        elif self._read_at != now:
            digest = remembered(path.resolve(), self._listed)
            if self._read_at != now:
                # The file is as it was when it was listed, maybe by another process.
                content = kept_content(path)
                listing = RowListing.of(content, prefix) if digest_of(content) == digest else None
                if listing is None:
                    self._listed(path)
                else:
                    self._rows = listing
            self._read_at = now
        return self._rows.ids

    def entries(self) -> Iterator[Entry]:
        """The documents of the file as it is now."""
        for at in range(len(self.ids())):
            yield from self._problems_before(at)
            yield self._item(at)
        yield from self._problems_before(len(self._rows.ids))

    def _problems_before(self, at: int) -> Iterator[Problem]:
        for place, reason in self._rows.problems.get(at, ()):
            yield Problem(self._file.label + place, reason)

    def _listed(self, _: Path) -> str:
        """Read the file, and keep what was found. Returns the hash of that, or nothing if the
        file changed meanwhile or was not read to its end."""
        path, prefix = self._file.path, self._file.prefix
        self._read_at = _stamp(path)
        self._read()
        content = self._rows.content(prefix)
        whole = all(place for found in self._rows.problems.values() for place, _ in found)
        if not whole or _stamp(path) != self._read_at:
            return ""
        if self._read_at[2] >= _KEPT_BYTES:
            keep_content(path, content)
        return digest_of(content)

    def _read(self) -> None:
        path, prefix = self._file.path, self._file.prefix
        earlier = RowListing.of(kept_content(path), prefix)
        known = earlier.named() if earlier else {}
        found = self._rows = RowListing()

        def listed(line: bytes, number: int, start: int) -> str | Problem:
            digest = bytes.fromhex(_hash(line, prefix))
            at = known.get(digest)
            if at is not None and earlier is not None:
                # The same bytes were parsed before.
                id, own, odd = earlier.ids[at], True, at in earlier.odd
            else:
                try:
                    named = _own_id(_row(line))
                except SourceError as error:
                    return Problem(f"{self._file.label}:{number}", error.message)
                id, own = prefix + (named or f"{path.name}:{number}"), bool(named)
                odd = not _is_utf8(line)
            if odd:
                found.odd.add(len(found.ids))
            found.ids.append(id)
            found.own.append(own)
            found.digests.extend(digest)
            found.places.extend((number, start, len(line)))
            return id

        for one in _entries(self._file, listed):
            if isinstance(one, Problem):
                place = one.location.removeprefix(self._file.label)
                found.problems.setdefault(len(found.ids), []).append((place, one.reason))

    def _item(self, at: int) -> Item:
        number, start, length = self._rows.places[3 * at : 3 * at + 3]
        id, path, prefix = self._rows.ids[at], self._file.path, self._file.prefix
        digest = self._rows.digest(at).hex()
        return Item(
            id=id,
            source_hash=digest,
            location=f"{self._file.label}:{number}",
            load=partial(_load_from, path, start, length, digest, id, prefix),
            warning=_ODD if at in self._rows.odd else "",
        )


def _stamp(path: Path) -> tuple[int, ...]:
    """What changes with a file; nothing where it cannot be known."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _load_from(
    path: Path, start: int, length: int, digest: str, document_id: str, prefix: str
) -> Document:
    with path.open("rb") as file:
        file.seek(start)
        line = file.read(length)
    if _hash(line, prefix) != digest:
        raise SourceError("has changed since the build began", fix="build again")
    return _load(line, document_id, prefix)


def may_hold_documents(path: Path) -> bool:
    """Whether a file's first row is a document, or reading the file will say why not."""
    try:
        with _opened(path) as file:
            for _, _, line in _numbered(file):
                row = None if len(line) > _ROW_LIMIT else json.loads(line)
                return not isinstance(row, dict) or isinstance(row.get("text"), str)
    except (OSError, EOFError, zlib.error, ValueError, RecursionError):
        return True
    return False


def _numbered(file: IO[bytes]) -> Iterator[tuple[int, int, bytes]]:
    """The rows that are not blank, with their line numbers and places. A few gzipped megabytes
    can hold gigabytes of nothing, so a row that is too long, or the last of very many blank lines,
    is the last row."""
    number = blank = end = 0
    while line := file.readline(_ROW_LIMIT + 1):
        number += 1
        start, end = end, end + len(line)
        blank = blank + 1 if line.isspace() else 0
        if not blank or len(line) > _ROW_LIMIT:
            yield number, start, line
            if len(line) > _ROW_LIMIT:
                return
        elif blank == _MOST_BLANK_LINES:
            yield number, start, line
            return


def _opened(path: Path) -> IO[bytes]:
    if _is_packed(path):
        return cast("IO[bytes]", gzip.open(path, "rb"))
    return path.open("rb", buffering=_BUFFER)


def _is_packed(path: Path) -> bool:
    return path.name.lower().endswith(".gz")


def row_file(file: SourceFile) -> RowFile | None:
    """The rows of a file that this module reads, unless it is packed."""
    if file.reader.load() is not rows or _is_packed(file.path):
        return None
    return RowFile(file)


def _hash(line: bytes, prefix: str) -> str:
    return hashed(line.strip(), "rows", prefix)


def entry(line: bytes, location: str, unnamed: str, prefix: str) -> Entry:
    """The document of a row, or what is wrong with it; without an id it is ``unnamed``."""
    source_hash = _hash(line, prefix)
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
        warning="" if _is_utf8(line) else _ODD,
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
    if line.isascii():
        return True
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
