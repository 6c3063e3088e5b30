"""Building: sources -> documents -> passages -> vectors -> store.

A crew parses, chunks and embeds; the writing is done here. Documents stream through in
windows, so memory stays bounded whatever the size of the source. What is unchanged by hash
is neither parsed nor embedded; what a killed build had already staged is found again.
Readers see the old content until the very end.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from packwise.errors import SourceError, StoreMissing, UsageError
from packwise.language.names import Extraction
from packwise.models.base import Embedder, Vectors
from packwise.packs.build_rules import (
    Silent,
    embedder_for,
    item_hash,
    rows_of,
    source_ids,
    unchanged,
)
from packwise.packs.workers import Crew, LocalCrew, Prepared
from packwise.settings import Settings
from packwise.sources import Item, Problem, combine, open_source
from packwise.stores.base import Writer, WriteSummary
from packwise.stores.locate import create_or_open_store

if TYPE_CHECKING:
    from packwise.packs.extraction import ClaudeExtractor, Estimate, ExtractionReport


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
    build = Build(settings or Settings.load(), progress or Silent(), extractor)
    return build.run(sources, out, embedder, force=force, reembed=reembed, dry_run=dry_run)


class Build:
    """One run of a build, by the crew that ``hire`` brings for its embedder."""

    def __init__(
        self,
        settings: Settings,
        progress: Progress,
        extractor: ClaudeExtractor | None = None,
        hire: Callable[[Embedder, Settings], Crew] = LocalCrew,
    ) -> None:
        self._settings = settings
        self._progress = progress
        self._extractor = extractor
        self._hire = hire
        self._reader = extractor.version if extractor else ""
        self._gauge = extractor.gauge() if extractor else None
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
        dry_run: bool = False,
    ) -> BuildReport:
        """As ``build_pack`` says."""
        if not sources:
            raise UsageError(
                "there is nothing to build from", fix="packwise build SOURCE --out PACK"
            )
        started = time.perf_counter()
        opened = [open_source(argument) for argument in sources]
        wanted = source_ids(opened)
        self._progress.counted(len(wanted))
        embedder = embedder_for(out, embedder_name, self._settings)
        crew = self._hire(embedder, self._settings)
        if dry_run:
            changes = self._rehearse(combine(opened), out, crew, force=force)
        else:
            with (
                closing(create_or_open_store(out)) as store,
                store.writer(
                    embedder=embedder.name,
                    embedder_version=embedder.version,
                    dim=embedder.dim,
                    allow_mismatch=reembed,
                ) as writer,
            ):
                known = {} if force or reembed else writer.source_hashes()
                changes = self._fill(writer, combine(opened), wanted, known, crew)
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
        writer: Writer,
        entries: Iterator[Item | Problem],
        wanted: set[str],
        known: Mapping[str, str],
        crew: Crew,
    ) -> WriteSummary:
        seen: set[str] = set()
        window: list[Prepared] = []
        waiting = 0
        for prepared in crew.prepare(self._changed(entries, known, writer, seen)):
            if not self._readable(prepared):
                seen.discard(prepared.item)
                continue
            window.append(prepared)
            waiting += max(1, len(prepared.passages))
            if waiting >= crew.window:
                self._stage(window, writer, crew)
                window, waiting = [], 0
        self._stage(window, writer, crew)
        # What is still in the source but cannot be read keeps its stored version.
        for document_id in (wanted - seen) & writer.source_hashes().keys():
            writer.keep(document_id)
        if not writer.source_hashes():
            first = self._problems[0] if self._problems else "the sources hold no document"
            raise SourceError(f"nothing could be read: {first}")
        self._progress.committing()
        return writer.commit()

    def _changed(
        self,
        entries: Iterator[Item | Problem],
        known: Mapping[str, str],
        writer: Writer,
        seen: set[str],
    ) -> Iterator[tuple[Item, str]]:
        """The items that have to be read, with their full source hash."""
        for item, source_hash in self._items(entries):
            seen.add(item.id)
            if unchanged(known.get(item.id), source_hash):
                writer.keep(item.id)
                self._progress.document()
            else:
                yield item, source_hash

    def _rehearse(
        self, entries: Iterator[Item | Problem], out: str, crew: Crew, *, force: bool
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
        for item, source_hash in self._items(entries):
            seen.add(item.id)
            if unchanged(stored.get(item.id), source_hash) and not force:
                same += 1
                self._progress.document()
                continue
            prepared = next(crew.prepare([(item, source_hash)]))
            if not self._readable(prepared):
                continue
            self._progress.document()
            passages += len(prepared.passages)
            if self._gauge is not None:
                self._gauge.add(prepared.passages)
            added, changed = added + (item.id not in stored), changed + (item.id in stored)
        removed = len(stored.keys() - seen)
        return WriteSummary(added, changed, removed, same, passages)

    def _items(self, entries: Iterator[Item | Problem]) -> Iterator[tuple[Item, str]]:
        """What the sources bring, with its full source hash; what they cannot is noted."""
        for entry in entries:
            if isinstance(entry, Problem):
                self._problems.append(entry)
                self._progress.document()
                continue
            if entry.warning:
                self._warnings.append(Problem(entry.location, entry.warning))
            yield entry, item_hash(entry, self._settings, self._reader)

    def _readable(self, prepared: Prepared) -> bool:
        self._kept_out.update(prepared.kept_out)
        if prepared.problem is None:
            return True
        self._problems.append(prepared.problem)
        self._progress.document()
        return False

    def _stage(self, window: Sequence[Prepared], writer: Writer, crew: Crew) -> None:
        """Have embedded what has no vector yet, then stage the window's documents."""
        texts: dict[str, str] = {}
        for prepared in window:
            for passage in prepared.passages:
                texts.setdefault(passage.content_hash, passage.indexed_text)
        vectors: dict[str, Vectors] = dict(writer.known_vectors(texts))
        self._reused += len(vectors)
        missing = [key for key in texts if key not in vectors]
        if missing:
            started = time.perf_counter()
            rows = crew.embed([texts[key] for key in missing], self._progress.embedded)
            self._embedding_seconds += time.perf_counter() - started
            self._embedded += len(missing)
            vectors.update(zip(missing, rows, strict=True))
        extracted = self._extracted(window)
        for prepared in window:
            if (document := prepared.document) is None:
                continue
            passages = prepared.passages
            read = [extracted[p.id] for p in passages if p.id in extracted]
            if self._extractor is not None and len(read) < len(passages):
                # Under another hash the next build tries again.
                document = replace(document, source_hash=f"{document.source_hash}?")
                lost = f"{len(passages) - len(read)} passages could not be extracted from"
                self._warnings.append(Problem(document.id, lost))
            writer.stage(document, passages, rows_of(passages, vectors, crew.embedder.dim), read)
            self._progress.document()

    def _extracted(self, window: Sequence[Prepared]) -> Mapping[str, Extraction]:
        if self._extractor is None:
            return {}
        return self._extractor.extract([p for prepared in window for p in prepared.passages])
