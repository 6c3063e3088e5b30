"""Building on a Ray cluster: parsing, chunking and embedding go to its workers, the writing
stays here.

The result is that of the plain build, document by document, and either goes on where the
other stopped. Workers open the sources' files themselves, so they must find them at the same
paths, and the embedder's model on their own machine.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

from packwise.chunking import chunk
from packwise.errors import PackwiseError, SourceError, StoreError, UsageError
from packwise.guard import Guard
from packwise.models.base import Embedder, Vectors
from packwise.packs.build import BuildReport, Progress
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

_DOCUMENTS = 8
"""Documents that go to a worker together."""

_AHEAD = 3
"""Batches under way for each worker: enough that none waits, few enough to hold in memory."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a worker made of one item: a document with its passages, or a problem."""

    item: str
    document: Document | None
    passages: tuple[Passage, ...] = ()
    kept_out: Mapping[str, int] = field(default_factory=dict[str, int])
    problem: Problem | None = None


class Worker:
    """What runs on the cluster, one on each core it is given: a model of its own."""

    def __init__(self, embedder: str, settings: Settings) -> None:
        from packwise.models.embedder import load_embedder

        self._settings = replace(settings, threads=1)
        self._embedder = load_embedder(embedder, self._settings)
        self._guard = Guard()

    def version(self) -> str:
        """The embedder this worker has; all must have the same."""
        return self._embedder.version

    def prepare(self, items: Sequence[tuple[Item, str]]) -> list[Prepared]:
        """Parse and chunk items, each given with its full source hash."""
        return [self._prepared(item, source_hash) for item, source_hash in items]

    def embed(self, texts: Sequence[str]) -> Vectors:
        """The vectors of texts."""
        return self._embedder.embed_passages(texts)

    def _prepared(self, item: Item, source_hash: str) -> Prepared:
        document = read_item(item, source_hash)
        if isinstance(document, Problem):
            return Prepared(item.id, None, problem=document)
        report = self._guard.check(chunk(document, self._embedder, self._settings))
        counts = {str(reason): count for reason, count in report.counts.items()}
        return Prepared(item.id, document, report.kept, counts)


def build_on_ray(
    sources: Sequence[str],
    out: str,
    *,
    settings: Settings | None = None,
    embedder: str | None = None,
    force: bool = False,
    reembed: bool = False,
    progress: Progress | None = None,
    workers: int | None = None,
    address: str | None = None,
) -> BuildReport:
    """``build_pack`` on a Ray cluster.

    ``address`` is that of the cluster; without one, ``RAY_ADDRESS`` or a Ray on this machine.
    ``workers`` is how many cores to use; without it, all the cluster has.
    """
    if not sources:
        raise UsageError("there is nothing to build from", fix="packwise build SOURCE --out STORE")
    ray = _ray()
    started_here = not ray.is_initialized()
    if started_here:
        _start(ray, address, workers)
    try:
        build = _RayBuild(ray, settings or Settings.load(), progress or Silent())
        return build.run(sources, out, embedder, force=force, reembed=reembed, workers=workers)
    finally:
        if started_here:
            ray.shutdown()


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise UsageError("Ray is not installed", fix="pip install 'packwise[ray]'") from error
    return ray


