"""Building: sources -> documents -> passages -> vectors -> store.

Documents stream through in windows, so memory stays bounded whatever the size of the
source. What is unchanged by hash is neither parsed nor embedded; what a killed build had
already staged is found again. Readers see the old content until the very end.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import numpy as np

from packwise.chunking import CHUNKER, chunk
from packwise.errors import SourceError, StoreMissing, UsageError
from packwise.guard import Guard
from packwise.models.base import Embedder, Vectors
from packwise.passages import Document, Passage, content_hash
from packwise.settings import Settings
from packwise.sources import Item, Problem, Source, combine, open_source
from packwise.stores.base import Writer, WriteSummary
from packwise.stores.pack import PackStore, create_or_open_pack, open_pack

WINDOW = 128
"""Passages embedded together: enough that no core waits, few enough to hold in memory."""


class Progress(Protocol):
    """What a caller may want to show while a build runs."""

    def counted(self, documents: int) -> None:
        """So many documents will come."""
        ...

    def document(self) -> None:
        """One more document is stored, or was found unchanged."""
        ...

    def embedded(self, passages: int) -> None:
        """So many more passages have their vectors."""
        ...

    def committing(self) -> None:
        """All is staged; the store takes it over and writes its indexes."""
        ...


@dataclass(frozen=True, slots=True)
class BuildReport:
    """What a build did, or with ``dry_run`` would do.

    ``problems`` names what could not be read, ``warnings`` what was read with a reserve.
    """

    out: str
    changes: WriteSummary
    embedded: int
    reused: int
    kept_out: Mapping[str, int]
    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]
    skipped: Mapping[str, int]
    seconds: float
    embedding_seconds: float
    dry_run: bool = False


def build_pack(
    sources: Sequence[str],
    out: str,
    *,
    settings: Settings | None = None,
    embedder: str | None = None,
    force: bool = False,
    reembed: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> BuildReport:
    """Make the pack at ``out`` hold exactly what the sources hold now.

    An existing pack keeps its embedder unless ``embedder`` names another, which needs
    ``reembed``. ``force`` reads unchanged documents again too. A document that cannot be
    read any more keeps its stored version. Raises what sources, models and stores raise;
    the pack is then as it was, and the same call goes on where this one stopped.
    """
    if not sources:
        raise UsageError("there is nothing to build from", fix="packwise build SOURCE --out PACK")
    build = _Build(settings or Settings.load(), progress or _Silent())
    return build.run(sources, out, embedder, force=force, reembed=reembed, dry_run=dry_run)


def _ids(sources: Sequence[Source]) -> set[str]:
    """The ids the sources may bring, readable or not, as ``combine`` calls them."""
    ids: set[str] = set()
    for source in sources:
        own = set(source.ids())
        ids |= {f"{source.name}/{id}" for id in own & ids}
        ids |= own
    return ids


class _Silent:
    def counted(self, documents: int) -> None: ...
    def document(self) -> None: ...
    def embedded(self, passages: int) -> None: ...
    def committing(self) -> None: ...


@dataclass(slots=True)
class _Window:
    """Documents that wait for the vectors of their passages."""

    documents: list[tuple[Document, list[Passage]]] = field(
        default_factory=list[tuple[Document, list[Passage]]]
    )
    size: int = 0

    def add(self, document: Document, passages: list[Passage]) -> None:
        self.documents.append((document, passages))
        self.size += max(1, len(passages))


class _Build:
    def __init__(self, settings: Settings, progress: Progress) -> None:
        self._settings = settings
        self._progress = progress
        self._guard = Guard()
        self._embedded = 0
        self._reused = 0
        self._embedding_seconds = 0.0
        self._kept_out: Counter[str] = Counter()
        self._problems: list[Problem] = []
        self._warnings: list[Problem] = []

    def run(
        self,
        sources: Sequence[str],
        out: str,
        embedder_name: str | None,
        *,
        force: bool,
        reembed: bool,
        dry_run: bool,
    ) -> BuildReport:
        started = time.perf_counter()
        opened = [open_source(argument) for argument in sources]
        wanted = _ids(opened)
        self._progress.counted(len(wanted))
        embedder = self._embedder(out, embedder_name)
        if dry_run:
            changes = self._rehearse(combine(opened), out, embedder, force=force)
        else:
            with create_or_open_pack(Path(out)) as store:
                changes = self._fill(
                    store, combine(opened), wanted, embedder, force=force, reembed=reembed
                )
        skipped: Counter[str] = Counter()
        for source in opened:
            skipped.update(source.skipped)
        return BuildReport(
            out=out,
            changes=changes,
            embedded=self._embedded,
            reused=self._reused,
            kept_out=dict(self._kept_out),
            problems=tuple(self._problems),
            warnings=tuple(self._warnings),
            skipped=dict(skipped),
            seconds=time.perf_counter() - started,
            embedding_seconds=self._embedding_seconds,
            dry_run=dry_run,
        )

    def _embedder(self, out: str, name: str | None) -> Embedder:
        from packwise.models.embedder import load_embedder

        if name is None and Path(out).exists():
            try:
                with open_pack(Path(out)) as store:
                    name = store.info().embedder or None
            except StoreMissing:
                name = None  # an unfinished first build: it has no content to agree with yet
        return load_embedder(name or self._settings.embedder, self._settings)

    def _fill(
        self,
        store: PackStore,
        entries: Iterator[Item | Problem],
        wanted: set[str],
        embedder: Embedder,
        *,
        force: bool,
        reembed: bool,
    ) -> WriteSummary:
        with store.writer(
            embedder=embedder.name,
            embedder_version=embedder.version,
            dim=embedder.dim,
            allow_mismatch=reembed,
        ) as writer:
            known = {} if force or reembed else writer.source_hashes()
            window = _Window()
            handled: set[str] = set()
            for item in self._readable(entries):
                handled.add(item.id)
                source_hash = self._hash(item)
                if known.get(item.id) == source_hash:
                    writer.keep(item.id)
                    self._progress.document()
                    continue
                document = self._read(item, source_hash)
                if document is None:
                    handled.discard(item.id)
                    continue
                window.add(document, self._passages(document, embedder))
                if window.size >= WINDOW:
                    self._flush(window, writer, embedder)
                    window = _Window()
            self._flush(window, writer, embedder)
            # What is still in the source but cannot be read keeps its stored version.
            for document_id in (wanted - handled) & writer.source_hashes().keys():
                writer.keep(document_id)
            if not writer.source_hashes():
                raise SourceError(f"nothing could be read: {self._first_problem()}")
            self._progress.committing()
            return writer.commit()

    def _first_problem(self) -> str:
        return str(self._problems[0]) if self._problems else "the sources hold no document"

    def _rehearse(
        self, entries: Iterator[Item | Problem], out: str, embedder: Embedder, *, force: bool
    ) -> WriteSummary:
        """What ``_fill`` would do, without touching the disk."""
        stored: dict[str, str] = {}
        if Path(out).exists():
            try:
                with open_pack(Path(out)) as store:
                    stored = {summary.id: summary.source_hash for summary in store.documents()}
            except StoreMissing:
                stored = {}
        seen: set[str] = set()
        added = changed = unchanged = passages = 0
        for item in self._readable(entries):
            seen.add(item.id)
            source_hash = self._hash(item)
            self._progress.document()
            if stored.get(item.id) == source_hash and not force:
                unchanged += 1
                continue
            document = self._read(item, source_hash)
            if document is None:
                continue
            passages += len(self._passages(document, embedder))
            added, changed = added + (item.id not in stored), changed + (item.id in stored)
        removed = len(stored.keys() - seen)
        return WriteSummary(added, changed, removed, unchanged, passages)

    def _readable(self, entries: Iterator[Item | Problem]) -> Iterator[Item]:
        for entry in entries:
            if isinstance(entry, Problem):
                self._problems.append(entry)
                self._progress.document()
            else:
                if entry.warning:
                    self._warnings.append(Problem(entry.location, entry.warning))
                yield entry

    def _hash(self, item: Item) -> str:
        """The item's hash with all else that decides what becomes of it."""
        settings = self._settings
        size, overlap = str(settings.passage_tokens), str(settings.passage_overlap)
        return content_hash(item.source_hash, CHUNKER, size, overlap)

    def _read(self, item: Item, source_hash: str) -> Document | None:
        try:
            return replace(item.read(), source_hash=source_hash)
        except SourceError as error:
            location, _, reason = error.message.partition(": ")
            self._problems.append(Problem(location, reason or error.message))
            self._progress.document()
            return None

    def _passages(self, document: Document, embedder: Embedder) -> list[Passage]:
        report = self._guard.check(chunk(document, embedder, self._settings))
        self._kept_out.update(report.counts)
        return list(report.kept)

    def _flush(self, window: _Window, writer: Writer, embedder: Embedder) -> None:
        """Embed what has no vector yet, then stage the window's documents."""
        texts: dict[str, str] = {}
        for _, passages in window.documents:
            for passage in passages:
                texts.setdefault(passage.content_hash, passage.indexed_text)
        vectors: dict[str, Vectors] = dict(writer.known_vectors(texts))
        self._reused += len(vectors)
        missing = [key for key in texts if key not in vectors]
        if missing:
            started = time.perf_counter()
            rows = embedder.embed_passages([texts[k] for k in missing], self._progress.embedded)
            self._embedding_seconds += time.perf_counter() - started
            self._embedded += len(missing)
            vectors.update(zip(missing, rows, strict=True))
        for document, passages in window.documents:
            block = np.zeros((len(passages), embedder.dim), dtype=np.float32)
            for row, passage in enumerate(passages):
                block[row] = vectors[passage.content_hash]
            writer.stage(document, passages, block)
            self._progress.document()
