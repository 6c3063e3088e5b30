"""Library: one open store, with search, context and ask."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypedDict, Unpack

from packwise.candidates import (
    EVERYTHING,
    Expansion,
    Filter,
    Fusion,
    GraphRanking,
    Mode,
    PackingPolicy,
    Query,
    Reranker,
)
from packwise.models.base import CrossEncoder, Embedder
from packwise.retrieval.cache import CacheInfo
from packwise.retrieval.calibration import Calibration, load_calibration
from packwise.retrieval.pipeline import Pipeline, Ranking
from packwise.settings import Settings
from packwise.stores.base import Store, StoreInfo
from packwise.stores.checks import check_store_embedder
from packwise.stores.locate import open_store

if TYPE_CHECKING:
    from packwise.answering.answer import Answer, AnswerRequest, Tools
    from packwise.context.packer import Context
    from packwise.models.llm import LanguageModel


class AskOptions(TypedDict, total=False):
    """The keywords of ``Library.ask`` and ``Library.ask_stream``; ``None`` means the setting.

    max_results      articles the answer may use (1 to 20, 5 if not given)
    budget           largest number of tokens sent to the model, or of the context without one
    expansion        other phrasings: ``off``, ``llm`` (sends the question to the language
                     model) or ``local``
    synthesis        whether a language model may write the answer
    where            which passages may be found
    mode, fusion, graph, rerank, policy
                     as in ``search`` and ``context``
    documents        search whole documents; ``False`` takes the passages as found
    few_shot         show the model examples, from ``few_shot_path`` or the pack's folder
    exclude          questions whose examples must not be shown
    threshold        confidence below which the store is not used
    llm              the language model to use instead of the configured one
    max_tokens       the longest answer the model may write
    """

    max_results: int
    budget: int | None
    expansion: Expansion | None
    synthesis: bool | None
    where: Filter
    mode: Mode
    fusion: Fusion | None
    graph: GraphRanking | bool | None
    rerank: Reranker | None
    policy: PackingPolicy | None
    documents: bool
    few_shot: bool
    few_shot_path: Path | None
    exclude: frozenset[str]
    threshold: float | None
    llm: LanguageModel | None
    max_tokens: int


class Library:
    """An open store with its embedder. Safe to use from several threads.

    The embedder is loaded by the first question that needs it, and so is the language model
    that the environment names, unless ``llm`` is given. Close it, or use it as a context
    manager. An embedder that the store was not built with is refused. When the store is
    rebuilt meanwhile, it is searched with the embedder it then has.
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
        """The embedder the store was built with, loaded and checked on first use.

        Raises ``EmbedderMismatch`` when the store's vectors come from another one.
        """
        return self._load_embedder()

    @property
    def calibration(self) -> Calibration:
        """What turns a search into a probability: the store's calibration, else the default."""
        with self._lock:
            return self._calibrated()

    def info(self) -> StoreInfo:
        """What the store is and what it contains."""
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
        graph: GraphRanking | bool | None = None,
        rerank: Reranker | None = None,
    ) -> Ranking:
        """The ``k`` best passages for the query, with scores, confidence and trace.

        ``alternatives`` are other phrasings, searched at the same time. ``fusion``, ``graph``
        and ``rerank`` come from the settings unless given.
        """
        self._follow_rebuilds()
        settings = self._settings
        if graph is None or graph is True:
            graph = settings.graph_ranking
        return self._opened().search(
            Query(
                query,
                k=k,
                mode=mode,
                fusion=fusion or settings.fusion,
                where=where,
                alternatives=tuple(alternatives),
                graph=graph or "off",
                rerank=rerank or settings.reranker,
            )
        )

    def cache_info(self) -> CacheInfo:
        """How many searches the query cache answered."""
        return self._opened().cache_info()

    def context(
        self,
        question: str,
        budget: int | None = None,
        *,
        policy: PackingPolicy | None = None,
        mode: Mode = "hybrid",
        fusion: Fusion | None = None,
        where: Filter = EVERYTHING,
        graph: GraphRanking | bool | None = None,
        rerank: Reranker | None = None,
    ) -> Context:
        """The passages that answer the question, packed into at most ``budget`` tokens.

        The budget is ``settings.context_token_budget`` unless given. The trace says for every
        candidate why it is in or out.
        """
        from packwise.context.packer import pack

        settings = self._settings
        reranked = (rerank or settings.reranker) != "off"
        k = settings.rerank_topk if reranked else settings.context_candidates
        ranking = self.search(
            question, k, mode=mode, fusion=fusion, where=where, graph=graph, rerank=rerank
        )
        packed = pack(
            question,
            ranking.hits,
            store=self._store,
            settings=settings,
            budget=budget,
            policy=policy,
        )
        packed.save_trace(settings, ranking.trace)
        return replace(packed, confidence=ranking.confidence, probability=ranking.probability)

    def ask(self, question: str, **options: Unpack[AskOptions]) -> Answer:
        """The answer to a question, with its sources; ``AskOptions`` lists the keywords.

        A configured language model writes it. Without one, with ``synthesis=False`` or when
        the model fails, the answer consists of sentences from the documents. For a question
        that the store does not cover, the answer has the ``query_type``
        ``confidence_gated_fallback`` and no sources.
        """
        return self.answer(question, self._request(options))

    def ask_stream(self, question: str, **options: Unpack[AskOptions]) -> Iterator[str | Answer]:
        """``ask`` in pieces: the text as it is written, then the ``Answer`` itself."""
        from packwise.answering import asking

        return asking.ask_stream(self._tools(), question, self._request(options))

    def answer(self, question: str, request: AnswerRequest) -> Answer:
        """``ask`` with every field of the request, for callers that bring their own evidence."""
        from packwise.answering import asking

        return asking.ask(self._tools(), question, request)

    def close(self) -> None:
        """Close the store and all connections; safe to call twice."""
        with self._lock:
            if self._llm is not None:
                self._llm.close()
            if self._pipeline is not None:
                self._pipeline.close()
                self._pipeline = None
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _request(self, options: AskOptions) -> AnswerRequest:
        from packwise.answering.answer import AnswerRequest

        given: dict[str, Any] = {k: value for k, value in options.items() if value is not None}
        given.setdefault("expansion", self._settings.expansion)
        given.setdefault("synthesis", self._settings.synthesis == "auto")
        return AnswerRequest(**given)

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
        from packwise.models.embedder import load_embedder

        with self._lock:
            if self._embedder is None:
                named = self._store.info().embedder or self._settings.embedder
                embedder = self._given or load_embedder(named, self._settings)
                check_store_embedder(self._store, embedder)
                self._embedder = embedder
            return self._embedder

    def _follow_rebuilds(self) -> None:
        # After a rebuild the vectors may come from another embedder of the same dimension.
        version = self._store.version()
        with self._lock:
            if version != self._version:
                self._embedder, self._version = None, version


def open_library(store: str | Path, *, settings: Settings | None = None) -> Library:
    """Open a store: a pack folder, an installed pack's name, or an address such as
    ``postgresql://...``, ``qdrant+http://HOST:PORT/COLLECTION`` or ``kuzu:PATH``."""
    return Library(open_store(str(store)), settings=settings)
