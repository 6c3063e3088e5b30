"""What a server reports about itself: log lines, Prometheus metrics, OpenTelemetry spans."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
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
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from packwise.errors import UsageError
from packwise.trace import Stage


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
            "process": os.getpid(),
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
    of series is bounded. The processes of a server keep theirs in files of one ``folder``, and
    each can show the sum.
    """

    def __init__(self, folder: str | None = None) -> None:
        self._folder = folder
        registry = self._registry = CollectorRegistry()
        self.described: list[tuple[str, str, tuple[str, ...]]] = []
        """Name, meaning and labels of each metric."""

        def counter(name: str, text: str, *labels: str) -> Counter:
            self.described.append((name, text, labels))
            return Counter(name, text, labels, registry=registry)

        def histogram(name: str, text: str, label: str) -> Histogram:
            self.described.append((name, text, (label,)))
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
        counted = self._registry
        if self._folder is not None:
            counted = CollectorRegistry()
            MultiProcessCollector(counted, self._folder)
        return generate_latest(counted) + generate_latest(registry)


@dataclass(eq=False)
class _Values(Collector):
    metrics: Sequence[Metric]

    def collect(self) -> Iterable[Metric]:
        return self.metrics


@dataclass(slots=True)
class RequestSpan:
    """One request on its way through the server. The ids are those of the trace that it belongs
    to, in hex; empty if it belongs to none."""

    trace_id: str = ""
    span_id: str = ""

    def end(self, status: int, code: str | None, notes: Mapping[str, Any]) -> None:
        """The request was answered: its status, the code of its error and its notes."""


class Telemetry:
    """Sends no spans; ``Spans`` does. The log still has the trace that a caller names."""

    @contextmanager
    def request(
        self, method: str, route: str, headers: Mapping[str, str]
    ) -> Generator[RequestSpan]:
        """Around one request."""
        parent = _TRACEPARENT.fullmatch(headers.get("traceparent", ""))
        yield RequestSpan(parent[1], parent[2]) if parent else RequestSpan()

    def stages(self, stages: Sequence[Stage], embedder: Callable[[], str] = str) -> None:
        """After one question, with the stages of its trace; ``embedder`` names the model of one
        that embedded, and is called for such a stage only."""

    def close(self) -> None:
        """Send what is left."""


_TRACEPARENT = re.compile(r"00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}")
_RETRIEVAL = ("/v1/search", "/v1/context")


class Spans(Telemetry):
    """Sends spans to ``provider``, or over OTLP to ``OTEL_EXPORTER_OTLP_ENDPOINT``.

    They follow OpenTelemetry's conventions for HTTP and for generative AI. Text is never an
    attribute, since it may quote the question; names of stores and models are.
    """

    def __init__(self, provider: Any = None) -> None:
        try:
            from opentelemetry import propagate, trace

            self._provider = provider or _otlp_provider()
        except ImportError as error:
            raise UsageError(
                "spans need OpenTelemetry, which is not installed",
                fix="pip install 'packwise[telemetry]'",
            ) from error
        self._trace = trace
        self._propagate = propagate
        self._tracer = self._provider.get_tracer("packwise.serving")

    @contextmanager
    def request(
        self, method: str, route: str, headers: Mapping[str, str]
    ) -> Generator[RequestSpan]:
        """The span of one request, part of the caller's trace if the headers name one."""
        with self._tracer.start_as_current_span(
            f"{method} {route}",
            context=self._propagate.extract(headers),
            kind=self._trace.SpanKind.SERVER,
            attributes={"http.request.method": method, "http.route": route},
        ) as span:
            context = span.get_span_context()
            yield _SentSpan(
                f"{context.trace_id:032x}", f"{context.span_id:016x}", span, self._trace, route
            )

    def stages(self, stages: Sequence[Stage], embedder: Callable[[], str] = str) -> None:
        """One span per stage that ran for this question, under the current request, at the time
        when it ran. Its numbers and flags become attributes."""
        for stage in stages:
            if not stage.started:
                continue
            kind, name, attributes = self._trace.SpanKind.INTERNAL, stage.name, _values(stage)
            if stage.name == "synthesis":
                kind = self._trace.SpanKind.CLIENT
                name, named = _generative("chat", str(stage.notes.get("model", "")))
                attributes |= named
            elif stage.name == "embed" and (model := embedder()):
                name, named = _generative("embeddings", model)
                attributes |= named
            span = self._tracer.start_span(
                name, start_time=stage.started, kind=kind, attributes=attributes
            )
            if stage.error:
                span.set_attribute("error.type", stage.error)
                span.set_status(self._trace.Status(self._trace.StatusCode.ERROR))
            span.end(end_time=stage.started + int(stage.ms * 1e6))

    def close(self) -> None:
        self._provider.shutdown()


@dataclass(slots=True)
class _SentSpan(RequestSpan):
    span: Any = None
    api: Any = None
    route: str = ""

    def end(self, status: int, code: str | None, notes: Mapping[str, Any]) -> None:
        span = self.span
        span.set_attribute("http.response.status_code", status)
        if "store" in notes:
            span.set_attribute("gen_ai.data_source.id", notes["store"])
        if self.route in _RETRIEVAL:
            span.set_attribute("gen_ai.operation.name", "retrieval")
        if code or status >= 500:
            span.set_attribute("error.type", code or str(status))
        if status >= 500:
            # A mistake of the caller (4xx) is no failure of the server.
            span.set_status(self.api.Status(self.api.StatusCode.ERROR, code or ""))


def _values(stage: Stage) -> dict[str, bool | int | float]:
    return {
        f"packwise.{name}": value
        for name, value in stage.notes.items()
        if isinstance(value, (bool, int, float))
    } | {
        f"gen_ai.usage.{name}": stage.notes[name]
        for name in ("input_tokens", "output_tokens")
        if name in stage.notes
    }


def _generative(operation: str, model: str) -> tuple[str, dict[str, Any]]:
    """The name and the attributes of a call to a model."""
    provider = "packwise"
    if operation == "chat":
        provider = "anthropic" if model.startswith("claude") else "openai"
    return f"{operation} {model}", {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": provider,
        "gen_ai.request.model": model,
    }


def _otlp_provider() -> Any:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    resource = Resource.create({"service.name": "packwise"})
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider
