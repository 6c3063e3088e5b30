"""The parts of a zipped file (Office, OpenDocument, EPUB), with bounds on what they unpack to."""

from __future__ import annotations

import posixpath
import zipfile
import zlib
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast
from urllib.parse import unquote
from xml.etree import ElementTree

from packwise.errors import SourceError

PART_LIMIT = 128 << 20
"""The most bytes that one part, read at once, may unpack to."""
STREAM_LIMIT = 4 << 30
"""The most bytes that a part which is read as a stream may unpack to."""

Element = ElementTree.Element
_PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""How these formats pack their parts. What zipfile unpacks otherwise it unpacks without bounds."""
_FAULTS = (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, ValueError)


class ZippedFile:
    """An opened file. Methods raise ``SourceError`` with the bare reason."""

    def __init__(self, path: Path, kind: str) -> None:
        self._kind = kind
        try:
            self._zip = zipfile.ZipFile(path)
        except zipfile.BadZipFile as error:
            with path.open("rb") as file:
                old = file.read(8) == b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
            if old:
                raise SourceError(
                    f"is encrypted or in the format of before {kind}",
                    fix=f"save it as {kind} without a password",
                ) from error
            raise SourceError(f"cannot be read as {kind}") from error
        self.names = {name.lower(): name for name in self._zip.namelist()}
        """The parts by their names in lower case."""
        tops = {name.partition("/")[0] for name in self.names}
        if len(tops) == 1:
            # Somebody packed the folder rather than what is in it.
            inner = {key.partition("/")[2]: name for key, name in self.names.items()}
            self.names = {**inner, **self.names}

    def __enter__(self) -> ZippedFile:
        return self

    def __exit__(self, *error: object) -> None:
        self._zip.close()

    def has(self, name: str) -> bool:
        return name.lower() in self.names

    def size(self, name: str) -> int:
        """The bytes that a part unpacks to, as the file says."""
        return self._zip.getinfo(self.names[name.lower()]).file_size

    @contextmanager
    def stream(self, name: str) -> Generator[IO[bytes]]:
        """A part to be read piece by piece."""
        try:
            part = self._zip.getinfo(self.names[name.lower()])
            if part.compress_type not in _PACKED:
                raise SourceError(f"is packed as {self._kind} is not ({name})")
            with self._zip.open(part) as opened:
                yield cast("IO[bytes]", _Bounded(opened))
        except KeyError as error:
            raise SourceError(f"cannot be read as {self._kind}: it has no {name}") from error
        except RuntimeError as error:
            raise SourceError("is encrypted", fix="save a copy without its password") from error
        except _FAULTS as error:
            raise SourceError(f"is damaged ({name})") from error
        except ElementTree.ParseError as error:
            raise SourceError(f"is damaged ({name}: {error})") from error

    def read(self, name: str) -> bytes:
        """A part as bytes."""
        with self.stream(name) as opened:
            found = opened.read(PART_LIMIT + 1)
        if len(found) > PART_LIMIT:
            raise SourceError(f"unpacks to more than {PART_LIMIT >> 20} MiB ({name})")
        return found

    def xml(self, name: str) -> Element:
        """A part as XML."""
        raw = self.read(name)
        try:
            return ElementTree.fromstring(raw)
        except ElementTree.ParseError as error:
            raise SourceError(f"is damaged ({name}: {error})") from error

    def relations(self, name: str) -> Mapping[str, tuple[str, str]]:
        """The kind and the target of each part that a part of an Office file refers to, by id."""
        folder, _, last = name.rpartition("/")
        rels = f"{folder}/_rels/{last}.rels" if folder else f"_rels/{last}.rels"
        if not self.has(rels):
            return {}
        found: dict[str, tuple[str, str]] = {}
        for one in self.xml(rels):
            target = one.get("Target", "")
            if one.get("TargetMode") != "External":
                joined = posixpath.join(folder, unquote(target))
                target = posixpath.normpath(joined).lstrip("/") if target[:1] != "/" else target[1:]
            found[one.get("Id", "")] = (one.get("Type", "").rpartition("/")[2], target)
        return found


class _Bounded:
    """A stream that ends with an error after ``STREAM_LIMIT`` bytes."""

    def __init__(self, opened: IO[bytes]) -> None:
        self._opened = opened
        self._left = STREAM_LIMIT

    def read(self, size: int = -1) -> bytes:
        found = self._opened.read(size)
        self._left -= len(found)
        if self._left < 0:
            raise SourceError(f"unpacks to more than {STREAM_LIMIT >> 30} GiB")
        return found


def tag(element: Element) -> str:
    """The name of an element without its namespace, which two standards write differently."""
    return element.tag.rpartition("}")[2]


def attribute(element: Element | None, name: str) -> str:
    """An attribute by its name without namespace; empty if there is none."""
    if element is None:
        return ""
    for key, value in element.attrib.items():
        if key.rpartition("}")[2] == name:
            return value
    return ""


def child(element: Element | None, *path: str) -> Element | None:
    """The first descendant on a path of names."""
    for name in path:
        element = (
            next((one for one in element if tag(one) == name), None)
            if element is not None
            else None
        )
    return element


def children(element: Element | None, *path: str) -> list[Element]:
    """What is in the first descendant on a path of names; nothing if there is none."""
    # An element without children is false, and from Python 3.12 on asking warns.
    found = child(element, *path)
    return [] if found is None else list(found)


def descendants(element: Element, name: str) -> Iterator[Element]:
    """All descendants of this name, in order."""
    return (one for one in element.iter() if tag(one) == name)


def core_title(file: ZippedFile) -> str:
    """The title in the properties of an Office file."""
    if not file.has("docProps/core.xml"):
        return ""
    return next(
        (one.text or "" for one in file.xml("docProps/core.xml") if tag(one) == "title"), ""
    )
