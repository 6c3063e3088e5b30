"""How the expected answer is spread over passages and sentences, and what decides it."""

import pytest
from packing_world import MemoryStore, passage

from packwise.context.candidate_pool import DEFAULT_PARAMS, RelevanceParams
from packwise.context.packer import pack
from packwise.models.tokens import token_counter
from packwise.settings import Settings

QUESTION = "Which lens grinder built the Uppsala telescope?"
FIRST = "The garden beside the tower is open every day of the long summer to all who like it."
TELLING = "The lens grinder who built the Uppsala telescope was Anders Berg, a quiet man of Gävle."


def packed(params: RelevanceParams = DEFAULT_PARAMS) -> str:
    store = MemoryStore([passage("garden", FIRST), passage("letters", TELLING)])
    context = pack(
        QUESTION,
        store.candidates(0.8, 0.7),
        store=store,
        settings=Settings.load({}, packing_quality_threshold=0.0),
        counter=token_counter("gpt-4o"),
        budget=40,
        relevance_params=params,
    )
    # There is room for one, and the best ranked is always in.
    assert [found.document for found in context.passages] == ["garden"]
    read = [*context.trace.selected, *context.trace.dropped]
    return max(read, key=lambda one: one.mass).document


def test_a_sentence_with_all_the_words_counts_for_more_than_a_better_rank():
    assert packed() == "letters"


@pytest.mark.parametrize(
    "params",
    [RelevanceParams(words=0.0, match=0.0), RelevanceParams(scattered=2.0, in_one_place=3.0)],
    ids=["words count for nothing", "no question is answered in one place"],
)
def test_where_words_do_not_decide_rank_does(params):
    assert packed(params) == "garden"


def test_a_rank_that_counts_for_more_than_words_decides():
    assert packed(RelevanceParams(rank_decay=20.0)) == "garden"
