"""The Store protocol: what every store can do.

A store finds passages by vector and by keyword, returns what it holds, and takes new documents
through a ``Writer``. It knows nothing about questions, fusion or budgets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple, Protocol, Self, TypeGuard, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from packwise.candidates import EVERYTHING, Filter
from packwise.documents import Document, Link, Passage
from packwise.language.names import Extraction
from packwise.stores.checks import Vectors
from packwise.stores.knowledge import Key, KnowledgeStore

_T = TypeVar("_T")


class Match(NamedTuple):
    """A passage that a search found: its key in the store, and the raw score."""

    key: Key
    score: float


@dataclass(frozen=True, slots=True)
class TermStatistics:
    """What BM25 needs to know about a store. ``frequency`` counts the passages that hold a
    term."""

    passages: int
    average_length: float
    frequency: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class DocumentSummary:
    """A document without its text."""

    id: str
    title: str
    url: str
    lang: str
    source_hash: str
    passages: int
    pagerank: float
    metadata: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class StoreInfo:
    """What a store is and holds. ``version`` changes whenever its content does."""

    location: str
    kind: str
    version: str
    embedder: str
    embedder_version: str
    dim: int
    documents: int
    passages: int
    links: int
    size_bytes: int
    details: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class WriteSummary:
    """What a commit changed."""

    added: int
    changed: int
    removed: int
    unchanged: int
    passages: int


class Writer(Protocol):
    """One build in progress; readers see nothing of it until ``commit``.

    What is staged survives a kill: the next writer finds it by source hash and goes on.
    Leaving the ``with`` block without ``commit`` keeps the staged work and the old content.
    """

    def source_hashes(self) -> Mapping[str, str]:
        """Document id to source hash: what is stored or already staged, newest wins. While a
        store is embedded again, documents of the old embedder do not count."""
        ...

    def known_vectors(self, hashes: Iterable[str]) -> Mapping[str, Vectors]:
        """The vectors this store already has for these passage content hashes."""
        ...

    def save_vectors(self, hashes: Sequence[str], vectors: Vectors) -> None:
        """Keep new vectors (rows) for passages with these content hashes, so that a build that
        is killed before it stages them need not embed them again."""
        ...

    def keep(self, document_id: str) -> None:
        """This document is unchanged: it stays (or its staged version is taken)."""
        ...

    def stage(
        self,
        document: Document,
        passages: Sequence[Passage],
        vectors: Vectors,
        extractions: Sequence[Extraction] = (),
    ) -> None:
        """Stage a new or changed document with one vector (row) per passage.

        The store finds names and definitions itself; ``extractions`` is what a language model
        read beyond them.
        """
        ...

    def commit(self, *, prune: bool = True) -> WriteSummary:
        """Make it all visible at once; with ``prune``, whatever was neither kept nor
        staged in this run disappears."""
        ...

    def close(self) -> None:
        """End the build and let others write; what is staged stays for the next one."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


def supports(store: object, protocol: type[_T]) -> TypeGuard[_T]:
    """Whether a store has the methods of a protocol. ``isinstance`` takes long to find out."""
    return _supports(type(store), protocol)


@cache
def _supports(kind: type, protocol: type) -> bool:
    return issubclass(kind, protocol)


@runtime_checkable
class HasStates(Protocol):
    """A store whose calls each find out which state it is in, unless they share one."""

    def one_state(self) -> AbstractContextManager[None]:
        """Let all calls of this thread see one state of the store until the block ends."""
        ...


def one_state(store: object) -> AbstractContextManager[None]:
    """Let all calls of this thread see one state of a store until the block ends, if it can."""
    return store.one_state() if supports(store, HasStates) else nullcontext()


@runtime_checkable
class DirectScores(Protocol):
    """A store that scores given passages faster than by searching among them."""

    def score_passages(
        self, vector: Vectors | None, terms: Sequence[str], keys: Sequence[Key], where: Filter
    ) -> tuple[NDArray[np.bool_], NDArray[np.float64], NDArray[np.float64]]:
        """Whether each passage is there and passes the filter, its cosine, and its BM25 over
        the terms; the values that both searches return."""
        ...

    def terms_held(self, keys: Sequence[Key], terms: Sequence[str]) -> Mapping[Key, frozenset[str]]:
        """Those of these terms that each passage holds; missing passages are left out."""
        ...


class Store(KnowledgeStore, Protocol):
    """A place that holds passages and finds them. Safe to use from several threads."""

    def info(self) -> StoreInfo: ...

    def version(self) -> str:
        """``info().version`` alone: cheap, because every search asks for it."""
        ...

    def languages(self) -> Mapping[str, int]:
        """The number of documents per language, most first; "" where it is not known. Cheap,
        because every search asks for it."""
        ...

    def vector_search(
        self,
        vector: Vectors,
        k: int,
        where: Filter = EVERYTHING,
        among: Sequence[Key] | None = None,
    ) -> list[Match]:
        """The ``k`` passages of highest cosine, best first; ``among`` limits the search
        to the given passages. Ties are broken by key, so equal calls answer equally."""
        ...

    def keyword_search(
        self,
        terms: Sequence[str],
        k: int,
        where: Filter = EVERYTHING,
        among: Sequence[Key] | None = None,
    ) -> list[Match]:
        """The ``k`` passages of highest BM25 over any of the index terms, best first.
        Only passages that hold at least one of the terms are returned."""
        ...

    def term_statistics(self, terms: Sequence[str]) -> TermStatistics: ...

    def passages(self, keys: Sequence[Key]) -> list[Passage | None]:
        """The passages of these keys, in that order; ``None`` for a key that is gone."""
        ...

    def vectors(self, keys: Sequence[Key]) -> Vectors:
        """The stored vectors of these keys, one row each, L2-normalised; zeros for a key that
        is gone."""
        ...

    def neighbours(self, key: Key, before: int = 1, after: int = 1) -> list[tuple[Key, Passage]]:
        """The passage's neighbours in its document, in reading order, without itself."""
        ...

    def document(self, document_id: str) -> Document | None: ...

    def document_passages(self, document_id: str) -> list[tuple[Key, Passage]]:
        """All passages of a document, in reading order."""
        ...

    def documents(self) -> Iterator[DocumentSummary]:
        """All documents, by id, as they were when the first one was asked for."""
        ...

    def links(self, document_ids: Sequence[str]) -> list[tuple[str, Link]]:
        """The resolved links that start in these documents, as (document id, link)."""
        ...

    def pagerank(self, document_ids: Sequence[str]) -> Mapping[str, float]:
        """Stored PageRank over the links; all documents of a store sum to 1."""
        ...

    def writer(
        self, *, embedder: str, embedder_version: str, dim: int, allow_mismatch: bool = False
    ) -> Writer:
        """Start a build. Raises ``EmbedderMismatch`` when the store's vectors come from
        another embedder, ``StoreBusy`` when another build is running.

        With ``allow_mismatch`` another embedder may take over; its commit then requires that
        every document that stays was staged again, so vectors of two embedders never mix.
        """
        ...

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...
