"""The stores of a server, each under a name."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import lru_cache
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from packwise.errors import NotAStore, StoreError, StoreMissing, UsageError
from packwise.library import Library, open_library
from packwise.packs.sample_questions import load_samples
from packwise.packs.workspace import Workspace, is_workspace
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
_RETIRED_SECONDS = 120.0

_NAMED = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,63})=(.+)", re.DOTALL)
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


class ServedStore:
    """An open store and its name. Safe to use from several threads."""

    def __init__(
        self,
        name: str,
        library: Library,
        place: str = "",
        folder: TemporaryDirectory[str] | None = None,
    ) -> None:
        self.name = name
        self.library = library
        self.place = place
        self._folder = folder
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

    def sample_questions(self, caller: Caller) -> list[str]:
        """Questions that the store was seen to answer, from documents the caller may see."""
        samples = load_samples(self.library.info())
        seen = visible(self.library.store, caller, (sample.document for sample in samples))
        return [sample.question for sample in samples if sample.document in seen]

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
        if self._folder is not None:
            self._folder.cleanup()


class StoreRegistry:
    """The stores of a server by name; the first one is the default.

    With a ``workspace`` these include the packs in its folder, as they come and go.
    """

    def __init__(
        self,
        stores: Sequence[ServedStore],
        workspace: Workspace | None = None,
        settings: Settings | None = None,
    ) -> None:
        self.workspace = workspace
        self._settings = settings
        self._stores = {store.name: store for store in stores}
        self._fixed = tuple(self._stores)
        self._lock = threading.Lock()
        self._retired: list[tuple[float, ServedStore]] = []
        self._changed = 0
        self.refresh()

    def __iter__(self) -> Iterator[ServedStore]:
        self._see_changes()
        return iter(list(self._stores.values()))

    def get(self, name: str | None) -> ServedStore:
        """The store of that name. Raises a 404 ``ApiError`` if there is none."""
        self._see_changes()
        if name and name not in self._stores:
            self.refresh()
        stores = self._stores
        chosen = name or next(iter(stores), "")
        if chosen in stores:
            return stores[chosen]
        if not stores:
            raise ApiError(404, "no_such_store", "there is no pack yet", fix="add documents")
        raise ApiError(404, "no_such_store", "there is no such store", fix="GET /v1/stores")

    def editable(self, store: ServedStore) -> bool:
        """Whether its documents can be changed: it is a pack of the workspace."""
        return self.workspace is not None and store.name not in self._fixed

    def _see_changes(self) -> None:
        """Another process may have made, renamed or deleted a pack."""
        if self.workspace is not None and self.workspace.changed() != self._changed:
            self.refresh()

    def refresh(self) -> None:
        """Open the packs that are new in the workspace, and let go of those that have gone."""
        if self.workspace is None:
            return
        with self._lock:
            self._changed = self.workspace.changed()
            names = set(self.workspace.names())
            kept = {n: s for n, s in self._stores.items() if n in names or n in self._fixed}
            for name in sorted(names - kept.keys()):
                place = str(self.workspace.place(name))
                try:
                    library = open_library(place, settings=self._settings)
                except (StoreError, StoreMissing, NotAStore):
                    continue  # It is being written or not a whole pack: `packwise pack check`.
                kept[name] = ServedStore(name, library, place)
            now = time.monotonic()
            gone = [store for name, store in self._stores.items() if name not in kept]
            fixed = {name: kept.pop(name) for name in self._fixed}
            self._stores = fixed | dict(sorted(kept.items()))
            # A question may still be using a pack that was renamed or deleted.
            self._retired += [(now, store) for store in gone]
            for since, store in list(self._retired):
                if now - since > _RETIRED_SECONDS:
                    self._retired.remove((since, store))
                    store.close()

    def close(self) -> None:
        for store in (*self._stores.values(), *(store for _, store in self._retired)):
            store.close()


def open_stores(arguments: Sequence[str], settings: Settings | None = None) -> StoreRegistry:
    """Open STORE arguments, each ``STORE`` or ``NAME=STORE``: all of them or none.

    One of them may be a folder of packs, also an empty one.
    """
    if not arguments:
        raise UsageError("no store to serve", fix="packwise serve STORE")
    found: dict[str, ServedStore] = {}
    workspace: Workspace | None = None
    with ExitStack() as opened:
        for argument in arguments:
            named = _NAMED.fullmatch(argument)
            place = named[2] if named else argument
            if not named and is_workspace(Path(place).expanduser()):
                if workspace is not None:
                    raise UsageError("only one folder of packs can be served at a time")
                workspace = Workspace(Path(place).expanduser(), settings)
                continue
            library, folder = _open_library(place, settings)
            opened.enter_context(library)
            name = named[1] if named else _unused(_name_of(place), found)
            if name in found:
                raise UsageError(f"two stores are named {name}", fix="give one a name: NAME=STORE")
            found[name] = ServedStore(name, library, place, folder)
        opened.pop_all()
    return StoreRegistry(list(found.values()), workspace, settings)


def _open_library(
    place: str, settings: Settings | None
) -> tuple[Library, TemporaryDirectory[str] | None]:
    """The library of a STORE. A database with knowledge nodes and no passages has an empty one,
    in a folder that the caller removes."""
    try:
        return open_library(place, settings=settings), None
    except StoreMissing:
        if not place.startswith(("postgresql://", "postgres://")):
            raise
        from packwise.models.embedder import load_embedder
        from packwise.nodes.store import NodeStore
        from packwise.stores.locate import create_or_open_store

        try:
            with NodeStore(place, pool_size=1) as nodes:
                nodes.settings()
        except StoreMissing:
            nodes = None
        if nodes is None:
            raise
    used = settings or Settings.load()
    embedder = load_embedder(used.embedder, used)
    folder = TemporaryDirectory(prefix="packwise-nodes-")
    store = create_or_open_store(str(Path(folder.name) / "empty"))
    with store.writer(
        embedder=embedder.name, embedder_version=embedder.version, dim=embedder.dim
    ) as writer:
        writer.commit()
    return Library(store, settings=settings), folder


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
