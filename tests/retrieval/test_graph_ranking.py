"""Rank flows along names to where the answer is, and holds back where it should."""

import math
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packwise.documents import Passage
from packwise.language.analyzer import terms as index_terms
from packwise.language.entities import AliasIndex, passage_names
from packwise.language.names import title_aliases
from packwise.retrieval.graph import Spread, SpreadParameters, spread
from packwise.stores.knowledge import Entity, PassageEntities, PassagePlace, TitledDocument
from packwise.stores.name_graph import KnowledgeGraph


class World:
    """A graph store and a scorer over hand-written passages, given as (title, text)."""

    def __init__(self, *articles: tuple[str, str], hidden: frozenset[int] = frozenset()) -> None:
        self.hidden = hidden
        self.passages = [
            Passage(f"d{n}#0", f"d{n}", title, (), 0, text, 0, len(text), str(n))
            for n, (title, text) in enumerate(articles)
        ]
        self.aliases = AliasIndex((p.document, p.doc_title) for p in self.passages)
        found = [passage_names(p, self.aliases) for p in self.passages]
        sure = {name.key for names in found for name in names if name.sure}
        self.names = [[name.key for name in names if name.key in sure] for names in found]
        self.counts = Counter(key for names in self.names for key in names)
        self.terms = [frozenset(index_terms(p.indexed_text)) for p in self.passages]

    def entity(self, key: str) -> Entity:
        titles = {p.document: p.doc_title for p in self.passages}
        titled = tuple(TitledDocument(d, titles[d]) for d in self.aliases.documents(key))
        return Entity(key, key, "name", self.counts[key], titled)

    def place(self, key: int) -> PassagePlace:
        return PassagePlace(key, self.passages[key].document, self.passages[key].doc_title)

    def entities_named(self, keys):
        known = self.counts.keys() | {a for p in self.passages for a in title_aliases(p.doc_title)}
        return {key: self.entity(key) for key in keys if key in known}

    def entities_of(self, passages):
        return {
            key: PassageEntities(
                self.place(key), tuple(self.entity(name) for name in self.names[key])
            )
            for key in passages
        }

    def mentions(self, entities, most):
        return {
            name: [self.place(n) for n, names in enumerate(self.names) if name in names][:most]
            for name in entities
        }

    def passages_of(self, documents, most):
        return {d: [n for n, p in enumerate(self.passages) if p.document == d] for d in documents}

    def idf(self, term: str) -> float:
        holders = sum(term in held for held in self.terms)
        return math.log(1 + (len(self.terms) - holders + 0.5) / (holders + 0.5))

    def ask(self, question: str, pool=None, parameters=None) -> Spread:
        self.question = {term: self.idf(term) for term in index_terms(question)}
        self.total = sum(self.question.values()) or 1.0
        if pool is None:
            scores = self.scores(range(len(self.passages)))
            pool = dict(sorted(scores.items(), key=lambda item: -item[1])[:3])
        return spread(question, self.question, pool, KnowledgeGraph(self), self, parameters)

    def scores(self, keys):
        return {
            key: 0.3 + 0.5 * self.share([key], list(self.question)).get(key, 0.0)
            for key in keys
            if key not in self.hidden
        }

    def terms_of(self, keys):
        return {key: self.terms[key] for key in keys}

    def share(self, keys, terms):
        return {
            key: sum(self.question[t] for t in terms if t in self.terms[key]) / self.total
            for key in keys
        }


FILM = ("Jump for Glory", "Jump for Glory is a film directed by Raoul Walsh for a small studio.")
WIFE = ("Betrayed", "Betrayed is silent drama. Raoul Walsh cast Miriam Cooper, whom he wed.")
NOISE = [
    ("Glory", "Glory is what soldiers jump for, said the spouse of a general."),
    ("High jump", "The high jump is an event in which a director measures the bar."),
    ("Spouse", "A spouse is a partner in marriage; a director is no spouse."),
    ("Weather", "It rained in Ohio and then in Utah."),
]
QUESTION = "Who is the spouse of the director of Jump for Glory?"


def by_key(result):
    return {bonus.key: bonus for bonus in result.bonuses}


def test_a_passage_that_shares_only_a_rare_name_with_the_seed_is_brought_in():
    world = World(FILM, WIFE, *NOISE)
    result = world.ask(QUESTION)
    bonus = by_key(result)[1]
    assert (bonus.path.kind, bonus.path.via, bonus.path.source) == ("name", "raoul walsh", 0)
    assert bonus.value > 0.05
    assert bonus.final == bonus.base + bonus.value
    assert "jump for glory" in result.named
    assert result.notes()["bonuses"][0].keys() >= {"key", "bonus", "via", "from", "hop"}


