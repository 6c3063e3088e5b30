"""Step 6: which articles and sections go on, and which linked ones may join."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import packwise
from packwise.candidates import Candidate, Filter, Scores
from packwise.documents import Document, Link, Passage, Section, content_hash
from packwise.retrieval.documents import (
    MAX_SECTIONS,
    MIN_RELEVANCE,
    NUM_DOCS,
    article_of,
    best_articles,
    with_linked,
)
from packwise.settings import Settings
from packwise.stores.pack.store import create_or_open_pack


def hit(document, section, score, title=None, order=0):
    path = (section,) if section else ()
    title = document.title() if title is None else title
    passage = Passage(
        f"{document}#{section}{order}", document, title, path, order, "text", 0, 4, "hash"
    )
    return Candidate(f"{document}{section}{order}", passage, Scores(combined=score, final=score))


def ids(chosen):
    return [candidate.passage.id for candidate in chosen.candidates]


def test_the_defaults_are_the_specified_ones():
    assert (NUM_DOCS, MAX_SECTIONS, MIN_RELEVANCE) == (5, 3, 0.7)


def test_five_articles_with_three_sections_each():
    hits = [hit(f"doc{d}", f"s{s}", 0.9 - 0.05 * d - 0.001 * s) for d in range(8) for s in range(6)]
    chosen = best_articles(hits)
    assert chosen.articles == 5
    assert len(chosen.candidates) == 15
    assert {c.passage.document for c in chosen.candidates} == {f"doc{d}" for d in range(5)}
    finals = [c.scores.final for c in chosen.candidates]
    assert finals == sorted(finals, reverse=True)


def test_relevance_is_cumulative_but_length_alone_does_not_win():
    best = [hit("best", "a", 0.9)]
    several = [hit("several", s, 0.6) for s in "abc"]
    close, better = [hit("single", "a", 0.62)], [hit("single", "a", 0.8)]
    for single, second in ((close, "several"), (better, "single")):
        chosen = best_articles([*several, *single, *best], num_docs=2)
        assert {c.passage.document for c in chosen.candidates} == {"best", second}


def test_documents_of_one_title_are_one_article():
    parts = [hit(f"part{n}", "", 0.8 - n / 100, title="Warsaw") for n in range(5)]
    chosen = best_articles([*parts, hit("other", "", 0.5)])
    assert chosen.articles == 2
    assert len(chosen.candidates) == 4


def test_passages_of_one_section_come_together():
    hits = [hit("doc", "long", 0.9 - n / 100, order=n) for n in range(4)]
    assert len(best_articles(hits, max_sections=1).candidates) == 4
    headless = [hit("doc", "", 0.9 - n / 100, order=n) for n in range(4)]
    assert len(best_articles(headless, max_sections=1).candidates) == 1


def test_nothing_found_chooses_nothing():
    assert best_articles([]).candidates == ()


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.integers(0, 5), st.floats(0, 1)),
        max_size=40,
        unique_by=lambda t: t[:2],
    ),
    st.integers(1, 6),
    st.integers(1, 4),
)
def test_limits_hold_whatever_was_found(found, num_docs, max_sections):
    hits = [hit(f"d{d}", f"s{s}", score) for d, s, score in found]
    chosen = best_articles(hits, num_docs=num_docs, max_sections=max_sections)
    articles = {}
    for candidate in chosen.candidates:
        sections = articles.setdefault(article_of(candidate.passage), set())
        sections.add(candidate.passage.section_path)
    assert len(articles) == chosen.articles <= num_docs
    assert all(len(sections) <= max_sections for sections in articles.values())
    if num_docs >= len({d for d, _, _ in found}) and max_sections >= 6:
        assert len(chosen.candidates) == len(hits)


FOUND = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 5), st.floats(0, 1)),
    min_size=1,
    max_size=60,
    unique_by=lambda t: t[:2],
)


@given(FOUND, st.integers(1, 20))
def test_the_article_of_the_best_passage_is_always_chosen(found, num_docs):
    hits = [hit(f"d{d}", f"s{s}", score) for d, s, score in found]
    best = max(hits, key=lambda hit: hit.scores.final)
    chosen = best_articles(hits, num_docs=num_docs)
    assert chosen.candidates[0] == best
    assert chosen.articles == min(num_docs, len({d for d, _, _ in found}))
    if num_docs == 1:
        assert {article_of(c.passage) for c in chosen.candidates} == {article_of(best.passage)}


QUESTIONS = (
    "how do I rotate the signing key?",
    "how long does a restore take?",
    "what is a mirror?",
    "who may restore a backup",
    "server",
)


@pytest.mark.parametrize("max_results", range(1, 21))
def test_no_number_of_articles_loses_the_best_passage_of_a_pack(notes_pack, max_results):
    with packwise.open(str(notes_pack)) as library:
        for question in QUESTIONS:
            hits = library.search(question, 30).hits
            chosen = with_linked(
                best_articles(hits, num_docs=max_results),
                question,
                store=library.store,
                embedder=library.embedder,
                settings=library.settings,
                min_relevance=0.0,
            )
            assert chosen.candidates[0] == hits[0]
            own = {article_of(c.passage) for c in chosen.candidates[: -len(chosen.joined) or None]}
            assert article_of(hits[0].passage) in own


def test_twenty_articles_can_be_asked_for(tmp_path):
    source = tmp_path / "notes"
    source.mkdir()
    for n in range(24):
        # The more words on other things, the worse all sections of the article rank.
        other = "Meanwhile the harbour sleeps and boats drift along slowly. " * n
        parts = "".join(
            f"## Part {part}\n\nPump {n} is oiled in step {part} by hand. {other}\n\n"
            for part in "abc"
        )
        (source / f"{n}.md").write_text(f"# Pump {n}\n\n{parts}")
    packwise.build([str(source)], str(tmp_path / "pack"))
    with packwise.open(str(tmp_path / "pack")) as library:
        answer = library.ask("how is a pump oiled?", max_results=20, threshold=0.0)
    (stage,) = [s for s in answer.trace.stages if s.name == "documents"]
    assert stage.notes["articles"] == 20


class Compass:
    """An embedder of three directions; the question points north."""

    name, version, dim, window = "compass", "compass.r1", 3, 512

    def embed_query(self, text):
        return np.array([1, 0, 0], dtype=np.float32)

    def similarity(self, cosine):
        return max(0.0, min(1.0, cosine))


WORLD = {
    "start": ([0.9, 0.436, 0], ["near", "far", "hidden"]),
    "near": ([0.8, 0.6, 0], []),
    "far": ([0.6, 0.8, 0], []),
    "hidden": ([0.99, 0.141, 0], []),
    "unlinked": ([1, 0, 0], []),
}


@pytest.fixture
def store(tmp_path):
    with create_or_open_pack(tmp_path / "world") as opened:
        with opened.writer(embedder="compass", embedder_version="compass.r1", dim=3) as writer:
            for name, (vector, links) in WORLD.items():
                text = f"Words about {name} and its place."
                document = Document(
                    name,
                    name.title(),
                    text,
                    (Section((), 0, (), 0, len(text)),),
                    tuple(Link(href=other, anchor=other) for other in links),
                    source_hash=name,
                )
                passage = Passage(
                    f"{name}#0", name, name.title(), (), 0, text, 0, len(text), content_hash(text)
                )
                writer.stage(document, [passage], np.array([vector], dtype=np.float32))
            writer.commit()
        yield opened


def chosen_from(store, name):
    ((key, passage),) = store.document_passages(name)
    return best_articles([Candidate(key, passage, Scores(combined=0.75, final=0.75))])


def test_linked_articles_join_when_they_are_relevant_enough(store):
    settings = Settings.load({})
    joined = with_linked(
        chosen_from(store, "start"), "where?", store=store, embedder=Compass(), settings=settings
    )
    assert set(joined.joined) == {"Near", "Hidden"}
    assert joined.candidates[0].passage.document == "start"
    assert all(c.scores.final <= 0.75 for c in joined.candidates)
    assert joined.articles == 3


def test_a_filter_holds_for_linked_articles_too(store):
    joined = with_linked(
        chosen_from(store, "start"),
        "where?",
        store=store,
        embedder=Compass(),
        settings=Settings.load({}),
        where=Filter(documents=("start", "near")),
    )
    assert joined.joined == ("Near",)


def test_without_links_nothing_joins_and_nothing_is_embedded(store):
    chosen = chosen_from(store, "near")
    assert (
        with_linked(chosen, "where?", store=store, embedder=None, settings=Settings.load({}))
        is chosen
    )
