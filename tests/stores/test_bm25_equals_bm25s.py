"""The keyword leg against bm25s: same terms, same k1 and b, every score."""

import random

import bm25s
import numpy as np
import pytest
from store_world import fill, make

from packwise.language.analyzer import terms
from packwise.stores import bm25
from packwise.stores.pack.store import create_or_open_pack
from packwise.stores.term_table import TermTable

WORDS = [f"w{i}" for i in range(400)]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Passages of 1 to 600 words, frequent and rare ones, and a store that holds them."""
    rng = random.Random(7)
    weights = [1 / (rank + 1) for rank in range(len(WORDS))]
    lengths = [1, 2, 5, 39, 40, 41, 45, 90, 200, 201, 350, 600] * 8
    documents = [
        make(f"d{i:03}", " ".join(rng.choices(WORDS, weights, k=length)), title="")
        for i, length in enumerate(lengths)
    ]
    store = create_or_open_pack(tmp_path_factory.mktemp("bm25") / "pack")
    fill(store, documents)
    yield store, documents
    store.close()


def scores_of_bm25s(documents, asked):
    retriever = bm25s.BM25(method="lucene", k1=bm25.K1, b=bm25.B, dtype="float64")
    retriever.index(
        [terms(passage.indexed_text) for _, (passage,) in documents], show_progress=False
    )
    # bm25s leaves out the constant factor k1 + 1.
    return retriever.get_scores(asked) * (bm25.K1 + 1)


QUESTIONS = [
    ["w0"],
    ["w0", "w1", "w2"],
    ["w399", "w3"],
    ["w10", "w50", "w100", "w200", "w300"],
    WORDS[:60],
]


@pytest.mark.parametrize("asked", QUESTIONS, ids=len)
def test_every_score_equals_that_of_bm25s(corpus, asked):
    store, documents = corpus
    asked = terms(" ".join(asked))
    wanted = scores_of_bm25s(documents, asked)
    matches = store.keyword_search(asked, len(documents))
    passages = store.passages([match.key for match in matches])
    assert len(matches) == np.count_nonzero(wanted)
    for match, passage in zip(matches, passages, strict=True):
        assert match.score == pytest.approx(wanted[int(passage.document[1:])], rel=1e-5)


@pytest.mark.parametrize("asked", QUESTIONS, ids=len)
@pytest.mark.parametrize("k", [1, 5, 12])
def test_the_best_few_are_those_of_bm25s(corpus, asked, k):
    store, documents = corpus
    asked = terms(" ".join(asked))
    wanted = np.sort(scores_of_bm25s(documents, asked))[::-1]
    best = [match.score for match in store.keyword_search(asked, k)]
    assert best == pytest.approx(wanted[:k][wanted[:k] > 0].tolist(), rel=1e-5)


def test_a_term_counts_at_most_65535_times_in_a_passage():
    table = TermTable.of([(1, ["again"] * 70_000 + ["once"])])
    assert table.counts.tolist() == [65_535, 1]
    assert table.lengths.tolist() == [70_001]
