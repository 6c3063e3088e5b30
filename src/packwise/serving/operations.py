"""``/healthz``, ``/readyz`` and ``/metrics``."""

from __future__ import annotations

import os
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from packwise.errors import PackwiseError
from packwise.serving.metrics import CONTENT_TYPE, Labels
from packwise.serving.refusals import Refusal
from packwise.serving.state import Json, Serving, serving


async def healthz(request: Request) -> Response:
    """The process is there and answers."""
    return Json({"status": "ok"})


async def readyz(request: Request) -> Response:
    """The stores can be asked."""
    state = serving(request)
    if not state.ready:
        raise Refusal(503, "not_ready", "starting or stopping", headers={"Retry-After": "1"})

    def work() -> bool:
        try:
            for store in state.stores:
                store.library.store.version()
        except PackwiseError as error:
            state.log.write("not ready", "error", reason=str(error))
            return False
        return True

    if not await state.work.aside(work):
        raise Refusal(503, "not_ready", "a store cannot be used", headers={"Retry-After": "5"})
    return Json({"status": "ready"})


async def metrics(request: Request) -> Response:
    """What was counted, for Prometheus."""
    state = serving(request)
    gauges = await state.work.aside(lambda: _gauges(state))
    return Response(state.metrics.exposition(gauges), headers={"Content-Type": CONTENT_TYPE})


def _gauges(state: Serving) -> list[tuple[str, Labels, float]]:
    found: list[tuple[str, Labels, float]] = [
        ("packwise_running", (), state.work.running),
        ("packwise_waiting", (), state.work.waiting),
        ("packwise_traces", (), len(state.traces)),
        ("process_resident_memory_bytes", (), _resident()),
    ]
    for store in state.stores:
        named = (("store", store.name),)
        cache = store.library.cache_info()
        found += [
            ("packwise_cache_hits_total", named, cache.hits),
            ("packwise_cache_misses_total", named, cache.misses),
            ("packwise_store_passages", named, store.library.info().passages),
        ]
    return found


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