def test_an_article_that_a_seed_mentions_rises_and_so_does_the_one_it_mentions():
    world = World(
        ("Blue Harbour", "Blue Harbour is a film by Xenia Markov."),
        ("Xenia Markov", "She makes films; her mother is Olga Petrenko."),
        ("Olga Petrenko", "She taught music."),
        *NOISE,
    )
    bonuses = by_key(world.ask("Who is the mother of the maker of Blue Harbour?", {0: 0.8, 3: 0.5}))
    assert (bonuses[1].path.kind, bonuses[1].path.hop) == ("title", 1)
    assert (bonuses[2].path.kind, bonuses[2].path.source, bonuses[2].path.hop) == ("title", 1, 2)
    assert bonuses[2].value < bonuses[1].value


def test_an_article_the_question_names_rises_from_outside_the_pool():
    world = World(FILM, WIFE, *NOISE)
    bonus = by_key(world.ask("Was Betrayed made in Ohio?", {5: 0.5}))[1]
    assert (bonus.path.kind, bonus.path.source, bonus.path.hop) == ("question", None, 0)


def test_an_article_the_question_names_stays_below_a_better_passage_that_holds_the_name():
    world = World(
        ("Oil crisis", "The ally that helped Israel most was America."),
        ("Israel", "Israel is a country."),
    )
    bonuses = by_key(world.ask("Which ally helped Israel?", {0: 0.6, 1: 0.55}))
    assert bonuses[1].final <= 0.6


def test_nothing_flows_without_a_name_in_the_question():
    world = World(FILM, WIFE, *NOISE)
    result = world.ask("which events are measured by a bar", {0: 0.7, 3: 0.6})
    assert result.bonuses == ()
    assert result.held_back


def test_nothing_flows_from_a_passage_without_what_the_question_names():
    world = World(FILM, WIFE, ("Utah", "Utah is dry."), *NOISE)
    result = world.ask("Is Utah dry?", {0: 0.7, 1: 0.2})
    assert 1 not in by_key(result)


def test_a_seed_that_covers_the_question_passes_nothing_on_by_name():
    world = World(FILM, WIFE, *NOISE)
    assert 1 in by_key(world.ask(QUESTION, {0: 0.9, 2: 0.4}))
    assert 1 not in by_key(world.ask("Jump for Glory film directed studio", {0: 0.9, 2: 0.4}))


def test_a_neighbour_that_has_what_is_open_gains_more():
    plain = ("Betrayed", "Betrayed is silent. Raoul Walsh made it.")
    telling = ("Cooper", "The spouse was Cooper. Raoul Walsh made it.")
    bonuses = by_key(World(FILM, plain, telling, *NOISE).ask(QUESTION, {0: 0.9}))
    assert bonuses[2].value > bonuses[1].value


def test_no_passage_rises_above_the_one_that_vouches_for_it():
    world = World(("Diary", "Ada Byron met Raoul Walsh."), WIFE, *NOISE)
    bonus = by_key(
        world.ask("Who wed the man Ada Byron met?", {0: 0.65}, SpreadParameters(bonus=0.9))
    )[1]
    assert bonus.value > 0.1
    assert bonus.final == pytest.approx(0.65 - 0.02)


def test_names_of_the_question_lead_nowhere_new():
    world = World(("Diary", "Ada Byron wrote."), ("Letters", "Ada Byron wrote."), *NOISE)
    assert 1 not in by_key(world.ask("When was Ada Byron born?", {0: 0.9}))


def test_rank_stays_out_of_the_article_it_comes_from():
    diary = ("Diary", "Ada Byron met Raoul Walsh.")
    other = ("Diary", "Raoul Walsh had a mother.")
    question = "Who is the mother of the man Ada Byron met?"
    assert 1 in by_key(World(diary, ("Letters", other[1]), *NOISE).ask(question, {0: 0.9}))
    assert 1 not in by_key(World(diary, other, *NOISE).ask(question, {0: 0.9}))


def test_a_shared_name_is_followed_once_only():
    diary = ("Diary", "Ada Byron met Raoul Walsh.")
    film = ("Betrayed", "Raoul Walsh cast Miriam Cooper.")
    last = ("Letters", "Miriam Cooper had a mother.")
    question = "Who is the mother of the woman cast by whom Ada Byron met?"
    bonuses = by_key(World(diary, film, last, *NOISE).ask(question, {0: 0.9}))
    assert 1 in bonuses
    assert 2 not in bonuses
    titled = by_key(World(diary, film, ("Miriam Cooper", last[1]), *NOISE).ask(question, {0: 0.9}))
    assert titled[2].path.hop == 2


