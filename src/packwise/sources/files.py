"""Files and folders of files as sources."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

from packwise.documents import Document
from packwise.errors import SourceError
from packwise.sources import formats, jsonl
from packwise.sources.composing import compose
from packwise.sources.decoding import Decoded, decode
from packwise.sources.items import Entry, Item, Problem, hashed
from packwise.sources.links import Catalogue
from packwise.sources.walk import FoundFile, Listing

SIZE_LIMIT = 64 << 20
"""Bytes in a file that is one document; a larger one is a problem."""


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
            if file.format == formats.ROWS:
                found = jsonl.rows(file.path, file.label, f"{file.id}/")
                yield from (row.id for row in found if isinstance(row, Item))
            else:
                yield file.id

    def items(self) -> Iterator[Entry]:
        yield from self.listing.problems
        for file in self.listing.files:
            if file.format == formats.ROWS:
                yield from jsonl.rows(file.path, file.label, f"{file.id}/")
            else:
                yield self._entry(file)

    @cached_property
    def _catalogue(self) -> Catalogue:
        return Catalogue(f.id for f in self.listing.files if f.format != formats.ROWS)

    def _entry(self, file: FoundFile) -> Entry:
        try:
            raw = _bytes(file.path)
            decoded = _decoded(raw, file.format)
        except SourceError as error:
            return Problem(file.label, error.message)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            return Problem(file.label, f"cannot be read ({reason})")
        links = self._catalogue.unusual(file.id, decoded.text, file.format)
        return Item(
            id=file.id,
            source_hash=hashed(raw, file.format, links),
            location=file.label,
            load=partial(_load, file, self._catalogue),
            warning=decoded.warning,
        )


def _load(file: FoundFile, catalogue: Catalogue) -> Document:
    try:
        text = _decoded(_bytes(file.path), file.format).text
    except SourceError as error:
        raise SourceError(f"{file.label}: {error.message}") from error
    return compose(formats.parse(file.format, text), file.id, catalogue)


def _bytes(path: Path) -> bytes:
    """The file's bytes. Raises ``SourceError`` with the bare reason if they are not to be had."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise SourceError("is not a regular file")
    if found.st_size > SIZE_LIMIT:
        raise SourceError(
            f"is larger than {SIZE_LIMIT >> 20} MiB ({found.st_size / (1 << 20):.0f} MiB)"
        )
    with path.open("rb") as file:
        return file.read(SIZE_LIMIT)


def _decoded(raw: bytes, format: str) -> Decoded:
    return decode(raw, html=format == "html")


def open_file(path: Path, label: str) -> FilesSource | jsonl.RowsSource:
    """One file as a source; its name is its id, or its rows have ids of their own."""
    from packwise.sources.walk import readable

    location = os.path.realpath(path)
    name = readable(path.name)
    format = formats.format_of(name)
    if format is None:
        known = " ".join(formats.SUFFIXES)
        raise SourceError(
            f"{label}: no reader for {formats.suffix(name) or 'a file without a suffix'}",
            fix=f"rename or convert it to one of {known}",
        )
    stem = name[: -len(formats.suffix(name))]
    if format == formats.ROWS:
        return jsonl.RowsSource(stem, location, path, label)
    found = FoundFile(path, name, label, format)
    return FilesSource(stem, location, Listing((found,), (), {}))
