"""Who sent a request, and which documents they may see.

A caller's tenant and groups come from the API key only. Whether a document is visible is
decided by the store, with the same filter that every search uses.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from packwise.candidates import Filter
from packwise.errors import UsageError
from packwise.stores.base import Store

# A filter without groups sees everything. A key without groups must see only what is open to
# everyone, so it is put into a group that no document can name.
_NO_TENANT = f"none-{secrets.token_hex(16)}"
_NO_GROUP = (f"none-{secrets.token_hex(16)}",)
_BATCH = 500


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request. ``key`` is the id of the API key, empty without keys.

    An ``unbound`` caller sees every document. Any other sees those documents of their tenant
    that are open to everyone or to one of their groups. An ``admin`` may change the packs.
    """

    key: str = ""
    tenant: str = ""
    acl: tuple[str, ...] = ()
    unbound: bool = False
    admin: bool = False

    @property
    def restricted(self) -> bool:
        """Whether there may be documents this caller cannot see."""
        return not self.unbound

    def filter(self, requested: Filter) -> Filter:
        """The requested filter, limited to what the caller may see."""
        if self.unbound:
            return requested
        # A filter without a tenant sees them all.
        return replace(requested, tenant=self.tenant or _NO_TENANT, acl=self.acl or _NO_GROUP)


LOCAL = Caller(unbound=True, admin=True)
"""The caller of a server without keys: the user of this machine."""


def filter_of(caller: Caller, where: dict[str, str | list[str]]) -> Filter:
    """A request's ``where`` as a filter for this caller.

    ``document`` (one or several), ``path``, ``lang``, ``space`` and ``type`` are fields of the
    store; any other name is metadata. Only unbound callers may name a ``tenant`` or ``acl``.
    """
    for name in ("tenant", "acl"):
        if name in where and caller.restricted:
            raise UsageError(f"where.{name} is set by the API key and cannot be requested")
    return caller.filter(Filter.parse(where.items()))


def shown_metadata(metadata: Mapping[str, str]) -> dict[str, str]:
    """The metadata of a visible document without those fields that say who may see it."""
    return {name: value for name, value in metadata.items() if name not in ("tenant", "acl")}


def visible(store: Store, caller: Caller, documents: Iterable[str]) -> set[str]:
    """The documents among these that the caller may see."""
    wanted = list(dict.fromkeys(documents))
    if caller.unbound:
        return set(wanted)
    seen: set[str] = set()
    for at in range(0, len(wanted), _BATCH):
        passages = store.passages_of(wanted[at : at + _BATCH], 1)
        first = {name: keys[0] for name, keys in passages.items() if keys}
        if first:
            keys = list(first.values())
            query = store.vectors(keys[:1])[0]
            matches = store.vector_search(query, len(keys), caller.filter(Filter()), among=keys)
            allowed = {match.key for match in matches}
            seen |= {name for name, key in first.items() if key in allowed}
    return seen


def visible_spelling(caller: Caller, name: str, texts: Iterable[str]) -> str | None:
    """The name as these visible texts spell it; ``None`` if it is not in them.

    A document that links to another one mentions that one's title, which the caller may not be
    allowed to see. And a store keeps one spelling per name, perhaps another tenant's.
    """
    if caller.unbound:
        return name
    pattern = re.compile(r"\s+".join(map(re.escape, name.split())), re.IGNORECASE)
    found = next(filter(None, (pattern.search(text) for text in texts)), None) if name else None
    return " ".join(found[0].split()) if found else None
