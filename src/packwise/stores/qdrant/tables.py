"""Numbers by name, spread over a fixed set of points: how many passages hold a term, the
rank of a document. A reader fetches only the parts it needs, a commit writes only those
that changed."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from packwise.stores.bm25 import term_hash
from packwise.stores.qdrant.layout import tag

PARTS = 64

_ENTRY = np.dtype([("hash", "<u8"), ("value", "<f8")])

Part = dict[int, float]


def part_of(digest: int) -> int:
    """The part of a table a hashed name stands in."""
    return digest % PARTS


def part_tag(table: str, part: int) -> str:
    """The tag of the point that holds a part."""
    return tag("part", table, part)


def pack_part(values: Mapping[int, float]) -> str:
    """A part as text."""
    entries = np.empty(len(values), dtype=_ENTRY)
    entries["hash"] = list(values)
    entries["value"] = list(values.values())
    return base64.b64encode(entries.tobytes()).decode()


def unpack_part(blob: str) -> Part:
    """The inverse of ``pack_part``."""
    entries = np.frombuffer(base64.b64decode(blob), dtype=_ENTRY)
    return dict(zip(entries["hash"].tolist(), entries["value"].tolist(), strict=True))


@dataclass(slots=True)
class Tables:
    """The parts a reader has fetched of one generation. Safe to use from several threads."""

    token: str
    _parts: dict[tuple[str, int], Part] = field(default_factory=dict[tuple[str, int], Part])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def lookup(
        self,
        table: str,
        names: Iterable[str],
        fetch: Callable[[list[int]], Mapping[int, Part]],
    ) -> dict[str, float]:
        """The numbers of those names that have one."""
        digests = {name: term_hash(name) for name in names}
        with self._lock:
            needed = {part_of(digest) for digest in digests.values()}
            missing = sorted(part for part in needed if (table, part) not in self._parts)
            if missing:
                fetched = fetch(missing)
                for part in missing:
                    self._parts[table, part] = fetched.get(part, {})
            found: dict[str, float] = {}
            for name, digest in digests.items():
                value = self._parts[table, part_of(digest)].get(digest)
                if value is not None:
                    found[name] = value
            return found
