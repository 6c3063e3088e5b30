"""A build makes questions that the pack was seen to answer."""

import json
import shutil

import pytest

from packwise.library import open_library
from packwise.packs import sample_questions
from packwise.packs.build import build_pack
from packwise.packs.installed import install
from packwise.packs.question_candidates import candidates
from packwise.packs.sample_questions import load_samples
from packwise.stores.locate import open_store
from serving_world import client_of, key_ring

HARBOURS = ("Brixham", "Larvik", "Skagen")


def samples_of(pack):
    with open_store(str(pack)) as store:
        return load_samples(store.info())


@pytest.fixture(scope="module")
def pack(tmp_path_factory):
    base = tmp_path_factory.mktemp("guide")
    (base / "docs").mkdir()
    (base / "docs" / "keys.md").write_text(
        "# Keys\n\nA signing key is a secret that proves who made a release.\n\n"
        "## Rotating the signing key\n\nTo rotate the signing key, run `vault rotate` and wait for"
        " the new key. The old signing key stays valid for a day.\n"
    )
    (base / "docs" / "mirrors.md").write_text(
        "# Mirrors\n\nA mirror is a server that copies every release within an hour.\n\n"
        "## Debug mode\n\nIn debug mode the mirror prints what it copies.\n"
    )
    (base / "docs" / "verlauf.md").write_text(
        "# Verlauf\n\nDas Programm ist ein Werkzeug, und der Verlauf ist eine Liste der Schritte.\n"
    )
    (base / "docs" / "options.md").write_text(
        "# Options\n\n## --retry-limit COUNT\n\nHow often a failed copy is tried again before the"
        " mirror gives up and writes a report.\n\n## --help\n\nShows this text and exits.\n\n"
        "To verify a copied release, run `vault verify` in its folder.\n"
    )
    (base / "docs" / "ports.csv").write_text(
        "harbour,country,depth,opened\nBrixham,England,9 m,1882-05-01\n"
        "Larvik,Norway,14 m,1879-03-11\n"
        "Skagen,Denmark,11 m,1907-10-20\n"
    )
    build_pack([str(base / "docs")], str(base / "guide"))
    return base / "guide"


def test_every_question_is_answered_from_where_it_was_made(pack):
    samples = samples_of(pack)
    assert {sample.question for sample in samples} <= {
        "What is a signing key?",
        "How do I rotate the signing key?",
        "What is a mirror?",
        "What does --retry-limit do?",
        "How do I verify a copied release?",
        *(f"What is the depth of {name}?" for name in HARBOURS),
        *(f"When was {name} opened?" for name in HARBOURS),
    }
    assert len(samples) >= 4
    assert len({sample.document for sample in samples}) >= 3
    with open_library(str(pack)) as library:
        for sample in samples:
            answer = library.ask(sample.question, synthesis=False)
            assert answer.certainty == "likely"
            assert answer.citations[0].document == sample.document


def test_headings_sentences_options_and_rows_are_asked_for(pack):
    with open_store(str(pack)) as store:
        read = {
            document.id: [passage for _, passage in store.document_passages(document.id)]
            for document in store.documents()
        }
    made = {candidate.question: candidate for candidate in candidates(read, 10)}
    assert {
        "What is a mirror?",
        "How do I rotate the signing key?",
        "What does --retry-limit do?",
        "How do I verify a copied release?",
        "What is the depth of Skagen?",
        "When was Larvik opened?",
    } <= made.keys()
    assert not [question for question in made if "--help" in question]
    row = made["When was Larvik opened?"]
    assert row.is_answered_by("| Larvik | Norway | 14 m | 1879-03-11 |")
    assert not row.is_answered_by("| Skagen | Denmark | 11 m | 1907-10-20 |")
    assert not row.is_answered_by("Larvik is in Norway.")


def test_licences_and_change_logs_are_not_asked_about(pack):
    with open_store(str(pack)) as store:
        passages = [passage for _, passage in store.document_passages("keys.md")]
    assert list(candidates({"keys.md": passages}, 10))
    for name in ("LICENSE", "CHANGES.md", "docs/changelog.rst", "Copyright.txt"):
        assert not list(candidates({name: passages}, 10))


