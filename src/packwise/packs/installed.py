"""Packs installed under a name, so that the name opens them from any folder."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packwise.errors import NotAStore, StoreDamaged, StoreError, StoreMissing, UsageError
from packwise.packs.fetching import fetch, is_address
from packwise.packs.pack_file import OpenedPackFile, opened
from packwise.packs.release import Release, content_hash, parse_version, release_of, signature_of
from packwise.packs.signing import BadSignature, check
from packwise.stores.base import StoreInfo
from packwise.stores.locate import installed, is_pack_name
from packwise.stores.pack.copy import copy_pack
from packwise.stores.pack.folder import PackFolder
from packwise.stores.pack.store import open_pack
from packwise.stores.replacing import recover, remove_folder, replacing

ORIGIN = "installed.json"


@dataclass(frozen=True, slots=True)
class InstalledPack:
    """An installed pack; ``problem`` says why it cannot be opened, if so. ``release`` is what
    it was released as, ``origin`` the file or address that it came from."""

    name: str
    folder: Path
    info: StoreInfo | None
    problem: str = ""
    release: Release | None = None
    origin: str = ""


@dataclass(frozen=True, slots=True)
class _Origin:
    """Where the file of an installed pack came from, and the server's tag of it."""

    source: str = ""
    tag: str = ""


def install(
    source: Path | str,
    name: str | None = None,
    *,
    replace: bool = False,
    key: str | None = None,
) -> Path:
    """Install a pack's folder, file or address, completely or not at all. Returns its new folder.

    The record, the signature and the content of a file are checked before it takes its place;
    with ``key`` it has to be signed with that public key.
    """
    if isinstance(source, str) and is_address(source):
        with tempfile.TemporaryDirectory() as scratch:
            fetched = fetch(source, Path(scratch) / "archive")
            assert fetched is not None, "nothing was said to be current"
            return _install_file(fetched.path, _Origin(source, fetched.tag), name, replace, key)
    path = Path(source).expanduser()
    if path.is_file():
        return _install_file(path, _Origin(str(path.absolute())), name, replace, key)
    if not path.exists():
        raise StoreMissing(
            f"there is no pack at {path}", fix="name a folder, a file or an https:// address"
        )
    if key is not None:
        raise UsageError("a folder has no signature", fix="packwise pack install FILE --key KEY")
    with _place(name or path.resolve().name, replace) as new:
        copy_pack(path, new)
    return installed(name or path.resolve().name)


def update(name: str) -> tuple[str, str]:
    """Install the newest version of a pack from where it came from. Returns the versions before
    and after, which are equal if there is no newer one.

    A pack that was signed is replaced only by one that is signed with the same key.
    """
    folder = installed(name) if is_pack_name(name) else None
    if folder is None or not folder.is_dir():
        raise StoreMissing(f"no pack named {name!r} is installed", fix="packwise pack list")
    origin = _read_origin(folder)
    with open_pack(folder) as store:
        release = release_of(folder, store.info())
    if not origin.source or release is None:
        raise UsageError(
            f"{name} was not installed from a file or address, or was built again since",
            fix=f"packwise update {name}, if it has sources here",
        )
    key = _signer(folder, release)
    with tempfile.TemporaryDirectory() as scratch:
        path, tag = Path(origin.source), ""
        if is_address(origin.source):
            fetched = fetch(origin.source, Path(scratch) / "archive", origin.tag)
            if fetched is None:
                return release.version, release.version
            path, tag = fetched.path, fetched.tag
        with opened(path) as file:
            new = file.release.version
        if parse_version(new) <= parse_version(release.version):
            return release.version, release.version
        _install_file(path, _Origin(origin.source, tag), name, True, key)
    return release.version, new


def remove(name: str) -> None:
    """Delete an installed pack. Raises ``StoreMissing`` if there is none of this name."""
    target = installed(name) if is_pack_name(name) else None
    if target is None or not os.path.lexists(target):
        raise StoreMissing(f"no pack named {name!r} is installed", fix="packwise pack list")
    remove_folder(target)


def installed_packs() -> list[InstalledPack]:
    """Every installed pack, by name."""
    home = installed("x").parent
    recover(home)
    found: list[InstalledPack] = []
    for folder in sorted(home.iterdir()) if home.is_dir() else []:
        if not folder.is_dir() or not is_pack_name(folder.name):
            continue
        try:
            with open_pack(folder) as store:
                info = store.info()
            release, origin = release_of(folder, info), _read_origin(folder).source
            found.append(InstalledPack(folder.name, folder, info, "", release, origin))
        except (StoreMissing, NotAStore, StoreError) as error:
            found.append(InstalledPack(folder.name, folder, None, error.message))
    return found


def release_problems(folder: Path) -> list[str]:
    """What is wrong with the release record of a pack, one line each; none if it has none."""
    with open_pack(folder) as store:
        release = release_of(folder, store.info())
        if release is None:
            return []
        try:
            _signer(folder, release)
        except StoreError as error:
            return [error.message]
        if content_hash(store) != release.content:
            return [f"its content is not that of release {release.version}"]
    return []


@contextmanager
def _place(name: str, replace: bool) -> Generator[Path]:
    """A folder that becomes the installed pack of this name."""
    if not is_pack_name(name):
        raise UsageError(
            f"{name!r} cannot name a pack: use letters, digits, '.', '-' and '_', at most 64",
            fix="packwise pack install PACK --name NAME",
        )
    target = installed(name)
    if os.path.lexists(target) and not replace:
        raise UsageError(f"{name} is already installed", fix="packwise pack install --replace")
    with replacing(target) as new:
        yield new
        # What people said of its answers outlives the pack that is replaced.
        PackFolder(target).copy_feedback(new)


def _install_file(
    path: Path, origin: _Origin, name: str | None, replace: bool, key: str | None
) -> Path:
    with opened(path) as file:
        _check_signature(file, key)
        chosen = name or file.release.name
        with _place(chosen, replace) as new:
            unpacked = new.parent / "unpacked"
            file.unpack(unpacked)
            copy_pack(unpacked, new)
            with open_pack(new) as store:
                same = release_of(new, store.info()) is not None
                if not same or content_hash(store) != file.release.content:
                    raise StoreDamaged(f"the content of {path} is not what its record says")
            content = json.dumps({"from": origin.source, "tag": origin.tag}, indent=2)
            (new / ORIGIN).write_text(f"{content}\n", encoding="utf-8")
    return installed(chosen)


def _check_signature(file: OpenedPackFile, key: str | None) -> None:
    if file.signature is not None:
        check(file.release_text, file.signature, key)
    elif key is not None:
        raise BadSignature(f"{file.path} is not signed", fix="ask its author for a signed one")


def _signer(folder: Path, release: Release) -> str | None:
    """The public key that an installed pack is signed with, if it is."""
    signature = signature_of(folder)
    return None if signature is None else check(release.text, signature)


def signer(folder: Path, release: Release | None) -> str | None:
    """The public key in the signature of a release, without checking it."""
    signature = signature_of(folder) if release else None
    if signature is None:
        return None
    try:
        values: Any = json.loads(signature)
        return str(values["key"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _read_origin(folder: Path) -> _Origin:
    try:
        values: Any = json.loads(PackFolder(folder).text(ORIGIN))
        return _Origin(str(values["from"]), str(values["tag"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return _Origin()
