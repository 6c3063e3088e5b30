"""What a server reports about itself: log lines, Prometheus metrics, OpenTelemetry spans."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TextIO

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    Metric,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.registry import Collector

from packwise.errors import UsageError


class Log:
    """Writes one line of JSON per event to standard error.

    Questions are written only with ``questions``.
    """

    def __init__(self, out: TextIO | None = None, *, questions: bool = False) -> None:
        self._out = out
        self._lock = threading.Lock()
        self.questions = questions

    def write(self, event: str, level: str = "info", **values: Any) -> None:
        """Write one event; values that are ``None`` are left out."""
        line = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "level": level,
            "event": event,
            **{name: value for name, value in values.items() if value is not None},
        }
        text = json.dumps(line, ensure_ascii=True, default=str)
        with self._lock:
            out = self._out or sys.stderr
            out.write(text + "\n")
            out.flush()


_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
# No `_created` series beside each counter and histogram.
disable_created_metrics()


class Metrics:
    """The metrics of one server. Safe to use from several threads.

    Labels are routes, statuses, stages and store names, never text from a caller, so the number
    of series is bounded.
    """

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, labels, registry=registry)

        def histogram(name: str, text: str, label: str) -> Histogram:
            return Histogram(name, text, (label,), registry=registry, buckets=_BUCKETS)

        self.requests = counter(
            "packwise_requests_total", "Requests answered.", "method", "route", "status"
        )
        self.refused = counter("packwise_refused_total", "Requests that failed, by code.", "code")
        self.answers = counter("packwise_answers_total", "Questions answered.", "by", "query_type")
        self.request_seconds = histogram(
            "packwise_request_seconds", "Time from the head of a request to its end.", "route"
        )
        self._stage_seconds = histogram(
            "packwise_stage_seconds", "Time per stage of a question.", "stage"
        )

    def observe_stages(self, timings_ms: Mapping[str, float]) -> None:
        """Count the stages of one question."""
        for stage, ms in timings_ms.items():
            self._stage_seconds.labels(stage=stage).observe(ms / 1000.0)

    def exposition(self, current: Sequence[Metric] = ()) -> bytes:
        """All metrics in Prometheus' text format, with ``current`` values added."""
        registry = CollectorRegistry()
        registry.register(_Values(current))
        return generate_latest(self._registry) + generate_latest(registry)


@dataclass(eq=False)
class _Values(Collector):
    metrics: Sequence[Metric]

    def collect(self) -> Iterable[Metric]:
        return self.metrics


class Telemetry:
    """Sends no spans; ``Spans`` does."""

    @contextmanager
    def request(self, route: str, headers: Mapping[str, str]) -> Generator[None]:
        """Around one request."""
        yield

    def stages(self, stages: Sequence[Mapping[str, Any]]) -> None:
        """After one question, with the stages of its trace."""

    def close(self) -> None:
        """Send what is left."""


class Spans(Telemetry):
    """Sends spans to ``provider``, or over OTLP to ``OTEL_EXPORTER_OTLP_ENDPOINT``."""

    def __init__(self, provider: Any = None) -> None:
        try:
            from opentelemetry import propagate, trace

            self._provider = provider or _otlp_provider()
        except ImportError as error:
            raise UsageError(
                "spans need OpenTelemetry, which is not installed",
                fix="pip install 'packwise[telemetry]'",
            ) from error
        self._server_kind = trace.SpanKind.SERVER
        self._propagate = propagate
        self._tracer = self._provider.get_tracer("packwise.serving")

    @contextmanager
    def request(self, route: str, headers: Mapping[str, str]) -> Generator[None]:
        """The span of one request, part of the caller's trace if the headers name one."""
        with self._tracer.start_as_current_span(
            route,
            context=self._propagate.extract(headers),
            kind=self._server_kind,
            attributes={"http.route": route},
        ):
            yield

    def stages(self, stages: Sequence[Mapping[str, Any]]) -> None:
        """One span per stage of a finished question, under the current request.

        A stage's record has its duration only: the spans follow one another and end now.
        Numbers and flags become attributes; text does not, since it may quote the question.
        """
        at = time.time_ns() - int(sum(stage["ms"] for stage in stages) * 1e6)
        for stage in stages:
            attributes = {
                f"packwise.{name}": value
                for name, value in stage.items()
                if name not in ("name", "ms") and isinstance(value, (bool, int, float))
            }
            span = self._tracer.start_span(stage["name"], start_time=at, attributes=attributes)
            at += int(stage["ms"] * 1e6)
            span.end(end_time=at)

    def close(self) -> None:
        self._provider.shutdown()


def _otlp_provider() -> Any:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    resource = Resource.create({"service.name": "packwise"})
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider
