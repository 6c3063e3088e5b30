"""The folder of a pack: every path in it, and every removal.

A pack may come from someone else, so nothing in it is a path until it is checked. Names are
fixed here, a generation is a positive number, no link inside a pack is followed, and only
files with names that packwise gives are ever removed. The pack's own folder may be reached by a
link: that one the caller named.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import stat
import sys
from collections.abc import Container, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import IO

from packwise.errors import NotAStore, StoreError
from packwise.lazy_pattern import lazy_pattern
from packwise.settings import cache_folder
from packwise.stores.durable import PreparedFile, open_regular, sync_file

DATABASE = "pack.sqlite"
MANIFEST = "manifest.json"
CHECKSUMS = "checksums.json"
CALIBRATION = "calibration.json"
PROFILE = "profile.json"
SAMPLES = "sample_questions.json"
SOURCES = "sources.json"
FEEDBACK = "eval/feedback.jsonl"
LOCK = "build.lock"
INDEX_FOLDER = "index"
KEYWORDS = "keywords"
JOURNAL = f"{DATABASE}-journal"
_SIDE_FILES = (f"{DATABASE}-wal", f"{DATABASE}-shm")

RELEASE = "release.json"
SIGNATURE = "release.sig"
TRAVELLING = (
    *(CALIBRATION, PROFILE, SAMPLES),
    *("few_shot_examples.json", "SKILL.md", "eval/questions.jsonl"),
)
"""What travels with a pack besides its database, its indexes and the record of its release."""

_COPIED = (*TRAVELLING, RELEASE, SIGNATURE)
_FILES = (
    *(DATABASE, *_SIDE_FILES, MANIFEST, CHECKSUMS),
    *(CALIBRATION, PROFILE, SAMPLES, SOURCES, LOCK),
)
_FOLDERS = (INDEX_FOLDER, "eval")
OWN_NAMES = frozenset(
    {*_FILES, *_FOLDERS, JOURNAL, "few_shot_examples.json", "SKILL.md", RELEASE, SIGNATURE}
)

_INDEX_FILE = lazy_pattern(
    r"index\.json|(keys|removed)\.i64|names\.bin|vectors\.(usearch|f16)|terms\.u(64|16)"
    r"|passages\.(i64|u32)|vocabulary\.u(64|32)"
)
_KEYWORD_FILE = lazy_pattern(r"[A-Za-z0-9_.-]{1,80}")
_INDEX_NAME = lazy_pattern(r"[1-9][0-9]{0,17}|\.[0-9a-z]{1,18}-[0-9a-f]{3,8}")
_MOST_TEXT = 16 << 20
_NAME_FOLLOWS = bytes.fromhex("d9d505f920a163d7")


def is_index_file(name: str) -> bool:
    """Whether packwise gives this name, relative to an index folder, to a file."""
    folder, _, file = name.rpartition("/")
    kind = {"": _INDEX_FILE, KEYWORDS: _KEYWORD_FILE}.get(folder)
    return kind is not None and file not in (".", "..") and bool(kind.fullmatch(file))


class IndexHome:
    """A folder with one folder of indexes per generation: in a pack, or in the cache."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def folder(self, generation: int) -> Path:
        """Where the indexes of a generation belong."""
        if type(generation) is not int or not 0 < generation < 10**18:
            raise StoreError(f"{generation!r} is not the number of a generation")
        return self.path / str(generation)

    def is_there(self, generation: int) -> bool:
        """Whether there is a folder for the generation, with no link on the way to it."""
        folder = self.folder(generation)
        # A segment has no folder of keywords.
        has_keywords = os.path.lexists(folder / KEYWORDS)
        places = (self.path, folder, *([folder / KEYWORDS] if has_keywords else []))
        return all(map(_is_folder, places))

    @contextmanager
    def writing(self, generation: int) -> Generator[Path]:
        """A new folder that takes the generation's place when the block ends without an error.

        Raises ``OSError`` where it cannot be written.
        """
        folder = self.folder(generation)
        self.path.mkdir(parents=True, exist_ok=True)
        if not _is_folder(self.path):
            raise NotADirectoryError(f"{self.path} is a link")
        building = self.path / f".{generation}-{secrets.token_hex(4)}"
        try:
            building.mkdir()
            yield building
            if os.path.lexists(folder):
                aside = self.path / f".old-{secrets.token_hex(4)}"
                folder.rename(aside)
                _remove_index(aside)
            building.rename(folder)
            sync_file(self.path)
            sync_file(self.path.parent)
        except BaseException:
            _remove_index(building)
            raise

    def empty(self, building: Path) -> None:
        """Remove what was written to a new folder so far."""
        _remove_index(building)
        building.mkdir()

    def remove(self, generation: int) -> None:
        """Remove the indexes of a generation."""
        _remove_index(self.folder(generation))

    def remove_others(self, generations: Container[int] = ()) -> None:
        """Remove every index but those of some generations; readers keep what they have open."""
        if not _is_folder(self.path):
            return
        for folder in list(self.path.iterdir()):
            name = folder.name
            kept = name.isdecimal() and int(name) in generations
            if _INDEX_NAME.fullmatch(name) and not kept:
                _remove_index(folder)

    def size(self) -> int:
        """Bytes of all files."""
        return sum(map(_size, _index_files(self.path))) if _is_folder(self.path) else 0


