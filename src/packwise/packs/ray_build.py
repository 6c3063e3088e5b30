"""Building on a Ray cluster: parsing, chunking and embedding go to its workers, the writing
stays here.

The result is that of the plain build, document by document, and either goes on where the
other stopped. Workers open the sources' files themselves, so they must find them at the same
paths, and the embedder's model on their own machine.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from packwise.errors import PackwiseError, StoreError, UsageError
from packwise.models.base import Embedder, Vectors
from packwise.packs.build import Build, BuildReport, Progress
from packwise.packs.build_rules import Silent
from packwise.packs.workers import LocalCrew, Prepared
from packwise.settings import Settings
from packwise.sources import Item

if TYPE_CHECKING:
    from packwise.packs.extraction import ClaudeExtractor

_DOCUMENTS = 8
"""Documents that go to a worker together."""

_AHEAD = 3
"""Batches under way for each worker: enough that none waits, few enough to hold in memory."""


class Worker:
    """What runs on the cluster, one on each core it is given: a model of its own."""

    def __init__(self, embedder: str, settings: Settings) -> None:
        from packwise.models.embedder import load_embedder

        own = settings.override(threads=1)
        self._crew = LocalCrew(load_embedder(embedder, own), own)

    def version(self) -> str:
        """The embedder this worker has; all must have the same."""
        return self._crew.embedder.version

    def prepare(self, items: Sequence[tuple[Item, str]]) -> list[Prepared]:
        """Parse and chunk items, each given with its full source hash."""
        return list(self._crew.prepare(items))

    def embed(self, texts: Sequence[str]) -> Vectors:
        """The vectors of texts."""
        return self._crew.embedder.embed_passages(texts)


def build_on_ray(
    sources: Sequence[str],
    out: str,
    *,
    settings: Settings | None = None,
    embedder: str | None = None,
    force: bool = False,
    reembed: bool = False,
    progress: Progress | None = None,
    extractor: ClaudeExtractor | None = None,
    workers: int | None = None,
    address: str | None = None,
) -> BuildReport:
    """``build_pack`` on a Ray cluster.

    ``address`` is that of the cluster; without one, ``RAY_ADDRESS`` or a Ray on this machine.
    ``workers`` is how many cores to use; without it, all the cluster has.
    """
    ray = _ray()
    started_here = not ray.is_initialized()
    if started_here:
        _start(ray, address, workers)
    try:
        build = Build(
            settings or Settings.load(),
            progress or Silent(),
            extractor,
            hire=lambda embedder, settings: RayCrew(ray, embedder, settings, workers),
        )
        return build.run(sources, out, embedder, force=force, reembed=reembed)
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


class RayCrew:
    """The workers of a cluster, each with the embedder this machine has."""

    def __init__(
        self, ray: Any, embedder: Embedder, settings: Settings, workers: int | None
    ) -> None:
        self._ray = ray
        self._turn = 0
        self.embedder = embedder
        count = max(1, workers or int(ray.cluster_resources().get("CPU", 1)))
        made = ray.remote(num_cpus=1, max_restarts=2, max_task_retries=2)(Worker)
        self._pool = [made.remote(embedder.name, settings) for _ in range(count)]
        for version in self._get([worker.version.remote() for worker in self._pool]):
            if version != embedder.version:
                raise StoreError(
                    f"a Ray worker has the embedder {version}, this machine {embedder.version}",
                    fix="install the same models on every node",
                )

    @property
    def window(self) -> int:
        """As many passages for each worker as one machine takes."""
        return LocalCrew.window * len(self._pool)

    def prepare(self, items: Iterable[tuple[Item, str]]) -> Iterator[Prepared]:
        """As the workers finish them, in the order of the source."""
        rest = iter(items)
        under_way: deque[Any] = deque()
        while batch := list(islice(rest, _DOCUMENTS)):
            under_way.append(self._next().prepare.remote(batch))
            if len(under_way) >= _AHEAD * len(self._pool):
                yield from self._get(under_way.popleft())
        while under_way:
            yield from self._get(under_way.popleft())

    def embed(self, texts: Sequence[str], done: Callable[[int], None]) -> Vectors:
        """Shared out evenly among the workers."""
        size = -(-len(texts) // len(self._pool))
        parts = [texts[at : at + size] for at in range(0, len(texts), size)]
        found = self._get([self._next().embed.remote(part) for part in parts])
        done(len(texts))
        return np.concatenate(found)

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


def _line(error: BaseException | None) -> str:
    return " ".join(str(error).split())[:200]
