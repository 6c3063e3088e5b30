import math
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from packwise.candidates import Scores
from packwise.retrieval.fusion import Weights, fuse


class Entry(NamedTuple):
    key: int
    scores: Scores


NOT_ASKED = None

keys = st.integers(1, 50)
cosines = st.dictionaries(keys, st.floats(-1, 1), max_size=20)
bm25s = st.dictionaries(keys, st.floats(0, 30), max_size=20)


def fused(vector, keyword, *, bound=30.0, weights=(0.7, 0.3), fusion="weighted"):
    found = fuse(
        vector,
        keyword,
        bound=bound,
        weights=Weights(*weights),
        fusion=fusion,
        similarity=lambda cosine: cosine / 2,
    )
    return [Entry(*item) for item in found.items()]


def test_combined_is_the_weighted_average_of_cosine_and_bm25_over_its_bound():
    (entry,) = fused({1: 0.8}, {1: 15.0})
    assert entry.scores.combined == pytest.approx(0.7 * 0.8 + 0.3 * 0.5)
    assert entry.scores.final == entry.scores.combined
    assert entry.scores.vector == 0.8
    assert entry.scores.similarity == 0.4
    assert entry.scores.bm25 == 15.0
    assert entry.scores.keyword == 0.5
    assert entry.scores.rrf is None


def test_only_the_ratio_of_the_weights_matters():
    small = fused({1: 0.8, 2: 0.5}, {2: 9.0}, weights=(0.7, 0.3))
    large = fused({1: 0.8, 2: 0.5}, {2: 9.0}, weights=(7, 3))
    assert [e.key for e in small] == [e.key for e in large]
    assert [e.scores.combined for e in small] == pytest.approx([e.scores.combined for e in large])


def test_rrf_orders_by_reciprocal_ranks_and_still_reports_the_combined_score():
    entries = fused({1: 0.9, 2: 0.8}, {2: 9.0, 3: 5.0}, fusion="rrf")
    assert [e.key for e in entries] == [2, 1, 3]
    assert entries[0].scores.final == pytest.approx(0.7 / 62 + 0.3 / 61)
    assert entries[0].scores.combined == pytest.approx(0.7 * 0.8 + 0.3 * 9 / 30)


def test_a_single_leg_decides_alone():
    (only_vector,) = fused({1: 0.6}, NOT_ASKED)
    assert only_vector.scores.combined == 0.6
    assert only_vector.scores.keyword is None
    (only_keyword,) = fused(NOT_ASKED, {1: 15.0})
    assert only_keyword.scores.combined == 0.5
    assert only_keyword.scores.vector is None


def test_a_passage_with_none_of_the_words_has_keyword_score_zero_not_unknown():
    (entry,) = fused({1: 0.6}, {})
    assert entry.scores.keyword == 0.0
    assert entry.scores.combined == pytest.approx(0.42)


def test_a_question_without_index_terms_is_ranked_by_the_vector_leg():
    entries = fused({1: 0.6, 2: 0.7}, {}, bound=0.0)
    assert [e.key for e in entries] == [2, 1]


@given(cosines, bm25s, st.sampled_from(["weighted", "rrf"]))
def test_every_key_comes_back_once_with_a_combined_score_within_0_and_1(vector, keyword, fusion):
    entries = fused(vector, keyword, fusion=fusion)
    assert sorted(e.key for e in entries) == sorted(vector.keys() | keyword.keys())
    assert all(0.0 <= e.scores.combined <= 1.0 for e in entries)
    finals = [e.scores.final for e in entries]
    assert finals == sorted(finals, reverse=True)


@given(cosines, bm25s)
def test_combined_does_not_depend_on_what_else_was_found(vector, keyword):
    alone = {
        key: fused(
            {key: vector[key]} if key in vector else {},
            {key: keyword[key]} if key in keyword else {},
        )[0]
        for key in vector.keys() | keyword.keys()
    }
    for entry in fused(vector, keyword):
        assert math.isclose(entry.scores.combined, alone[entry.key].scores.combined)


@given(cosines, bm25s, st.sampled_from(["weighted", "rrf"]))
def test_ties_are_broken_by_key_so_the_order_is_always_the_same(vector, keyword, fusion):
    backwards = dict(reversed(vector.items())), dict(reversed(keyword.items()))
    assert fused(vector, keyword, fusion=fusion) == fused(*backwards, fusion=fusion)
