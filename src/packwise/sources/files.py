"""Opens sources: folders, files, BEIR corpora and the Python reference."""

from __future__ import annotations

import codecs
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

from packwise.documents import Document
from packwise.errors import SourceError
from packwise.sources import front_matter, jsonl
from packwise.sources.document_builder import DocumentBuilder, clean
from packwise.sources.links import LinkResolver
from packwise.sources.source_items import Entry, Item, Problem, Source, hashed, reason_of
from packwise.sources.walk import FORMATS, ROWS, FoundFile, Listing, readable, suffix, walk

SIZE_LIMIT = 64 << 20
"""The most bytes in a file that is one document; a larger file is a problem."""

_NOT_TEXT_SHARE = 0.10
"""A file with a larger share of unreadable bytes than this is not text."""

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_CONTROL = bytes(set(range(32)) - set(b"\t\n\v\f\r\x1b")) + b"\x7f"
_CHARSET = re.compile(rb"""(?i)<meta[^>]{0,200}?charset\s*=\s*["']?([\w\-]{1,40})""")
_URL = re.compile(r"(?i)https?://")


def open_source(argument: str) -> Source:
    """The source that an argument names: ``python:reference``, a folder, a BEIR folder or a file.

    A folder is walked at once, but its files are not read yet. Raises ``SourceError`` if there
    is no such source, nothing to read in it, or no reader for it.
    """
    if argument.startswith("python:"):
        from packwise.sources.python_reference import ARGUMENT, PythonReference

        if argument != ARGUMENT:
            raise SourceError(f"{argument}: no such source", fix=f"use {ARGUMENT}")
        return PythonReference()
    if _URL.match(argument):
        raise SourceError(
            f"{argument}: web pages are not fetched", fix="save the page as .html and name the file"
        )
    path = Path(argument)
    try:
        is_folder = stat.S_ISDIR(path.stat().st_mode)
    except FileNotFoundError:
        raise SourceError(f"{argument}: no such file or folder", fix="check the path") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SourceError(f"{argument}: {reason}", fix="check the path") from error
    return _open_folder(path, argument) if is_folder else _open_file(path, argument)


def _open_folder(path: Path, label: str) -> Source:
    """A folder as a source; that of a BEIR dataset holds the rows of its corpus."""
    resolved = path.resolve()
    if corpus := jsonl.beir_corpus(path):
        return jsonl.RowsSource(resolved.name, str(resolved), corpus, str(corpus))
    listing = walk(path)
    if not listing.files:
        if listing.problems:
            raise SourceError(str(listing.problems[0]), fix="check its permissions")
        known = " ".join(FORMATS)
        raise SourceError(f"{label}: no documents in this folder", fix=f"add files of {known}")
    return FilesSource(readable(resolved.name) or "root", str(resolved), listing)


def _open_file(path: Path, label: str) -> Source:
    """One file as a source; its name is its id, unless its rows have their own ids."""
    location = os.path.realpath(path)
    name = readable(path.name)
    ending = suffix(name)
    if ending not in FORMATS:
        raise SourceError(
            f"{label}: no reader for {ending or 'a file without a suffix'}",
            fix=f"rename or convert it to one of {' '.join(FORMATS)}",
        )
    stem = name[: -len(ending)]
    if FORMATS[ending] == ROWS:
        return jsonl.RowsSource(stem, location, path, label)
    return FilesSource(stem, location, Listing((FoundFile(path, name, label, FORMATS[ending]),)))


@dataclass(frozen=True)
class FilesSource:
    """The files of a listing; they may link to one another by path or by name."""

    name: str
    location: str
    listing: Listing

    @property
    def skipped(self) -> Mapping[str, int]:
        return self.listing.skipped

    def ids(self) -> Iterator[str]:
        for file in self.listing.files:
            if file.format == ROWS:
                rows = jsonl.rows(file.path, file.label, f"{file.id}/")
                yield from (row.id for row in rows if isinstance(row, Item))
            else:
                yield file.id

    def items(self) -> Iterator[Entry]:
        yield from self.listing.problems
        for file in self.listing.files:
            if file.format == ROWS:
                yield from jsonl.rows(file.path, file.label, f"{file.id}/")
            else:
                yield self._entry(file)

    @cached_property
    def _resolver(self) -> LinkResolver:
        return LinkResolver(file.id for file in self.listing.files if file.format != ROWS)

    def _entry(self, file: FoundFile) -> Entry:
        try:
            raw = _bytes(file.path)
            text, warning = decode(raw, html=file.format == "html")
        except SourceError as error:
            return Problem(file.label, error.message)
        except OSError as error:
            return Problem(file.label, f"cannot be read ({reason_of(error)})")
        links = self._resolver.fingerprint(file.id, text, file.format)
        return Item(
            id=file.id,
            source_hash=hashed(raw, file.format, links),
            location=file.label,
            load=partial(_load, file, self._resolver),
            warning=warning,
        )


def _load(file: FoundFile, resolver: LinkResolver) -> Document:
    try:
        text, _ = decode(_bytes(file.path), html=file.format == "html")
    except SourceError as error:
        raise SourceError(f"{file.label}: {error.message}") from error
    return parse(file.format, text).build(file.id, resolver)


def parse(format: str, text: str) -> DocumentBuilder:
    """Parse a text in a format. The reader is imported when it is first needed."""
    builder, rest = front_matter.split(text)
    match format:
        case "markdown":
            from packwise.sources.markdown import read
        case "html":
            from packwise.sources.html import read
        case "rst":
            from packwise.sources.rst import read
        case _:
            read = DocumentBuilder.plain_text
    read(builder, rest)
    return builder


def _bytes(path: Path) -> bytes:
    """The file's bytes. Raises ``SourceError`` with the bare reason if it is not to be read."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise SourceError("is not a regular file")
    if found.st_size > SIZE_LIMIT:
        size = found.st_size / (1 << 20)
        raise SourceError(f"is larger than {SIZE_LIMIT >> 20} MiB ({size:.0f} MiB)")
    with path.open("rb") as file:
        return file.read(SIZE_LIMIT)


def decode(raw: bytes, *, html: bool = False) -> tuple[str, str]:
    """The text, with ``\\n`` line ends and no control characters, and a warning if any bytes
    were replaced.

    The encoding is UTF-8, or what a byte order mark or an HTML head declares. Raises
    ``SourceError`` with the bare reason (no location) if the bytes are not text.
    """
    mark = next((name for start, name in _BYTE_ORDER_MARKS if raw.startswith(start)), "")
    if not mark and b"\0" in raw:
        raise SourceError("is not text (it holds NUL bytes)")
    if not mark or mark == "utf-8-sig":
        control = len(raw) - len(raw.translate(None, _CONTROL))
        if control > _NOT_TEXT_SHARE * len(raw):
            raise SourceError("is not text (too many control characters)")
    encoding = mark or "utf-8"
    declared = _CHARSET.findall(raw[:4096])[:1] if html and not mark else []
    for name in (encoding, *(charset.decode("ascii") for charset in declared)):
        try:
            return clean(raw.decode(name)), ""
        except (UnicodeDecodeError, LookupError):
            continue
    text = raw.decode(encoding, "replace")
    lost = text.count("\ufffd")
    if lost > _NOT_TEXT_SHARE * len(text):
        raise SourceError(f"is not UTF-8 text ({lost / len(text):.0%} of it cannot be read)")
    counted = "one byte is" if lost == 1 else f"{lost} bytes are"
    return clean(text), f"{counted} not {encoding.upper()}: replaced"
