"""From a STORE argument to an open store.

A STORE is a pack folder, or the name of an installed pack.
"""

from __future__ import annotations

import re
from pathlib import Path

from packwise import folders
from packwise.errors import StoreMissing, UsageError
from packwise.stores.base import Store

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:(?!\\)")


def is_pack_name(text: str) -> bool:
    """Whether a text can name an installed pack: letters, digits, dot, dash, underscore."""
    return bool(_NAME.fullmatch(text))


def installed(name: str) -> Path:
    """The folder of an installed pack, whether or not it is there."""
    return folders.home() / "packs" / name


def pack_folder(argument: str) -> Path:
    """The folder a STORE argument means; a folder that exists wins over an installed name."""
    if not argument.strip():
        raise UsageError("the STORE argument is empty", fix="name a pack folder")
    if _SCHEME.match(argument):
        raise UsageError(
            f"no store can be opened at {argument!r}", fix="name a pack folder or an installed pack"
        )
    folder = Path(argument).expanduser()
    if not folder.exists() and is_pack_name(argument) and installed(argument).is_dir():
        return installed(argument)
    return folder


def open_store(argument: str) -> Store:
    """Open a store for reading. Raises ``StoreMissing`` or ``NotAStore``."""
    from packwise.stores.pack import open_pack

    folder = pack_folder(argument)
    if not folder.exists():
        raise StoreMissing(
            f"there is no pack at {argument!r}", fix=f"packwise build SOURCE --out {argument}"
        )
    return open_pack(folder)
