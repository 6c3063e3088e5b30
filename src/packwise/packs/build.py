"""Building: sources -> documents -> passages -> vectors -> store.

Workers parse, chunk and embed, and ``staging.py`` hands what they made to the store. A document
whose hash is unchanged is neither parsed nor embedded, and what a killed build staged is used
again. Readers see the old content until the commit.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from packwise.errors import SourceError, StoreError, StoreMissing, UsageError, expect
from packwise.language.languages import language_name
from packwise.models.base import Embedder
from packwise.models.onnx import cores
from packwise.models.table import languages_read
from packwise.packs.item_hash import item_hash, unchanged
from packwise.packs.progress import Progress
from packwise.packs.remembered_sources import covering, full_name, recall, remember
from packwise.packs.sample_questions import update_samples
from packwise.packs.staging import Staged, Stager
from packwise.packs.workers import BuildWorkers, LocalWorkers, PreparedItem
from packwise.retrieval.profile import update_profile
from packwise.settings import Settings
from packwise.sources import Item, Problem, Source, combine, combined_ids, open_source
from packwise.sources.memory import MemorySource, Sources, named_or_memory
from packwise.stores.base import Writer, WriteSummary
from packwise.stores.locate import create_or_open_store

if TYPE_CHECKING:
    from packwise.packs.extraction import ClaudeExtractor, Estimate, ExtractionReport


@dataclass(frozen=True, slots=True)
class BuildReport:
    """What a build did, or with ``dry_run`` would do.

    ``problems`` lists what could not be read, ``warnings`` what was read only in part.
    ``extraction`` says what the language model extracted and cost, ``estimate`` what it
    would cost.
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
    sources: Sources,
    out: str | Path,
    *,
    settings: Settings | None = None,
    embedder: str | Path | Embedder | None = None,
    force: bool = False,
    reembed: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
    extractor: ClaudeExtractor | None = None,
    start_workers: Callable[[Embedder, Settings], BuildWorkers] = LocalWorkers,
    add: bool = False,
    confirm_removal: Callable[[int, int], bool] | None = None,
) -> BuildReport:
    """Make the pack at ``out`` contain exactly what the sources contain now.

    ``sources`` is a path, several of them, or the documents themselves: any iterable of
    ``Document``, of dictionaries with a ``text`` (and ``id``, ``title``, ``url``, ``lang``,
    ``metadata``), or of pairs of title and text. An iterator is read as a stream.

    An existing pack keeps its embedder unless ``embedder`` names or is another, which needs
    ``reembed``. ``force`` also reads unchanged documents again. A document that can no longer
    be read keeps its stored version. With ``extractor`` a language model reads every passage
    for entities, facts and relations; without one, the extractions of unchanged documents are
    kept. If a source, a model or the store raises an error, the pack is as it was, and the
    same call continues where this one stopped.

    With ``add`` the sources are added to those the pack has; nothing is removed. Before a build
    removes more than half of the documents, ``confirm_removal`` is called with the numbers of
    removed and of stored documents; if it returns false, nothing changes. A pack remembers its
    sources for ``packwise update``; documents from memory are not remembered.
    """
    expect(out, (str, Path), "out is the path or address of a store")
    given = named_or_memory(sources)
    builder = PackBuilder(settings or Settings.load(), progress or Progress(), extractor)
    earlier = recall(str(out)) if add else []
    known = earlier if add or dry_run else _sources_before(str(out))
    places = given if isinstance(given, list) else []
    reading = [covering(place, earlier) or place for place in places]
    report = builder.run(
        reading if isinstance(given, list) else [given],
        str(out),
        str(embedder) if isinstance(embedder, Path) else embedder,
        start_workers,
        force=force,
        reembed=reembed,
        dry_run=dry_run,
        add_to=earlier if add else None,
        confirm_removal=confirm_removal,
        # If this process is killed after its commit, `packwise update` knows both the old sources
        # and the new ones, and removes nothing.
        before_commit=lambda: remember(str(out), [*known, *reading]),
    )
    if not dry_run:
        remember(str(out), [*earlier, *reading])
    return report


def _sources_before(out: str) -> list[str]:
    with suppress(StoreError):  # An unreadable list is replaced.
        return recall(out)
    return []


