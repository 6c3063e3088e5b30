"""The sources that a pack was built from, kept beside it so that it can be updated.

``sources.json`` stays on this machine: its paths mean nothing elsewhere, so installing, copying
or exporting a pack leaves it behind. It is signed by this installation, because a list that
someone else wrote could name private files or addresses for ``packwise update`` to read.
"""

from __future__ import annotations

import hmac
import json
import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, cast

from packwise.errors import StoreError, StoreMissing, UsageError
from packwise.lazy_pattern import lazy_pattern
from packwise.stores.durable import writing
from packwise.stores.locate import pack_folder
from packwise.stores.pack.database import DATABASE
from packwise.stores.pack.folder import SOURCES, PackFolder
from packwise.stores.pack.seal import sign

_FORMAT = 2
_ADDRESS = lazy_pattern(r"[a-z][a-z0-9+.-]+:")

_log = logging.getLogger(__name__)


def full_name(source: str) -> str:
    """A source argument that means the same from every folder."""
    return source if _ADDRESS.match(source) else str(Path(source).expanduser().absolute())


def covering(source: str, folders: Iterable[str]) -> str | None:
    """The folder among these that a source is or lies in, if any."""
    name = Path(full_name(source))
    return next((f for f in folders if not _ADDRESS.match(f) and name.is_relative_to(f)), None)


def remember(out: str, sources: Iterable[str]) -> None:
    """Keep the sources of a pack; other stores keep none."""
    folder = PackFolder(Path(out))
    if not folder.database.is_file():
        return
    names = list(dict.fromkeys(map(full_name, sources)))
    content = {"format": _FORMAT, "sources": names, "signature": _signature(names)}
    with writing(folder.path):
        # In ASCII, so that the odd bytes of a file's name survive.
        folder.prepare(SOURCES, f"{json.dumps(content, indent=2)}\n").publish()


def recall(pack: str) -> list[str]:
    """The sources a pack was built from; none if it was built before they were kept, or if
    another installation wrote them."""
    path = Path(pack) / SOURCES
    try:
        content: Any = json.loads(PackFolder(Path(pack)).text(SOURCES))
    except FileNotFoundError:
        return []
    except (OSError, ValueError, RecursionError) as error:
        raise StoreError(f"cannot read {path}: {error}", fix=f"remove {path}") from error
    values = cast("dict[str, Any]", content) if isinstance(content, dict) else {}
    names: Any = values.get("sources")
    if not isinstance(names, list) or not all(isinstance(n, str) for n in cast("list[Any]", names)):
        raise StoreError(f"{path} does not list sources", fix=f"remove {path}")
    known = cast("list[str]", names)
    signature = str(values.get("signature")).encode("utf-8", "replace")
    if not hmac.compare_digest(signature, _signature(known).encode()):
        _log.warning("%s was not written by this installation and is not used", path)
        return []
    return known


def _signature(names: list[str]) -> str:
    return sign({"sources": names})


def updatable_pack(argument: str) -> str:
    """The folder of a pack that exists. Raises ``UsageError`` or ``StoreMissing``."""
    folder = pack_folder(argument)
    if not (folder / DATABASE).is_file():
        raise StoreMissing(
            f"there is no pack at {argument!r}", fix=f"packwise build SOURCE --out {argument}"
        )
    return str(folder)


def sources_to_update(pack: str, forget: Sequence[str] = ()) -> list[str]:
    """The sources of a pack without those to forget. Raises ``UsageError`` if none is left."""
    kept = recall(pack)
    for source in forget:
        name = full_name(source)
        if name not in kept:
            listed = ", ".join(kept) or "none"
            raise UsageError(f"{source} is not a source of this pack; its sources: {listed}")
        kept.remove(name)
    if not kept:
        raise UsageError(
            f"{pack} does not know its sources", fix=f"packwise build SOURCE... --out {pack}"
        )
    return kept
