"""Library: one open store, with search, context and ask."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from functools import wraps
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    ParamSpec,
    Self,
    TypeVar,
    Unpack,
)

from packwise.answering.options import AskOptions
from packwise.candidates import (
    EVERYTHING,
    Filter,
    Fusion,
    GraphRanking,
    Mode,
    PackingPolicy,
    Query,
    Reranker,
    Where,
)
from packwise.errors import EmbedderMismatch, ModelMissing, UsageError, expect
from packwise.models.base import CrossEncoder, Embedder, SpanReader
from packwise.retrieval.cache import CacheInfo
from packwise.retrieval.calibration import Calibration, load_calibration
from packwise.retrieval.pipeline import Pipeline
from packwise.retrieval.profile import GaugedEmbedder, Profile, load_profile
from packwise.retrieval.ranking import Ranking
from packwise.settings import Settings
from packwise.stores.base import Store, StoreInfo, one_state
from packwise.stores.checks import check_store_embedder
from packwise.stores.locate import open_store

if TYPE_CHECKING:
    from packwise.answering.answer import Answer, AnswerRequest, Tools
    from packwise.context.packer import Context
    from packwise.models.llm import LanguageModel


_KEYWORD_THRESHOLD = 0.25
"""The confidence gate of a search by keywords, whose scores are lower than similarities. It
admits .86 to .94 of the questions of squad2, stackfaq and scifact on their own documents, and
0 to .18 of them on those of the other two."""

_log = logging.getLogger("packwise")
_P = ParamSpec("_P")
_T = TypeVar("_T")


def _in_thread(
    method: Callable[Concatenate[Library, _P], _T],
) -> Callable[Concatenate[Library, _P], Coroutine[Any, Any, _T]]:
    @wraps(method)
    async def run(self: Library, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        import asyncio  # Costs a command as much as opening a pack.

        return await asyncio.to_thread(method, self, *args, **kwargs)

    return run


class Library:
    """An open store with its embedder. Safe to use from several threads.

    The embedder is loaded by the first question that needs it, and so is the language model
    that the environment names, unless ``llm`` is given. Close it, or use it as a context
    manager. An embedder that the store was not built with is refused; a store whose embedder
    Packwise does not have is searched by keywords. When the store is rebuilt meanwhile, it is
    searched with the embedder it then has.
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
        self._measured: tuple[str, Profile | None] = ("", None)
        self._keywords_only: str | None = None
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
        where: Where = EVERYTHING,
        alternatives: tuple[str, ...] = (),
        graph: GraphRanking | bool | None = None,
        rerank: Reranker | None = None,
        depth: int = 0,
        gated: bool = False,
        threshold: float | None = None,
    ) -> Ranking:
        """The ``k`` best passages for the query, with scores, confidence and trace.

        ``alternatives`` are other phrasings, searched at the same time. ``fusion``, ``graph``
        and ``rerank`` come from the settings unless given. ``depth``, ``gated`` and
        ``threshold`` are those of ``Query``.
        """
        settings = self._settings
        if graph is None or graph is True:
            graph = settings.graph_ranking
        with one_state(self._store):
            self._follow_rebuilds()
            only_keywords = "" if mode == "keyword" else self.keywords_only()
            ranking = self._opened().search(
                Query(
                    query,
                    k=k,
                    mode="keyword" if only_keywords else mode,
                    fusion=fusion or settings.fusion,
                    where=Filter.of(where),
                    alternatives=tuple(alternatives),
                    graph=graph or "off",
                    rerank=rerank or settings.reranker,
                    depth=depth,
                    gated=gated,
                    threshold=threshold,
                )
            )
        if only_keywords and only_keywords not in ranking.trace.degraded:
            ranking.trace.degraded.append(only_keywords)
        return ranking

    def keywords_only(self) -> str:
        """Why the store can be searched by keywords only; empty if its vectors can be used.

        That is so when no model of Packwise made its vectors, as in packs of agent-kgpacks.
        """
        self._follow_rebuilds()
        if self._keywords_only is None:
            info, why = self._store.info(), ""
            try:
                self._load_embedder()
            except (EmbedderMismatch, ModelMissing, UsageError) as error:
                unknown = bool(info.embedder) and isinstance(error, UsageError)
                if self._given or not (unknown or not info.embedder_version):
                    raise
                why = (
                    f"only keywords are searched: no model here makes the vectors of"
                    f" {info.location} ({info.embedder or 'unnamed'}, {info.dim} dimensions)"
                    f" -> packwise copy {info.location} PACK --reembed"
                )
            self._keywords_only = why
        return self._keywords_only

    def example_embedder(self) -> Embedder:
        """The embedder for texts that are not compared with the store's vectors."""
        from packwise.models.embedder import load_embedder

        if self.keywords_only():
            return load_embedder(self._settings.embedder, self._settings)
        return self._load_embedder()

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
        where: Where = EVERYTHING,
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
        with one_state(self._store):
            ranking = self.search(
                question,
                k,
                mode=mode,
                fusion=fusion,
                where=where,
                graph=graph,
                rerank=rerank,
                depth=settings.context_depth,
            )
            packed = pack(
                question,
                ranking.hits,
                store=self._store,
                settings=settings,
                budget=budget,
                policy=policy,
            )
        for line in ranking.trace.degraded:
            _log.warning("%s", line)
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

        expect(question, str, "a question is text")
        return asking.ask_stream(self._tools(), question, self._usable(self._request(options)))

    def answer(self, question: str, request: AnswerRequest) -> Answer:
        """``ask`` with every field of the request, for callers that bring their own evidence."""
        from packwise.answering import asking

        expect(question, str, "a question is text")
        return asking.ask(self._tools(), question, self._usable(request))

    asearch = _in_thread(search)
    """``search`` for asyncio: it runs in a thread, so that other tasks continue."""

    acontext = _in_thread(context)
    """``context`` for asyncio."""

    aask = _in_thread(ask)
    """``ask`` for asyncio."""

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
        from packwise.answering.few_shot import load_examples

        given: dict[str, Any] = {k: value for k, value in options.items() if value is not None}
        if "few_shot_path" in given:
            load_examples(few_shot_path=given["few_shot_path"])  # A file must hold examples.
        given["where"] = Filter.of(options.get("where"))
        given.setdefault("expansion", self._settings.expansion)
        given.setdefault("synthesis", self._settings.synthesis == "auto")
        return AnswerRequest(**given)

    def _usable(self, request: AnswerRequest) -> AnswerRequest:
        """The request without what the settings forbid or the store cannot do."""
        if self._settings.synthesis == "off":
            request = replace(request, synthesis=False, llm=None)
        if request.mode != "keyword" and (why := self.keywords_only()):
            request = replace(request, mode="keyword", notes=(*request.notes, why))
        unset = self._settings.origin("context_confidence_threshold") == "default"
        if unset and request.threshold is None and self._judged_by_keywords(request.mode):
            request = replace(request, threshold=_KEYWORD_THRESHOLD)
        return request

    def _judged_by_keywords(self, mode: Mode) -> bool:
        """Whether the gate sees keyword scores: nothing else ran, or no similarity has a scale."""
        return mode == "keyword" or self._load_embedder().similarity(1.0) is None

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
                    few_shot=ExampleFiles(self._store.info().location, self.example_embedder),
                    cross_encoder=self._load_cross_encoder,
                    calibration=self._calibrated,
                    span_reader=self._load_span_reader,
                )
            return self._answering

    def _load_llm(self) -> LanguageModel | None:
        from packwise.models.llm import load_llm

        settings = self._settings
        if settings.synthesis == "off":
            return None
        with self._lock:
            if not self._llm_looked_up:
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
                    profile=self._profile,
                )
            return self._pipeline

    def _profile(self) -> Profile | None:
        """What the legs are worth in this version of the store, if that was measured."""
        version, profile = self._measured
        if version != self._version:
            profile = load_profile(self._store.info())
            self._measured = (self._version, profile)
        return profile

    def _calibrated(self) -> Calibration:
        if self._calibration is None:
            self._calibration = load_calibration(self._store.info())
        return self._calibration

    def _load_cross_encoder(self) -> CrossEncoder:
        from packwise.models.cross_encoder import load_cross_encoder

        return load_cross_encoder(self._settings)

    def _load_span_reader(self) -> SpanReader | None:
        from packwise.models.span_reader import load_span_reader

        return load_span_reader(self._settings)

    def _load_embedder(self) -> Embedder:
        from packwise.models.embedder import load_embedder, load_recorded_embedder

        with self._lock:
            if self._embedder is None:
                info, embedder = self._store.info(), self._given
                if embedder is None and info.embedder:
                    embedder = load_recorded_embedder(info.embedder, self._settings, info.location)
                embedder = embedder or load_embedder(self._settings.embedder, self._settings)
                check_store_embedder(self._store, embedder)
                if embedder.similarity(1.0) is None and (profile := self._profile()):
                    embedder = GaugedEmbedder(embedder, profile.gate) if profile.gate else embedder
                self._embedder = embedder
            return self._embedder

    def _follow_rebuilds(self) -> None:
        # After a rebuild the vectors may come from another embedder of the same dimension.
        version = self._store.version()
        with self._lock:
            if version != self._version:
                self._embedder, self._version = None, version
                self._keywords_only = None


def open_library(store: str | os.PathLike[str], *, settings: Settings | None = None) -> Library:
    """Open a store: a pack folder, an installed pack's name, a Kuzu file or a folder with a
    ``pack.db``, or an address such as ``postgresql://...``,
    ``qdrant+http://HOST:PORT/COLLECTION`` or ``kuzu:PATH``."""
    expect(store, (str, os.PathLike), "open takes the path, name or address of a store")
    return Library(open_store(os.fspath(store)), settings=settings)