class PackBuilder:
    """One run of a build."""

    def __init__(
        self, settings: Settings, progress: Progress, extractor: ClaudeExtractor | None
    ) -> None:
        self._settings = settings
        self._progress = progress
        self._extractor = extractor
        self._extractor_version = extractor.version if extractor else ""
        self._costs = extractor.cost_estimator() if extractor else None
        self._kept_out: Counter[str] = Counter()
        self._problems: list[Problem] = []
        self._warnings: list[Problem] = []
        self._empty: list[str] = []

    def run(
        self,
        sources: Sequence[str | MemorySource],
        out: str,
        embedder: str | Embedder | None,
        start_workers: Callable[[Embedder, Settings], BuildWorkers],
        *,
        force: bool,
        reembed: bool,
        dry_run: bool,
        add_to: Sequence[str] | None = None,
        confirm_removal: Callable[[int, int], bool] | None = None,
        before_commit: Callable[[], None] = lambda: None,
    ) -> BuildReport:
        """Build, or with ``dry_run`` report what would be done; see ``build_pack``. With
        ``add_to``, the sources that the pack has already, nothing is removed."""
        if not sources:
            raise UsageError(
                "there is nothing to build from", fix="packwise build SOURCE --out PACK"
            )
        started = time.perf_counter()
        fetched = self._progress.fetched
        opened = [open_source(s, fetched) if isinstance(s, str) else s for s in sources]
        beside = _openable(add_to or (), [s for s in sources if isinstance(s, str)])
        wanted = combined_ids(opened, beside)
        self._progress.counted(len(wanted))
        if embedder is None or isinstance(embedder, str):
            embedder = _embedder_for(out, embedder, self._settings)
        workers = start_workers(embedder, self._settings)
        staged = Staged()
        if dry_run:
            changes = self._plan(combine(opened, beside), out, workers, force=force)
        else:
            with (
                create_or_open_store(out) as store,
                store.writer(
                    embedder=embedder.name,
                    embedder_version=embedder.version,
                    dim=embedder.dim,
                    allow_mismatch=reembed,
                ) as writer,
            ):
                stored = writer.source_hashes()
                if add_to is None:
                    _confirm_removal(stored.keys() - wanted, stored, confirm_removal)
                staged = self._stage_all(
                    writer,
                    combine(opened, beside),
                    wanted,
                    {} if force or reembed else stored,
                    workers,
                )
                self._progress.committing()
                before_commit()
                changes = writer.commit(prune=add_to is None)
            with create_or_open_store(out) as store:
                update_profile(store, embedder, changes, cores(self._settings))
                update_samples(store, embedder, self._settings, changes)
        self._warnings += unread_documents(staged.languages, embedder.name)
        self._warnings += _without_text(self._empty)
        skipped: Counter[str] = Counter()
        for source in opened:
            skipped.update(source.skipped)
        return BuildReport(
            out=out,
            changes=changes,
            embedded=staged.embedded,
            reused=staged.reused,
            kept_out=dict(self._kept_out),
            problems=tuple(self._problems),
            warnings=tuple(self._warnings),
            skipped=dict(skipped),
            seconds=time.perf_counter() - started,
            embedding_seconds=staged.embedding_seconds,
            dry_run=dry_run,
            extraction=self._extractor.report() if self._extractor and not dry_run else None,
            estimate=self._costs.estimate() if self._costs and dry_run else None,
        )

    def _stage_all(
        self,
        writer: Writer,
        entries: Iterator[Item | Problem],
        wanted: set[str],
        known: Mapping[str, str],
        workers: BuildWorkers,
    ) -> Staged:
        seen: set[str] = set()
        prepared = self._prepared(workers, self._changed(entries, known, writer, seen), seen)
        staged = Stager(writer, workers, self._progress, self._extractor).run(prepared)
        self._warnings += staged.warnings
        # A document that is still in the source but cannot be read keeps its stored version.
        for document_id in (wanted - seen) & writer.source_hashes().keys():
            writer.keep(document_id)
        if not writer.source_hashes():
            first = self._problems[0] if self._problems else "the sources contain no document"
            raise SourceError(f"nothing could be read: {first}")
        return staged

    def _prepared(
        self, workers: BuildWorkers, items: Iterator[tuple[Item, str]], seen: set[str]
    ) -> Iterator[PreparedItem]:
        """The documents that could be read; the others are no longer among those seen, unless
        their stored version must go."""
        for prepared in workers.prepare(items):
            if self._readable(prepared):
                yield prepared
            elif not prepared.withdraw:
                seen.discard(prepared.item)

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

    def _plan(
        self, entries: Iterator[Item | Problem], out: str, workers: BuildWorkers, *, force: bool
    ) -> WriteSummary:
        """What a build would do, without touching the disk."""
        stored: dict[str, str] = {}
        try:
            with create_or_open_store(out) as store:
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
            prepared = next(workers.prepare([(item, source_hash)]))
            if not self._readable(prepared):
                continue
            self._progress.document()
            passages += len(prepared.passages)
            if self._costs is not None:
                self._costs.add(prepared.passages)
            added, changed = added + (item.id not in stored), changed + (item.id in stored)
        removed = len(stored.keys() - seen)
        return WriteSummary(added, changed, removed, same, passages)

    def _items(self, entries: Iterator[Item | Problem]) -> Iterator[tuple[Item, str]]:
        """The items of the sources with their full source hash; problems are recorded."""
        for entry in entries:
            if isinstance(entry, Problem):
                self._problems.append(entry)
                self._progress.document()
                continue
            if entry.warning:
                self._warnings.append(Problem(entry.location, entry.warning))
            yield entry, item_hash(entry, self._settings, self._extractor_version)

    def _readable(self, prepared: PreparedItem) -> bool:
        self._kept_out.update(prepared.kept_out)
        self._warnings += prepared.warnings
        if prepared.document is not None:
            if not (prepared.passages or prepared.kept_out or prepared.warnings):
                self._empty.append(prepared.document.id)
            return True
        if prepared.problem is not None:
            self._problems.append(prepared.problem)
        self._progress.document()
        return False


