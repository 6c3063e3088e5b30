"""The shelf: packs installed under a name, so that they open from anywhere."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from packwise.errors import NotAStore, StoreError, StoreMissing, UsageError
from packwise.stores.base import StoreInfo
from packwise.stores.locate import installed, is_pack_name
from packwise.stores.pack.store import open_pack


@dataclass(frozen=True, slots=True)
class Installed:
    """A pack on the shelf; ``problem`` says why it cannot be opened, if so."""

    name: str
    folder: Path
    info: StoreInfo | None
    problem: str = ""


def install(folder: Path, name: str | None = None, *, replace: bool = False) -> Path:
    """Copy a pack onto the shelf; it appears whole or not at all. Returns its folder."""
    chosen = name or folder.resolve().name
    if not is_pack_name(chosen):
        raise UsageError(
            f"{chosen!r} cannot name a pack: letters, digits, '.', '-' and '_', at most 64",
            fix="packwise pack install PACK --name NAME",
        )
    if not folder.exists():
        raise StoreMissing(f"there is no pack at {folder}", fix="packwise build SOURCE --out PACK")
    open_pack(folder).close()
    target = installed(chosen)
    if target.exists() and not replace:
        raise UsageError(f"{chosen} is installed already", fix="packwise pack install --replace")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".install-", dir=target.parent) as scratch:
        try:
            shutil.copytree(folder, Path(scratch) / "new", ignore=shutil.ignore_patterns("*.lock"))
            open_pack(Path(scratch) / "new").close()
            if target.exists():
                target.rename(Path(scratch) / "old")
            (Path(scratch) / "new").rename(target)
        except OSError as error:
            raise StoreError(f"cannot install {chosen}: {error.strerror}") from error
    return target


def remove(name: str) -> None:
    """Take a pack off the shelf. Raises ``StoreMissing`` when it is not there."""
    target = installed(name) if is_pack_name(name) else None
    if target is None or not target.is_dir():
        raise StoreMissing(f"no pack named {name!r} is installed", fix="packwise pack list")
    shutil.rmtree(target)


def shelf() -> list[Installed]:
    """Every installed pack, by name."""
    home = installed("x").parent
    found: list[Installed] = []
    for folder in sorted(home.iterdir()) if home.is_dir() else []:
        if not folder.is_dir() or not is_pack_name(folder.name):
            continue
        try:
            with open_pack(folder) as store:
                found.append(Installed(folder.name, folder, store.info()))
        except (StoreMissing, NotAStore, StoreError) as error:
            found.append(Installed(folder.name, folder, None, error.message))
    return found
