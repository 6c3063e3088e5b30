"""A folder of packs that can be changed while it is served: packs are made of uploaded files,
renamed and deleted.

    FOLDER/NAME                 a pack
    FOLDER/documents/NAME       the files it was made from, apart from sources elsewhere
    FOLDER/.packwise/uploads    files that have arrived and belong to no pack yet
    FOLDER/.packwise/jobs       how far each build is, for whichever process is asked

A file or a pack is put in place as a whole. A build that fails leaves the pack and its files as
they were. If the process is killed during a build, the pack is as it was; the new files are in
its folder and the next build reads them.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import time
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from packwise.errors import StoreBusy, UsageError
from packwise.packs.build import BuildReport, build_pack
from packwise.packs.progress import Progress
from packwise.packs.remembered_sources import recall, remember
from packwise.settings import Settings
from packwise.sources.readers import readers, suffix
from packwise.stores.durable import sync_file, writing
from packwise.stores.locate import exists, is_pack_name
from packwise.stores.pack.database import DATABASE
from packwise.stores.replacing import recover, remove_folder, replacing

DOCUMENTS = "documents"
_OWN = ".packwise"
_ID = re.compile(r"[0-9a-f]{32}")
_LONGEST_PART, _LONGEST_PATH = 200, 800
_KEPT_SECONDS = 24 * 3600
"""Uploads and records of builds that are older are removed when the folder is opened."""


@dataclass(frozen=True, slots=True)
class UploadedFile:
    """A file that a pack was made from: its path below the pack's documents."""

    path: str
    bytes: int
    modified: float


def is_workspace(folder: Path) -> bool:
    """Whether a folder is one of packs: it is empty, or it has packs or their documents."""
    if not folder.is_dir() or exists(str(folder)):
        return False
    shown = [entry for entry in folder.iterdir() if not entry.name.startswith(".")]
    return not shown or any(_holds_pack(entry) or entry.name == DOCUMENTS for entry in shown)


