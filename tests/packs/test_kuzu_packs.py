import json
from contextlib import closing

import numpy as np
import pytest
from click.testing import CliRunner
from earlier_pack import ARTICLES, write_earlier_pack
from store_world import DIM, vector_of

import packwise
from packwise.cli import app
from packwise.errors import EmbedderMismatch, NotAStore, UsageError
from packwise.models.embedder import load_embedder
from packwise.packs.exporting import export_pack, import_pack
from packwise.settings import Settings
from packwise.stores.checks import check_vectors
from packwise.stores.kuzu.store import open_kuzu
from packwise.stores.locate import open_store

STATIC = "potion-base-8M"


@pytest.fixture(scope="module")
def embedder():
    return load_embedder("all-MiniLM-L6-v2", Settings.load())


@pytest.fixture(scope="module")
def earlier(tmp_path_factory, embedder):
    def embed(text):
        return embedder.embed_passages([text])[0]

    path = tmp_path_factory.mktemp("earlier") / "pack.db"
    return write_earlier_pack(path, embed, embedder.dim)


def test_an_exported_pack_answers_as_the_pack_does(notes_pack, tmp_path):
    report = export_pack(str(notes_pack), tmp_path / "notes.db")
    assert report.documents == 5
    questions = ["rotate the signing key", "how long are backups kept", "who answers at night"]
    with packwise.open(str(notes_pack)) as pack, packwise.open(f"kuzu:{report.target}") as kuzu:
        for question in questions:
            ours, theirs = pack.search(question, 5), kuzu.search(question, 5)
            assert [hit.passage for hit in ours.hits] == [hit.passage for hit in theirs.hits]
            assert [hit.scores.final for hit in ours.hits] == pytest.approx(
                [hit.scores.final for hit in theirs.hits], abs=1e-3
            )
        context = kuzu.context(questions[0], 300)
        assert context.text == pack.context(questions[0], 300).text


def test_an_exported_pack_has_the_tables_of_the_earlier_system(notes_pack, tmp_path):
    export_pack(str(notes_pack), tmp_path / "notes.db")
    with open_kuzu(tmp_path / "notes.db") as store:
        tables = {row["name"] for row in store.cypher("CALL show_tables() RETURN name")}
        assert {
            "Article",
            "Section",
            "Entity",
            "Fact",
            "HAS_SECTION",
            "LINKS_TO",
            "HAS_ENTITY",
            "HAS_FACT",
            "ENTITY_RELATION",
        } <= tables
        rows = store.cypher(
            "MATCH (a:Article)-[:LINKS_TO]->(b:Article) WHERE a.title = $title RETURN b.title AS t",
            {"title": "On call"},
        )
        assert rows == [{"t": "Backups"}]
        (row,) = store.cypher(
            "MATCH (a:Article {title: 'Backups'})-[h:HAS_SECTION]->(s:Section)"
            " RETURN count(s) AS sections, min(h.section_index) AS first,"
            " sum(s.word_count) > 10 AS w"
        )
        assert row["sections"] >= 1
        assert (row["first"], row["w"]) == (0, True)


def test_an_export_replaces_only_what_it_may(notes_pack, earlier, tmp_path):
    target = tmp_path / "notes.db"
    export_pack(str(notes_pack), target)
    with pytest.raises(UsageError, match="--replace"):
        export_pack(str(notes_pack), target)
    export_pack(str(notes_pack), target, replace=True)
    with pytest.raises(NotAStore, match="agent-kgpacks"):
        export_pack(str(notes_pack), earlier, replace=True)
    (tmp_path / "text.db").write_text("precious")
    with pytest.raises(NotAStore):
        export_pack(str(notes_pack), tmp_path / "text.db", replace=True)
    assert (tmp_path / "text.db").read_text() == "precious"


def test_an_earlier_pack_is_imported_with_its_vectors(earlier, embedder, tmp_path):
    report = import_pack(str(earlier), str(tmp_path / "pack"), embedder=embedder.name)
    assert report.documents == len(ARTICLES)
    with closing(open_store(str(tmp_path / "pack"))) as store:
        assert store.info().embedder_version == embedder.version
        assert store.info().links == 3
        for summary in store.documents():
            keys = [key for key, _ in store.document_passages(summary.id)]
            texts = [passage.text for _, passage in store.document_passages(summary.id)]
            assert np.allclose(store.vectors(keys), embedder.embed_passages(texts), atol=2e-3)
        newton = store.entities_named(["isaac newton"])["isaac newton"]
        assert (newton.description, newton.passages) == ("An English physicist", 2)
        (fact,) = store.facts_about(["apple"], 5)[-1:]
        assert fact.text == "Apples come from Kazakhstan."
        (tie,) = store.relations_of(["almaty"], 5)
        assert (tie.source, tie.relation) == ("isaac newton", "never visited")
    with packwise.open(str(tmp_path / "pack")) as library:
        assert library.search("where do apples come from", 1).hits[0].passage.document == "Apple"


def test_vectors_without_a_name_need_one(earlier, tmp_path):
    with pytest.raises(UsageError, match="--embedder NAME"):
        import_pack(str(earlier), str(tmp_path / "pack"))


def test_the_wrong_embedder_is_found_out(earlier, tmp_path):
    with pytest.raises(EmbedderMismatch, match=r"not those of bge-small.*cosine"):
        import_pack(str(earlier), str(tmp_path / "pack"), embedder="bge-small-en-v1.5")
    assert not (tmp_path / "pack").exists()
    small = write_earlier_pack(tmp_path / "small.db", vector_of, DIM)
    with pytest.raises(EmbedderMismatch, match="16 dimensions"):
        import_pack(str(small), str(tmp_path / "pack"), embedder="bge-small-en-v1.5")


def test_the_right_embedder_passes(earlier, embedder):
    with open_kuzu(earlier) as store:
        check_vectors(store, embedder)


def test_both_commands_work(notes_pack, tmp_path):
    target = tmp_path / "notes.db"
    run = CliRunner().invoke
    done = run(app, ["pack", "export", str(notes_pack), "--to", "kuzu", "--out", str(target)])
    assert done.exit_code == 0, done.output
    done = run(app, ["search", f"kuzu:{target}", "signing key", "--json"])
    assert json.loads(done.stdout)["hits"][0]["id"].startswith("guides/")
    done = run(app, ["pack", "import", str(target), "--out", str(tmp_path / "back")])
    assert done.exit_code == 0, done.output
    assert "5 documents" in done.output
