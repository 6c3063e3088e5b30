"""Library: one open store, and what one can ask of it."""

from __future__ import annotations

import threading
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Self

from packwise.candidates import EVERYTHING, Filter, Fusion, Mode, Query
from packwise.guard import check_embedder
from packwise.models.base import Embedder
from packwise.retrieval.pipeline import Pipeline, Ranking
from packwise.settings import Settings
from packwise.stores.base import Store, StoreInfo
from packwise.stores.locate import open_store

if TYPE_CHECKING:
    from packwise.context.packer import Context


class Library:
    """An open store with its embedder. Safe to use from several threads.

    The embedder is loaded at the first question that needs it. Close it, or use it as a
    context manager.
    """

    def __init__(
        self, store: Store, *, settings: Settings | None = None, embedder: Embedder | None = None
    ) -> None:
        self._store = store
        self._settings = settings or Settings.load()
        self._embedder = embedder
        self._pipeline: Pipeline | None = None
        self._lock = threading.Lock()

    @property
    def store(self) -> Store:
        return self._store

    @property
    def settings(self) -> Settings:
        return self._settings

    def info(self) -> StoreInfo:
        """What the store is and holds."""
        return self._store.info()

    def search(
        self,
        query: str,
        k: int = 10,
        *,
        mode: Mode = "hybrid",
        fusion: Fusion | None = None,
        where: Filter = EVERYTHING,
    ) -> Ranking:
        """The ``k`` passages that fit the query best, with scores, confidence and trace."""
        chosen: Fusion = fusion or ("rrf" if self._settings.fusion == "rrf" else "weighted")
        return self._opened().search(Query(query, k=k, mode=mode, fusion=chosen, where=where))

    def context(
        self,
        question: str,
        budget: int | None = None,
        *,
        policy: str | None = None,
        mode: Mode = "hybrid",
        fusion: Fusion | None = None,
        where: Filter = EVERYTHING,
    ) -> Context:
        """The passages that answer the question, packed into at most ``budget`` tokens.

        Without a budget it is ``settings.context_token_budget``. The trace says for every
        candidate why it is in or out.
        """
        from packwise.context.packer import pack
        from packwise.context.record import keep_trace

        ranking = self.search(
            question, self._settings.context_candidates, mode=mode, fusion=fusion, where=where
        )
        packed = pack(
            question,
            ranking.hits,
            store=self._store,
            settings=self._settings,
            budget=budget,
            policy=policy,
        )
        keep_trace(packed.trace, self._settings)
        return replace(packed, confidence=ranking.confidence)

    def close(self) -> None:
        """Let go of the store; harmless when repeated."""
        with self._lock:
            if self._pipeline is not None:
                self._pipeline.close()
                self._pipeline = None
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.close()

    def _opened(self) -> Pipeline:
        with self._lock:
            if self._pipeline is None:
                self._pipeline = Pipeline(self._store, self._load_embedder, self._settings)
            return self._pipeline

    def _load_embedder(self) -> Embedder:
        with self._lock:
            if self._embedder is None:
                self._embedder = _embedder_of(self._store.info(), self._settings)
            return self._embedder


def open_library(store: str, *, settings: Settings | None = None) -> Library:
    """Open a STORE: a pack folder or the name of an installed pack."""
    return Library(open_store(store), settings=settings)


def _embedder_of(info: StoreInfo, settings: Settings) -> Embedder:
    """The embedder the store was built with, in the same version."""
    from packwise.models.embedder import load_embedder

    embedder = load_embedder(info.embedder or settings.embedder, settings)
    check_embedder(info.embedder_version, embedder.version, location=info.location)
    return embedder
