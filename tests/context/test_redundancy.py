"""Repetition is seen whether the text, the place or the meaning is the same."""

import numpy as np
import pytest
from packing_world import MemoryStore, cut, passage, prose

from packwise.context.duplicates import (
    containment,
    find_duplicates,
    shared_characters,
    text_shingles,
)
from packwise.context.packer import pack
from packwise.context.redundancy import SelectedSimilarity, novelty
from packwise.reading.passage_reading import reading_of
from packwise.settings import Settings


def duplicates(*passages):
    return find_duplicates(passages, [reading_of(p) for p in passages])


def test_a_text_that_repeats_a_better_one_is_its_duplicate():
    original = passage("a", prose("river"))
    copied = passage("b", prose("river").replace("nobody", "No one", 1).upper())
    other = passage("c", prose("tower"))
    assert duplicates(original, other, copied) == {2: 0}


def test_a_text_that_holds_a_better_one_and_more_is_no_duplicate():
    short, long = passage("a", prose("river", 2)), passage("b", prose("river", 12))
    assert duplicates(short, long) == {}
    assert duplicates(long, short) == {1: 0}
    shingles = [text_shingles(p.text, reading_of(p)) for p in (short, long)]
    assert containment(*shingles) == 1.0


def test_a_duplicate_of_a_duplicate_names_the_first():
    texts = [passage(name, prose("river")) for name in "abc"]
    assert duplicates(*texts) == {1: 0, 2: 0}


def test_overlapping_chunks_of_a_document_are_no_duplicates():
    text = prose("river", 10)
    assert duplicates(*cut("a", text, (0, len(text)), (0, len(text) - 20))) == {}


def test_short_texts_are_compared_in_full():
    first, same = passage("a", "A mirror is a server."), passage("b", "a mirror is a server")
    assert duplicates(first, passage("c", "A tenant is a customer."), same) == {2: 0}


def test_shared_characters_are_those_of_one_document():
    a, b = cut("a", "x" * 100, (0, 60), (40, 100))
    assert shared_characters(a, b) == shared_characters(b, a) == 20
    assert shared_characters(a, passage("b", "x" * 60)) == 0
    assert shared_characters(*cut("a", "x" * 100, (0, 40), (60, 100))) == 0


def test_similarity_is_to_the_nearest_selected():
    vectors = np.array([[1, 0], [0.8, 0.6], [0, 1], [1, 0]], dtype=np.float32)
    similarity = SelectedSimilarity(vectors)
    assert similarity.cosine(1) == 0.0
    assert similarity.nearest(1) is None
    similarity.select(0)
    assert similarity.cosine(0) == 0.0
    assert similarity.cosine(1) == pytest.approx(0.8)
    assert similarity.cosine(3) == pytest.approx(1.0)
    similarity.select(2)
    assert similarity.cosine(1) == pytest.approx(0.8)
    assert similarity.nearest(1) == 0
    assert similarity.cosine(2) == 0.0


def test_novelty_falls_with_similarity_and_alpha():
    assert novelty(0.0, 0.5) == novelty(0.85, 0.5) == novelty(1.0, 0.0) == 1.0
    assert novelty(1.0, 0.5) == pytest.approx(0.5)
    assert novelty(0.95, 0.5) > novelty(0.99, 0.5) > novelty(0.99, 1.0)


@pytest.mark.parametrize(("shared", "repeats"), [(20, {1: 0}), (19, {})])
def test_four_fifths_of_the_stretches_of_five_words_make_a_duplicate(shared, repeats):
    """24 words have 20 such stretches; 20 words of them have 16."""
    names = [f"word{n}" for n in range(24)]
    other = [*names[:shared], *(f"other{n}" for n in range(9))]
    assert duplicates(passage("a", " ".join(other)), passage("b", " ".join(names))) == repeats


@pytest.mark.parametrize(("cosine", "kept"), [(0.96, 2), (0.98, 1)])
def test_the_seed_policy_drops_what_means_the_same(cosine, kept):
    vectors = [[1.0, 0.0], [cosine, (1 - cosine**2) ** 0.5]]
    store = MemoryStore([passage("a", prose("river")), passage("b", prose("tower"))], vectors)
    settings = Settings.load({})
    context = pack(
        "river?", store.candidates(), store=store, settings=settings, budget=900, policy="seed"
    )
    assert len(context.passages) == kept


def test_the_baseline_counts_four_characters_as_a_token():
    store = MemoryStore([passage("a", "mountain " * 100)])
    context = pack(
        "mountain?",
        store.candidates(),
        store=store,
        settings=Settings.load({}),
        budget=25,
        policy="baseline",
    )
    assert len(context.text) == 100