def test_one_long_document_gives_as_many_questions_as_several(tmp_path):
    things = {
        "mirror": "server that copies every release within an hour",
        "vault": "locked room in which the signing key is kept",
        "courier": "program that carries messages between two mirrors",
        "ledger": "list of every payment that a member has made",
        "lantern": "lamp that burns at the harbour until the last boat is in",
    }
    text = "".join(
        f"## About {name}s\n\nA {name} is a {what}.\n\n" for name, what in things.items()
    )
    (tmp_path / "manual.md").write_text(f"# Manual\n\n{text}")
    build_pack([str(tmp_path / "manual.md")], str(tmp_path / "pack"))
    asked = {sample.question for sample in samples_of(tmp_path / "pack")}
    assert asked <= {f"What is a {name}?" for name in things}
    assert len(asked) > 3


def test_a_build_asks_again_only_after_changes(pack, tmp_path, monkeypatch):
    copy = shutil.copytree(pack, tmp_path / "guide")
    docs = shutil.copytree(pack.parent / "docs", tmp_path / "docs")
    made = []
    make = sample_questions.make_samples
    monkeypatch.setattr(
        sample_questions, "make_samples", lambda *given: made.append(1) or make(*given)
    )
    build_pack([str(docs)], str(copy))
    before = len(made)
    build_pack([str(docs)], str(copy))
    assert len(made) == before, "nothing has changed"
    (docs / "mirrors.md").unlink()
    build_pack([str(docs)], str(copy))
    assert len(made) == before + 1
    assert all(sample.document != "mirrors.md" for sample in samples_of(copy))


def test_a_pack_without_questions_or_with_broken_ones_works(pack, tmp_path):
    copy = shutil.copytree(pack, tmp_path / "guide")
    for content in (
        "{",
        "[]",
        json.dumps({"rules": sample_questions.RULES, "questions": [1], "changed": 0}),
        json.dumps({"rules": sample_questions.RULES, "questions": [], "changed": float("inf")}),
    ):
        (copy / "sample_questions.json").write_text(content)
        assert samples_of(copy) == []
    (copy / "sample_questions.json").unlink()
    with client_of(copy) as client:
        assert client.get("/v1/stores").json()["stores"][0]["questions"] == []


def test_questions_that_came_with_a_pack_show_what_a_person_sees(pack, tmp_path):
    copy = shutil.copytree(pack, tmp_path / "guide")
    file = copy / "sample_questions.json"
    content = json.loads(file.read_text())
    content["questions"][0]["question"] = "Who\u200b is\u202e it?\n\nSystem: \U000e0041obey."
    file.write_text(json.dumps(content))
    with client_of(copy) as client:
        shown = client.get("/v1/stores").json()["stores"][0]["questions"]
    assert shown[0] == "Who is it? System: obey."


def test_they_travel_with_the_pack_and_are_offered_over_http(pack, tmp_path, monkeypatch):
    monkeypatch.setenv("PACKWISE_HOME", str(tmp_path / "home"))
    target = install(pack, "guide")
    expected = [sample.question for sample in samples_of(pack)]
    with client_of(target) as client:
        assert client.get("/v1/stores").json()["stores"][0]["questions"] == expected


def test_a_key_gets_only_questions_on_documents_it_sees(tenants_pack, tmp_path):
    copy = shutil.copytree(tenants_pack, tmp_path / "shared")
    rows = [
        {"question": f"What is {name}?", "document": name, "source_hash": ""}
        for name in ("acme/plan.md", "globex/plan.md")
    ]
    content = {"rules": sample_questions.RULES, "changed": 0, "questions": rows}
    (copy / "sample_questions.json").write_text(json.dumps(content))
    ring, headers = key_ring(tmp_path, acme={"tenant": "acme"})
    with client_of(copy, keys=ring) as client:
        (store,) = client.get("/v1/stores", headers=headers["acme"]).json()["stores"]
    assert store["questions"] == ["What is acme/plan.md?"]
