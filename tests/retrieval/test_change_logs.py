"""Lists of changes come after passages that explain, unless a question is about changes."""

import pytest

import packwise
from packwise.documents import Passage
from packwise.retrieval.change_logs import is_unasked_change_log

PAGES = {
    "guide.md": "# Guide\n\n## Keys\n\nCall `rotate()` to rotate a signing key. It is quick.\n",
    "changelog.md": "# Changelog\n\n## 2.1\n\nCall `rotate()` to rotate the signing key.\n",
    "updates.md": "# Community\n\n## Release History\n\n### 2.0\n\nSigning keys can be rotated: "
    "`rotate()` rotates a signing key.\n",
}


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("docs")
    for name, text in PAGES.items():
        (folder / name).write_text(text)
    target = tmp_path_factory.mktemp("packs") / "pack"
    packwise.build([str(folder)], str(target))
    with packwise.open(target) as opened:
        yield opened


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("CHANGES.rst", True),
        ("Changes", True),
        ("Changes in 2.0", True),
        ("changelog", True),
        ("Release History", True),
        ("10. Upgrading checklist", True),
        ("Migration to 2.x", True),
        ("What's new in Python", True),
        ("NEWS", True),
        ("2. NEWS", True),
        ("News", False),
        ("Changes (song)", False),
        ("What's New Pussycat?", False),
        ("Migration to Abyssinia", False),
        ("History", False),
    ],
)
def test_lists_of_changes_are_known_by_their_names(name, is_one):
    passage = Passage("d#0", "d", name, (), 0, "It can rotate keys.", 0, 19, "")
    assert is_unasked_change_log("How do I rotate keys?", passage) is is_one


def ranked(library, question):
    found = library.search(question, k=3)
    stages = {stage.name: stage.notes for stage in found.trace.stages}
    return [hit.passage.document for hit in found.hits], stages.get("change_logs")


def test_what_explains_comes_before_lists_of_changes(library):
    documents, noted = ranked(library, "rotate the signing key")
    assert documents[0] == "guide.md"
    assert noted == {"lowered": 2}


def test_a_question_about_changes_is_answered_from_them(library):
    documents, noted = ranked(library, "in which version can one rotate the signing key?")
    assert documents[0] != "guide.md"
    assert noted is None


def test_the_score_of_a_list_of_changes_is_85_percent(library):
    found = library.search("rotate the signing key", k=3)
    hit = next(hit for hit in found.hits if hit.passage.document == "changelog.md")
    before = hit.scores.combined + (hit.scores.graph or 0.0)
    assert hit.scores.final == pytest.approx(0.85 * before, abs=1e-6)
