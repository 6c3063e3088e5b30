"""What is ranked: the question as asked, candidates with their scores, the ranking.

A score keeps its name from the leg that made it to the answer: ``vector`` is a cosine,
``keyword`` is BM25 over its bound, and neither is ever overwritten by a fused number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from packwise.documents import Passage, no_metadata

Mode = Literal["hybrid", "vector", "keyword"]
Fusion = Literal["weighted", "rrf"]

GRAPHS = ("names", "pagerank", "off")
RERANKERS = ("crossencoder", "mmr", "off")
MODES: tuple[Mode, ...] = ("hybrid", "vector", "keyword")
FUSIONS: tuple[Fusion, ...] = ("weighted", "rrf")


@dataclass(frozen=True, slots=True)
class Filter:
    """Which passages may be found; every store applies it inside the search itself.

    Empty fields allow everything; several fields must all hold. ``acl`` holds the
    groups of the caller: a passage with its own acl is seen by a caller who shares one.
    """

    tenant: str = ""
    space: str = ""
    acl: tuple[str, ...] = ()
    lang: str = ""
    node_type: str = ""
    documents: tuple[str, ...] = ()
    path_prefix: str = ""
    metadata: Mapping[str, str] = field(default_factory=no_metadata)

    def __bool__(self) -> bool:
        return bool(
            self.tenant
            or self.space
            or self.acl
            or self.lang
            or self.node_type
            or self.documents
            or self.path_prefix
            or self.metadata
        )


EVERYTHING = Filter()


@dataclass(frozen=True, slots=True)
class Query:
    """One question put to a store, with other phrasings of it and the later stages to run
    (``GRAPHS``, ``RERANKERS``)."""

    text: str
    k: int = 10
    mode: Mode = "hybrid"
    fusion: Fusion = "weighted"
    where: Filter = EVERYTHING
    alternatives: tuple[str, ...] = ()
    graph: str = "off"
    rerank: str = "off"


@dataclass(frozen=True, slots=True)
class Scores:
    """Every number a candidate was given, by name; ``None`` where it was not scored.

    vector      cosine of question and passage, as the embedder gives it
    similarity  the same on the scale the confidence gate uses (0..1)
    bm25        raw BM25
    keyword     BM25 over the highest BM25 this question can reach (0..1)
    combined    weighted average of ``vector`` clipped to 0..1 and ``keyword`` (0..1)
    rrf         weighted reciprocal ranks, only with that fusion
    cross       what the cross-encoder says of question and passage read together (0..1)
    graph       what graph ranking added
    final       what the list is sorted by
    """

    vector: float | None = None
    similarity: float | None = None
    bm25: float | None = None
    keyword: float | None = None
    combined: float = 0.0
    rrf: float | None = None
    cross: float | None = None
    graph: float | None = None
    final: float = 0.0


@dataclass(frozen=True, slots=True)
class Candidate:
    """A passage in the running; ``key`` is the store's own handle on it."""

    key: int | str
    passage: Passage
    scores: Scores
