import signal
import subprocess
import sys

import pytest

import packwise
from packwise.errors import NotAStore, SourceError
from packwise.packs import item_hash
from packwise.packs.build import build_pack
from packwise.reading import passage_reading
from packwise.settings import Settings
from tests_world import wait_for_staged_work, write_notes


@pytest.fixture
def source(tmp_path):
    return write_notes(tmp_path / "notes")


def contents(pack):
    with packwise.open(str(pack)) as library:
        return {
            document.id: [
                (passage.id, passage.text)
                for _, passage in library.store.document_passages(document.id)
            ]
            for document in library.store.documents()
        }


def test_files_without_text_are_named(source, tmp_path):
    pages = [source / f"{name}.html" for name in ("bar", "frame")]
    for page in pages:
        page.write_text("<html><body><nav>Home</nav></body></html>")
    report = build_pack([str(source)], str(tmp_path / "pack"))
    assert [str(note) for note in report.warnings] == [
        "bar.html and 1 more: no text was found there"
    ]
    assert build_pack([str(source)], str(tmp_path / "pack")).warnings == ()
    pages[0].write_text("<html><body><nav>Index</nav></body></html>")
    planned = build_pack([str(source)], str(tmp_path / "pack"), dry_run=True)
    assert [str(note) for note in planned.warnings] == ["bar.html: no text was found there"]


def test_a_folder_becomes_a_pack(source, tmp_path):
    report = build_pack([str(source)], str(tmp_path / "pack"))
    assert report.changes.added == 5
    assert report.problems == ()
    assert report.embedded == report.changes.passages > 5
    assert set(contents(tmp_path / "pack")) == {
        "glossary.txt",
        "guides/keys.md",
        "guides/releases.md",
        "operations/backups.md",
        "operations/on-call.md",
    }


def test_every_passage_knows_where_it_is_from(notes_pack):
    with packwise.open(str(notes_pack)) as library:
        info = library.info()
        for summary in library.store.documents():
            document = library.store.document(summary.id)
            for order, (_, passage) in enumerate(library.store.document_passages(summary.id)):
                assert passage.order_index == order
                assert passage.doc_title == document.title
                assert document.text[passage.start : passage.end] == passage.text
                assert passage.embedder_version == info.embedder_version


def test_links_between_documents_are_resolved_and_ranked(notes_pack):
    with packwise.open(str(notes_pack)) as library:
        links = library.store.links(["guides/keys.md", "operations/on-call.md"])
        assert ("guides/keys.md", "guides/releases.md") in {(a, b.target) for a, b in links}
        assert ("operations/on-call.md", "operations/backups.md") in {
            (a, b.target) for a, b in links
        }
        ranks = library.store.pagerank([d.id for d in library.store.documents()])
        assert sum(ranks.values()) == pytest.approx(1.0)
        assert ranks["operations/backups.md"] > ranks["operations/on-call.md"]


def test_building_again_embeds_nothing(source, tmp_path):
    build_pack([str(source)], str(tmp_path / "pack"))
    again = build_pack([str(source)], str(tmp_path / "pack"))
    assert again.embedded == 0
    assert again.changes.unchanged == 5
    assert again.changes.added == again.changes.changed == again.changes.removed == 0


def test_readings_by_earlier_rules_are_replaced_by_the_next_build(source, tmp_path, monkeypatch):
    pack, question = str(tmp_path / "pack"), "how often are keys rotated?"

    def rules_and_context():
        with packwise.open(pack) as library:
            held = [
                passage.reading.partition(":")[0]
                for document in library.store.documents()
                for _, passage in library.store.document_passages(document.id)
            ]
            return set(held), library.context(question).as_dict()

    with monkeypatch.context() as earlier:
        earlier.setattr(passage_reading, "READING_RULES", "0-earlier")
        earlier.setattr(item_hash, "READING_RULES", "0-earlier")
        build_pack([str(source)], pack)
    rules, before = rules_and_context()
    assert rules == {"0-earlier"}
    again = build_pack([str(source)], pack)
    assert (again.embedded, again.changes.changed) == (0, 5)
    rules, after = rules_and_context()
    assert rules == {passage_reading.READING_RULES}
    assert after["text"] == before["text"]


def test_only_what_changed_is_embedded_and_what_went_is_gone(source, tmp_path):
    build_pack([str(source)], str(tmp_path / "pack"))
    before = contents(tmp_path / "pack")
    keys = source / "guides" / "keys.md"
    keys.write_text(keys.read_text().replace("thirty days", "sixty days"))
    (source / "glossary.txt").unlink()
    (source / "new.md").write_text("# New\n\nA brand new page about lighthouses.\n")
    report = build_pack([str(source)], str(tmp_path / "pack"))
    assert (report.changes.added, report.changes.changed, report.changes.removed) == (1, 1, 1)
    assert report.embedded == 2
    after = contents(tmp_path / "pack")
    assert after.keys() == before.keys() - {"glossary.txt"} | {"new.md"}
    assert "sixty days" in " ".join(text for _, text in after["guides/keys.md"])


def test_an_incremental_build_equals_a_full_one(source, tmp_path):
    build_pack([str(source)], str(tmp_path / "stepwise"))
    (source / "glossary.txt").write_text("A beacon is a fire on a hill, lit to warn of ships.\n")
    (source / "operations" / "on-call.md").unlink()
    build_pack([str(source)], str(tmp_path / "stepwise"))
    build_pack([str(source)], str(tmp_path / "at-once"))
    assert contents(tmp_path / "stepwise") == contents(tmp_path / "at-once")
    question = "what warns of ships"
    hits: list[list[tuple[str, float]]] = []
    for name in ("stepwise", "at-once"):
        with packwise.open(str(tmp_path / name)) as library:
            found = library.search(question, k=10).hits
            hits.append([(hit.passage.id, hit.scores.final) for hit in found])
    assert hits[0] == hits[1]