def test_a_hub_leads_nowhere_and_a_rare_name_counts_more():
    hub = [(f"Place {n}", "People met Raoul Walsh there once.") for n in range(40)]
    crowd = by_key(World(FILM, WIFE, *hub).ask(QUESTION, {0: 0.9}))
    assert not any(bonus.path.via == "raoul walsh" for bonus in crowd.values())
    few = by_key(World(FILM, WIFE, *hub[:3], *NOISE).ask(QUESTION, {0: 0.9}))
    alone = by_key(World(FILM, WIFE, *NOISE).ask(QUESTION, {0: 0.9}))
    assert 0 < few[1].value < alone[1].value


def test_namesakes_share_the_bonus():
    film = ("Blue Harbour", "Blue Harbour was filmed in Springfield.")
    one = World(film, ("Springfield", "It has hills."), *NOISE)
    two = World(
        film, ("Springfield (Ohio)", "It has hills."), ("Springfield (Utah)", "A lake."), *NOISE
    )
    question = "What is near where Blue Harbour was made?"
    single = by_key(one.ask(question, {0: 0.9}))[1]
    shared = by_key(two.ask(question, {0: 0.9}))
    assert shared[1].value == pytest.approx(single.value / 2)
    assert shared[2].value == pytest.approx(single.value / 2)


def test_of_an_article_only_its_best_passage_rises():
    world = World(
        ("Blue Harbour", "Blue Harbour is a film by Xenia Markov."),
        ("Xenia Markov", "Born in spring."),
        ("Xenia Markov", "A prize for the mother of all films."),
        *NOISE,
    )
    bonuses = by_key(world.ask("Who is the mother of the maker of Blue Harbour?", {0: 0.9}))
    assert 2 in bonuses
    assert 1 not in bonuses


def test_passages_that_may_not_be_seen_get_nothing():
    assert 1 in by_key(World(FILM, WIFE, *NOISE).ask(QUESTION, {0: 0.9}))
    hidden = World(FILM, WIFE, *NOISE, hidden=frozenset({1}))
    assert 1 not in by_key(hidden.ask(QUESTION, {0: 0.9}))


def test_a_text_in_place_of_a_question_is_left_alone():
    world = World(FILM, WIFE, *NOISE)
    long = QUESTION + " ".join(f" word{n}" for n in range(32))
    assert "terms" in world.ask(long, {0: 0.9}).held_back
    assert world.ask(QUESTION, {}).held_back


def test_documents_without_a_title_do_not_count_as_one_article():
    world = World(("", "Raoul Walsh filmed Jump for Glory."), ("", "Raoul Walsh wed her."), *NOISE)
    assert 1 in by_key(world.ask("Who wed the maker of Jump for Glory in Raoul?", {0: 0.9}))


NAMES = st.sampled_from(["Ada Byron", "Raoul Walsh", "Blue Harbour", "Springfield", "Glory"])
ARTICLES = st.lists(
    st.tuples(NAMES, st.lists(NAMES, max_size=4).map(lambda n: "was seen with " + " by ".join(n))),
    min_size=1,
    max_size=7,
)


@given(ARTICLES, NAMES, st.lists(st.floats(0, 1), min_size=7, max_size=7))
@settings(max_examples=80, deadline=None)
def test_bonuses_are_positive_bounded_and_the_same_each_time(articles, name, scores):
    world = World(*articles)
    pool = {n: scores[n] for n in range(min(3, len(articles)))}
    question = f"Who saw {name}?"
    result = world.ask(question, pool)
    assert result == World(*articles).ask(question, pool)
    for bonus in result.bonuses:
        assert 0 < bonus.value <= 0.2 + 1e-12
        if bonus.key in pool:
            assert bonus.base == pool[bonus.key]


def test_a_crowd_around_a_name_shares_its_bonus():
    crowd = [(f"Reel {n}", f"Reel {n} was cut by Raoul Walsh.") for n in range(9)]
    world = World(FILM, WIFE, *crowd, *NOISE)
    alone, shared = (
        by_key(world.ask(QUESTION, {0: 0.9}, SpreadParameters(crowd=power)))[1].value
        for power in (0.0, 0.5)
    )
    assert shared == pytest.approx(alone / 10**0.5)


def test_an_article_many_mention_gains_less():
    walsh = ("Raoul Walsh", "He was a director.")
    crowd = [(f"Reel {n}", f"Reel {n} was cut by Raoul Walsh.") for n in range(15)]
    world = World(FILM, walsh, *crowd, *NOISE)
    times = world.counts["raoul walsh"]
    alike, fading = (
        by_key(world.ask(QUESTION, {0: 0.9}, SpreadParameters(hub=power)))[1]
        for power in (0.0, 0.25)
    )
    assert (alike.path.kind, times) == ("title", 16)
    assert fading.value == pytest.approx(alike.value / 2)
