"""A ``Filter`` as SQL over ``pack.sqlite``. Text from a caller is bound, never spliced in."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from packwise.candidates import Filter
from packwise.stores.pack.rows import batches, marks, storable

_LAST_CHARACTER = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


def allowed_keys(connection: sqlite3.Connection, where: Filter) -> NDArray[np.int64]:
    """The keys of the passages that pass a filter, ascending."""
    conditions: list[str] = []
    values: list[str] = []

    def require(condition: str, *bound: str) -> None:
        conditions.append(condition)
        values.extend(bound)

    if where.documents:
        keys = document_keys(connection, where.documents)
        require("d.key IN (SELECT value FROM json_each(?))", json.dumps(list(keys.values())))
    if where.path_prefix:
        prefix = storable(where.path_prefix)
        require("d.id >= ?", prefix)
        past = after_prefix(prefix)
        if past is not None:
            require("d.id < ?", past)
    if where.lang:
        require("d.lang = ?", storable(where.lang))
    for name, value in _metadata(where):
        require(
            "d.key IN (SELECT document FROM document_metadata WHERE name = ? AND value = ?)",
            storable(name),
            storable(value),
        )
    if where.acl:
        shared = marks(where.acl)
        require(
            "(NOT EXISTS (SELECT 1 FROM document_groups AS g WHERE g.document = d.key)"
            " OR EXISTS (SELECT 1 FROM document_groups AS g WHERE g.document = d.key"
            f" AND g.name IN ({shared})))",
            *(storable(group.strip()) for group in where.acl),
        )
    rows = connection.execute(
        "SELECT p.key FROM documents AS d JOIN passages AS p ON p.document = d.key"
        f" WHERE {' AND '.join(conditions) or '1'}",
        values,
    )
    return np.sort(np.fromiter((key for (key,) in rows), dtype=np.int64))


def document_keys(connection: sqlite3.Connection, ids: Sequence[str]) -> dict[str, int]:
    """The row keys of those documents that are there."""
    found: dict[str, int] = {}
    for batch in batches([storable(name) for name in dict.fromkeys(ids)]):
        rows = connection.execute(
            f"SELECT id, key FROM documents WHERE id IN ({marks(batch)})", batch
        )
        found.update(rows.fetchall())
    return found


def after_prefix(prefix: str) -> str | None:
    """The least text that sorts after every text with this prefix, if there is one."""
    for at in range(len(prefix) - 1, -1, -1):
        code = ord(prefix[at]) + 1
        if code in _SURROGATES:
            code = _SURROGATES.stop
        if code <= _LAST_CHARACTER:
            return prefix[:at] + chr(code)
    return None


def _metadata(where: Filter) -> list[tuple[str, str]]:
    named = [("tenant", where.tenant), ("space", where.space), ("node_type", where.node_type)]
    return [(name, value) for name, value in named if value] + list(where.metadata.items())
