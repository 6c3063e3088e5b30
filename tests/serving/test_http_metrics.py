"""What the server tells of itself: counters, log lines, spans, health."""

import json
import re

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from packwise.errors import StoreError
from packwise.serving.observability import Metrics, Spans
from serving_world import client_of
from tests_world import wait_until

SERIES = re.compile(r'([a-z_]+)(\{[a-z_]+="[^"]*"(?:,[a-z_]+="[^"]*")*\})? (\S+)')


def series(text):
    """The exposition as a mapping; every line is checked to be well formed."""
    found = {}
    for line in text.splitlines():
        if line.startswith("#"):
            assert re.fullmatch(r"# (HELP|TYPE) [a-z_]+ .+", line)
            continue
        match = SERIES.fullmatch(line)
        assert match, line
        assert (match[1], match[2]) not in found
        found[match[1], match[2] or ""] = float(match[3])
    return found


def test_requests_stages_caches_and_refusals_are_counted(notes_pack):
    with client_of(notes_pack) as client:
        for _ in range(3):
            client.post("/v1/search", json={"query": "mirror"})
        client.post("/v1/search", json={"query": ""})
        client.post("/v1/ask", json={"question": "What is a mirror?"})
        client.get("/v1/articles/secret-title")
        answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    found = series(answer.text)
    searches = '{method="POST",route="/v1/search",status="200"}'
    assert found["packwise_requests_total", searches] == 3
    assert found["packwise_refused_total", '{code="bad_request"}'] == 1
    assert found["packwise_cache_hits_total", '{store="my-pack"}'] == 2
    assert found["packwise_stage_seconds_count", '{stage="embed"}'] == 2
    assert found["packwise_request_seconds_count", '{route="/v1/search"}'] == 4
    assert found["packwise_running", ""] == 0
    assert found["process_resident_memory_bytes", ""] > 1e6
    assert "secret-title" not in answer.text


def test_a_histogram_adds_up_and_labels_cannot_break_a_line():
    metrics = Metrics()
    for ms in (0, 1, 3, 700, 99_999_999):
        metrics.observe_stages({"embed": ms})
    metrics.refused.labels(code='a"b\\c\nd').inc()
    text = metrics.exposition().decode()
    assert 'packwise_stage_seconds_bucket{le="+Inf",stage="embed"} 5.0' in text
    assert 'packwise_stage_seconds_bucket{le="0.001",stage="embed"} 2.0' in text
    assert r'packwise_refused_total{code="a\"b\\c\nd"} 1.0' in text
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert len(lines) == 15 + 2 + 1


@pytest.mark.parametrize("questions", [False, True])
def test_the_log_is_json_and_has_no_question_unless_asked(notes_pack, questions):
    with client_of(notes_pack, questions=questions) as client:
        client.post("/v1/search", json={"query": "mirrorword", "mode": "keyword"})
        client.post("/v1/ask", json={"question": "mirrorword"})
        chat = {"model": "my-pack", "messages": [{"role": "user", "content": "mirrorword"}]}
        client.post("/v1/chat/completions", json=chat)
        client.get("/v1/articles/titleword")
        client.get("/v1/graph?around=titleword")
        client.get("/titleword.js")
        log = client.log.getvalue()
    lines = [json.loads(line) for line in log.splitlines()]
    assert [line["route"] for line in lines[:3]] == [
        "/v1/search",
        "/v1/ask",
        "/v1/chat/completions",
    ]
    assert all(line["characters"] == len("mirrorword") for line in lines[:3])
    assert ("mirrorword" in log) is questions
    assert "titleword" not in log


def test_a_failure_is_in_the_log_and_not_in_the_answer(notes_pack, monkeypatch):
    from packwise.library import Library

    for error, status, told in (
        (StoreError("cannot read /srv/packs/secret/pack.sqlite"), 503, "store_unavailable"),
        (ZeroDivisionError("in /srv/packs/secret"), 500, "internal"),
    ):

        def broken(*_, error=error, **__):
            raise error

        monkeypatch.setattr(Library, "search", broken)
        with client_of(notes_pack) as client:
            answer = client.post("/v1/search", json={"query": "mirror"})
            log = client.log.getvalue()
        assert answer.status_code == status
        assert answer.json()["error"]["code"] == told
        assert "/srv" not in answer.text
        failed = next(json.loads(x) for x in log.splitlines() if json.loads(x)["level"] == "error")
        assert "/srv/packs/secret" in failed["reason"]
        assert failed["id"] == answer.headers["x-request-id"]


def test_spans_tell_of_the_request_and_of_each_stage_without_the_question(notes_pack):
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    with client_of(notes_pack, telemetry=Spans(provider)) as client:
        client.post(
            "/v1/search",
            json={"query": "mirrorword of the vault", "trace": True},
            headers={"traceparent": parent},
        )
        spans = exporter.get_finished_spans()
    (request,) = [span for span in spans if span.name == "/v1/search"]
    assert f"{request.context.trace_id:032x}" == parent.split("-")[1]
    stages = {s.name: s for s in spans if s.parent and s.parent.span_id == request.context.span_id}
    assert {"embed", "vector", "keyword", "fusion", "graph"} <= set(stages)
    assert stages["vector"].attributes["packwise.found"] > 0
    assert all(s.end_time >= s.start_time for s in stages.values())
    assert "mirrorword" not in "".join(span.to_json() for span in spans)


def test_ready_means_models_loaded_and_stores_there(notes_pack, monkeypatch):
    with client_of(notes_pack) as client:
        assert client.get("/healthz").json() == {"status": "ok"}
        wait_until(lambda: client.get("/readyz").status_code == 200, "it is ready")
        state = client.app.state.serving
        store = next(iter(state.stores)).library.store

        def gone():
            raise StoreError("the pack at /srv/x is gone")

        monkeypatch.setattr(type(store), "version", lambda self: gone())
        told = client.get("/readyz")
        assert told.status_code == 503
        assert "/srv" not in told.text
        assert client.get("/healthz").status_code == 200
        monkeypatch.undo()
        state.ready = False
        assert client.get("/readyz").status_code == 503
