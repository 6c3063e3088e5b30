"""Who is asking, and what they may see.

A caller's tenant and groups come from their key and from nowhere else. Whether a document
may be seen is asked of the store itself, with the filter every search uses: there is one
rule, and it lives in the store.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from packwise.candidates import Filter
from packwise.errors import UsageError
from packwise.stores.base import Store

# An empty list of groups lets a filter see everything. A key without groups sees what is
# open to all: it is in one group, which no document can name.
_IN_NO_GROUP = (f"nobody-{secrets.token_hex(16)}",)
_BATCH = 500


@dataclass(frozen=True, slots=True)
class Caller:
    """Whoever sent a request. ``key`` is the id of their API key, empty without keys.

    ``unbound`` callers see every document, whatever its tenant and groups; any other sees
    those of their tenant that are open to all or to one of their groups.
    """

    key: str = ""
    tenant: str = ""
    acl: tuple[str, ...] = ()
    unbound: bool = False

    @property
    def restricted(self) -> bool:
        """Whether there may be documents this caller does not see."""
        return not self.unbound

    def filter(self, asked: Filter) -> Filter:
        """What was asked for, within what the caller may see."""
        if self.unbound:
            return asked
        return replace(asked, tenant=self.tenant, acl=self.acl or _IN_NO_GROUP)


LOCAL = Caller(unbound=True)
"""The one caller of a server without keys: the user of this machine."""

_TAKEN = ("tenant", "acl")


def filter_of(caller: Caller, where: dict[str, str | list[str]]) -> Filter:
    """A request's ``where`` as the caller's filter.

    ``document`` (one or several), ``path``, ``lang``, ``space`` and ``type`` are the store's
    own; any other name is one of the documents' metadata. A caller with a key cannot name a
    tenant or groups: those are the key's.
    """
    for name in _TAKEN:
        if name in where and caller.restricted:
            raise UsageError(f"where.{name} comes with the key and cannot be asked for")
    return caller.filter(Filter.parse(where.items()))


def visible(store: Store, caller: Caller, documents: Iterable[str]) -> set[str]:
    """Those of the documents that the caller may see."""
    wanted = list(dict.fromkeys(documents))
    if caller.unbound:
        return set(wanted)
    seen: set[str] = set()
    for at in range(0, len(wanted), _BATCH):
        seen |= _visible(store, caller, wanted[at : at + _BATCH])
    return seen


def spelling(caller: Caller, name: str, texts: Iterable[str]) -> str | None:
    """A name as texts that the caller may see write it; ``None`` when they do not have it.

    A document is told to mention the title of what it links to, and that may be a document
    its reader may not see: then the title is not theirs to know either. And a store keeps
    one spelling of a name, which may be another tenant's.
    """
    if caller.unbound:
        return name
    words = re.compile(r"\s+".join(map(re.escape, name.split())), re.IGNORECASE)
    found = next(filter(None, (words.search(text) for text in texts)), None) if name else None
    return " ".join(found[0].split()) if found else None


def _visible(store: Store, caller: Caller, documents: Sequence[str]) -> set[str]:
    first = {name: keys[0] for name, keys in store.passages_of(documents, 1).items() if keys}
    if not first:
        return set()
    keys = list(first.values())
    allowed = {
        match.key
        for match in store.vector_search(
            store.vectors(keys[:1])[0], len(keys), caller.filter(Filter()), among=keys
        )
    }
    return {name for name, key in first.items() if key in allowed}
