"""A pack as one file: a zip archive with the database and the files that travel with a pack.

The indexes stay behind: every installation makes its own. An archive from someone else is data:
only the names of a pack are read, and no more bytes than its release record lists.
"""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
import tempfile
import zipfile
import zlib
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO

from packwise import __version__
from packwise.errors import NotAStore, StoreDamaged, UsageError
from packwise.packs.release import (
    Release,
    content_hash,
    parse_release,
    parse_version,
)
from packwise.packs.signing import sign
from packwise.stores.durable import sync_file, writing
from packwise.stores.locate import is_pack_name
from packwise.stores.pack.folder import DATABASE, RELEASE, SIGNATURE, TRAVELLING, PackFolder
from packwise.stores.pack.store import open_pack

SUFFIX = ".pack"
_LARGEST_TEXT = 16 << 20
_LARGEST_RECORD = 1 << 20
_RATIO = 100
"""How many bytes one byte of an archive may unpack to: packs reach about 5."""
_CHUNK = 1 << 20
_NAMES = (DATABASE, *TRAVELLING)
_PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""How members are packed. What zipfile unpacks otherwise it unpacks without bounds."""
_FAULTS = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError)


def write_pack_file(
    pack: Path,
    target: Path | None,
    *,
    version: str,
    license: str,
    description: str = "",
    name: str | None = None,
    key: Path | None = None,
    replace: bool = False,
) -> tuple[Path, Release]:
    """Write a pack as one file; by default ``NAME-VERSION.pack`` in the current folder.

    The same state of a pack always gives the same bytes. Content that was removed from the pack,
    or staged by an unfinished build, is not in the file.
    """
    parse_version(version)
    chosen = name or pack.resolve().name
    if not is_pack_name(chosen):
        raise UsageError(f"{chosen!r} cannot name a pack", fix="--name NAME")
    if not license.strip():
        raise UsageError("a release needs a licence", fix="--license CC-BY-4.0")
    target = target or Path(f"{chosen}-{version}{SUFFIX}")
    if target.exists() and not replace:
        raise UsageError(f"{target} already exists", fix="add --replace, or name another file")
    with writing(target), tempfile.TemporaryDirectory(dir=target.absolute().parent) as scratch:
        folder = Path(scratch)
        with open_pack(pack) as store, store.snapshot() as (connection, _):
            _copy_database(connection, folder / DATABASE)
            PackFolder(pack).copy_files(folder)
            info, content = store.info(), content_hash(store)
        release = Release(
            name=chosen,
            version=version,
            license=license,
            description=description,
            content=content,
            state=info.version,
            embedder=info.embedder,
            documents=info.documents,
            passages=info.passages,
            packwise=__version__,
            files={n: _digest(folder / n) for n in _NAMES if (folder / n).is_file()},
        )
        (folder / RELEASE).write_text(release.text, encoding="utf-8")
        names = [RELEASE, *release.files]
        if key is not None:
            (folder / SIGNATURE).write_text(sign(release.text, key), encoding="utf-8")
            names.insert(1, SIGNATURE)
        part = folder / "archive"
        _write_archive(part, folder, names)
        sync_file(part)
        part.replace(target)
    return target, release


@contextmanager
def opened(file: Path) -> Generator[OpenedPackFile]:
    """A pack's file, with its release record read. Raises ``NotAStore`` on any other file."""
    try:
        with zipfile.ZipFile(file) as archive:
            yield OpenedPackFile(file, archive)
    except OSError as error:
        raise NotAStore(f"cannot read {file}: {error.strerror or error}") from error
    except _FAULTS as error:
        raise NotAStore(
            f"{file} is not a file of a pack, or is damaged: {error}", fix="download it again"
        ) from error


