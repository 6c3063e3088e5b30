"""The keywords of ``Library.ask``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from packwise.candidates import (
    Expansion,
    Fusion,
    GraphRanking,
    Mode,
    PackingPolicy,
    Reranker,
    Where,
)

if TYPE_CHECKING:
    from packwise.models.llm import LanguageModel


class AskOptions(TypedDict, total=False):
    """The keywords of ``Library.ask`` and ``Library.ask_stream``; ``None`` means the setting.

    max_results      articles the answer may use (1 to 20, 5 if not given)
    budget           largest number of tokens sent to the model, or of the context without one
    expansion        other phrasings: ``off``, ``llm`` (sends the question to the language
                     model) or ``local``
    synthesis        whether a language model may write the answer
    where            which passages may be found: a ``Filter`` or a dictionary
    mode, fusion, graph, rerank, policy
                     as in ``search`` and ``context``
    documents        search whole documents; ``False`` takes the passages as found
    num_docs, max_sections, min_relevance
                     most articles (``max_results`` if not given), most sections of each
                     (3), and the least similarity of a linked article (0.7)
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
    where: Where
    mode: Mode
    fusion: Fusion | None
    graph: GraphRanking | bool | None
    rerank: Reranker | None
    policy: PackingPolicy | None
    documents: bool
    num_docs: int | None
    max_sections: int
    min_relevance: float
    few_shot: bool
    few_shot_path: Path | None
    exclude: frozenset[str]
    threshold: float | None
    llm: LanguageModel | None
    max_tokens: int
