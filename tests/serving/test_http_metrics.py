"""What the server tells of itself: counters, log lines, spans, health."""

import json
import re
import time
from contextlib import contextmanager

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

import messages_api
from messages_api import KEY, ModelServer, text
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


PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@contextmanager
def spans_of(*stores):
    """A client, and the spans that its server has sent."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with client_of(*stores, telemetry=Spans(provider)) as client:
        yield client, exporter.get_finished_spans


def log_lines(client):
    return [json.loads(line) for line in client.log.getvalue().splitlines()]


def test_spans_tell_of_the_request_and_of_each_stage_without_the_question(notes_pack):
    with spans_of(notes_pack) as (client, finished):
        before = time.time_ns()
        client.post(
            "/v1/search",
            json={"query": "mirrorword of the vault", "trace": True},
            headers={"traceparent": PARENT},
        )
        after = time.time_ns()
        spans = finished()
        logged = next(line for line in log_lines(client) if line["event"] == "request")
    (request,) = [span for span in spans if span.name == "POST /v1/search"]
    assert f"{request.context.trace_id:032x}" == PARENT.split("-")[1] == logged["trace_id"]
    assert logged["span_id"] == f"{request.context.span_id:016x}"
    assert request.attributes["http.response.status_code"] == 200
    assert request.attributes["gen_ai.operation.name"] == "retrieval"
    assert request.attributes["gen_ai.data_source.id"] == "my-pack"
    stages = {s.name: s for s in spans if s.parent and s.parent.span_id == request.context.span_id}
    assert {"embeddings bge-small-en-v1.5", "vector", "keyword", "fusion", "graph"} <= set(stages)
    assert stages["vector"].attributes["packwise.found"] > 0
    assert all(before <= s.start_time <= s.end_time <= after for s in stages.values())
    embed, keyword = stages["embeddings bge-small-en-v1.5"], stages["keyword"]
    assert keyword.start_time < embed.end_time, "the two legs run at the same time"
    assert embed.attributes["gen_ai.request.model"] == "bge-small-en-v1.5"
    assert "mirrorword" not in "".join(span.to_json() for span in spans)


def test_a_search_from_the_cache_sends_no_span_of_the_earlier_one(notes_pack):
    with spans_of(notes_pack) as (client, finished):
        for _ in range(2):
            client.post("/v1/search", json={"query": "signing key"})
        first, second = [span for span in finished() if span.name == "POST /v1/search"]
        children = [
            s for s in finished() if s.parent and s.parent.span_id == second.context.span_id
        ]
    assert [child.name for child in children] == ["cache"]
    assert all(child.start_time >= second.start_time > first.end_time for child in children)


def test_spans_tell_failures_of_the_server_from_mistakes_of_the_caller(notes_pack, monkeypatch):
    from packwise.library import Library

    def broken(*_, **__):
        raise StoreError("the disk is gone")

    with spans_of(notes_pack) as (client, finished):
        client.post("/v1/search", json={})
        monkeypatch.setattr(Library, "search", broken)
        client.post("/v1/search", json={"query": "x"})
        wrong, failed = [span for span in finished() if span.name == "POST /v1/search"]
        lines = [line for line in log_lines(client) if line["event"] == "failed"]
    assert wrong.status.status_code is StatusCode.UNSET
    assert wrong.attributes["error.type"] == "bad_request"
    assert wrong.attributes["http.response.status_code"] == 400
    assert failed.status.status_code is StatusCode.ERROR
    assert failed.attributes["error.type"] == "store_unavailable"
    assert lines[0]["trace_id"] == f"{failed.context.trace_id:032x}"


def test_the_span_of_a_model_names_it_and_its_tokens(notes_pack, monkeypatch):
    with ModelServer() as api:
        api.will(text("Every night at two. [1]"), messages_api.status(400))
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", api.url)
        with spans_of(notes_pack) as (client, finished):
            for question in ("When is the database backed up?", "How is a restore tested?"):
                assert client.post("/v1/ask", json={"question": question}).status_code == 200
            answered, failed = [span for span in finished() if span.name.startswith("chat ")]
    assert answered.kind is SpanKind.CLIENT
    assert answered.attributes["gen_ai.operation.name"] == "chat"
    assert answered.attributes["gen_ai.provider.name"] == "anthropic"
    assert answered.name == f"chat {answered.attributes['gen_ai.request.model']}"
    assert answered.attributes["gen_ai.usage.input_tokens"] > 0
    assert answered.attributes["gen_ai.usage.output_tokens"] > 0
    assert answered.status.status_code is StatusCode.UNSET
    assert failed.status.status_code is StatusCode.ERROR
    assert failed.attributes["error.type"]


def test_a_log_line_has_the_callers_trace_and_the_record_of_the_question(client):
    headers = {"traceparent": PARENT}
    answer = client.post("/v1/search", json={"query": "signing key"}, headers=headers)
    client.post("/v1/search", json={"query": "key"}, headers={"traceparent": "00-x"})
    first, second = [line for line in log_lines(client) if line["event"] == "request"][-2:]
    assert first["trace_id"] == PARENT.split("-")[1]
    assert first["record"] == answer.json()["trace_id"]
    assert "trace_id" not in second


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
