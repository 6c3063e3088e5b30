"""``build --extract claude``: what is sent, what is believed, and that nothing is paid twice."""

import json
import re

import pytest
from click.testing import CliRunner

from messages_api import KEY, ModelServer, by_request, status, text, tool, truncated
from packwise.cli import app
from packwise.documents import Passage
from packwise.errors import ModelError
from packwise.models.claude import ClaudeModel, connect_claude
from packwise.models.llm import Usage
from packwise.packs.build import build_pack
from packwise.packs.extraction import ClaudeExtractor, checked, cost
from packwise.stores.pack.store import open_pack
from tests_world import write_notes

HAIKU = "claude-haiku-4-5-20251001"


@pytest.fixture
def server():
    with ModelServer() as running:
        running.will(by_request(reading))
        yield running


def numbers(body):
    """The passages of a request by number."""
    prompt = body["messages"][-1]["content"]
    found = re.findall(r"=== Passage (\d+) === \w+\n(.*?)\n=== End", prompt, re.DOTALL)
    return {int(number): shown for number, shown in found}


def row(number, shown):
    """What a diligent reader finds: the title, and a relation where two names are there."""
    title = shown.split("\n")[0].split(" > ")[0]
    relations = []
    if "vaultctl" in shown:
        relations = [
            {
                "source": title,
                "relation": "is done with",
                "target": "vaultctl",
                "context": "vaultctl",
            }
        ]
    return {
        "number": number,
        "entities": [
            {"name": title, "type": "topic", "description": "what the passage is about"},
            {"name": "Atlantis", "type": "place", "description": "is nowhere in the text"},
        ],
        "facts": [{"subject": title, "text": f"{title} is spoken of."}],
        "relations": relations,
    }


def reading(body):
    return tool({"passages": [row(n, shown) for n, shown in numbers(body).items()]}, given=500)


@pytest.fixture
def extractor(server, tmp_path):
    model = ClaudeModel(connect_claude(KEY, server.url), HAIKU)
    with ClaudeExtractor(model, tmp_path / "kept.sqlite") as opened:
        yield opened


@pytest.fixture
def sources(tmp_path):
    return [str(write_notes(tmp_path / "notes"))]


def entities(pack, *keys):
    with open_pack(pack) as store:
        return store.entities_named(keys)


def test_haiku_reads_passages_in_batches_through_a_schema(server, extractor, sources, tmp_path):
    report = build_pack(sources, str(tmp_path / "pack"), extractor=extractor)
    assert report.extraction.passages == report.changes.passages
    assert report.extraction.failed == 0
    assert len(server.requests) < report.changes.passages
    for request in server.requests:
        assert request.body["model"] == "claude-haiku-4-5-20251001"
        assert request.body["tool_choice"] == {"type": "tool", "name": "record"}
        assert request.body["tools"][0]["input_schema"]["required"] == ["passages"]
        fence = re.search(r"=== Passage 1 === (\w+)", request.prompt)[1]
        assert fence in request.system
        assert "not followed" in request.system
    assert report.extraction.usage.api_calls == len(server.requests)
    assert report.extraction.dollars == cost(HAIKU, report.extraction.usage) > 0


def test_what_was_read_is_stored_and_what_is_not_there_is_not_believed(
    extractor, sources, tmp_path
):
    pack = tmp_path / "pack"
    build_pack(sources, str(pack), extractor=extractor)
    found = entities(pack, "backups", "atlantis")
    assert found.keys() == {"backups"}
    assert found["backups"].description == "what the passage is about"
    with open_pack(pack) as store:
        facts = [fact.text for fact in store.facts_about(["backups"], 10)]
        (relation, *_) = store.relations_of(["signing keys"], 10)
    assert "Backups is spoken of." in facts
    assert (relation.relation, relation.target) == ("is done with", "vaultctl")


def test_a_pack_built_without_is_read_when_extraction_is_asked_for(
    server, extractor, sources, tmp_path
):
    pack = str(tmp_path / "pack")
    build_pack(sources, pack)
    report = build_pack(sources, pack, extractor=extractor)
    assert report.changes.changed == 5
    assert report.embedded == 0
    assert entities(pack, "backups")["backups"].description


def test_nothing_is_paid_for_twice(server, extractor, sources, tmp_path):
    pack = str(tmp_path / "pack")
    build_pack(sources, pack, extractor=extractor)
    calls = len(server.requests)
    again = build_pack(sources, pack, extractor=extractor)
    assert again.changes.unchanged == 5
    build_pack(sources, str(tmp_path / "other"), extractor=extractor)
    forced = build_pack(sources, pack, extractor=extractor, force=True)
    assert forced.changes.changed == 5
    assert len(server.requests) == calls
    assert entities(pack, "backups")["backups"].description


def test_a_later_build_without_keeps_what_was_read(extractor, sources, tmp_path):
    pack = str(tmp_path / "pack")
    build_pack(sources, pack, extractor=extractor)
    report = build_pack(sources, pack)
    assert report.changes.unchanged == 5
    assert entities(pack, "backups")["backups"].description


def test_only_what_changed_is_read_again(server, extractor, sources, tmp_path):
    pack = str(tmp_path / "pack")
    build_pack(sources, pack, extractor=extractor)
    server.requests.clear()
    (tmp_path / "notes" / "glossary.txt").write_text("A quorum is a majority of the members.")
    build_pack(sources, pack, extractor=extractor)
    (request,) = server.requests
    assert list(numbers(request.body).values()) == [
        "Glossary\nA quorum is a majority of the members."
    ]


