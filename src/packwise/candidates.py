"""What is ranked: the query, candidates with their scores, and the allowed values of each choice.

A score keeps its name from the search leg that computed it to the answer: ``vector`` is a
cosine, ``keyword`` is BM25 divided by its bound, and a fused number never overwrites either.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

from packwise.documents import Passage
from packwise.errors import UsageError

Mode = Literal["hybrid", "vector", "keyword"]
Fusion = Literal["weighted", "rrf"]
GraphRanking = Literal["names", "pagerank", "off"]
Reranker = Literal["crossencoder", "mmr", "off"]
PackingPolicy = Literal["coverage", "seed", "baseline"]
Expansion = Literal["off", "llm", "local"]

MODES: tuple[Mode, ...] = get_args(Mode)
FUSIONS: tuple[Fusion, ...] = get_args(Fusion)
GRAPHS: tuple[GraphRanking, ...] = get_args(GraphRanking)
RERANKERS: tuple[Reranker, ...] = get_args(Reranker)
PACKING_POLICIES: tuple[PackingPolicy, ...] = get_args(PackingPolicy)
EXPANSIONS: tuple[Expansion, ...] = get_args(Expansion)


class FilterMetadata(Mapping[str, str]):
    """An immutable, hashable mapping; the order of its keys does not matter."""

    __slots__ = ("_pairs",)

    def __init__(self, values: Mapping[str, str] = {}) -> None:
        self._pairs = dict(sorted(values.items()))

    def __getitem__(self, key: str) -> str:
        return self._pairs[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._pairs)

    def __len__(self) -> int:
        return len(self._pairs)

    def __hash__(self) -> int:
        return hash(tuple(self._pairs.items()))

    def __repr__(self) -> str:
        return repr(self._pairs)


@dataclass(frozen=True, slots=True)
class Filter:
    """Which passages a search may find; every store applies it inside the search itself.

    Empty fields allow everything; several fields must all match. ``acl`` holds the groups
    of the caller: a passage with its own acl is visible to callers in one of its groups.
    """

    tenant: str = ""
    space: str = ""
    acl: tuple[str, ...] = ()
    lang: str = ""
    node_type: str = field(default="", metadata={"key": "type"})
    documents: tuple[str, ...] = field(default=(), metadata={"key": "document"})
    path_prefix: str = field(default="", metadata={"key": "path"})
    metadata: Mapping[str, str] = field(default_factory=FilterMetadata)

    def __post_init__(self) -> None:
        for name in _LISTS:
            object.__setattr__(self, name, tuple(getattr(self, name)))
        object.__setattr__(self, "metadata", FilterMetadata(self.metadata))

    def __bool__(self) -> bool:
        return any(getattr(self, f.name) for f in fields(self))

    @classmethod
    def parse(cls, pairs: Iterable[tuple[str, str | Iterable[str]]]) -> Filter:
        """A filter from the keys that the command line and HTTP use.

        ``document``, ``path`` (a prefix of the document id), ``lang``, ``tenant``, ``space``,
        ``acl`` and ``type`` are fields; any other key is one of the documents' metadata.
        ``document`` and ``acl`` take several values, and repeated keys add to them.
        """
        values: dict[str, Any] = {}
        metadata: dict[str, str] = {}
        for key, value in pairs:
            name = _KEYS.get(key, "")
            if name in _LISTS:
                more = (value,) if isinstance(value, str) else tuple(value)
                values[name] = (*values.get(name, ()), *more)
            elif not isinstance(value, str):
                raise UsageError(f"where.{key[:64]} takes one text")
            elif name:
                values[name] = value
            else:
                metadata[key] = value
        return cls(**values, metadata=metadata)


_LISTS = tuple(f.name for f in fields(Filter) if f.default == ())
_KEYS = {f.metadata.get("key", f.name): f.name for f in fields(Filter) if f.name != "metadata"}

EVERYTHING = Filter()


@dataclass(frozen=True, slots=True)
class Query:
    """One question for a store, other phrasings of it, and the later stages to run.

    Each leg finds ``depth`` passages, or ``k`` if that is 0, but never fewer than the setting
    ``k_base``. A ``gated`` query ends before those stages if its confidence is below
    ``threshold`` (``None``: that of the store's calibration, else the setting).
    """

    text: str
    k: int = 10
    depth: int = 0
    mode: Mode = "hybrid"
    fusion: Fusion = "weighted"
    where: Filter = EVERYTHING
    alternatives: tuple[str, ...] = ()
    graph: GraphRanking = "off"
    rerank: Reranker = "off"
    gated: bool = False
    threshold: float | None = None


@dataclass(frozen=True, slots=True)
class Scores:
    """Every score of a candidate, by name; ``None`` where it has none.

    vector      cosine of question and passage, as the embedder returns it
    similarity  the same cosine on the scale of the confidence gate (0..1)
    bm25        raw BM25
    keyword     BM25 divided by the highest BM25 this question can reach (0..1)
    combined    weighted average of ``vector`` clipped to 0..1 and ``keyword`` (0..1)
    rrf         weighted reciprocal ranks, only with that fusion
    cross       the cross-encoder's score for question and passage (0..1)
    graph       the bonus that graph ranking added
    final       the score the list is sorted by
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
    """A passage that may be returned; ``key`` is the store's own key for it."""

    key: int | str
    passage: Passage
    scores: Scores
