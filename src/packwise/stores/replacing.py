"""A folder put in place as a whole: the old one or the new one, whatever happens in between."""

from __future__ import annotations

import ctypes
import errno
import os
import re
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from packwise.lazy_pattern import lazy_pattern
from packwise.stores.durable import sync_file, writing

_SCRATCH = ".packwise-"
_OURS = lazy_pattern(rf"{re.escape(_SCRATCH)}[a-z0-9_]{{8}}")
_NEW, _OLD, _TARGET, _LOCK = "new", "old", "target", "lock"
_RENAME_EXCHANGE = 2
_AT_FDCWD = -100


@contextmanager
def replacing(target: Path) -> Generator[Path]:
    """A folder to write to, which takes the place of ``target`` when the block ends without an
    error. Raises ``StoreError`` where that cannot be written."""
    from filelock import FileLock

    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        recover(target.parent)
        scratch = Path(tempfile.mkdtemp(prefix=_SCRATCH, dir=target.parent))
        try:
            with FileLock(scratch / _LOCK):
                yield scratch / _NEW
                _put_in_place(scratch, target)
                sync_file(target.parent)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def remove_folder(target: Path) -> None:
    """Remove a folder, all at once for those who look; of a link only the link."""
    with writing(target):
        if target.is_symlink():
            target.unlink()
            return
        scratch = Path(tempfile.mkdtemp(prefix=_SCRATCH, dir=target.parent))
        try:
            target.rename(scratch / _NEW)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def recover(parent: Path) -> None:
    """Finish what a killed process left in a folder: put back what it had moved aside, and
    remove what it had not put in place."""
    with suppress(OSError):
        for scratch in list(parent.iterdir()):
            if _OURS.fullmatch(scratch.name) and scratch.is_dir() and not scratch.is_symlink():
                _recover(scratch)


def _recover(scratch: Path) -> None:
    from filelock import FileLock, Timeout

    try:
        with FileLock(scratch / _LOCK, timeout=0):
            old, named = scratch / _OLD, scratch / _TARGET
            if os.path.lexists(old) and named.is_file():
                target = scratch.parent / Path(named.read_text(encoding="utf-8")).name
                if not os.path.lexists(target):
                    old.rename(target)
            shutil.rmtree(scratch, ignore_errors=True)
    except (Timeout, OSError):
        return  # In use, or not ours to change.


def _put_in_place(scratch: Path, target: Path) -> None:
    new, old = scratch / _NEW, scratch / _OLD
    if not os.path.lexists(target):
        new.rename(target)
    elif not _exchange(new, target):
        # Two steps: until both are done, `recover` can undo the first.
        (scratch / _TARGET).write_text(target.name, encoding="utf-8")
        target.rename(old)
        try:
            new.rename(target)
        except BaseException:
            old.rename(target)
            raise


def _exchange(one: Path, other: Path) -> bool:
    """Let two folders trade places in one step; ``False`` where the system cannot."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    done = rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE)
    if done == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM):
        return False
    raise OSError(code, os.strerror(code), str(other))
