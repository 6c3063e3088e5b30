"""The stores a server answers from, each under a name."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from packwise.errors import UsageError
from packwise.library import Library, open_library
from packwise.serving.callers import Caller, visible
from packwise.serving.refusals import Refusal
from packwise.settings import Settings
from packwise.stores.base import DocumentSummary

if TYPE_CHECKING:
    from packwise.nodes.adapter import KnowledgeVerseAdapter

MOST_LISTED = 200_000
"""Articles of a store that are sorted and kept in memory; of a larger one, the first by id."""

_NAMED = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,63})=(.+)", re.DOTALL)
_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")
_VIEWS = 32
_TITLES = 50_000


@dataclass(slots=True)
class ServedStore:
    """An open store under its name. Safe to use from several threads."""

    name: str
    library: Library
    place: str = field(default="", repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _listings: dict[tuple[str, Caller], dict[str, DocumentSummary]] = field(
        default_factory=dict[tuple[str, Caller], dict[str, DocumentSummary]]
    )
    _titles: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    _nodes: KnowledgeVerseAdapter | None = None

    def nodes(self) -> KnowledgeVerseAdapter | None:
        """The knowledge nodes of a PostgreSQL store; ``None`` for another one."""
        if not self.place.startswith(("postgresql://", "postgres://")):
            return None
        from packwise.nodes.adapter import KnowledgeVerseAdapter

        with self._lock:
            if self._nodes is None:
                self._nodes = KnowledgeVerseAdapter(self.place, settings=self.library.settings)
            return self._nodes

    def title(self, document: str) -> str:
        """The title of a document, or else its id."""
        key = (self.library.store.version(), document)
        with self._lock:
            if key in self._titles:
                return self._titles[key]
        found = self.library.store.document(document)
        title = (found.title if found is not None else "") or document
        with self._lock:
            if len(self._titles) >= _TITLES:
                self._titles.clear()
            self._titles[key] = title
        return title

    def close(self) -> None:
        """Let go of the store."""
        if self._nodes is not None:
            self._nodes.close()
        self.library.close()

    def articles(self, caller: Caller) -> dict[str, DocumentSummary]:
        """The articles the caller may see by id, highest PageRank first."""
        store = self.library.store
        key = (store.version(), caller)
        with self._lock:
            known = self._listings.get(key)
        if known is None:
            entries = list(islice(store.documents(), MOST_LISTED))
            if caller.restricted:
                seen = visible(store, caller, (entry.id for entry in entries))
                entries = [entry for entry in entries if entry.id in seen]
            entries.sort(key=lambda entry: (-entry.pagerank, entry.title, entry.id))
            known = {entry.id: entry for entry in entries}
            with self._lock:
                for old in [k for k in self._listings if k[0] != key[0]]:
                    del self._listings[old]
                while len(self._listings) >= _VIEWS:
                    del self._listings[next(iter(self._listings))]
                self._listings[key] = known
        return known


class Served:
    """The stores of a server by name; the first is the one meant when none is named."""

    def __init__(self, stores: Sequence[ServedStore]) -> None:
        self._stores = {store.name: store for store in stores}
        self._first = stores[0]

    def __iter__(self) -> Iterator[ServedStore]:
        return iter(self._stores.values())

    def get(self, name: str | None) -> ServedStore:
        """The store of that name. Raises a 404 ``Refusal`` when there is none."""
        if not name:
            return self._first
        found = self._stores.get(name)
        if found is None:
            raise Refusal(404, "no_such_store", "there is no such store", fix="GET /v1/stores")
        return found

    def close(self) -> None:
        for store in self:
            store.close()


def open_served(arguments: Sequence[str], settings: Settings | None = None) -> Served:
    """Open STORE arguments, each ``STORE`` or ``NAME=STORE``; all of them or none."""
    if not arguments:
        raise UsageError("no store to serve", fix="packwise serve STORE")
    found: dict[str, ServedStore] = {}
    with ExitStack() as opened:
        for argument in arguments:
            named = _NAMED.fullmatch(argument)
            place = named[2] if named else argument
            library = opened.enter_context(open_library(place, settings=settings))
            name = named[1] if named else _unused(name_of(place), found)
            if name in found:
                raise UsageError(f"two stores are named {name}", fix="NAME=STORE names a store")
            found[name] = ServedStore(name, library, place)
        opened.pop_all()
    return Served(list(found.values()))


def name_of(argument: str) -> str:
    """A short name for a STORE argument, without its place or its credentials."""
    if "://" in argument:
        parts = urlsplit(argument)
        place = parts.path.strip("/").rpartition("/")[2] or parts.hostname or ""
    else:
        place = Path(argument.removeprefix("kuzu:")).expanduser().resolve().name
    return _UNFIT.sub("-", place).strip("-._")[:60] or "store"


def _unused(name: str, taken: dict[str, ServedStore]) -> str:
    if name not in taken:
        return name
    return next(f"{name}-{n}" for n in range(2, len(taken) + 3) if f"{name}-{n}" not in taken)
