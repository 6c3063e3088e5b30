import pytest

import packwise
from packwise.candidates import Filter, Query
from packwise.errors import UsageError
from packwise.retrieval.graph import SpreadParameters
from packwise.retrieval.pipeline import Pipeline
from packwise.stores.languages import question_terms


@pytest.fixture(scope="module")
def library(notes_pack):
    with packwise.open(str(notes_pack)) as opened:
        yield opened


def test_the_passage_that_answers_comes_first(library):
    hits = library.search("how do I rotate the signing key?").hits
    assert hits[0].passage.document == "guides/keys.md"
    assert hits[0].passage.section_path == ("Rotating the signing key",)


def test_words_the_passage_does_not_use_still_find_it(library):
    hits = library.search("what to do when a credential was compromised", k=3).hits
    assert "A lost key" in {hit.passage.header for hit in hits}


def test_every_hybrid_hit_has_the_scores_of_both_legs(library):
    ranking = library.search("tenant restore after a full disk", k=8)
    (fusion,) = [stage for stage in ranking.trace.stages if stage.name == "fusion"]
    vector, keyword = fusion.notes["weights"]
    assert vector + keyword == pytest.approx(1)
    for hit in ranking.hits:
        assert hit.scores.vector is not None
        assert hit.scores.bm25 is not None
        expected = vector * max(0.0, hit.scores.vector) + keyword * hit.scores.keyword
        assert hit.scores.combined == pytest.approx(expected, abs=1e-5)


def test_keyword_mode_finds_by_words_alone(library):
    ranking = library.search("vaultctl revoke", mode="keyword")
    assert ranking.hits[0].passage.header == "A lost key"
    assert ranking.hits[0].scores.vector is None
    assert "embed" not in ranking.trace.timings_ms()


def test_vector_mode_leaves_the_keyword_leg_out(library):
    ranking = library.search("vaultctl revoke", mode="vector")
    assert ranking.hits[0].scores.keyword is None
    assert "keyword" not in ranking.trace.timings_ms()


def test_both_fusions_report_the_same_combined_score(library):
    weighted = library.search("nightly backups", fusion="weighted")
    ranked = library.search("nightly backups", fusion="rrf")
    combined = {hit.passage.id: hit.scores.combined for hit in weighted.hits}
    for hit in ranked.hits:
        assert hit.scores.rrf == hit.scores.final
        assert hit.scores.combined == pytest.approx(combined[hit.passage.id])


def test_confidence_tells_a_question_of_this_pack_from_another(library):
    about = library.search("how do I rotate the signing key?").confidence
    other = library.search("which wine goes with roast duck?").confidence
    assert about >= 0.5 > other


def test_a_filter_acts_inside_the_search(library):
    hits = library.search("signing key", k=3, where=Filter(path_prefix="operations/")).hits
    assert len(hits) == 3
    assert {hit.passage.document for hit in hits} <= {
        "operations/backups.md",
        "operations/on-call.md",
    }
    (only,) = {
        hit.passage.document
        for hit in library.search("backup", where=Filter(metadata={"team": "security"})).hits
    }
    assert only == "guides/keys.md"


def test_the_trace_names_the_stages_with_their_times(library):
    trace = library.search("signing key").trace
    assert list(trace.timings_ms()) == [
        "embed",
        "vector",
        "keyword",
        "complete",
        "fusion",
        "fetch",
        "confidence",
        "graph",
    ]
    assert trace.as_dict()["version"] == 1


def test_equal_searches_answer_equally(library):
    first, second = (library.search("mirror of a release", k=10).hits for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('"', ""),
        ("AND OR NOT", "and or not"),
        ("a:b^2~", "a b 2"),
        ("signing* +key -old [x TO y]", "signing key old x to y"),
        ("key)", "key"),
        ("\\", ""),
        ("\x00 key", "key"),
        ("🔑 key", "key"),
    ],
)
def test_what_looks_like_query_syntax_is_text(library, text, words):
    found = library.search(text, mode="keyword").hits
    plain = library.search(words, mode="keyword").hits if words else []
    assert [(hit.passage.id, hit.scores.bm25) for hit in found] == [
        (hit.passage.id, hit.scores.bm25) for hit in plain
    ]
    assert bool(found) == ("key" in words)
    assert len(library.search(text).hits) == 10
    found = library.search(f"{text} vaultctl revoke", mode="keyword").hits
    assert "A lost key" in {hit.passage.header for hit in found}


@pytest.mark.parametrize("text", ["", "   ", "\n\t"])
def test_an_empty_query_is_refused(library, text):
    with pytest.raises(UsageError, match="empty"):
        library.search(text)


@pytest.mark.parametrize("k", [0, -1, 1001])
def test_k_out_of_range_is_refused(library, k):
    with pytest.raises(UsageError, match="k is a whole number of 1 to 1000"):
        library.search("key", k=k)


def test_a_question_of_only_stop_words_and_a_very_long_one_are_searched(library):
    assert library.search("to be or not to be").hits
    assert library.search("how to rotate the signing key " * 4000, k=2).hits


def test_the_keyword_leg_needs_no_model(notes_pack, monkeypatch, tmp_path):
    import packwise.models.embedder as embedder

    def missing(*args, **kwargs):
        raise AssertionError("the embedder was loaded")

    monkeypatch.setattr(embedder, "load_embedder", missing)
    with packwise.open(str(notes_pack)) as opened:
        assert opened.search("vaultctl revoke", mode="keyword").hits
        with pytest.raises(AssertionError):
            opened.search("vaultctl revoke")


def test_a_pipeline_takes_other_strengths(library):
    question = Query("how do I rotate the signing key?", graph="names")

    def searched(**strengths):
        pipeline = Pipeline(
            library.store, lambda: library.embedder, library.settings, no_model, **strengths
        )
        found = pipeline.search(question)
        pipeline.close()
        return {stage.name: stage.notes for stage in found.trace.stages}

    usual, still = searched(), searched(spread_parameters=SpreadParameters(bonus=0.0))
    assert usual["graph"]["reached"] > 0
    assert still["graph"]["reached"] == 0


def no_model():
    raise AssertionError("nothing asks for a cross-encoder here")


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    folder = tmp_path_factory.mktemp("words")
    pages = {
        "a": "# Copies\n\nA backup of the header is stored in a file.\n",
        "b": "# Ways\n\nScroll to the header of the page, or to the first one.\n",
        "c": "# Doors\n\nA login is needed to see a page.\n",
        "d": "# Marks\n\nMark each name as readonly.\n",
    }
    for name, page in pages.items():
        (folder / f"{name}.md").write_text(page, encoding="utf-8")
    packwise.build([str(folder)], str(folder / "pack"))
    with packwise.open(str(folder / "pack")) as opened:
        yield opened


@pytest.mark.parametrize(
    ("question", "document"),
    [
        ("How do I back up the header?", "a.md"),
        ("Who has backed up the header?", "a.md"),
        ("How do I log in?", "c.md"),
        ("Where was I logged in?", "c.md"),
        ("Is the page read-only?", "d.md"),
    ],
)
def test_a_phrasal_verb_or_a_compound_finds_the_noun_that_is_made_of_it(words, question, document):
    assert words.search(question, mode="keyword").hits[0].passage.document == document


def test_a_noun_that_no_passage_holds_is_not_searched(words):
    assert question_terms("back up the page over", words.store) == [
        "back",
        "up",
        "page",
        "over",
        "backup",
    ]
    assert question_terms("shut down the page", words.store) == ["shut", "down", "page"]