class PackFolder:
    """The paths of one pack. Making one neither reads nor writes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.database = path / DATABASE
        self.lock = path / LOCK
        self.indexes = IndexHome(path / INDEX_FOLDER)

    def __str__(self) -> str:
        return str(self.path)

    @property
    def cached_indexes(self) -> IndexHome:
        """Where the indexes of a pack are kept that cannot be written."""
        name = sha256(os.fsencode(self.path.resolve())).hexdigest()[:32]
        return IndexHome(cache_folder() / "indexes" / name)

    def check(self) -> None:
        """Raise ``NotAStore`` where one of the pack's names is a link, a pipe or a device."""
        for names, is_kind in ((_FILES, stat.S_ISREG), (_FOLDERS, stat.S_ISDIR)):
            for name in names:
                try:
                    mode = os.lstat(self.path / name).st_mode
                except (FileNotFoundError, NotADirectoryError):
                    continue
                if not is_kind(mode):
                    what = "a link" if stat.S_ISLNK(mode) else "not what a pack holds there"
                    raise NotAStore(
                        f"{self.path / name} is {what}", fix="remove it, or name another pack"
                    )
        self._check_journal()

    def _check_journal(self) -> None:
        """Refuse a journal that ends with the name of another file: SQLite would remove that
        file. Our databases keep a log; only a build that ended while it made one leaves a
        journal, and never with a name."""
        try:
            with self.open(JOURNAL) as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - len(_NAME_FOLLOWS)))
                named = file.read() == _NAME_FOLLOWS
        except FileNotFoundError:
            return
        except OSError:
            named = True
        if named:
            raise NotAStore(
                f"{self.path / JOURNAL} does not belong into a pack",
                fix="remove it, or name another pack",
            )

    def foreign(self) -> str | None:
        """The first name in the folder that a pack does not have."""
        names = (path.name for path in self.path.iterdir())
        return min((name for name in names if name not in OWN_NAMES), default=None)

    def open(self, name: str) -> IO[bytes]:
        """A file of the pack, for reading. Raises ``OSError``, also for anything but a file."""
        return open_regular(self.path / name)

    def text(self, name: str) -> str:
        """The text of a small file. Raises ``OSError`` or ``ValueError``."""
        with self.open(name) as file:
            content = file.read(_MOST_TEXT + 1)
        if len(content) > _MOST_TEXT:
            raise ValueError(f"larger than {_MOST_TEXT >> 20} MB")
        return content.decode()

    def prepare(self, name: str, content: str) -> PreparedFile:
        """New content for a file, on the disk beside the old; ``publish`` puts it in place."""
        return PreparedFile(self.path / name, content.encode())

    def remove(self, name: str) -> None:
        """Remove a file of the pack, if it is there."""
        assert name in OWN_NAMES
        (self.path / name).unlink(missing_ok=True)

    def remove_unfinished(self) -> None:
        """Remove what writers that were killed had prepared."""
        names = "|".join(map(re.escape, (MANIFEST, CHECKSUMS, SOURCES)))
        ours = re.compile(rf"\.({names})\.[0-9a-f]{{4,8}}")
        for path in list(self.path.iterdir()):
            if ours.fullmatch(path.name):
                path.unlink(missing_ok=True)

    def take_back(self, *, made_folder: bool) -> None:
        """Remove what a build made that never put anything into it."""
        for name in (DATABASE, *_SIDE_FILES, JOURNAL, LOCK):
            self.remove(name)
        self.indexes.remove_others()
        for folder in (self.indexes.path, *([self.path] if made_folder else [])):
            if _is_folder(folder) and not any(folder.iterdir()):
                folder.rmdir()

    def copy_files(self, target: Path) -> None:
        """Copy what travels with a pack besides its database and its indexes."""
        for name in _COPIED:
            if _is_folder((self.path / name).parent):
                self._copy(name, target / name)

    def copy_feedback(self, target: Path) -> None:
        """Copy what people said about answers. It quotes their questions, so it does not travel
        with a pack: it is only taken over by the pack that replaces this one."""
        if _is_folder((self.path / FEEDBACK).parent):
            self._copy(FEEDBACK, target / FEEDBACK)

    def copy_index(self, generation: int, names: Iterable[str], target: Path) -> None:
        """Copy these files of a generation's indexes."""
        for name in names:
            place = self.indexes.folder(generation) / name
            self._copy(str(place.relative_to(self.path)), target / str(generation) / name)

    def _copy(self, name: str, target: Path) -> None:
        try:
            source = self.open(name)
        except OSError:
            return  # Not there, or a link.
        target.parent.mkdir(parents=True, exist_ok=True)
        with source, target.open("xb") as file:
            shutil.copyfileobj(source, file, 1 << 20)
            file.flush()
            os.fsync(file.fileno())

    def size(self) -> int:
        """Bytes of all files of the pack."""
        files = (DATABASE, *_SIDE_FILES, MANIFEST, CHECKSUMS, *_COPIED)
        return sum(_size(self.path / name) for name in files) + self.indexes.size()


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def _size(path: Path) -> int:
    """Bytes of a regular file; 0 for anything else, also one that vanished."""
    try:
        status = os.lstat(path)
    except OSError:
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else 0


def _index_files(home: Path) -> Iterator[Path]:
    for place in home.iterdir():
        if _INDEX_NAME.fullmatch(place.name) and _is_folder(place):
            for folder in filter(_is_folder, (place, place / KEYWORDS)):
                yield from folder.iterdir()


def _remove_index(folder: Path) -> None:
    """Remove the files that packwise makes in an index folder, and the folder if that empties
    it. Errors are ignored: what is left is removed by the next build."""
    for place, names in ((folder / KEYWORDS, _KEYWORD_FILE), (folder, _INDEX_FILE)):
        if not _is_folder(folder):
            return
        if sys.platform == "win32":
            _remove_files(place, names)
            continue
        try:
            handle = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            with os.scandir(handle) as entries:
                for entry in list(entries):
                    if names.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                        os.unlink(entry.name, dir_fd=handle)
            place.rmdir()
        except OSError:
            continue
        finally:
            os.close(handle)


def _remove_files(place: Path, names: re.Pattern[str]) -> None:
    """The same by paths, where a folder has no handle."""
    if not _is_folder(place):
        return
    with suppress(OSError):
        for path in list(place.iterdir()):
            if names.fullmatch(path.name) and path.is_file() and not path.is_symlink():
                path.unlink()
        place.rmdir()
