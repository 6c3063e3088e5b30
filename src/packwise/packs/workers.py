"""Who does the heavy part of a build: parsing, chunking and embedding.

A build hands its items to a crew and gets them back in the order of the source, so that
the result is the same whoever did the work. ``LocalCrew`` is this process;
``ray_build.RayCrew`` is the workers of a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from packwise.chunking import chunk
from packwise.documents import Document, Passage
from packwise.errors import SourceError
from packwise.guard import Guard
from packwise.models.base import Embedder, Vectors
from packwise.settings import Settings
from packwise.sources import Item, Problem


@dataclass(frozen=True, slots=True)
class Prepared:
    """What became of one item: a document with its passages, or a problem."""

    item: str
    document: Document | None
    passages: tuple[Passage, ...] = ()
    kept_out: Mapping[str, int] = field(default_factory=dict[str, int])
    problem: Problem | None = None


class Crew(Protocol):
    """Parses, chunks and embeds for a build."""

    @property
    def embedder(self) -> Embedder:
        """The embedder whose vectors ``embed`` gives."""
        ...

    @property
    def window(self) -> int:
        """Passages to embed at once: enough that nobody waits, few enough to hold in memory."""
        ...

    def prepare(self, items: Iterable[tuple[Item, str]]) -> Iterator[Prepared]:
        """Parse and chunk items, each given with its full source hash, in their order."""
        ...

    def embed(self, texts: Sequence[str], done: Callable[[int], None]) -> Vectors:
        """The vectors of texts; ``done`` hears how many more have theirs."""
        ...


class LocalCrew:
    """This process."""

    window = 128

    def __init__(self, embedder: Embedder, settings: Settings) -> None:
        self.embedder = embedder
        self._settings = settings
        self._guard = Guard()

    def prepare(self, items: Iterable[tuple[Item, str]]) -> Iterator[Prepared]:
        """One at a time, when asked for."""
        return (self._prepared(item, source_hash) for item, source_hash in items)

    def embed(self, texts: Sequence[str], done: Callable[[int], None]) -> Vectors:
        """On all cores the settings allow."""
        return self.embedder.embed_passages(texts, done)

    def _prepared(self, item: Item, source_hash: str) -> Prepared:
        try:
            document = replace(item.read(), source_hash=source_hash)
        except SourceError as error:
            location, _, reason = error.message.partition(": ")
            return Prepared(item.id, None, problem=Problem(location, reason or error.message))
        report = self._guard.check(chunk(document, self.embedder, self._settings))
        counts = {str(reason): count for reason, count in report.counts.items()}
        return Prepared(item.id, document, tuple(report.kept), counts)
