"""Documents that a program has in memory become a pack like files do."""

import pathlib

import pytest

import packwise
from model_folders import POOLING, write_model
from packwise import BlockKind, Document, Settings, SourceError, UsageError
from packwise.sources.memory import MemorySource, named_or_memory

TEXTS = {"tea": "Tea in the pot.", "keys": "Rotate the signing key every month."}
ROWS = [{"id": name, "title": name.title(), "text": text} for name, text in TEXTS.items()]


@pytest.fixture
def settings(tmp_path):
    """Settings with a small embedder, so that a build takes no time."""
    model = write_model(tmp_path / "model", 32, **{"1_Pooling__config": POOLING})
    return Settings.load(env={}, embedder=str(model), threads=1)


def documents(pack, settings):
    with packwise.open(pack, settings=settings) as library:
        return {summary.id: summary.title for summary in library.store.documents()}


@pytest.mark.parametrize(
    "given",
    [
        ROWS,
        tuple(ROWS),
        iter(ROWS),
        (row for row in ROWS),
        {row["id"]: row for row in ROWS}.values(),
        [Document(row["id"], row["title"], row["text"]) for row in ROWS],
    ],
    ids=["list", "tuple", "iterator", "generator", "view", "documents"],
)
def test_any_iterable_is_a_source(tmp_path, settings, given):
    report = packwise.build(given, out=tmp_path / "pack", settings=settings)
    assert report.changes.added == 2
    assert documents(tmp_path / "pack", settings) == {"tea": "Tea", "keys": "Keys"}
    with packwise.open(tmp_path / "pack", settings=settings) as library:
        assert library.search("rotate the key", 1)[0].passage.text == TEXTS["keys"]


def test_a_stream_is_read_one_document_at_a_time(tmp_path, settings):
    given = (n for n in range(3000))
    source = MemorySource({"id": f"d{n}", "text": f"Text {n}."} for n in given)
    assert list(source.ids()) == []
    first = next(source.items())
    assert first.id == "d0"
    assert next(given) == 1


def test_unchanged_documents_are_kept_and_missing_ones_removed(tmp_path, settings):
    packwise.build(ROWS, out=tmp_path / "pack", settings=settings)
    new = {"id": "disk", "text": "A full disk stops the backup."}
    report = packwise.build(iter([ROWS[0], new]), out=tmp_path / "pack", settings=settings)
    changes = report.changes
    assert (changes.added, changes.removed, changes.unchanged) == (1, 1, 1)
    packwise.build([ROWS[1]], out=tmp_path / "pack", settings=settings, add=True)
    assert set(documents(tmp_path / "pack", settings)) == {"tea", "keys", "disk"}


def test_a_document_without_an_id_is_called_by_its_title_or_its_text(tmp_path, settings):
    given = [("Tea", "Green tea."), ("Tea", "Black tea."), {"text": "No title at all."}]
    packwise.build(given, out=tmp_path / "pack", settings=settings)
    names = sorted(documents(tmp_path / "pack", settings))
    assert names[0] == "Tea"
    assert names[1].startswith("Tea (")
    assert names[2].startswith("text-")
    again = packwise.build(given, out=tmp_path / "pack", settings=settings)
    assert again.changes.unchanged == 3


def test_metadata_urls_and_access_lists_are_kept(tmp_path, settings):
    row = {**ROWS[0], "url": "https://example.com/tea", "team": "kitchen", "lang": "en"}
    secret = {**ROWS[1], "metadata": {"acl": "security"}}
    packwise.build([row, secret], out=tmp_path / "pack", settings=settings)
    with packwise.open(tmp_path / "pack", settings=settings) as library:
        found = library.search("tea", where={"team": "kitchen"})
        assert [(hit.passage.document, hit.passage.url) for hit in found] == [
            ("tea", "https://example.com/tea")
        ]
        open_to_all = library.search("signing key", where={"acl": ["kitchen"]})
        assert "keys" not in {hit.passage.document for hit in open_to_all}
        mine = library.search("signing key", where={"acl": ["security"]})
        assert "keys" in {hit.passage.document for hit in mine}


def test_a_document_keeps_its_own_sections(tmp_path, settings):
    text = "| key | month |\n| old | May |"
    block = packwise.Block(BlockKind.TABLE, 0, len(text))
    section = packwise.Section(("Rotation", "Dates"), 2, (block,), 0, len(text))
    document = Document("keys", "Keys", text, (section,))
    packwise.build([document], out=tmp_path / "pack", settings=settings)
    with packwise.open(tmp_path / "pack", settings=settings) as library:
        passage = library.search("old key", 1)[0].passage
    assert passage.section_path == ("Rotation", "Dates")
    assert [block.kind for block in passage.blocks] == [BlockKind.TABLE]


def test_a_row_without_text_is_a_problem_and_the_rest_is_built(tmp_path, settings):
    given = [ROWS[0], {"title": "no text"}, {"id": [1], "text": "x"}]
    report = packwise.build(given, out=tmp_path / "pack", settings=settings)
    assert [str(problem) for problem in report.problems] == [
        'document 2: has no "text"',
        'document 3: has an "id" that is neither text nor a whole number',
    ]
    assert set(documents(tmp_path / "pack", settings)) == {"tea"}


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (42, "a build takes paths or a list of documents, not an int"),
        (None, "a build takes paths or a list of documents, not a NoneType"),
        ({"text": "one"}, "a build takes paths or a list of documents, not a dict"),
        ([42], "document 1 is an int, not a Document, a dictionary with a text, or a pair"),
        ([ROWS[0], "notes"], "document 2 is a str, not a Document"),
        (["notes", ROWS[0]], "a build takes paths or documents, not both: a dict"),
        ([("a", "b", "c")], "document 1 is a tuple, not a Document"),
    ],
)
def test_anything_else_is_a_one_line_error_and_leaves_nothing(tmp_path, settings, given, line):
    with pytest.raises(UsageError, match=line):
        packwise.build(given, out=tmp_path / "pack", settings=settings)
    assert not (tmp_path / "pack").exists()


def test_a_stream_that_fails_leaves_the_pack_as_it_was(tmp_path, settings):
    packwise.build(ROWS, out=tmp_path / "pack", settings=settings)

    def broken():
        yield {"id": "new", "text": "New."}
        raise RuntimeError("the database went away")

    with pytest.raises(RuntimeError, match="went away"):
        packwise.build(broken(), out=tmp_path / "pack", settings=settings)
    assert set(documents(tmp_path / "pack", settings)) == {"tea", "keys"}


def test_no_documents_are_an_error(tmp_path, settings):
    with pytest.raises(UsageError, match="nothing to build from"):
        packwise.build([], out=tmp_path / "pack", settings=settings)
    with pytest.raises(SourceError, match="nothing could be read"):
        packwise.build([{"title": "x"}], out=tmp_path / "pack", settings=settings)


def test_paths_are_taken_as_text_or_path_alone_or_together(tmp_path):
    path = pathlib.Path("notes")
    assert named_or_memory(path) == named_or_memory("notes") == named_or_memory([path]) == ["notes"]
    assert named_or_memory(["a", pathlib.Path("b")]) == ["a", "b"]


@pytest.mark.parametrize("out", [None, 3, ["pack"]])
def test_a_place_that_is_none_is_a_usage_error(settings, out):
    with pytest.raises(UsageError, match="out is the path or address of a store"):
        packwise.build(ROWS, out=out, settings=settings)
