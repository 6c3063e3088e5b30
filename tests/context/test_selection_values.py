"""What passages, sentences and tokens count for when a context is selected."""

import re

import numpy as np
import pytest
from packing_world import MemoryStore, candidate, passage, prose

from packwise.candidates import Candidate, Scores
from packwise.chunking import chunk
from packwise.context.candidate_pool import EntryBuilder, Relevance
from packwise.context.layout import entry_costs
from packwise.context.packer import pack
from packwise.context.selection import GreedySelection
from packwise.documents import Block, BlockKind, Document, Section
from packwise.models.tokens import token_counter
from packwise.settings import Settings

FREE = Settings.load({}, packing_token_price=0.0, packing_quality_threshold=0.0)
COUNTER = token_counter("gpt-4o")


def apart(*places):
    """Passages of one sentence each, in one document but not adjoining: (topic, section)."""
    return [
        passage("a", prose(topic, 1), order=5 * i, start=9000 * i, path=path)
        for i, (topic, path) in enumerate(places)
    ]


def selected(store, settings, **options):
    context = pack(
        options.pop("question", "river tower"),
        options.pop("candidates", None) or store.candidates(),
        store=store,
        settings=settings,
        counter=COUNTER,
        budget=options.pop("budget", 4000),
    )
    return {entry.id: entry for entry in context.trace.selected}


@pytest.mark.parametrize(
    ("caps", "sections", "left"),
    [
        ({"packing_per_doc_cap": 9, "packing_per_section_cap": 9}, "AAA", [1.0, 1.0, 1.0]),
        ({"packing_per_doc_cap": 1, "packing_per_section_cap": 9}, "AAA", [1.0, 0.7, 0.49]),
        ({"packing_per_doc_cap": 2, "packing_per_section_cap": 9}, "AAA", [1.0, 1.0, 0.7]),
        ({"packing_per_doc_cap": 9, "packing_per_section_cap": 1}, "ABA", [1.0, 1.0, 0.7]),
        ({"packing_per_doc_cap": 1, "packing_per_section_cap": 1}, "AAB", [1.0, 0.49, 0.49]),
    ],
)
def test_each_passage_beyond_a_cap_counts_for_seven_tenths(caps, sections, left):
    topics = zip(("river", "tower", "garden"), sections, strict=True)
    store = MemoryStore(apart(*((topic, (path,)) for topic, path in topics)), np.eye(3, 8))
    settings = Settings.load({}, packing_token_price=0.0, **caps)
    found = selected(store, settings, candidates=store.candidates(0.9, 0.6, 0.3), question="which?")
    shares = [found[f"a#{order}"].value / found[f"a#{order}"].mass for order in (0, 5, 10)]
    assert shares == pytest.approx(left)


SENTENCES = (
    "The mill stands by the river.",
    "Bread and cheese were sold on the square.",
    "The river drives the mill by night.",
)


def entry_of(text, settings=FREE):
    one = passage("a", text, title="")
    return EntryBuilder("river mill", settings).build(0, one, Scores(final=0.9), 1)


def costs_of(text):
    return entry_costs(COUNTER, entry_of(text))


def shown(values, *, price, budget):
    """Which of the three sentences are selected, given the value of each."""
    settings = Settings.load({}, packing_token_price=price)
    entry = entry_of(" ".join(SENTENCES), settings)
    vectors = np.ones((1, 1), dtype=np.float32)
    relevance = Relevance([1.0], [values])
    selection = GreedySelection([entry], relevance, vectors, COUNTER, settings, budget)
    selection.fill()
    return [i for i in range(3) if selection.draft.units[0] >> i & 1]


@pytest.mark.parametrize(
    ("budget", "per_token"),
    [(1000, 0.00006), (100, 0.00006), (8000, 0.00003), (64_000, 0.000015)],
)
def test_a_sentence_must_add_its_price_which_is_higher_in_a_small_budget(budget, per_token):
    """At 0.03 per thousand tokens of a budget of 8,000, twice that in one up to a thousand."""
    cost = costs_of(" ".join(SENTENCES))[1]
    for factor, expected in ((1.001, [0, 1]), (0.999, [0])):
        values = [0.9, per_token * cost * factor, 0.0]
        assert shown(values, price=0.03, budget=budget) == expected


def test_a_sentence_that_stands_apart_costs_two_tokens_more_for_the_gap():
    cost = costs_of(" ".join(SENTENCES))[2]
    for factor, expected in ((1.001, [0, 2]), (0.999, [0])):
        values = [0.9, 0.0, 0.00006 * (cost + 2) * factor]
        assert shown(values, price=0.03, budget=1000) == expected


class Words:
    """One token per word, for the chunker."""

    name, version, window, dim = "words", "words-1", 512, 1

    def token_spans(self, text):
        return [word.span() for word in re.finditer(r"\S+", text)]


def chunks(text, tokens):
    """The passages the chunker makes of one section."""
    section = Section(("Use",), 1, (Block(BlockKind.TEXT, 0, len(text)),), 0, len(text))
    settings = Settings(passage_tokens=tokens, passage_overlap=0.0)
    return chunk(Document("guide", "Guide", text, (section,)), Words(), settings)


def test_the_sentences_of_a_neighbour_count_for_half_of_the_one_nearer():
    before, host, after = chunks(prose("river", 9), 60)
    assert [text.text.count(".") for text in (before, host, after)] == [3, 3, 3]
    store = MemoryStore([before, host, after])
    found = selected(store, FREE, candidates=[candidate(1, host, 0.9)])
    assert found[host.id].mass == pytest.approx(1.0)
    for neighbour in (before, after):
        assert found[neighbour.id].attached_to == host.id
        assert found[neighbour.id].value == pytest.approx(0.05 * (1 + 0.5 + 0.25))


QUESTION = "Which lens grinder built the Uppsala telescope?"
WITHOUT = "The garden beside the tower is open every day of the long summer to all who like it."
WITH = "The lens grinder who built the Uppsala telescope was Anders Berg, a quiet man of Gävle."


@pytest.mark.parametrize(("search_score", "mass"), [(0.2, 0.488), (0.9, 0.262)])
def test_a_passage_raised_above_its_search_score_keeps_the_mass_of_its_rank(search_score, mass):
    store = MemoryStore([passage("garden", WITHOUT), passage("letters", WITH)])
    raised = Candidate(0, store.held[0], Scores(combined=search_score, final=0.9))
    candidates = [raised, candidate(1, store.held[1], 0.8)]
    found = selected(store, FREE, candidates=candidates, question=QUESTION)
    assert found["garden#0"].mass == pytest.approx(mass, abs=0.001)
