"""Library: one open store, and what one can ask of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from packwise.candidates import EVERYTHING, Filter, Fusion, Mode, Query
from packwise.models.base import CrossEncoder, Embedder
from packwise.retrieval.cache import CacheInfo
from packwise.retrieval.calibration import Calibration, load_calibration
from packwise.retrieval.pipeline import Pipeline, Ranking
from packwise.settings import Settings
from packwise.stores.base import Store, StoreInfo
from packwise.stores.checks import check_store_embedder
from packwise.stores.locate import open_store

if TYPE_CHECKING:
    from packwise.answering.answer import Answer, AskOptions, Expansion, Tools
    from packwise.context.packer import Context
    from packwise.models.llm import LanguageModel


class Library:
    """An open store with its embedder. Safe to use from several threads.

    The embedder is loaded at the first question that needs it, and so is the language model
    that the environment names, unless ``llm`` is given. Close it, or use it as a context
    manager. An embedder that the store was not built with is refused, whoever brings it; a
    store that is built anew meanwhile is searched with the embedder it then has.
    """

    def __init__(
        self,
        store: Store,
        *,
        settings: Settings | None = None,
        embedder: Embedder | None = None,
        llm: LanguageModel | None = None,
    ) -> None:
        self._store = store
        self._settings = settings or Settings.load()
        self._given = embedder
        self._embedder: Embedder | None = None
        self._version = ""
        self._llm = llm
        self._llm_looked_up = llm is not None
        self._pipeline: Pipeline | None = None
        self._calibration: Calibration | None = None
        self._answering: Tools | None = None
        self._lock = threading.Lock()

    @property
    def store(self) -> Store:
        return self._store

    @property
    def settings(self) -> Settings:
        return self._settings

    @property
    def embedder(self) -> Embedder:
        """The embedder the store was built with, loaded and checked when first asked for.

        Raises ``EmbedderMismatch`` where the store's vectors are of another one.
        """
        return self._load_embedder()

    @property
    def calibration(self) -> Calibration:
        """What makes the probability of a search: the store's own, else the default one."""
        with self._lock:
            return self._calibrated()

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
        alternatives: tuple[str, ...] = (),
        graph: str | bool | None = None,
        rerank: str | None = None,
    ) -> Ranking:
        """The ``k`` passages that fit the query best, with scores, confidence and trace.

        ``alternatives`` are other phrasings, searched at the same time. ``graph`` (``names``,
        ``pagerank``, ``off``) and ``rerank`` (``crossencoder``, ``mmr``, ``off``)
        are as the settings say unless given.
        """
        self._follow_rebuilds()
        settings = self._settings
        chosen: Fusion = fusion or ("rrf" if settings.fusion == "rrf" else "weighted")
        if graph is None or graph is True:
            graph = settings.graph_ranking
        return self._opened().search(
            Query(
                query,
                k=k,
                mode=mode,
                fusion=chosen,
                where=where,
                alternatives=tuple(alternatives),
                graph=graph or "off",
                rerank=rerank or settings.reranker,
            )
        )

    def cache_info(self) -> CacheInfo:
        """How often a search could be answered from memory."""
        return self._opened().cache_info()

    def context(
        self,
        question: str,
        budget: int | None = None,
        *,
        policy: str | None = None,
        mode: Mode = "hybrid",
        fusion: Fusion | None = None,
        where: Filter = EVERYTHING,
        graph: str | bool | None = None,
        rerank: str | None = None,
    ) -> Context:
        """The passages that answer the question, packed into at most ``budget`` tokens.

        Without a budget it is ``settings.context_token_budget``. The trace says for every
        candidate why it is in or out.
        """
        from packwise.context.packer import pack

        reranked = (rerank or self._settings.reranker) != "off"
        most = self._settings.rerank_topk if reranked else self._settings.context_candidates
        ranking = self.search(
            question, most, mode=mode, fusion=fusion, where=where, graph=graph, rerank=rerank
        )
        packed = pack(
            question,
            ranking.hits,
            store=self._store,
            settings=self._settings,
            budget=budget,
            policy=policy,
        )
        packed.save_trace(self._settings)
        return replace(packed, confidence=ranking.confidence, probability=ranking.probability)

    def ask(
        self,
        question: str,
        *,
        max_results: int = 5,
        budget: int | None = None,
        expansion: Expansion | None = None,
        synthesis: bool | None = None,
        **how: Any,
    ) -> Answer:
        """The answer to a question from at most ``max_results`` articles, with its sources.

        A configured language model writes it; without one, with ``synthesis=False`` or when
        the model fails, it is made of sentences of the documents. ``budget`` bounds the tokens
        sent to the model. ``expansion`` is ``off``, ``llm`` (sends the question to the language
        model for other phrasings) or ``local``. ``how`` are further fields of
        ``answering.answer.AskOptions``: ``where``, ``mode``, ``graph``, ``rerank`` and others. A
        question the store holds nothing on has the ``query_type``
        ``confidence_gated_fallback`` and no sources.
        """
        from packwise.answering import asking

        request = self._request(
            max_results=max_results, budget=budget, expansion=expansion, synthesis=synthesis, **how
        )
        return asking.ask(self._tools(), question, request)

    def ask_stream(self, question: str, **how: Any) -> Iterator[str | Answer]:
        """``ask``, piece by piece: the text as it is written, then the ``Answer`` itself."""
        from packwise.answering import asking

        return asking.ask_stream(self._tools(), question, self._request(**how))

    def close(self) -> None:
        """Let go of the store; harmless when repeated."""
        with self._lock:
            if self._llm is not None:
                self._llm.close()
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

    def _request(self, **how: Any) -> AskOptions:
        from packwise.answering.answer import AskOptions

        given = {name: value for name, value in how.items() if value is not None}
        given.setdefault("expansion", self._settings.expansion)
        given.setdefault("synthesis", self._settings.synthesis == "auto")
        return AskOptions(**given)

    def _tools(self) -> Tools:
        from packwise.answering.answer import Tools
        from packwise.answering.few_shot import ExampleFiles

        with self._lock:
            if self._answering is None:
                self._answering = Tools(
                    store=self._store,
                    settings=self._settings,
                    search=self.search,
                    embedder=self._load_embedder,
                    llm=self._load_llm,
                    few_shot=ExampleFiles(self._store.info().location, self._load_embedder),
                    cross_encoder=self._load_cross_encoder,
                )
            return self._answering

    def _load_llm(self) -> LanguageModel | None:
        from packwise.models.llm import load_llm

        with self._lock:
            if not self._llm_looked_up:
                settings = self._settings
                self._llm = load_llm(model=settings.llm_model or None, url=settings.llm_url or None)
                self._llm_looked_up = True
            return self._llm

    def _opened(self) -> Pipeline:
        with self._lock:
            if self._pipeline is None:
                self._pipeline = Pipeline(
                    self._store,
                    self._load_embedder,
                    self._settings,
                    self._load_cross_encoder,
                    self._calibrated(),
                )
            return self._pipeline

    def _calibrated(self) -> Calibration:
        if self._calibration is None:
            self._calibration = load_calibration(self._store.info())
        return self._calibration

    def _load_cross_encoder(self) -> CrossEncoder:
        from packwise.models.cross_encoder import load_cross_encoder

        return load_cross_encoder(self._settings)

    def _load_embedder(self) -> Embedder:
        with self._lock:
            if self._embedder is None:
                embedder = self._given or _embedder_of(self._store.info(), self._settings)
                check_store_embedder(self._store, embedder)
                self._embedder = embedder
            return self._embedder

    def _follow_rebuilds(self) -> None:
        """Have the embedder checked again where the store was built anew: its vectors may be
        another embedder's now, of the same dimension."""
        version = self._store.version()
        with self._lock:
            if version != self._version:
                self._embedder, self._version = None, version


def open_library(store: str, *, settings: Settings | None = None) -> Library:
    """Open a STORE: a pack folder or the name of an installed pack."""
    return Library(open_store(store), settings=settings)


def _embedder_of(info: StoreInfo, settings: Settings) -> Embedder:
    """The embedder a store names, else the configured one."""
    from packwise.models.embedder import load_embedder

    return load_embedder(info.embedder or settings.embedder, settings)