def _start(ray: Any, address: str | None, workers: int | None) -> None:
    import logging
    import os

    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    remote = address or os.environ.get("RAY_ADDRESS")
    options: dict[str, Any] = {"address": remote} if remote else {"num_cpus": workers}
    if not remote:
        options["include_dashboard"] = False
    try:
        ray.init(logging_level=logging.ERROR, log_to_driver=False, **options)
    except (ConnectionError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise StoreError(f"Ray cannot be reached: {reason}", fix="check RAY_ADDRESS") from error


class _RayBuild:
    def __init__(self, ray: Any, settings: Settings, progress: Progress) -> None:
        self._ray = ray
        self._settings = settings
        self._progress = progress
        self._pool: list[Any] = []
        self._turn = 0
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
        workers: int | None,
    ) -> BuildReport:
        started = time.perf_counter()
        opened = [open_source(argument) for argument in sources]
        wanted = source_ids(opened)
        self._progress.counted(len(wanted))
        embedder = embedder_for(out, embedder_name, self._settings)
        self._hire(embedder, workers)
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
        )

    def _hire(self, embedder: Embedder, workers: int | None) -> None:
        count = workers or int(self._ray.cluster_resources().get("CPU", 1))
        made = self._ray.remote(num_cpus=1, max_restarts=2, max_task_retries=2)(Worker)
        self._pool = [made.remote(embedder.name, self._settings) for _ in range(max(count, 1))]
        for version in self._get([worker.version.remote() for worker in self._pool]):
            if version != embedder.version:
                raise StoreError(
                    f"a Ray worker has the embedder {version}, this machine {embedder.version}",
                    fix="install the same models on every node",
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
            handled: set[str] = set()
            changed = self._changed(entries, known, writer, handled)
            for prepared in self._prepared(changed):
                # In the order of the source, as the plain build would.
                self._stage(prepared, writer, embedder, handled)
            for document_id in (wanted - handled) & writer.source_hashes().keys():
                writer.keep(document_id)
            if not writer.source_hashes():
                first = str(self._problems[0]) if self._problems else "the sources are empty"
                raise SourceError(f"nothing could be read: {first}")
            self._progress.committing()
            return writer.commit()

    def _changed(
        self,
        entries: Iterator[Item | Problem],
        known: Mapping[str, str],
        writer: Writer,
        handled: set[str],
    ) -> Iterator[tuple[Item, str]]:
        """The items that have to be read, with their full source hash."""
        for entry in entries:
            if isinstance(entry, Problem):
                self._problems.append(entry)
                self._progress.document()
                continue
            if entry.warning:
                self._warnings.append(Problem(entry.location, entry.warning))
            handled.add(entry.id)
            source_hash = item_hash(entry, self._settings)
            if unchanged(known.get(entry.id), source_hash):
                writer.keep(entry.id)
                self._progress.document()
            else:
                yield entry, source_hash

    def _prepared(self, items: Iterator[tuple[Item, str]]) -> Iterator[list[Prepared]]:
        """Batches as the workers finish them, in the order of the source."""
        under_way: deque[Any] = deque()
        for batch in _batches(items, _DOCUMENTS):
            under_way.append(self._next().prepare.remote(batch))
            if len(under_way) >= _AHEAD * len(self._pool):
                yield self._get(under_way.popleft())
        while under_way:
            yield self._get(under_way.popleft())

    def _stage(
        self,
        batch: Sequence[Prepared],
        writer: Writer,
        embedder: Embedder,
        handled: set[str],
    ) -> None:
        """Have what is new embedded, then stage the batch's documents."""
        texts: dict[str, str] = {}
        for prepared in batch:
            self._kept_out.update(prepared.kept_out)
            for passage in prepared.passages:
                texts.setdefault(passage.content_hash, passage.indexed_text)
        vectors: dict[str, Vectors] = dict(writer.known_vectors(texts))
        self._reused += len(vectors)
        missing = [digest for digest in texts if digest not in vectors]
        vectors.update(zip(missing, self._embed([texts[d] for d in missing]), strict=True))
        for prepared in batch:
            if prepared.problem is not None:
                self._problems.append(prepared.problem)
                handled.discard(prepared.item)
            elif prepared.document is not None:
                rows = rows_of(prepared.passages, vectors, embedder.dim)
                writer.stage(prepared.document, prepared.passages, rows)
            self._progress.document()

    def _embed(self, texts: Sequence[str]) -> list[Vectors]:
        """The vectors of texts, shared out evenly among the workers."""
        if not texts:
            return []
        started = time.perf_counter()
        size = -(-len(texts) // len(self._pool))
        parts = [texts[at : at + size] for at in range(0, len(texts), size)]
        found = self._get([self._next().embed.remote(part) for part in parts])
        self._embedding_seconds += time.perf_counter() - started
        self._embedded += len(texts)
        self._progress.embedded(len(texts))
        return [row for part in found for row in part]

    def _next(self) -> Any:
        self._turn += 1
        return self._pool[self._turn % len(self._pool)]

    def _get(self, reference: Any) -> Any:
        try:
            return self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            cause = error.cause
            if isinstance(cause, PackwiseError):
                raise cause from error
            raise StoreError(f"a Ray worker failed: {_line(cause)}") from error
        except self._ray.exceptions.RayError as error:
            raise StoreError(
                f"Ray failed: {_line(error)}",
                fix="run the same command again: it goes on from here",
            ) from error


def _batches(items: Iterator[tuple[Item, str]], size: int) -> Iterator[list[tuple[Item, str]]]:
    batch: list[tuple[Item, str]] = []
    for item in items:
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def _line(error: BaseException | None) -> str:
    return " ".join(str(error).split())[:200]
