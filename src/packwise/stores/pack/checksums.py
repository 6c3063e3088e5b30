"""``checksums.json``: the bytes that a finished build left in the files of a pack.

It is removed before the database changes and written again when a build ends, so where it is
there, any difference is damage. Without it (a build was killed) the rows have their own.

A file has a checksum per block. What a build changes in the database is in SQLite's log first, so
only the blocks of those pages are read again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from packwise.errors import MALFORMED, StoreDamaged
from packwise.file_hashes import remembered
from packwise.stores.durable import open_regular, sync_file
from packwise.stores.pack.folder import CHECKSUMS, DATABASE, MANIFEST, PackFolder
from packwise.stores.pack.handles import sha256_of_blocks

_FORMAT = 2

_BLOCK = 64 << 10
"""Bytes under one checksum: a changed document touches pages all over the database, and each of
them means that its block is read."""

_DIGITS = 32
_CHECKED_AT_OPENING = 256 << 20
"""Bytes of a database up to which reading all of it takes less than a second."""

_LOG_HEADER, _FRAME_HEADER = 32, 24

FileSums = tuple[int, str]
"""The size of a file, and the checksums of its blocks one after the other."""


@dataclass(frozen=True, slots=True)
class Checksums:
    """What ``checksums.json`` says."""

    files: dict[str, FileSums | None]

    @property
    def text(self) -> str:
        own = hashlib.sha256(json.dumps(self.files).encode()).hexdigest()
        content = {"format": _FORMAT, "files": self.files, "checksum": own}
        return json.dumps(content, indent=1) + "\n"


def logged_pages(folder: PackFolder) -> set[int]:
    """The blocks of the pages that the log of the database holds. To be asked before the log is
    emptied, and while no one writes to it."""
    blocks: set[int] = set()
    try:
        file = open_regular(folder.path / f"{DATABASE}-wal")
    except FileNotFoundError:
        return blocks
    with file:
        header = file.read(_LOG_HEADER)
        size = int.from_bytes(header[8:12], "big")
        while len(frame := file.read(_FRAME_HEADER)) == _FRAME_HEADER:
            if frame[8:16] != header[16:24]:
                break  # What follows is left from before the log was last emptied.
            first = (int.from_bytes(frame[:4], "big") - 1) * size
            blocks.update(range(first // _BLOCK, (first + size - 1) // _BLOCK + 1))
            file.seek(size, 1)
    return blocks


def write_checksums(
    folder: PackFolder, known: Checksums | None = None, changed: Iterable[int] = ()
) -> None:
    """Record the bytes of a pack that no one is writing to. With what was ``known`` before, only
    the blocks of the database that ``changed`` since are read."""
    log = folder.path / f"{DATABASE}-wal"
    if log.exists() and log.stat().st_size > 0:
        return  # The database goes on in its log.
    earlier = known.files.get(DATABASE) if known else None
    files = {
        DATABASE: _sums(folder.database, earlier, changed),
        MANIFEST: _sums(folder.path / MANIFEST),
    }
    folder.prepare(CHECKSUMS, Checksums(files).text).publish()


def has_checksums(folder: PackFolder) -> bool:
    """Whether the last build that changed something ended, and was not killed."""
    return (folder.path / CHECKSUMS).exists()


def forget_checksums(folder: PackFolder) -> Checksums | None:
    """To be called before the database changes; what was known until then."""
    known = None
    if has_checksums(folder):
        try:
            known = _read(folder)
        except ValueError:
            known = None  # All is read again when the build ends.
        folder.remove(CHECKSUMS)
        sync_file(folder.path)
    return known


def check_database(folder: PackFolder) -> None:
    """Raise ``StoreDamaged`` where the database is not as the last build left it. Reads a file
    of moderate size, unless it has not changed since it was read."""

    def remembered_digest(path: Path) -> str:
        return remembered(path, _digest)

    try:
        large = folder.database.stat().st_size > _CHECKED_AT_OPENING
        if large or not list(_changed(folder, (DATABASE,), remembered_digest)):
            return
    except OSError:
        return  # Opening the database says why it cannot be read.
    raise StoreDamaged(
        f"{folder.database} is damaged: it is not as the last build left it",
        fix=f"packwise pack verify {folder}, then packwise pack repair {folder}",
    )


def changed_files(folder: PackFolder) -> Iterator[str]:
    """What is wrong with the files whose checksums are known, one line each."""
    try:
        if _read(folder) is None:
            return
    except ValueError as error:
        yield f"{CHECKSUMS} is damaged: {error}"
        return
    for name in _changed(folder, (DATABASE, MANIFEST), _digest):
        yield f"{name} is not as the last build left it"


def _changed(
    folder: PackFolder, names: tuple[str, ...], digest: Callable[[Path], str]
) -> Iterator[str]:
    while True:
        try:
            known = _read(folder)
        except ValueError:
            return
        found = {name: digest(folder.path / name) for name in names} if known else {}
        # A build that began meanwhile has removed the list first.
        if known is None or known == _read(folder):
            break
    if known is not None:
        yield from (name for name in names if _joined(known.files.get(name)) != found[name])


def _digest(path: Path) -> str:
    """One checksum of a file, made of those of its blocks; empty if it cannot be read."""
    return _joined(_sums(path))


def _joined(sums: FileSums | None) -> str:
    return hashlib.sha256(f"{sums[0]} {sums[1]}".encode()).hexdigest() if sums else ""


def _sums(
    path: Path, earlier: FileSums | None = None, changed: Iterable[int] = ()
) -> FileSums | None:
    """The checksums of a file; those of ``earlier`` stay, but for the blocks that changed."""
    old = earlier or (0, "")
    held = len(old[1]) // _DIGITS
    # The first page says how the log is kept, and the last block ends with the file.
    again = {*changed, 0, held - 1}
    try:
        size, read = sha256_of_blocks(path, _BLOCK, lambda at: at >= held or at in again)
    except OSError:
        return None
    blocks = range(-(-size // _BLOCK))
    kept = (old[1][at * _DIGITS : (at + 1) * _DIGITS] for at in blocks)
    return size, "".join(
        read[at][:_DIGITS] if at in read else digest
        for at, digest in zip(blocks, kept, strict=True)
    )


def _read(folder: PackFolder) -> Checksums | None:
    """The recorded checksums; ``None`` where there are none, or those of whole files that early
    builds wrote. Raises ``ValueError``."""
    try:
        text = folder.text(CHECKSUMS)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ValueError(str(error)) from error
    try:
        values = cast("dict[str, Any]", json.loads(text))
        files = {str(n): (int(e[0]), str(e[1])) if e else None for n, e in values["files"].items()}
        form = int(values["format"])
    except MALFORMED as error:
        raise ValueError(str(error)) from error
    if form < _FORMAT:
        return None
    if text != Checksums(files).text:
        raise ValueError("it does not fit its own checksum")
    return Checksums(files)
