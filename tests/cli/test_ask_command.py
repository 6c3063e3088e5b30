"""``packwise ask`` as a user meets it: in a process of its own, also on bad input."""

import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest

from messages_api import KEY, ModelServer, broken_stream, status, text
from packwise.documents import Document, Passage, Section, content_hash
from packwise.models.tokens import token_counter
from packwise.stores.pack.store import create_or_open_pack
from tests_world import PATIENCE

ON_TOPIC = "How long does a restore take?"
OFF_TOPIC = "Who won the football world cup in 1998?"


def ask(*arguments, **env):
    return subprocess.run(
        [sys.executable, "-m", "packwise", "ask", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env={**os.environ, "COLUMNS": "200", **env},
    )


def one_line(done):
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    assert "Traceback" not in done.stderr
    return lines[0]


@pytest.fixture
def server():
    with ModelServer() as running:
        yield running


@pytest.fixture
def keyed(server):
    return {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": server.url}


def test_an_answer_comes_offline_in_one_command_with_sources(notes_pack):
    done = ask(notes_pack, ON_TOPIC)
    assert done.returncode == 0, done.stderr
    assert "A restore takes about forty minutes for the largest tenant. [1]" in done.stdout
    assert "[1] Backups  operations/backups.md" in done.stdout
    assert re.search(r"(likely|unsure) .*\d+% right", done.stdout)
    assert done.stderr == ""


def test_an_off_topic_question_is_gated(notes_pack):
    done = ask(notes_pack, OFF_TOPIC)
    assert done.returncode == 0
    assert "do not cover the question" in done.stdout
    assert "not covered" in done.stdout


def test_json_is_the_promised_dictionary(notes_pack):
    promised = {
        "answer",
        "sources",
        "entities",
        "facts",
        "cypher_query",
        "query_type",
        "token_usage",
        "confidence",
        "degraded",
    }
    done = ask(notes_pack, ON_TOPIC, "--json")
    short = json.loads(done.stdout)
    assert promised <= short.keys()
    assert "trace" not in short
    assert short["sources"] == ["Backups"]
    assert {"marker", "document", "title", "place"} <= short["citations"][0].keys()
    assert token_counter("gpt-4o").count(done.stdout) < 600
    whole = json.loads(ask(notes_pack, ON_TOPIC, "--json", "--trace").stdout)
    assert promised | {"trace"} <= whole.keys()
    assert whole["citations"][0]["text"]
    assert whole["trace"]["packing"]["selected"]


def test_the_trace_shows_every_step(notes_pack):
    done = ask(notes_pack, ON_TOPIC, "--trace")
    for step in ("vector", "fusion", "gate", "documents", "packing", "extract"):
        assert step in done.stdout


def test_every_flag_of_the_summary_has_its_switch(notes_pack, server, keyed):
    server.will(text(json.dumps(["a phrasing", "another one"])), text("Forty [1]."))
    done = ask(
        notes_pack,
        ON_TOPIC,
        "--json",
        "--trace",
        "--enable-multi-query",
        "--enable-cross-encoder",
        "--no-reranker",
        "--no-multidoc",
        "--no-fewshot",
        **keyed,
    )
    found = json.loads(done.stdout)
    steps = {stage["name"]: stage for stage in found["trace"]["stages"]}
    assert steps["expansion"]["alternatives"] == ["a phrasing", "another one"]
    assert "cross_encoder" in steps
    assert "graph" not in steps
    assert "few_shot" not in steps
    assert found["token_usage"]["api_calls"] == 2


def test_without_enhancements_none_of_them_runs(notes_pack, server, keyed):
    server.will(text("Forty [1]."))
    done = ask(
        notes_pack,
        ON_TOPIC,
        "--json",
        "--trace",
        "--no-enhancements",
        "--enable-multi-query",
        "--enable-cross-encoder",
        **keyed,
    )
    steps = {stage["name"] for stage in json.loads(done.stdout)["trace"]["stages"]}
    assert not {"expansion", "cross_encoder", "graph", "few_shot"} & steps
    assert len(server.requests) == 1


def test_extractive_sends_nothing(notes_pack, server, keyed):
    done = ask(notes_pack, ON_TOPIC, "--extractive", **keyed)
    assert "forty minutes" in done.stdout
    assert server.requests == []


def test_a_stream_is_shown_as_it_comes(notes_pack, server, keyed):
    server.will(text("About forty minutes [1]."))
    done = ask(notes_pack, ON_TOPIC, "--stream", "--model", "claude-other-5", **keyed)
    assert done.stdout.startswith("About forty minutes [1].\n")
    assert done.stdout.count("About forty") == 1
    assert "claude-other-5" in done.stdout
    assert server.requests[0].body["stream"] is True


def test_a_stream_that_breaks_off_is_replaced_with_a_note(notes_pack, server, keyed):
    server.will(broken_stream("The answer is"))
    done = ask(notes_pack, ON_TOPIC, "--stream", **keyed)
    assert done.returncode == 0
    assert "this one replaces it" in done.stderr
    assert "forty minutes" in done.stdout


def test_what_could_not_be_done_is_noted(notes_pack, server, keyed):
    server.will(status(401, f"bad key {KEY}"))
    done = ask(notes_pack, ON_TOPIC, **keyed)
    assert done.returncode == 0
    assert "forty minutes" in done.stdout
    assert "note: no synthesis" in done.stderr
    assert KEY not in done.stdout + done.stderr


@pytest.mark.parametrize("question", ["", "   "])
def test_an_empty_question_is_wrong_usage(notes_pack, question):
    done = ask(notes_pack, question)
    assert done.returncode == 2
    assert "empty" in one_line(done)


@pytest.mark.parametrize(
    "question",
    ["🙂" * 10, "restore " * 12_500, b"restore \xff\xfe".decode(errors="surrogateescape")],
)
def test_odd_questions_are_answered(notes_pack, question):
    done = ask(notes_pack, question, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["answer"]


def test_what_is_not_a_pack_is_said_in_one_line(tmp_path):
    missing = ask(tmp_path / "nothing", ON_TOPIC)
    assert missing.returncode == 1
    assert "there is no pack" in one_line(missing)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "pack.sqlite").write_text("not a database")
    other = ask(tmp_path / "folder", ON_TOPIC)
    assert other.returncode == 1
    assert "pack" in one_line(other)


def test_a_pack_of_another_embedder_version_is_refused_in_one_line(tmp_path):
    body = "A restore takes about forty minutes."
    with (
        create_or_open_pack(tmp_path / "old") as store,
        store.writer(embedder="bge-small-en-v1.5", embedder_version="older.r0", dim=384) as writer,
    ):
        document = Document("a", "A", body, (Section((), 0, (), 0, len(body)),), source_hash="1")
        passage = Passage("a#0", "a", "A", (), 0, body, 0, len(body), content_hash("A", body))
        writer.stage(document, [passage], np.ones((1, 384), dtype=np.float32))
        writer.commit()
    done = ask(tmp_path / "old", ON_TOPIC)
    assert done.returncode == 1
    assert "older.r0" in one_line(done)


@pytest.mark.parametrize(
    "wrong",
    [
        ["--budget", "-1"],
        ["--expansion", "magic"],
        ["--enable-multi-query", "--expansion", "local"],
        ["--where", "nonsense"],
    ],
)
def test_wrong_options_end_with_2(notes_pack, wrong):
    done = ask(notes_pack, ON_TOPIC, *wrong)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_a_question_needs_no_quotes(notes_pack):
    done = ask(notes_pack, *ON_TOPIC.split(), "--max-results", "1")
    assert "about forty minutes" in done.stdout
    for command in ("search", "context"):
        done = subprocess.run(
            [sys.executable, "-m", "packwise", command, str(notes_pack), *ON_TOPIC.split()],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, done.stderr
        assert "about forty minutes" in done.stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--few-shot", "/nope.json"], "there is no file of examples at '/nope.json'"),
        (["--model", "x"], "--model x: no language model is configured"),
        (["--max-results", "0"], "--max-results is 1 to 20, not 0"),
        (["--max-results", "21"], "--max-results is 1 to 20, not 21"),
    ],
)
def test_an_option_that_cannot_work_is_an_error_of_one_line(notes_pack, options, said):
    done = ask(notes_pack, ON_TOPIC, *options)
    assert done.returncode == 2
    assert done.stdout == ""
    assert said in one_line(done)


def test_a_model_is_refused_where_nothing_may_be_sent(notes_pack, keyed, server):
    done = ask(notes_pack, ON_TOPIC, "--model", "x", PACKWISE_SYNTHESIS="off", **keyed)
    assert done.returncode == 2
    assert "PACKWISE_SYNTHESIS is off" in one_line(done)
    assert server.requests == []
