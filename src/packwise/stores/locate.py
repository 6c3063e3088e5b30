"""From a STORE argument to an open store.

A STORE is a pack folder, the name of an installed pack, a Kuzu file or a folder with a
``pack.db``, a ``postgresql://`` URL, ``qdrant+http://HOST:PORT/NAME`` or ``kuzu:PATH``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeVar

from packwise.errors import StoreMissing, UsageError
from packwise.lazy_pattern import lazy_pattern
from packwise.settings import data_folder
from packwise.stores.base import Store

_NAME = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_POSTGRES = ("postgresql://", "postgres://")
_QDRANT = ("qdrant+http://", "qdrant+https://")
_KUZU = "kuzu:"
_KUZU_FILE = "pack.db"
_KUZU_MAGIC = (b"KUZU", b"LBUG")
_S = TypeVar("_S", bound=Store)
Kind = Literal["postgresql", "qdrant", "kuzu", "pack"]
_SCHEME = lazy_pattern(r"[a-z][a-z0-9+.-]*:(?!\\)")


def is_pack_name(text: str) -> bool:
    """Whether a text can name an installed pack: letters, digits, dot, dash, underscore."""
    return bool(_NAME.fullmatch(text))


def installed(name: str) -> Path:
    """The folder of an installed pack, whether or not it exists."""
    return data_folder() / "packs" / name


def pack_folder(argument: str) -> Path:
    """The folder that a STORE argument names; an existing folder wins over an installed pack."""
    if not argument.strip():
        raise UsageError("the STORE argument is empty", fix="name a pack folder")
    if _SCHEME.match(argument):
        raise UsageError(
            f"no store can be opened at {argument!r}", fix="name a pack folder or an installed pack"
        )
    folder = Path(argument).expanduser()
    if not folder.exists() and is_pack_name(argument):
        if not installed(argument).is_dir():
            from packwise.stores.replacing import recover

            recover(installed(argument).parent)
        if installed(argument).is_dir():
            return installed(argument)
    return folder


def _kuzu_path(argument: str) -> Path | None:
    """The Kuzu database that an argument without a scheme names, if it names one."""
    place = pack_folder(argument)
    if place.is_file():
        try:
            with place.open("rb") as file:
                ours = file.read(4) in _KUZU_MAGIC or place.name == _KUZU_FILE
        except OSError:
            return place  # Opening it says why it cannot be read.
        return place if ours else None
    if place.name == _KUZU_FILE and (place / "catalog.kz").exists():
        return place
    holds_one = (place / _KUZU_FILE).exists() and not (place / "pack.sqlite").exists()
    return place / _KUZU_FILE if holds_one else None


def exists(argument: str) -> bool:
    """Whether an argument is the address of a server's store, or names a pack or Kuzu file."""
    if argument.startswith((*_POSTGRES, *_QDRANT, _KUZU)):
        return True
    if not argument.strip() or _SCHEME.match(argument):
        return False
    return (pack_folder(argument) / "pack.sqlite").is_file() or _kuzu_path(argument) is not None


def same_store(one: str, other: str) -> bool:
    """Whether two STORE arguments name the same place, however they are spelled."""
    return one == other or _place(one) == _place(other)


def _place(argument: str) -> tuple[object, ...]:
    """Differs between any two stores."""
    kind, address = _address(argument)
    if kind == "postgresql":
        from packwise.stores.postgres.connections import database_identity

        return (kind, *database_identity(address))
    if kind == "qdrant":
        from packwise.stores.qdrant.server import parse_address

        parsed = parse_address(address)
        return kind, frozenset(parsed.nodes), parsed.collection
    path = (Path(address).expanduser() if kind == "kuzu" else pack_folder(address)).resolve()
    return kind, path / _KUZU_FILE if kind == "kuzu" and path.is_dir() else path


def _address(argument: str) -> tuple[Kind, str]:
    """The kind of store that an argument names, and what is opened there."""
    if argument.startswith(_POSTGRES):
        return "postgresql", argument
    if argument.startswith(_QDRANT):
        return "qdrant", argument
    if argument.startswith(_KUZU):
        return "kuzu", argument.removeprefix(_KUZU)
    found = _kuzu_path(argument)
    return ("kuzu", str(found)) if found else ("pack", argument)


def open_store(argument: str) -> Store:
    """Open a store for reading. Raises ``StoreMissing`` or ``NotAStore``."""
    kind, address = _address(argument)
    if kind == "postgresql":
        from packwise.stores.postgres.store import open_postgres

        return open_postgres(address)
    if kind == "qdrant":
        from packwise.stores.qdrant.store import open_qdrant

        return open_qdrant(address)
    if kind == "kuzu":
        from packwise.stores.kuzu.store import open_kuzu

        return open_kuzu(address)
    from packwise.stores.pack.store import open_pack

    folder = pack_folder(address)
    if not folder.exists():
        raise StoreMissing(
            f"there is no pack at {argument!r}", fix=f"packwise build SOURCE --out {argument}"
        )
    return open_pack(folder)


def opened(store: _S, check: Callable[[], object]) -> _S:
    """The store, once ``check`` has shown that it can be read; closed if it cannot."""
    try:
        check()
    except BaseException:
        store.close()
        raise
    return store


def create_or_open_store(argument: str) -> Store:
    """Open a store to build it, whether or not it exists; nothing is created before its writer
    is used. Raises ``NotAStore`` where something else is in the way."""
    kind, address = _address(argument)
    if kind == "postgresql":
        from packwise.stores.postgres.store import PostgresStore

        return PostgresStore(address)
    if kind == "qdrant":
        from packwise.stores.qdrant.store import create_or_open_qdrant

        return create_or_open_qdrant(address)
    if kind == "kuzu":
        from packwise.stores.kuzu.store import create_or_open_kuzu

        return create_or_open_kuzu(address)
    from packwise.stores.pack.store import create_or_open_pack

    return create_or_open_pack(Path(address))
