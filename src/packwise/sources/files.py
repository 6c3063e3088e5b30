"""Opens sources: folders, files, web pages, BEIR corpora and the Python reference."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory

from packwise.documents import Document
from packwise.errors import SourceError
from packwise.lazy_pattern import lazy_pattern
from packwise.sources import front_matter, jsonl
from packwise.sources.decoding import check_size, decode, file_bytes, unpack
from packwise.sources.document_builder import DocumentBuilder
from packwise.sources.line_places import line_places
from packwise.sources.links import LinkResolver
from packwise.sources.mkdocs_nav import nav_titles
from packwise.sources.readers import (
    Reads,
    SourceFile,
    common_suffixes,
    left_out,
    pip_command,
    reader_for,
    reader_of,
    suffix,
)
from packwise.sources.source_items import Entry, Item, Problem, Source, hashed, reason_of
from packwise.sources.sphinx_tree import FORMATS as RST_FORMATS
from packwise.sources.sphinx_tree import SphinxTree
from packwise.sources.walk import Listing, readable, walk

FILE_LIMIT = 1 << 30
"""The most bytes in a file that its reader opens by itself."""

_URL = lazy_pattern(r"(?i)https?://")


def open_source(argument: str, on_page: Callable[[str], None] | None = None) -> Source:
    """The source that an argument names: ``python:reference``, a URL, a folder, a BEIR folder or
    a file.

    A folder is walked at once, but its files are not read yet. Web pages are fetched when their
    ids are asked for, with a call of ``on_page`` for each. Raises ``SourceError`` if there
    is no such source, nothing to read in it, or no reader for it.
    """
    if argument.startswith("python:"):
        from packwise.sources.python_reference import ARGUMENT, PythonReference

        if argument != ARGUMENT:
            raise SourceError(f"{argument}: no such source", fix=f"use {ARGUMENT}")
        return PythonReference()
    if _URL.match(argument):
        from packwise.sources.web import WebSource

        return WebSource(argument, on_page=on_page)
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
        rows = SourceFile(corpus, "", str(corpus), reader_of("rows"))
        return FilesSource(resolved.name, str(resolved), Listing((rows,)))
    listing = walk(path)
    if not listing.files:
        if listing.problems:
            raise SourceError(str(listing.problems[0]), fix="check its permissions")
        counted = "; ".join(left_out(listing.skipped))
        raise SourceError(
            f"{label}: no documents in this folder{f' ({counted})' if counted else ''}",
            fix=pip_command(listing.skipped) or f"add files of {common_suffixes()}",
        )
    tree = SphinxTree(resolved, listing.files)
    # The settings of Sphinx say how to read its pages, and are none themselves.
    pages = tuple(
        file
        for file in listing.files
        if not tree.is_settings(file.id) and not tree.is_part(file.id)
    )
    listing = replace(listing, files=pages)
    return FilesSource(readable(resolved.name) or "root", str(resolved), listing, tree)


def _open_file(path: Path, label: str) -> Source:
    """One file as a source; its name is its id, unless the documents in it have their own."""
    location = os.path.realpath(path)
    name = readable(path.name)
    ending = suffix(name)
    reader = reader_for(path)
    if reader is None:
        raise SourceError(
            f"{label}: no reader for {ending or 'a file without a suffix'}",
            fix=f"rename or convert it to one of {common_suffixes()}",
        )
    if reader.missing:
        raise SourceError(
            f"{label}: the library that reads {ending} files is not installed",
            fix=pip_command({ending: 1}),
        )
    file_id = "" if reader.reads is Reads.STREAM else name
    file = SourceFile(path, file_id, label, reader)
    own = len(ending) if name.lower().endswith(ending) else 0
    return FilesSource(name[: len(name) - own], location, Listing((file,)))


@dataclass(frozen=True)
class FilesSource:
    """The files of a listing; they may link to one another by path or by name."""

    name: str
    location: str
    listing: Listing
    tree: SphinxTree | None = None
    _row_files: dict[Path, jsonl.RowFile | None] = field(
        default_factory=dict[Path, jsonl.RowFile | None], compare=False
    )

    @property
    def skipped(self) -> Mapping[str, int]:
        return self.listing.skipped

    def ids(self) -> Iterator[str]:
        for file in self.listing.files:
            if file.reader.reads is not Reads.STREAM:
                yield file.id
            elif rows := self._rows(file):
                yield from rows.ids()
            else:
                entries: Iterator[Entry] = file.reader.load()(file)
                yield from (entry.id for entry in entries if isinstance(entry, Item))

    def items(self) -> Iterator[Entry]:
        yield from self.listing.problems
        titles = nav_titles(self.listing.files)
        for file in self.listing.files:
            if file.reader.reads is Reads.STREAM:
                rows = self._rows(file)
                yield from rows.entries() if rows else file.reader.load()(file)
            else:
                yield file_entry(file, self._resolver, self.tree, titles.get(file.id, ""))

    def _rows(self, file: SourceFile) -> jsonl.RowFile | None:
        """The rows of a file, which are not read a second time for the documents in them."""
        if file.path not in self._row_files:
            self._row_files[file.path] = jsonl.row_file(file)
        return self._row_files[file.path]

    @cached_property
    def _resolver(self) -> LinkResolver:
        files = self.listing.files
        return LinkResolver(file.id for file in files if file.reader.reads is not Reads.STREAM)


def file_entry(
    file: SourceFile, resolver: LinkResolver, tree: SphinxTree | None = None, title: str = ""
) -> Entry:
    """A file as a document, its links resolved when it is read; or why it cannot be read.

    ``tree`` is the folder that its includes and cross-references refer to. ``title`` is used if
    the file has none."""
    reader, warning, links = file.reader, "", ""
    try:
        if reader.reads is Reads.FILE:
            check_size(file.path, FILE_LIMIT)
            with file.path.open("rb") as opened:
                raw = hashlib.file_digest(opened, "blake2b").digest()
        else:
            raw = file_bytes(file.path)
            text, warning = decode(raw, html=reader.format == "html")
            links = resolver.fingerprint(file.id, text, reader.format)
            if tree and reader.format in RST_FORMATS:
                links += f"{tree.is_rst(file.id)} {tree.fingerprint(file.id, text)}"
            elif tree and reader.format in tree.expanders:
                expanded = tree.expanders[reader.format](file.id, text)
                links += expanded if expanded != text else ""
    except SourceError as error:
        return Problem(file.label, error.message)
    except OSError as error:
        return Problem(file.label, f"cannot be read ({reason_of(error)})")
    return Item(
        id=file.id,
        source_hash=hashed(raw, reader.identity, links + title),
        location=file.label,
        load=partial(_load, file, resolver, tree, title),
        warning=warning,
    )


def _load(
    file: SourceFile, resolver: LinkResolver, tree: SphinxTree | None, title: str
) -> Document:
    try:
        if file.reader.reads is Reads.FILE:
            builder = DocumentBuilder()
            with _plain(file) as opened:
                file.reader.load()(builder, opened)
        else:
            text, _ = decode(file_bytes(file.path), html=file.reader.format == "html")
            reader = file.reader
            builder, rest = front_matter.split(text, markdown=reader.format == "markdown")
            if tree and reader.format in RST_FORMATS:
                rest = tree.expand(file.id, rest)
                builder.find_reference = partial(tree.reference, file.id)
                reader = reader_of("rst") if tree.is_rst(file.id) else reader
            elif tree and reader.format in tree.expanders:
                rest = tree.expanders[reader.format](file.id, rest)
            reader.load()(builder, rest)
    except SourceError as error:
        reason = f"{file.label}: {error.message}"
        raise SourceError(reason, fix=error.fix, withdraw=error.withdraw) from error
    builder.fallback_title = builder.fallback_title or title
    document = builder.build(file.id, resolver)
    if not file.reader.lines:
        return document
    tagged = file.reader.format == "html"
    source, _ = decode(file_bytes(file.path), html=tagged)
    return replace(document, places=line_places(source, document.text, tagged=tagged))


@contextmanager
def _plain(file: SourceFile) -> Generator[SourceFile]:
    """The file as its reader opens it: a gzipped one unpacked into a temporary folder."""
    if file.path.suffix.lower() != ".gz":
        yield file
        return
    with TemporaryDirectory(prefix="packwise-") as folder:
        place = Path(folder, file.path.stem)
        unpack(file.path, place, FILE_LIMIT)
        yield replace(file, path=place)


def parse(format: str, text: str) -> DocumentBuilder:
    """Parse a text in a format."""
    builder, rest = front_matter.split(text, markdown=format == "markdown")
    reader_of(format).load()(builder, rest)
    return builder
