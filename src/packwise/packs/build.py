"""Building: sources -> documents -> passages -> vectors -> store.

Documents stream through in windows, so memory stays bounded whatever the size of the
source. What is unchanged by hash is neither parsed nor embedded; what a killed build had
already staged is found again. Readers see the old content until the very end.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from packwise.chunking import chunk
from packwise.entities import Extraction
from packwise.errors import SourceError, StoreMissing, UsageError
from packwise.guard import Guard
from packwise.models.base import Embedder, Vectors
from packwise.packs.steps import (
    Silent,
    embedder_for,
    item_hash,
    read_item,
    rows_of,
    source_ids,
    unchanged,
)
from packwise.passages import Document, Passage
from packwise.settings import Settings
from packwise.sources import Item, Problem, combine, open_source
from packwise.stores.base import Store, Writer, WriteSummary
from packwise.stores.locate import create_or_open_store

if TYPE_CHECKING:
    from packwise.packs.extraction import ClaudeExtractor, Estimate, ExtractionReport

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
    ``extraction`` says what a language model read and cost, ``estimate`` what it would.
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
    extraction: ExtractionReport | None = None
    estimate: Estimate | None = None


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
    extractor: ClaudeExtractor | None = None,
) -> BuildReport:
    """Make the pack at ``out`` hold exactly what the sources hold now.

    An existing pack keeps its embedder unless ``embedder`` names another, which needs
    ``reembed``. ``force`` reads unchanged documents again too. A document that cannot be
    read any more keeps its stored version. With ``extractor`` a language model reads every
    passage for entities, facts and relations; without, what it read in documents that have
    not changed since is kept. Raises what sources, models and stores raise;
    the pack is then as it was, and the same call goes on where this one stopped.
    """
    if not sources:
        raise UsageError("there is nothing to build from", fix="packwise build SOURCE --out PACK")
    build = _Build(settings or Settings.load(), progress or Silent(), extractor)
    return build.run(sources, out, embedder, force=force, reembed=reembed, dry_run=dry_run)


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
    def __init__(
        self, settings: Settings, progress: Progress, extractor: ClaudeExtractor | None
    ) -> None:
        self._settings = settings
        self._progress = progress
        self._extractor = extractor
        self._reader = extractor.version if extractor else ""
        self._gauge = extractor.gauge() if extractor else None
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
        wanted = source_ids(opened)
        self._progress.counted(len(wanted))
        embedder = embedder_for(out, embedder_name, self._settings)
        if dry_run:
            changes = self._rehearse(combine(opened), out, embedder, force=force)
        else:
            with closing(create_or_open_store(out)) as store:
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
            extraction=self._extractor.report() if self._extractor and not dry_run else None,
            estimate=self._gauge.estimate() if self._gauge and dry_run else None,
        )

    def _fill(
        self,
        store: Store,
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
                source_hash = item_hash(item, self._settings, self._reader)
                if unchanged(known.get(item.id), source_hash):
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
        try:
            with closing(create_or_open_store(out)) as store:
                stored = {summary.id: summary.source_hash for summary in store.documents()}
        except StoreMissing:
            stored = {}
        seen: set[str] = set()
        added = changed = same = passages = 0
        for item in self._readable(entries):
            seen.add(item.id)
            source_hash = item_hash(item, self._settings, self._reader)
            self._progress.document()
            if unchanged(stored.get(item.id), source_hash) and not force:
                same += 1
                continue
            document = self._read(item, source_hash)
            if document is None:
                continue
            found = self._passages(document, embedder)
            passages += len(found)
            if self._gauge is not None:
                self._gauge.add(found)
            added, changed = added + (item.id not in stored), changed + (item.id in stored)
        removed = len(stored.keys() - seen)
        return WriteSummary(added, changed, removed, same, passages)

    def _readable(self, entries: Iterator[Item | Problem]) -> Iterator[Item]:
        for entry in entries:
            if isinstance(entry, Problem):
                self._problems.append(entry)
                self._progress.document()
            else:
                if entry.warning:
                    self._warnings.append(Problem(entry.location, entry.warning))
                yield entry

    def _read(self, item: Item, source_hash: str) -> Document | None:
        read = read_item(item, source_hash)
        if isinstance(read, Problem):
            self._problems.append(read)
            self._progress.document()
            return None
        return read

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
        extracted = self._extracted(window)
        for document, passages in window.documents:
            read = [extracted[p.id] for p in passages if p.id in extracted]
            if self._extractor is not None and len(read) < len(passages):
                # Under another hash the next build tries again.
                document = replace(document, source_hash=f"{document.source_hash}?")
                missing = f"{len(passages) - len(read)} passages could not be extracted from"
                self._warnings.append(Problem(document.id, missing))
            writer.stage(document, passages, rows_of(passages, vectors, embedder.dim), read)
            self._progress.document()

    def _extracted(self, window: _Window) -> Mapping[str, Extraction]:
        if self._extractor is None:
            return {}
        return self._extractor.extract([p for _, found in window.documents for p in found])
