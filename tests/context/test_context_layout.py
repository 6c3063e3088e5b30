"""A context reads in order: best document first, each in reading order, nothing twice."""

import pytest
from packing_world import MemoryStore, cut, passage, prose

from packwise.context.packer import pack
from packwise.settings import Settings

FILL = Settings.load({}, packing_token_price=0.0, packing_quality_threshold=0.0)
SENTENCE = "The old mill by the river grinds corn for the whole valley every autumn."


def packed(store, *scores, budget=4000, question="river mill", settings=FILL, policy="coverage"):
    return pack(
        question,
        store.candidates(*scores),
        store=store,
        settings=settings,
        budget=budget,
        policy=policy,
    )


def test_the_text_has_titles_section_paths_and_markers():
    store = MemoryStore(
        [
            passage("mills", SENTENCE, path=("History", "Early days")),
            passage("mills", "The weir was added later by the miller.", order=1, start=500),
            passage("fish", "Trout live in the river below the weir."),
        ]
    )
    assert packed(store, 0.9, 0.8, 0.7).text == (
        "# Mills\n"
        "## History > Early days\n"
        f"[1] {SENTENCE}\n\n"
        "[2] The weir was added later by the miller.\n\n"
        "# Fish\n"
        "[3] Trout live in the river below the weir."
    )


def test_a_section_path_is_shown_again_only_when_it_changes():
    parts = [
        passage("mills", prose("river", 2), path=("A",)),
        passage("mills", prose("tower", 2), order=1, start=1000, path=("A",)),
        passage("mills", prose("meadow", 2), order=2, start=2000, path=("B",)),
        passage("mills", prose("harbour", 2), order=3, start=3000, path=("A",)),
    ]
    text = packed(MemoryStore(parts)).text
    assert text.count("# Mills\n") == 1
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        "## A",
        "## B",
        "## A",
    ]


def test_documents_come_best_first_and_their_passages_in_reading_order():
    store = MemoryStore(
        [
            passage("low", prose("river", 2)),
            passage("high", prose("tower", 2), order=4, start=900),
            passage("high", prose("meadow", 2), order=2, start=100),
        ]
    )
    context = packed(store, 0.5, 0.9, 0.3)
    assert [p.id for p in context.passages] == ["high#2", "high#4", "low#0"]
    assert [p.marker for p in context.passages] == [1, 2, 3]


def test_a_title_is_not_repeated_as_section_and_its_line_breaks_go():
    store = MemoryStore([passage("d", SENTENCE, title="Old\n mills", path=("Old\n mills", "A\nB"))])
    assert packed(store).text == f"# Old mills\n## A B\n[1] {SENTENCE}"


def test_without_title_and_section_there_is_no_header():
    store = MemoryStore([passage("d", SENTENCE, title="")])
    assert packed(store).text == f"[1] {SENTENCE}"


def test_overlapping_passages_become_one_stretch_of_the_document():
    text = prose("river", 9)
    border = text.index("The river", 600)
    earlier = text.index("The river", 300)
    store = MemoryStore(cut("d", text, (0, border - 1), (earlier, len(text))))
    context = packed(store)
    [only] = context.passages
    assert only.text == text
    assert only.ids == ("d#0", "d#1")
    assert only.spans == ((0, len(text)),)
    assert not only.reduced
    assert context.trace.as_dict()["merges"] == [{"marker": 1, "ids": ["d#0", "d#1"]}]


@pytest.mark.parametrize("part", ["first", "inner", "last"])
def test_a_passage_inside_another_is_merged_into_it(part):
    text = prose("river", 6)
    first = 0 if part == "first" else text.index("The river", 150)
    past = len(text) if part == "last" else text.index("The river", 420) - 1
    store = MemoryStore(cut("d", text, (0, len(text)), (first, past)))
    context = packed(store, 0.9, 0.8)
    assert [p.text for p in context.passages] == [text]
    [dropped] = context.trace.dropped
    assert (dropped.id, dropped.reason, dropped.of) == ("d#1", "merged_into", "d#0")


def test_passages_of_one_place_that_disagree_are_not_joined():
    a, b = passage("d", prose("river", 3)), passage("d", prose("tower", 3), order=1, start=0)
    context = packed(MemoryStore([a, b]))
    assert [p.text for p in context.passages] == [a.text, b.text]


def test_sentences_left_out_are_marked():
    text = (
        "The mill stands by the river. "
        "Bread, cheese, apples, onions and a good deal of cider were sold on the square. "
        "The river drives the mill by night."
    )
    context = packed(MemoryStore([passage("d", text)]), question="river mill", budget=28)
    [only] = context.passages
    assert only.text == "The mill stands by the river. … The river drives the mill by night."
    assert only.reduced
    assert [text[a:b] for a, b in only.spans] == [
        "The mill stands by the river.",
        "The river drives the mill by night.",
    ]


def test_spans_are_stretches_of_the_document():
    document = prose("river", 5) + "\n\n" + prose("tower", 5)
    middle = document.index("\n\n")
    store = MemoryStore(cut("d", document, (0, middle), (middle + 2, len(document))))
    for budget in (60, 120, 400):
        for packed_passage in packed(store, budget=budget).passages:
            shown = [document[a:b] for a, b in packed_passage.spans]
            assert all(part in packed_passage.text for part in shown)
