"""OpenTelemetry spans: one a request, one a stage. Without the extra it does nothing."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from packwise.errors import UsageError


class Telemetry(Protocol):
    """What the server tells of a request."""

    def request(
        self, route: str, headers: Mapping[str, str]
    ) -> Any:  # a context manager around the request
        ...

    def stages(self, stages: Sequence[Mapping[str, Any]]) -> None: ...

    def close(self) -> None: ...


class NoTelemetry:
    """Tells nobody."""

    @contextmanager
    def request(self, route: str, headers: Mapping[str, str]) -> Generator[None]:
        yield

    def stages(self, stages: Sequence[Mapping[str, Any]]) -> None:
        pass

    def close(self) -> None:
        pass


class Spans:
    """Spans through a tracer provider, ``provider`` or the one the environment describes."""

    def __init__(self, provider: Any = None) -> None:
        try:
            from opentelemetry import propagate, trace
        except ImportError as error:
            raise UsageError(
                "spans need OpenTelemetry, which is not installed",
                fix="pip install 'packwise[telemetry]'",
            ) from error
        self._provider = provider or _from_environment()
        self._trace = trace
        self._propagate = propagate
        self._tracer = self._provider.get_tracer("packwise.serving")

    @contextmanager
    def request(self, route: str, headers: Mapping[str, str]) -> Generator[None]:
        """The span of one request, part of the caller's trace where they sent one."""
        parent = self._propagate.extract(headers)
        with self._tracer.start_as_current_span(
            route,
            context=parent,
            kind=self._trace.SpanKind.SERVER,
            attributes={"http.route": route},
        ):
            yield

    def stages(self, stages: Sequence[Mapping[str, Any]]) -> None:
        """A span for each stage of a finished question, under the current request.

        A stage's record has its length; spans are laid one after the other, ending now.
        Notes with numbers and flags go along, text does not: it may quote the question.
        """
        at = time.time_ns() - int(sum(stage["ms"] for stage in stages) * 1e6)
        for stage in stages:
            notes = {
                f"packwise.{name}": value
                for name, value in stage.items()
                if name not in ("name", "ms") and isinstance(value, (bool, int, float))
            }
            span = self._tracer.start_span(stage["name"], start_time=at, attributes=notes)
            at += int(stage["ms"] * 1e6)
            span.end(end_time=at)

    def close(self) -> None:
        self._provider.shutdown()


def _from_environment() -> Any:
    """A provider that exports over OTLP to where ``OTEL_EXPORTER_OTLP_ENDPOINT`` says."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise UsageError(
            "spans need OpenTelemetry's SDK, which is not installed",
            fix="pip install 'packwise[telemetry]'",
        ) from error
    provider = TracerProvider(resource=Resource.create({"service.name": "packwise"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider
