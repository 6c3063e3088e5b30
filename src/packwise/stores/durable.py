"""Files that survive a crash, and a full disk recognised among other errors."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import sqlite3
import stat
import sys
import tempfile
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from packwise.errors import StoreBusy, StoreError, StoreFull

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_PROBE_BYTES = 8 << 20


def open_regular(path: Path) -> IO[bytes]:
    """Open a regular file for reading; a link, a pipe or a device raises ``OSError``."""
    if sys.platform == "win32":
        if path.is_symlink():
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        handle = os.open(path, os.O_RDONLY | os.O_BINARY | os.O_NOINHERIT)
    else:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return os.fdopen(handle, "rb")


def out_of_handles(error: OSError) -> bool:
    """Whether a file could not be opened because too many are open already."""
    return error.errno in (errno.EMFILE, errno.ENFILE)


def sync_file(path: Path) -> None:
    """Flush a file, or a folder's list of names, to the disk."""
    if sys.platform == "win32" and path.is_dir():
        return  # Windows flushes no folders, and a file only through a handle that may write.
    descriptor = os.open(path, os.O_RDWR if sys.platform == "win32" else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def link_files(source: Path, target: Path, names: Iterable[str]) -> None:
    """A second folder with the same files; they share their bytes where the disk allows.

    Only for files that are replaced or removed but never written in place.
    """
    target.mkdir()
    for name in names:
        try:
            os.link(source / name, target / name, follow_symlinks=False)
        except (OSError, NotImplementedError):
            shutil.copyfile(source / name, target / name, follow_symlinks=False)


class PreparedFile:
    """New content for a file: on the disk already, under another name until ``publish``."""

    def __init__(self, path: Path, content: bytes) -> None:
        self._path = path
        self._temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        try:
            with self._temporary.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            self.discard()
            raise

    def publish(self) -> None:
        """Put the content in place, all at once."""
        self._temporary.replace(self._path)
        sync_file(self._path.parent)

    def discard(self) -> None:
        """Leave the file as it was."""
        self._temporary.unlink(missing_ok=True)


@contextmanager
def writing(folder: Path) -> Generator[None]:
    """Turn what the disk and SQLite raise while writing into store errors."""
    try:
        yield
    except sqlite3.Error as error:
        raise _from_sqlite(folder, error) from error
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise _full(folder) from error
        reason = error.strerror or str(error)
        raise StoreError(
            f"cannot write to {folder}: {reason}", fix="check the folder and who may write to it"
        ) from error


def raise_if_full(folder: Path, error: Exception) -> None:
    """Raise ``StoreFull`` when a library failed in a folder that takes no more bytes.

    The index libraries do not say why a write failed, so a probe is written.
    """
    place = next(place for place in (folder, *folder.absolute().parents) if place.is_dir())
    try:
        with tempfile.TemporaryFile(dir=place) as probe:
            probe.write(bytes(_PROBE_BYTES))
            probe.flush()
    except OSError as trouble:
        if trouble.errno in _NO_ROOM:
            raise _full(folder) from error


def _from_sqlite(folder: Path, error: sqlite3.Error) -> StoreError:
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return _full(folder)
    if code == sqlite3.SQLITE_IOERR:
        # A full disk shows as an input/output error where SQLite grows its shared files.
        try:
            raise_if_full(folder, error)
        except StoreFull as full:
            return full
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreBusy(
            f"another program is writing to {folder / 'pack.sqlite'}", fix="wait for it to end"
        )
    return StoreError(
        f"cannot write to {folder / 'pack.sqlite'}: {error}",
        fix=f"packwise pack validate {folder}",
    )


def _full(folder: Path) -> StoreFull:
    return StoreFull(
        f"no room left on the disk of {folder}; the pack holds what it held before",
        fix="free some space and build again: it goes on where it stopped",
    )