class Workspace:
    """A folder of packs. Safe to use from several threads and processes."""

    def __init__(self, folder: Path, settings: Settings | None = None) -> None:
        self.folder = folder.resolve()
        self.jobs = self.folder / _OWN / "jobs"
        self._settings = settings
        self._uploads = self.folder / _OWN / "uploads"
        self._lock = self.folder / _OWN / "lock"
        with writing(self.folder):
            for part in (self._uploads, self.jobs):
                part.mkdir(parents=True, exist_ok=True)
            recover(self.folder)
            recover(self.folder / DOCUMENTS)
            self._remove_old()

    def names(self) -> list[str]:
        """The packs in the folder, by name."""
        return sorted(
            entry.name
            for entry in self.folder.iterdir()
            if is_pack_name(entry.name) and _holds_pack(entry)
        )

    def changed(self) -> int:
        """When a pack was last made, renamed or deleted, as a number to compare."""
        return self.folder.stat().st_mtime_ns

    def place(self, name: str) -> Path:
        """The folder of a pack, whether or not it exists."""
        return self.folder / name

    def files(self, name: str) -> list[UploadedFile]:
        """The files that a pack was made from, by path."""
        return _files(self.folder / DOCUMENTS / name)

    def other_sources(self, name: str) -> list[str]:
        """The sources of a pack that are elsewhere on this machine."""
        own = str(self.folder / DOCUMENTS / name)
        return [source for source in recall(str(self.place(name))) if source != own]

    def new_upload(self) -> str:
        """A place for files to arrive; its id cannot be guessed."""
        upload = secrets.token_hex(16)
        with writing(self.folder):
            (self._uploads / upload).mkdir(parents=True)
        return upload

    def uploaded(self, upload: str) -> list[UploadedFile]:
        """What has arrived. Raises ``UsageError`` if there is no such upload."""
        return _files(self._upload(upload))

    @contextmanager
    def receiving(self, upload: str, path: str) -> Generator[Path]:
        """A file to write to, which joins the upload as ``path`` when the block ends well."""
        target = self._upload(upload) / checked_path(path)
        with writing(self.folder):
            scratch = self._uploads / f"{upload}.{secrets.token_hex(4)}"
            try:
                yield scratch
                target.parent.mkdir(parents=True, exist_ok=True)
                scratch.replace(target)
            except (NotADirectoryError, IsADirectoryError, FileExistsError) as error:
                raise UsageError(f"{path} is a file and a folder in one upload") from error
            finally:
                scratch.unlink(missing_ok=True)

    def create(self, name: str, upload: str, progress: Progress | None = None) -> BuildReport:
        """Make a new pack of what was uploaded."""
        self.check_new_name(name)
        arrived = self._upload(upload)
        with self._changing():
            self.check_new_name(name)
            own = self.folder / DOCUMENTS / name
            with replacing(self.place(name)) as pack:
                with replacing(own) as new:
                    _link(arrived, new)
                try:
                    report = build_pack(
                        [str(own)], str(pack), settings=self._settings, progress=progress
                    )
                except BaseException:
                    remove_folder(own)
                    raise
                remember(str(pack), [str(own)])
            shutil.rmtree(arrived, ignore_errors=True)
            return report

    def change(
        self,
        name: str,
        upload: str | None,
        remove: Sequence[str] = (),
        progress: Progress | None = None,
    ) -> BuildReport:
        """Add the uploaded files to a pack, replace those it has, remove others, and read every
        source of the pack again."""
        arrived = self._upload(upload) if upload else None
        with self._changing():
            own = self.folder / DOCUMENTS / name
            kept = [file.path for file in _files(own) if file.path not in set(remove)]
            self._check_left(name, kept, arrived)
            before = self._uploads / f"{secrets.token_hex(16)}"
            _link(own, before)
            try:
                with replacing(own) as new:
                    _link(own, new, kept)
                    if arrived is not None:
                        _link(arrived, new)
                places = [s for s in self.other_sources(name) if "://" in s or Path(s).exists()]
                sources = [*places, *([str(own)] if _files(own) else [])]
                pack = str(self.place(name))
                report = build_pack(sources, pack, settings=self._settings, progress=progress)
            except BaseException:
                with replacing(own) as new:
                    before.rename(new)
                raise
            finally:
                shutil.rmtree(before, ignore_errors=True)
            if arrived is not None:
                shutil.rmtree(arrived, ignore_errors=True)
            return report

    def rename(self, name: str, new: str) -> None:
        """Give a pack another name."""
        self.check_new_name(new)
        with self._changing(wait=0.0):
            self.check_new_name(new)
            own, target = (self.folder / DOCUMENTS / part for part in (name, new))
            sources = [*self.other_sources(name), str(target)]
            with writing(self.folder):
                # The pack first: if this process is killed in between, the pack knows where its
                # files are.
                self.place(name).rename(self.place(new))
                if own.exists():
                    own.rename(target)
                sync_file(self.folder)
            if target.exists():
                remember(str(self.place(new)), sources)

    def delete(self, name: str) -> None:
        """Remove a pack and the files it was made from; sources elsewhere stay."""
        with self._changing(wait=0.0):
            remove_folder(self.place(name))
            own = self.folder / DOCUMENTS / name
            if own.exists():
                remove_folder(own)

    def check_new_name(self, name: str) -> None:
        """Raise ``UsageError`` unless a new pack can have this name."""
        if not is_pack_name(name) or name == DOCUMENTS:
            raise UsageError(
                f"{name[:80]!r} cannot name a pack: use letters, digits, '.', '-' and '_', at"
                " most 64"
            )
        if os.path.lexists(self.place(name)):
            raise UsageError(f"there is already a pack or folder named {name}")
        own = str(self.folder / DOCUMENTS / name)
        for pack in self.names():
            if own in recall(str(self.place(pack))):
                raise UsageError(f"the pack {pack} was made from the documents named {name}")

    def _check_left(self, name: str, kept: Sequence[str], arrived: Path | None) -> None:
        added = _files(arrived) if arrived is not None else []
        if not kept and not added and not self.other_sources(name):
            raise UsageError("a pack needs at least one document; delete the pack instead")

    def _upload(self, upload: str) -> Path:
        folder = self._uploads / upload
        if not _ID.fullmatch(upload) or not folder.is_dir():
            raise UsageError("there is no such upload; it may be too old")
        return folder

    @contextmanager
    def _changing(self, wait: float = 3600.0) -> Generator[None]:
        """One change at a time, whichever process makes it."""
        try:
            with FileLock(self._lock, timeout=wait):
                yield
        except Timeout:
            raise StoreBusy("another change of these packs is running") from None

    def _remove_old(self) -> None:
        oldest = time.time() - _KEPT_SECONDS
        for part in (self._uploads, self.jobs):
            for entry in part.iterdir():
                if entry.stat().st_mtime < oldest:
                    shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


def checked_path(path: str) -> str:
    """The path of an uploaded file. Raises ``UsageError`` if it is not a plain relative path, or
    nothing can read such a file."""
    parts = path.split("/")
    plain = all(
        part and not part.startswith(".") and len(part.encode()) <= _LONGEST_PART for part in parts
    )
    if not plain or len(path.encode()) > _LONGEST_PATH or not path.isprintable() or "\\" in path:
        raise UsageError(f"{path[:80]!r} cannot be the path of a document")
    reader = readers().get(suffix(parts[-1]))
    if reader is None or reader.missing:
        fix = f"pip install {reader.pip}" if reader is not None and reader.pip else None
        raise UsageError(
            f"{suffix(parts[-1]) or 'a file without a suffix'} cannot be read", fix=fix
        )
    return path


def _holds_pack(entry: Path) -> bool:
    return (entry / DATABASE).is_file()


def _files(folder: Path) -> list[UploadedFile]:
    found: list[UploadedFile] = []
    for path in folder.rglob("*") if folder.is_dir() else ():
        if path.is_file() and not path.is_symlink():
            status = path.stat()
            name = path.relative_to(folder).as_posix()
            found.append(UploadedFile(name, status.st_size, status.st_mtime))
    return sorted(found, key=lambda file: file.path)


def _link(source: Path, target: Path, names: Iterable[str] | None = None) -> None:
    """Put files of one folder into another, replacing those there; they share their bytes where
    the disk allows, as uploaded files are replaced but never written in place."""
    target.mkdir(parents=True, exist_ok=True)
    for name in [file.path for file in _files(source)] if names is None else names:
        place = target / name
        if place.parent.is_file() or place.is_dir():
            raise UsageError(f"{name} is a file and a folder in one pack")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        try:
            os.link(source / name, place)
        except OSError:
            shutil.copyfile(source / name, place)