class OpenedPackFile:
    """A pack's file. ``signature`` is the text of its signature, if it has one."""

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self.path = path
        self._archive = archive
        self._members = self._checked_members()
        self.release_text = self._text(RELEASE)
        self.release = parse_release(self.release_text, str(path))
        self.signature = self._text(SIGNATURE) if SIGNATURE in self._members else None
        listed = {*self.release.files}
        if DATABASE not in listed or {*self._members} - {RELEASE, SIGNATURE} != listed:
            raise NotAStore(f"{path} does not hold the files that its record lists")

    def unpack(self, folder: Path) -> None:
        """Write the files of the pack into a new folder; every byte is compared with the record."""
        free = shutil.disk_usage(folder.parent).free
        total = sum(size for size, _ in self.release.files.values())
        if total > max(self.path.stat().st_size * _RATIO, _LARGEST_TEXT):
            raise NotAStore(f"{self.path} would unpack to {total:,} bytes, more than a pack does")
        if total > free:
            raise UsageError(f"{self.path} needs {total:,} bytes on the disk, {free:,} are free")
        folder.mkdir()
        for name, (size, digest) in self.release.files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            with (
                self._archive.open(self._members[name]) as packed,
                (folder / name).open("xb") as out,
            ):
                if _copy(packed, out, size) != digest:
                    raise StoreDamaged(f"{name} in {self.path} is damaged", fix="download it again")
        (folder / RELEASE).write_text(self.release_text, encoding="utf-8")
        if self.signature is not None:
            (folder / SIGNATURE).write_text(self.signature, encoding="utf-8")

    def _checked_members(self) -> dict[str, zipfile.ZipInfo]:
        """The members by name: each a name of a pack, once, not encrypted, and deflated or
        not packed at all."""
        members: dict[str, zipfile.ZipInfo] = {}
        for member in self._archive.infolist():
            name = member.filename
            if name not in (*_NAMES, RELEASE, SIGNATURE) or name in members or member.flag_bits & 1:
                shown = name.encode("unicode_escape").decode()[:80]
                raise NotAStore(f"{self.path} holds {shown!r}, which a pack does not have there")
            if member.compress_type not in _PACKED:
                raise NotAStore(f"{name} in {self.path} is not packed as packwise does")
            members[name] = member
        if RELEASE not in members:
            raise NotAStore(f"{self.path} has no {RELEASE}", fix="name a file of pack export")
        return members

    def _text(self, name: str) -> str:
        with self._archive.open(self._members[name]) as packed:
            content = packed.read(_LARGEST_RECORD + 1)
        if len(content) > _LARGEST_RECORD:
            raise NotAStore(f"{name} in {self.path} is too large")
        return content.decode()


def _copy_database(connection: sqlite3.Connection, target: Path) -> None:
    with closing(sqlite3.connect(target)) as copy:
        connection.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE")
        copy.execute("DELETE FROM staged")
        copy.commit()
        # Pages of removed documents are not given away, and the pages have one order.
        copy.execute("VACUUM")


def _write_archive(target: Path, folder: Path, names: list[str]) -> None:
    with zipfile.ZipFile(target, "x", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name in names:
            member = zipfile.ZipInfo(name)  # Its time is the first that a zip can hold.
            member.compress_type = zipfile.ZIP_DEFLATED
            member.external_attr = 0o644 << 16
            with (
                (folder / name).open("rb") as file,
                archive.open(member, "w", force_zip64=True) as out,
            ):
                shutil.copyfileobj(file, out, _CHUNK)


def _copy(packed: IO[bytes], out: IO[bytes], size: int) -> str:
    """Copy exactly ``size`` bytes; their SHA-256, or nothing if there are more or fewer."""
    digest, left = hashlib.sha256(), size
    while chunk := packed.read(min(_CHUNK, left + 1)):
        left -= len(chunk)
        if left < 0:
            return ""
        digest.update(chunk)
        out.write(chunk)
    return digest.hexdigest() if left == 0 else ""


def _digest(path: Path) -> tuple[int, str]:
    with path.open("rb") as file:
        return path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest()