def test_changed_chunking_makes_the_documents_anew(source, tmp_path):
    build_pack([str(source)], str(tmp_path / "pack"))
    report = build_pack(
        [str(source)], str(tmp_path / "pack"), settings=Settings.load(passage_tokens=48)
    )
    assert report.changes.changed == 5


def test_a_dry_run_writes_nothing(source, tmp_path):
    report = build_pack([str(source)], str(tmp_path / "pack"), dry_run=True)
    assert report.dry_run
    assert report.changes.added == 5
    assert report.changes.passages > 5
    assert not (tmp_path / "pack").exists()


def test_a_file_that_cannot_be_read_is_named_and_the_rest_is_built(source, tmp_path):
    (source / "broken.md").write_bytes(b"\x00\x01\x02 not text")
    report = build_pack([str(source)], str(tmp_path / "pack"))
    assert [problem.location for problem in report.problems] == ["broken.md"] or (
        report.problems[0].location.endswith("broken.md")
    )
    assert report.changes.added == 5


def test_a_document_that_became_unreadable_keeps_its_stored_version(source, tmp_path):
    build_pack([str(source)], str(tmp_path / "pack"))
    before = contents(tmp_path / "pack")
    (source / "guides" / "keys.md").write_bytes(b"\x00\x01\x02 not text")
    report = build_pack([str(source)], str(tmp_path / "pack"))
    assert len(report.problems) == 1
    assert contents(tmp_path / "pack") == before


def test_two_sources_with_equal_names_are_both_kept(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "index.md").write_text(f"# {name}\n\nThis is the page of {name}.\n")
    build_pack([str(tmp_path / "one"), str(tmp_path / "two")], str(tmp_path / "pack"))
    assert set(contents(tmp_path / "pack")) == {"index.md", "two/index.md"}


@pytest.mark.parametrize("names", [("a", "b", "c"), ("a/notes", "b/notes", "c/notes")])
@pytest.mark.parametrize("broken", [(0, 1), (1, 2), (0, 2)])
def test_unreadable_documents_of_equal_names_all_keep_their_stored_version(tmp_path, names, broken):
    folders = [tmp_path / name for name in names]
    for folder, animal in zip(folders, ("heron", "otter", "badger"), strict=True):
        folder.mkdir(parents=True)
        (folder / "x.md").write_text(f"# The {animal}\n\nA {animal} lives by the river.\n")
    sources, pack = [str(folder) for folder in folders], tmp_path / "pack"
    build_pack(sources, str(pack))
    before = contents(pack)
    assert len(before) == 3
    for at in broken:
        (folders[at] / "x.md").write_bytes(bytes(100))
    report = build_pack(sources, str(pack))
    assert len(report.problems) == 2
    assert report.changes.removed == 0
    assert contents(pack) == before


def test_a_folder_that_is_something_else_is_left_alone(source, tmp_path):
    other = tmp_path / "photos"
    other.mkdir()
    (other / "cat.jpg").write_bytes(b"jpeg")
    with pytest.raises(NotAStore):
        build_pack([str(source)], str(other))
    assert [path.name for path in other.iterdir()] == ["cat.jpg"]


def test_nothing_is_left_where_a_source_is_missing(tmp_path):
    with pytest.raises(SourceError, match="nowhere"):
        build_pack([str(tmp_path / "nowhere")], str(tmp_path / "pack"))
    assert not (tmp_path / "pack").exists()


def test_another_embedder_needs_reembed_and_then_replaces_every_vector(source, tmp_path):
    pack = str(tmp_path / "pack")
    build_pack([str(source)], pack)
    with pytest.raises(packwise.PackwiseError, match="--reembed"):
        build_pack([str(source)], pack, embedder="all-MiniLM-L6-v2")
    report = build_pack([str(source)], pack, embedder="all-MiniLM-L6-v2", reembed=True)
    assert report.embedded == report.changes.passages
    with packwise.open(pack) as library:
        assert library.info().embedder == "all-MiniLM-L6-v2"
        hit = library.search("how do I rotate the signing key?").hits[0]
        assert hit.passage.document == "guides/keys.md"
    again = build_pack([str(source)], pack)
    assert again.embedded == 0, "a pack keeps its embedder when none is named"


@pytest.mark.slow
def test_a_killed_build_harms_nothing_and_goes_on_where_it_was(tmp_path):
    source = tmp_path / "many"
    source.mkdir()
    for number in range(400):
        words = " ".join(f"word{(number * 7 + i) % 991}" for i in range(40))
        (source / f"{number:03}.md").write_text(f"# Page {number}\n\nAbout {words}.\n")
    pack = tmp_path / "pack"
    small = write_notes(tmp_path / "notes")
    build_pack([str(small)], str(pack))
    before = contents(pack)
    command = [sys.executable, "-m", "packwise", "build", str(source), "--out", str(pack), "--yes"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        wait_for_staged_work(pack, process)
        process.send_signal(signal.SIGKILL)
    assert contents(pack) == before
    report = build_pack([str(source)], str(pack))
    assert len(contents(pack)) == 400
    assert report.embedded < 400, "what the killed build had embedded was found again"
