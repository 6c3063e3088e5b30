"""The stores of a server, each under a name."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from packwise.errors import UsageError
from packwise.library import Library, open_library
from packwise.serving.api_errors import ApiError
from packwise.serving.callers import Caller, visible
from packwise.settings import Settings
from packwise.stores.base import DocumentSummary

if TYPE_CHECKING:
    from packwise.nodes.adapter import KnowledgeVerseAdapter

_MAX_LISTED = 200_000
"""Articles of a store that are sorted and kept in memory; of a larger store, the first by id."""
_MAX_LISTINGS = 32
_MAX_TITLES = 50_000

_NAMED = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,63})=(.+)", re.DOTALL)
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


class ServedStore:
    """An open store and its name. Safe to use from several threads."""

    def __init__(self, name: str, library: Library, place: str = "") -> None:
        self.name = name
        self.library = library
        self.place = place
        self._lock = threading.Lock()
        self._nodes: KnowledgeVerseAdapter | None = None
        self._version = ""
        self._title = lru_cache(_MAX_TITLES)(self._read_title)
        self._listing = lru_cache(_MAX_LISTINGS)(self._read_listing)

    def nodes(self) -> KnowledgeVerseAdapter | None:
        """The knowledge nodes of a PostgreSQL store; ``None`` for any other store."""
        if not self.place.startswith(("postgresql://", "postgres://")):
            return None
        from packwise.nodes.adapter import KnowledgeVerseAdapter

        with self._lock:
            if self._nodes is None:
                self._nodes = KnowledgeVerseAdapter(self.place, settings=self.library.settings)
            return self._nodes

    def title(self, document: str) -> str:
        """The title of a document, or its id if it has none."""
        return self._title(self._current_version(), document)

    def _read_title(self, version: str, document: str) -> str:
        found = self.library.store.document(document)
        return (found.title if found is not None else "") or document

    def articles(self, caller: Caller) -> dict[str, DocumentSummary]:
        """The articles the caller may see, by id, highest PageRank first."""
        return self._listing(self._current_version(), caller)

    def _current_version(self) -> str:
        """The version of the store; a rebuilt one is read again."""
        version = self.library.store.version()
        if version != self._version:
            self._version = version
            self._title.cache_clear()
            self._listing.cache_clear()
        return version

    def _read_listing(self, version: str, caller: Caller) -> dict[str, DocumentSummary]:
        store = self.library.store
        entries = list(islice(store.documents(), _MAX_LISTED))
        if caller.restricted:
            seen = visible(store, caller, (entry.id for entry in entries))
            entries = [entry for entry in entries if entry.id in seen]
        entries.sort(key=lambda entry: (-entry.pagerank, entry.title, entry.id))
        return {entry.id: entry for entry in entries}

    @property
    def calibrated(self) -> bool:
        """Whether the store has its own calibration, so that confidence is a probability."""
        return self.library.calibration.source == "pack"

    @property
    def default_threshold(self) -> float:
        """The threshold of a question that names none: the configured one, or the calibration's."""
        settings = self.library.settings
        if self.calibrated and settings.origin("context_confidence_threshold") == "default":
            return self.library.calibration.threshold
        return settings.context_confidence_threshold

    def gate_record(
        self,
        confidence: float,
        probability: float | None,
        *,
        found: bool,
        stages: Sequence[dict[str, Any]] = (),
    ) -> dict[str, Any]:
        """The confidence gate of a question as JSON.

        ``stages`` are those of an answer's trace, with the gate's actual decision. Without
        them it is what would happen if the question were asked.
        """
        # A search by keywords or vectors alone has no probability: the calibration does not apply.
        calibrated = probability is not None and self.calibrated
        decision = next((stage for stage in stages if stage["name"] == "gate"), {})
        own = self.library.settings.context_confidence_threshold
        threshold = decision.get("threshold", self.default_threshold if calibrated else own)
        return {
            "calibrated": calibrated,
            "threshold": threshold,
            "refuse_below": self.library.calibration.refuse_below if calibrated else None,
            "passed": decision.get("passed", found and confidence >= threshold)
            or any(stage.get("passed") for stage in stages if stage["name"] == "reading"),
        }

    def close(self) -> None:
        """Close the store."""
        if self._nodes is not None:
            self._nodes.close()
        self.library.close()


class StoreRegistry:
    """The stores of a server by name; the first one is the default."""

    def __init__(self, stores: Sequence[ServedStore]) -> None:
        self._stores = {store.name: store for store in stores}
        self._first = stores[0]

    def __iter__(self) -> Iterator[ServedStore]:
        return iter(self._stores.values())

    def get(self, name: str | None) -> ServedStore:
        """The store of that name. Raises a 404 ``ApiError`` if there is none."""
        if not name:
            return self._first
        if name not in self._stores:
            raise ApiError(404, "no_such_store", "there is no such store", fix="GET /v1/stores")
        return self._stores[name]

    def close(self) -> None:
        for store in self:
            store.close()


def open_stores(arguments: Sequence[str], settings: Settings | None = None) -> StoreRegistry:
    """Open STORE arguments, each ``STORE`` or ``NAME=STORE``: all of them or none."""
    if not arguments:
        raise UsageError("no store to serve", fix="packwise serve STORE")
    found: dict[str, ServedStore] = {}
    with ExitStack() as opened:
        for argument in arguments:
            named = _NAMED.fullmatch(argument)
            place = named[2] if named else argument
            library = opened.enter_context(open_library(place, settings=settings))
            name = named[1] if named else _unused(_name_of(place), found)
            if name in found:
                raise UsageError(f"two stores are named {name}", fix="give one a name: NAME=STORE")
            found[name] = ServedStore(name, library, place)
        opened.pop_all()
    return StoreRegistry(list(found.values()))


def _name_of(argument: str) -> str:
    """A short name for a STORE argument, without its folder, host or credentials."""
    if "://" in argument:
        parts = urlsplit(argument)
        place = parts.path.strip("/").rpartition("/")[2] or parts.hostname or ""
    else:
        place = Path(argument.removeprefix("kuzu:")).expanduser().resolve().name
    return _NOT_IN_NAMES.sub("-", place).strip("-._")[:60] or "store"


def _unused(name: str, taken: dict[str, ServedStore]) -> str:
    if name not in taken:
        return name
    return next(f"{name}-{n}" for n in range(2, len(taken) + 3) if f"{name}-{n}" not in taken)
