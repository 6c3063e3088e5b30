"""``/healthz``, ``/readyz`` and ``/metrics``."""

from __future__ import annotations

import os
from pathlib import Path

from fastapi.responses import PlainTextResponse, Response
from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from packwise.errors import PackwiseError
from packwise.serving.api_errors import unavailable
from packwise.serving.models import HealthResponse
from packwise.serving.state import CurrentRequest, Json, ServerState, new_router

router = new_router()
_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@router.get("/healthz", response_model=HealthResponse)
async def healthz() -> Response:
    """The process responds."""
    return Json({"status": "ok"})


@router.get("/readyz", response_model=HealthResponse)
async def readyz(context: CurrentRequest) -> Response:
    """Models are loaded and the stores respond."""
    state = context.state
    if not state.ready:
        raise unavailable("not_ready", "the server is starting or stopping", 1)

    def check() -> bool:
        try:
            for store in state.stores:
                store.library.store.version()
        except PackwiseError as error:
            state.log.write("not ready", "error", reason=str(error))
            return False
        return True

    if not await state.workers.run_aside(check):
        raise unavailable("not_ready", "a store is unavailable", 5)
    return Json({"status": "ready"})


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(context: CurrentRequest) -> Response:
    """Metrics for Prometheus."""
    state = context.state
    text = await state.workers.run_aside(lambda: state.metrics.exposition(_current(state)))
    return Response(text, headers={"Content-Type": _CONTENT_TYPE})


def _current(state: ServerState) -> list[Metric]:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    memory = pages * os.sysconf("SC_PAGE_SIZE")
    hits = CounterMetricFamily(
        "packwise_cache_hits", "Searches answered from the cache.", labels=["store"]
    )
    misses = CounterMetricFamily(
        "packwise_cache_misses", "Searches that were run.", labels=["store"]
    )
    passages = GaugeMetricFamily(
        "packwise_store_passages", "Passages in a store.", labels=["store"]
    )
    for store in state.stores:
        cache = store.library.cache_info()
        hits.add_metric([store.name], cache.hits)
        misses.add_metric([store.name], cache.misses)
        passages.add_metric([store.name], store.library.info().passages)
    return [
        GaugeMetricFamily("packwise_running", "Questions being worked on.", state.workers.running),
        GaugeMetricFamily("packwise_waiting", "Questions in the queue.", state.workers.waiting),
        GaugeMetricFamily("packwise_traces", "Traces in memory.", len(state.traces)),
        GaugeMetricFamily("process_resident_memory_bytes", "Memory of this process.", memory),
        hits,
        misses,
        passages,
    ]