def _openable(names: Sequence[str], reading: Sequence[str]) -> list[Source]:
    """The sources of a pack that are not read now: an id of theirs is not given again.

    One that has gone keeps its documents. Web pages have their address as id.
    """
    apart = {full_name(argument) for argument in reading}
    found: list[Source] = []
    for name in names:
        if name not in apart and Path(name).exists():
            with suppress(SourceError):
                found.append(open_source(name))
    return found


def _confirm_removal(
    gone: Set[str], stored: Mapping[str, str], confirm: Callable[[int, int], bool] | None
) -> None:
    if confirm is None or 2 * len(gone) <= len(stored) or confirm(len(gone), len(stored)):
        return
    raise UsageError(
        f"{len(gone):,} of {len(stored):,} documents would be removed; nothing was changed",
        fix="--yes to remove them, or packwise add PACK SOURCE to keep them",
    )


def unread_documents(documents: Mapping[str, int], model: str) -> list[Problem]:
    """A warning for each language of these documents that the embedder does not read."""
    read = languages_read(model)
    unread = {lang: count for lang, count in documents.items() if lang and lang not in read}
    return [
        Problem(
            f"{count:,} documents in {language_name(lang)}",
            f"{model} does not read it, so they are found by their words alone;"
            " --embedder takes another model",
        )
        for lang, count in (unread.items() if read else ())
    ]


def _without_text(documents: Sequence[str]) -> list[Problem]:
    """A warning that documents hold nothing that a question could find, if some do."""
    if not documents:
        return []
    first, more = documents[0], len(documents) - 1
    named = f"{first} and {more:,} more" if more else first
    return [Problem(named, "no text was found there")]


def _embedder_for(out: str, name: str | None, settings: Settings) -> Embedder:
    """The named embedder, else the existing store's, else the configured one."""
    from packwise.models.embedder import load_embedder, load_recorded_embedder

    if name is None:
        try:
            with create_or_open_store(out) as store:
                recorded = store.info().embedder
        except StoreMissing:
            recorded = ""
        if recorded:
            return load_recorded_embedder(recorded, settings, out)
    return load_embedder(name or settings.embedder, settings)
