"""What is ranked: the query, candidates with their scores, and the allowed values of each choice.

A score keeps its name from the search leg that computed it to the answer: ``vector`` is a
cosine, ``keyword`` is BM25 divided by its bound, and a fused number never overwrites either.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from html import escape
from typing import Any, Generic, Literal, TypeVar, get_args, overload

from packwise.documents import Passage
from packwise.errors import UsageError, expect

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
                expect(value, Iterable, f"where.{key[:64]} takes one text or several")
                more = (value,) if isinstance(value, str) else tuple(value)
                values[name] = (*values.get(name, ()), *more)
            elif not isinstance(value, str):
                raise UsageError(f"where.{key[:64]} takes one text")
            elif name:
                values[name] = value
            else:
                metadata[key] = value
        return cls(**values, metadata=metadata)

    @classmethod
    def of(cls, where: Where | None) -> Filter:
        """A filter from what a program gives: a filter, a dictionary with the keys of ``parse``,
        or nothing. Raises ``UsageError`` for anything else."""
        if where is None or isinstance(where, Filter):
            return where or EVERYTHING
        expect(where, Mapping, "where takes a Filter or a dictionary")
        return cls.parse(where.items())


Where = Filter | Mapping[str, str | Iterable[str]]
"""Which passages may be found: a ``Filter``, or a dictionary such as ``{"path": "guides/"}``."""

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


_Result = TypeVar("_Result")
_LONGEST_CELL = 400


class Results(ABC, Generic[_Result]):
    """A sequence of results that can also be read as dictionaries, a data frame or a table."""

    __slots__ = ()

    @abstractmethod
    def results(self) -> tuple[_Result, ...]:
        """What the sequence consists of."""

    @abstractmethod
    def to_dicts(self) -> list[dict[str, Any]]:
        """One dictionary per result, as the command line prints it."""

    @abstractmethod
    def caption(self) -> str:
        """What stands above the table in a notebook."""

    def __iter__(self) -> Iterator[_Result]:
        return iter(self.results())

    def __len__(self) -> int:
        return len(self.results())

    @overload
    def __getitem__(self, index: int) -> _Result: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[_Result, ...]: ...

    def __getitem__(self, index: int | slice) -> _Result | tuple[_Result, ...]:
        return self.results()[index]

    def to_pandas(self) -> Any:
        """A data frame with one row per result; every score is a column of its own."""
        try:
            import pandas
        except ImportError as error:
            raise UsageError("pandas is not installed", fix="pip install pandas") from error
        return pandas.DataFrame([_flat(record) for record in self.to_dicts()])

    def to_polars(self) -> Any:
        """The same as a data frame of Polars."""
        try:
            import polars
        except ImportError as error:
            raise UsageError("polars is not installed", fix="pip install polars") from error
        return polars.DataFrame([_flat(record) for record in self.to_dicts()])

    def _repr_html_(self) -> str:
        """The table that notebooks show."""
        rows = "".join(_html_row(n, record) for n, record in enumerate(self.to_dicts(), start=1))
        head = "".join(f"<th>{name}</th>" for name in ("", "score", "source", "text"))
        return (
            f"<table><caption>{escape(self.caption())}</caption>"
            f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
        )


def _flat(record: Mapping[str, Any]) -> dict[str, Any]:
    flat = dict(record)
    return flat | flat.pop("scores", {})


def _html_row(number: int, record: Mapping[str, Any]) -> str:
    flat = _flat(record)
    score = flat.get("final", flat.get("score"))
    source = " › ".join((flat["title"] or flat["document"], *flat["section_path"]))
    text = str(flat["text"])
    shown = text if len(text) <= _LONGEST_CELL else f"{text[:_LONGEST_CELL]}…"
    cells = (str(number), f"{score:.3f}", source, shown)
    style = ' style="text-align:left;white-space:pre-wrap"'
    return "<tr>" + "".join(f"<td{style}>{escape(cell)}</td>" for cell in cells) + "</tr>"
