"""Packs installed under a name, so that the name opens them from any folder."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from packwise.errors import NotAStore, StoreError, StoreMissing, UsageError
from packwise.stores.base import StoreInfo
from packwise.stores.locate import installed, is_pack_name
from packwise.stores.pack.store import open_pack


@dataclass(frozen=True, slots=True)
class InstalledPack:
    """An installed pack; ``problem`` says why it cannot be opened, if so."""

    name: str
    folder: Path
    info: StoreInfo | None
    problem: str = ""


def install(folder: Path, name: str | None = None, *, replace: bool = False) -> Path:
    """Copy a pack to the installed ones, completely or not at all. Returns its new folder."""
    chosen = name or folder.resolve().name
    if not is_pack_name(chosen):
        raise UsageError(
            f"{chosen!r} cannot name a pack: use letters, digits, '.', '-' and '_', at most 64",
            fix="packwise pack install PACK --name NAME",
        )
    if not folder.exists():
        raise StoreMissing(f"there is no pack at {folder}", fix="packwise build SOURCE --out PACK")
    open_pack(folder).close()
    target = installed(chosen)
    if target.exists() and not replace:
        raise UsageError(f"{chosen} is already installed", fix="packwise pack install --replace")
    with new_folder(target) as new:
        copy_pack(folder, new)
        open_pack(new).close()
    return target


@contextmanager
def new_folder(target: Path) -> Generator[Path]:
    """A folder to write to that replaces ``target`` when the block ends without an error."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".new-", dir=target.parent) as scratch:
            yield Path(scratch) / "new"
            if target.exists():
                target.rename(Path(scratch) / "old")
            (Path(scratch) / "new").rename(target)
    except OSError as error:
        raise StoreError(f"cannot write {target}: {error.strerror or error}") from error


def copy_pack(folder: Path, target: Path) -> None:
    """Copy the files of a pack, except its locks."""
    shutil.copytree(folder, target, ignore=shutil.ignore_patterns("*.lock"))


def remove(name: str) -> None:
    """Delete an installed pack. Raises ``StoreMissing`` if there is none of this name."""
    target = installed(name) if is_pack_name(name) else None
    if target is None or not target.is_dir():
        raise StoreMissing(f"no pack named {name!r} is installed", fix="packwise pack list")
    shutil.rmtree(target)


def installed_packs() -> list[InstalledPack]:
    """Every installed pack, by name."""
    home = installed("x").parent
    found: list[InstalledPack] = []
    for folder in sorted(home.iterdir()) if home.is_dir() else []:
        if not folder.is_dir() or not is_pack_name(folder.name):
            continue
        try:
            with open_pack(folder) as store:
                found.append(InstalledPack(folder.name, folder, store.info()))
        except (StoreMissing, NotAStore, StoreError) as error:
            found.append(InstalledPack(folder.name, folder, None, error.message))
    return found