def test_the_cost_is_known_before_and_is_nothing_the_second_time(
    server, extractor, sources, tmp_path
):
    pack = str(tmp_path / "pack")
    plan = build_pack(sources, pack, extractor=extractor, dry_run=True)
    assert server.requests == []
    assert plan.estimate.passages == plan.changes.passages
    assert plan.estimate.cached == 0
    assert plan.estimate.dollars > 0
    done = build_pack(sources, pack, extractor=extractor)
    assert plan.estimate.calls >= done.extraction.usage.api_calls
    again = build_pack(sources, str(tmp_path / "b"), extractor=extractor, dry_run=True)
    assert again.estimate.calls == again.estimate.dollars == 0
    assert again.estimate.cached == again.estimate.passages


def test_a_passage_that_was_left_out_is_asked_for_again_alone(server, extractor, sources, tmp_path):
    def forgetful(body):
        found = numbers(body)
        if len(found) > 1:
            found.pop(max(found))
        return tool({"passages": [row(n, shown) for n, shown in found.items()]})

    server.will(by_request(forgetful))
    report = build_pack(sources, str(tmp_path / "pack"), extractor=extractor)
    assert report.extraction.failed == 0
    assert any(len(numbers(request.body)) == 1 for request in server.requests)


@pytest.mark.parametrize(
    "reply",
    [
        tool({"passages": "none"}),
        tool({"passages": [{"number": "one"}, 7, None]}),
        tool([]),
        tool({"passages": []}, stop="max_tokens"),
    ],
)
def test_what_cannot_be_read_is_built_without_and_tried_again(
    server, extractor, sources, tmp_path, reply
):
    pack = str(tmp_path / "pack")
    server.will(reply)
    report = build_pack(sources, pack, extractor=extractor)
    assert report.extraction.failed == report.changes.passages > 0
    assert any("could not be extracted" in str(warning) for warning in report.warnings)
    server.will(by_request(reading))
    again = build_pack(sources, pack, extractor=extractor)
    assert again.changes.changed == 5
    assert again.extraction.entities > 0


@pytest.mark.parametrize(
    "reply", [status(401), status(429, headers={"Retry-After": "0"}), text("no"), truncated()]
)
def test_when_claude_cannot_be_asked_the_build_stops_in_one_line(
    server, extractor, sources, tmp_path, reply, monkeypatch
):
    monkeypatch.setattr("packwise.models.llm.time.sleep", lambda seconds: None)
    server.will(reply)
    with pytest.raises(ModelError) as caught:
        build_pack(sources, str(tmp_path / "pack"), extractor=extractor)
    assert "\n" not in str(caught.value)
    assert KEY not in str(caught.value)


def passage(words):
    return Passage("d#0", "d", "Title", (), 3, words, 0, len(words), "hash")


def test_rows_are_checked_field_by_field():
    said = {
        "entities": [
            {"name": "Ada  Lovelace", "type": "person", "description": "x" * 2000},
            {"name": "ada lovelace", "type": 5},
            {"name": 3},
            {"name": "Lovelac", "type": "person"},
            "no object",
        ],
        "facts": [{"subject": "Ada Lovelace", "text": ""}, {"subject": "Nobody", "text": "x"}],
        "relations": [
            {"source": "Ada Lovelace", "relation": "wrote to", "target": "Babbage"},
            {"source": "Ada Lovelace", "relation": "is", "target": "Ada Lovelace"},
            {"source": "Ada Lovelace", "relation": "x" * 200, "target": "Babbage"},
        ],
    }
    found = checked(passage("Ada Lovelace wrote to Babbage."), said)
    assert found.order_index == 3
    assert [(e.name, e.kind, e.description) for e in found.entities] == [
        ("Ada Lovelace", "person", ""),
        ("ada lovelace", "thing", ""),
    ]
    assert found.facts == ()
    assert [(r.source, r.relation, r.target) for r in found.relations] == [
        ("Ada Lovelace", "wrote to", "Babbage")
    ]


def test_a_price_is_that_of_the_tokens():
    assert cost(HAIKU, Usage(1_000_000, 1_000_000, 1)) == 6.0
    assert cost("another", Usage(10, 10, 1)) == 0.0


def run(*arguments, answer=None):
    return CliRunner().invoke(app, list(arguments), input=answer, catch_exceptions=True)


def test_the_command_shows_the_cost_and_asks(server, sources, tmp_path, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
    pack = str(tmp_path / "pack")
    declined = run("build", *sources, "--out", pack, "--extract", "claude", answer="n\n")
    assert declined.exit_code != 0
    assert "about $0.0" in declined.output
    assert server.requests == []
    agreed = run("build", *sources, "--out", pack, "--extract", "claude", "--yes")
    assert agreed.exit_code == 0, agreed.output
    assert "entities extracted" in agreed.output
    assert "dollars" in agreed.output
    done = run("build", *sources, "--out", pack, "--extract", "claude", "--json")
    assert json.loads(done.stdout)["extraction"]["api_calls"] == 0


def test_without_a_key_the_command_says_what_to_set(sources, tmp_path):
    done = run("build", *sources, "--out", str(tmp_path / "pack"), "--extract", "claude")
    assert done.exit_code != 0
    assert "ANTHROPIC_API_KEY" in str(done.exception)
