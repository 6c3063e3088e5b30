"""``/healthz``, ``/readyz`` and ``/metrics``."""

from __future__ import annotations

from fastapi.responses import PlainTextResponse, Response
from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from packwise.errors import PackwiseError
from packwise.machine import memory_bytes, peak_memory_bytes
from packwise.serving.api_errors import unavailable
from packwise.serving.models import HealthResponse
from packwise.serving.state import CurrentRequest, Json, ServerState, new_router

router = new_router("operations")
CURRENT = {
    "packwise_running": "Questions being worked on.",
    "packwise_waiting": "Questions in the queue.",
    "packwise_workers": "Processes that answer.",
    "packwise_traces": "Traces that are kept.",
    "process_resident_memory_bytes": "Memory of these processes.",
    "packwise_cache_hits_total": "Searches answered from the cache.",
    "packwise_cache_misses_total": "Searches that were run.",
    "packwise_store_passages": "Passages in a store.",
}
"""The metrics that are read when they are asked for; the last three have one value per store."""
_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@router.get("/healthz", response_model=HealthResponse)
async def get_health() -> Response:
    """The process responds."""
    return Json({"status": "ok"})


@router.get("/readyz", response_model=HealthResponse)
async def get_readiness(context: CurrentRequest) -> Response:
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
async def get_metrics(context: CurrentRequest) -> Response:
    """Metrics for Prometheus."""
    state = context.state
    whole = not context.caller.restricted
    text = await state.workers.run_aside(lambda: state.metrics.exposition(_current(state, whole)))
    return Response(text, headers={"Content-Type": _CONTENT_TYPE})


def report(state: ServerState) -> None:
    """Note what this process is doing, for whichever process is asked for the metrics."""
    caches = {store.name: store.library.cache_info() for store in state.stores}
    state.shared.report(
        {
            "running": state.workers.running,
            "waiting": state.workers.waiting,
            "memory": memory_bytes() or peak_memory_bytes() or 0,
            "caches": {name: (cache.hits, cache.misses) for name, cache in caches.items()},
        }
    )


def _current(state: ServerState, whole: bool) -> list[Metric]:
    """The current values; those of stores only if ``whole``, since they count the documents of
    every tenant."""
    report(state)
    reports = state.shared.reports()
    hits, misses = (
        CounterMetricFamily(name, CURRENT[name], labels=["store"])
        for name in ("packwise_cache_hits_total", "packwise_cache_misses_total")
    )
    stored = "packwise_store_passages"
    passages = GaugeMetricFamily(stored, CURRENT[stored], labels=["store"])
    for store in state.stores if whole else ():
        counts = [one["caches"].get(store.name, (0, 0)) for one in reports]
        hits.add_metric([store.name], sum(found for found, _ in counts))
        misses.add_metric([store.name], sum(run for _, run in counts))
        passages.add_metric([store.name], store.library.info().passages)

    def total(name: str) -> int:
        return sum(one[name] for one in reports)

    values = {
        "packwise_running": total("running"),
        "packwise_waiting": total("waiting"),
        "packwise_workers": len(reports),
        "packwise_traces": len(state.traces),
        "process_resident_memory_bytes": total("memory"),
    }
    gauges = [GaugeMetricFamily(name, CURRENT[name], value) for name, value in values.items()]
    return [*gauges, hits, misses, passages]
