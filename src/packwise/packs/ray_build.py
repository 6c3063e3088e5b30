"""Building on a Ray cluster: its workers parse, chunk and embed; this process writes.

The result is that of a local build, document by document, and either kind of build continues
where the other stopped. The workers open the source files themselves: every node needs them at
the same paths, and the embedder's model.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from packwise.errors import PackwiseError, StoreError, UsageError
from packwise.models.base import Embedder, Vectors
from packwise.packs.build import BuildReport, build_pack
from packwise.packs.workers import LocalWorkers, PreparedItem
from packwise.settings import Settings
from packwise.sources import Item

_DOCUMENTS = 8
"""Documents per batch."""

_AHEAD = 3
"""Batches in flight per worker: enough that no worker waits, few enough for memory."""


class RayWorker:
    """Runs on the cluster, one per core, each with its own model."""

    def __init__(self, embedder: str, settings: Settings) -> None:
        from packwise.models.embedder import load_embedder

        own = settings.override(threads=1)
        self._workers = LocalWorkers(load_embedder(embedder, own), own)

    def version(self) -> str:
        """The version of this worker's embedder; it must be the same everywhere."""
        return self._workers.embedder.version

    def prepare(self, items: Sequence[tuple[Item, str]]) -> list[PreparedItem]:
        """Parse and chunk items, each given with its full source hash."""
        return list(self._workers.prepare(items))

    def embed(self, texts: Sequence[str]) -> Vectors:
        """The vectors of texts."""
        return self._workers.embedder.embed_passages(texts)


def build_on_ray(
    sources: Sequence[str],
    out: str,
    *,
    workers: int | None = None,
    address: str | None = None,
    **options: Any,
) -> BuildReport:
    """``build_pack``, with the same options, on a Ray cluster.

    ``address`` is the cluster's; by default ``RAY_ADDRESS`` or a Ray on this machine.
    ``workers`` is the number of cores to use; by default all the cluster has.
    """
    ray = _ray()
    started_here = not ray.is_initialized()
    if started_here:
        _start(ray, address, workers)
    try:
        return build_pack(
            sources,
            out,
            start_workers=lambda embedder, settings: RayWorkers(ray, embedder, settings, workers),
            **options,
        )
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
    except Exception as error:  # a machine too busy to start Ray in time raises just that
        if remote:
            problem, fix = "Ray cannot be reached", "check RAY_ADDRESS"
        else:
            problem, fix = "Ray does not start here", "try again, or leave out --engine ray"
        raise StoreError(f"{problem}: {_line(error)}", fix=fix) from error


class RayWorkers:
    """The workers of a cluster, each with the same embedder as this machine."""

    def __init__(
        self, ray: Any, embedder: Embedder, settings: Settings, workers: int | None
    ) -> None:
        self._ray = ray
        self._turn = 0
        self.embedder = embedder
        count = max(1, workers or int(ray.cluster_resources().get("CPU", 1)))
        made = ray.remote(num_cpus=1, max_restarts=2, max_task_retries=2)(RayWorker)
        self._workers = [made.remote(embedder.name, settings) for _ in range(count)]
        for version in self._get([worker.version.remote() for worker in self._workers]):
            if version != embedder.version:
                raise StoreError(
                    f"a Ray worker has the embedder {version}, this machine {embedder.version}",
                    fix="install the same models on every node",
                )

    @property
    def window(self) -> int:
        return LocalWorkers.window * len(self._workers)

    def prepare(self, items: Iterable[tuple[Item, str]]) -> Iterator[PreparedItem]:
        rest = iter(items)
        in_flight: deque[Any] = deque()
        while batch := list(islice(rest, _DOCUMENTS)):
            in_flight.append(self._next().prepare.remote(batch))
            if len(in_flight) >= _AHEAD * len(self._workers):
                yield from self._get(in_flight.popleft())
        while in_flight:
            yield from self._get(in_flight.popleft())

    def embed(
        self, texts: Sequence[str], done: Callable[[int], None], meanwhile: Callable[[], None]
    ) -> Vectors:
        size = -(-len(texts) // len(self._workers))
        parts = [texts[at : at + size] for at in range(0, len(texts), size)]
        references = [self._next().embed.remote(part) for part in parts]
        meanwhile()
        found = self._get(references)
        done(len(texts))
        return np.concatenate(found)

    def _next(self) -> Any:
        self._turn += 1
        return self._workers[self._turn % len(self._workers)]

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
                fix="run the same command again: it continues where it stopped",
            ) from error


def _line(error: BaseException | None) -> str:
    return " ".join(str(error).split())[:200]
