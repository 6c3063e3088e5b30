"""Embedding and staging what workers have prepared.

Documents come in windows, so memory stays bounded whatever the size of the source. While the
workers embed one window, this thread stages the one before it and prepares the one after it: a
build takes little longer than its embedder alone. Only this thread reads documents and writes to
the store, so their order, deadlines and Ctrl-C are as if one were done after the other.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from packwise.language.names import Extraction
from packwise.models.base import Vectors
from packwise.packs.progress import Progress
from packwise.packs.workers import BuildWorkers, PreparedItem
from packwise.sources import Problem
from packwise.stores.base import Writer

if TYPE_CHECKING:
    from packwise.packs.extraction import ClaudeExtractor

# Passages embedded between two saves: as many as take this many seconds, and at least this many.
_SLICE_SECONDS, _SMALLEST_SLICE = 5.0, 16

Window = Sequence[PreparedItem]
_T = TypeVar("_T")


@dataclass(slots=True)
class Staged:
    """What was embedded and staged. ``languages`` counts documents; ``warnings`` are about what
    could not be extracted."""

    embedded: int = 0
    reused: int = 0
    embedding_seconds: float = 0.0
    languages: Counter[str] = field(default_factory=Counter[str])
    warnings: list[Problem] = field(default_factory=list[Problem])


class Stager:
    """Embeds and stages the documents of one build."""

    def __init__(
        self,
        writer: Writer,
        workers: BuildWorkers,
        progress: Progress,
        extractor: ClaudeExtractor | None,
    ) -> None:
        self._writer = writer
        self._workers = workers
        self._progress = progress
        self._extractor = extractor
        self._slice = _SMALLEST_SLICE
        self._waiting: list[tuple[Window, Mapping[str, Vectors]]] = []
        self._staged = Staged()

    def run(self, prepared: Iterable[PreparedItem]) -> Staged:
        """Stage these documents in their order. Where one of them raises an error, those of the
        windows before are staged; what was embedded is kept for the next build in any case."""
        windows = _Lookahead(self._windows(prepared))

        def meanwhile() -> None:
            self._stage_waiting()
            windows.look()

        for window in windows:
            vectors = self._vectors(window, meanwhile)
            meanwhile()
            self._waiting.append((window, vectors))
            if windows.ended:
                self._stage_waiting()
        return self._staged

    def _windows(self, prepared: Iterable[PreparedItem]) -> Iterator[Window]:
        """The first ones are small, so that embedding begins at once."""
        window: list[PreparedItem] = []
        waiting, full = 0, _SMALLEST_SLICE
        for item in prepared:
            window.append(item)
            waiting += max(1, len(item.passages))
            if waiting >= full:
                yield window
                window, waiting, full = [], 0, min(2 * full, self._workers.window)
        if window:
            yield window

    def _vectors(self, window: Window, meanwhile: Callable[[], None]) -> Mapping[str, Vectors]:
        """The vectors of a window's passages by their hashes: known ones, else new ones."""
        texts: dict[str, str] = {}
        for prepared in window:
            for passage in prepared.passages:
                texts.setdefault(passage.content_hash, passage.indexed_text)
        vectors: dict[str, Vectors] = dict(self._writer.known_vectors(texts))
        self._staged.reused += len(vectors)
        missing = [key for key in texts if key not in vectors]
        for keys, rows in self._embedded_slices(missing, texts, meanwhile):
            self._writer.save_vectors(keys, rows)
            vectors.update(zip(keys, rows, strict=True))
        return vectors

    def _embedded_slices(
        self, missing: Sequence[str], texts: Mapping[str, str], meanwhile: Callable[[], None]
    ) -> Iterator[tuple[Sequence[str], Vectors]]:
        """The missing vectors in slices that take a few seconds each, so that an interrupted
        build has little to embed again."""
        done = 0
        while done < len(missing):
            keys = missing[done : done + self._slice]
            started = time.perf_counter()
            rows = self._workers.embed(
                [texts[key] for key in keys], self._progress.embedded, meanwhile
            )
            seconds = time.perf_counter() - started
            self._staged.embedding_seconds += seconds
            self._staged.embedded += len(keys)
            done += len(keys)
            fitting = int(len(keys) * _SLICE_SECONDS / max(seconds, 1e-6))
            self._slice = max(_SMALLEST_SLICE, min(fitting, self._workers.window))
            yield keys, rows

    def _stage_waiting(self) -> None:
        if self._waiting:  # At most one window.
            self._stage(*self._waiting.pop())

    def _stage(self, window: Window, vectors: Mapping[str, Vectors]) -> None:
        extracted = self._extracted(window)
        for prepared in window:
            if (document := prepared.document) is None:
                continue
            passages = prepared.passages
            read = [extracted[p.id] for p in passages if p.id in extracted]
            if self._extractor is not None and len(read) < len(passages):
                # With another hash, the next build tries again.
                document = replace(document, source_hash=f"{document.source_hash}?")
                lost = f"{len(passages) - len(read)} passages could not be extracted from"
                self._staged.warnings.append(Problem(document.id, lost))
            block = np.zeros((len(passages), self._workers.embedder.dim), dtype=np.float32)
            for row, passage in enumerate(passages):
                block[row] = vectors[passage.content_hash]
            self._writer.stage(document, passages, block, read)
            self._staged.languages[document.lang] += 1
            self._progress.document()

    def _extracted(self, window: Window) -> Mapping[str, Extraction]:
        if self._extractor is None:
            return {}
        return self._extractor.extract([p for prepared in window for p in prepared.passages])


class _Lookahead(Iterator[_T], Generic[_T]):
    """An iterator that can compute its next element before it is asked for it. An error of that
    element is raised in its turn, after those before it; Ctrl-C at once."""

    def __init__(self, items: Iterator[_T]) -> None:
        self._items = items
        self._next: list[_T] = []
        self._error: Exception | None = None

    @property
    def ended(self) -> bool:
        """Whether no element follows; known after ``look``."""
        return not self._next

    def look(self) -> None:
        """Compute the next element, unless that was done."""
        if self._next or self._error is not None:
            return
        try:
            self._next.append(next(self._items))
        except Exception as error:  # noqa: BLE001 - raised in its turn
            self._error = error

    def __next__(self) -> _T:
        self.look()
        if self._error is not None:
            raise self._error
        return self._next.pop()
