"""How a question is to be answered, and with what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from packwise.answering.answer import VECTOR_SEARCH
from packwise.answering.few_shot import FewShot
from packwise.answering.synthesis import SYNTHESIS_MAX_TOKENS
from packwise.candidates import (
    EVERYTHING,
    Expansion,
    Filter,
    Fusion,
    GraphRanking,
    Mode,
    PackingPolicy,
    Reranker,
)
from packwise.models.base import CrossEncoder, Embedder
from packwise.models.llm import NO_USAGE, LanguageModel, Usage
from packwise.retrieval.pipeline import Ranking
from packwise.settings import Settings
from packwise.stores.base import Key, Store


@dataclass(frozen=True, slots=True)
class Finding:
    """Something beside the passages that the answer may rest on and cite."""

    title: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """How a question is to be answered.

    max_results      articles the answer may draw on (1 to 20)
    budget           most tokens of what is sent to the model, or of the context without one
    expansion        other phrasings: ``off``, by the language model, or from the store itself
    documents        step 6; without it the first ``max_results`` passages are taken as found
    graph, rerank    as in ``Library.search``; ``None`` is what the settings say
    few_shot         show the model examples, from ``few_shot_path`` or the pack's own folder
    exclude          questions whose examples must not be shown
    threshold        confidence below which the store is not asked for the answer; ``None``
                     is that of the store's calibration, or else the setting's
    synthesis        let a language model write the answer, where there is one
    llm              that model; ``None`` is the one the library has
    max_tokens       the longest answer it may write
    extra            passages to consider whatever search finds; ``findings`` likewise
    notes, spent     what was degraded, and the tokens used, on the way here
    """

    max_results: int = 5
    budget: int | None = None
    policy: PackingPolicy | None = None
    mode: Mode = "hybrid"
    fusion: Fusion | None = None
    where: Filter = EVERYTHING
    expansion: Expansion = "off"
    documents: bool = True
    graph: GraphRanking | bool | None = None
    rerank: Reranker | None = None
    few_shot: bool = True
    few_shot_path: Path | None = None
    exclude: frozenset[str] = frozenset()
    threshold: float | None = None
    synthesis: bool = True
    llm: LanguageModel | None = None
    max_tokens: int = SYNTHESIS_MAX_TOKENS
    extra: tuple[Key, ...] = ()
    findings: tuple[Finding, ...] = ()
    query_type: str = VECTOR_SEARCH
    cypher_query: str | None = None
    notes: tuple[str, ...] = ()
    spent: Usage = NO_USAGE


@dataclass(frozen=True, slots=True)
class Tools:
    """What answering works with; the functions load what they return when first called."""

    store: Store
    settings: Settings
    search: Callable[..., Ranking]
    embedder: Callable[[], Embedder]
    llm: Callable[[], LanguageModel | None]
    few_shot: Callable[[Path | None], FewShot] | None = None
    cross_encoder: Callable[[], CrossEncoder] | None = None
