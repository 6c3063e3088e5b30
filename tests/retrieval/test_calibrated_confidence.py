"""The probability that the answer is there: its signs, its file, and the gate."""

import json
import shutil
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from packwise.agent import KnowledgeGraphAgent
from packwise.candidates import Candidate, Scores
from packwise.documents import Block, BlockKind, Passage
from packwise.errors import DataError
from packwise.library import open_library
from packwise.reading.passage_reading import stored_reading
from packwise.retrieval.calibration import (
    CALIBRATION,
    SIGNS,
    calibration_path,
    default_calibration,
    load_calibration,
    parse,
    signs,
    topic_similarity,
)
from packwise.settings import Settings
from packwise.stores.base import TermStatistics

STATISTICS = TermStatistics(100, 20.0, {"rollo": 2, "swear": 5, "norman": 30, "fealti": 3})


def hit(text, *, similarity=0.7, keyword=0.5, cross=None, title="Normans"):
    passage = Passage("d#0", "d", title, (), 0, text, 0, len(text), "h")
    scores = Scores(similarity=similarity, keyword=keyword, cross=cross, final=similarity)
    return Candidate(1, passage, scores)


def read(question, *hits):
    return signs(question, [h.scores for h in hits], hits, STATISTICS)


def own_calibration(pack, **changes):
    """Give a pack a calibration of its own that always says the same."""
    stored = default_calibration().as_dict()
    stored["source"] = "pack"
    stored["models"] = [
        {"bias": 2.0, "signs": {"similarity": {"mean": 0.0, "scale": 1.0, "weight": 0.0}}}
    ]
    with open_library(str(pack)) as library:
        stored["embedder_version"] = library.info().embedder_version
    stored.update(changes)
    (pack / CALIBRATION).write_text(json.dumps(stored))


@pytest.fixture
def pack(tmp_path, notes_pack):
    return shutil.copytree(notes_pack, tmp_path / "pack")


def test_words_count_together_where_the_best_sentence_of_a_passage_holds_them():
    question = "Whom did Rollo swear fealty to?"
    apart = read(question, hit("Rollo came. They swear. Rollo left."))
    joined = read(question, hit("They came. Rollo had to swear."), hit("They swear fealty, Rollo."))
    assert apart["together_first"] == apart["together"] < apart["held"]
    assert apart["together_first"] < joined["together_first"] == joined["held"]
    assert joined["together_first"] < joined["together"] == joined["held_best"]


_PARTS = st.lists(
    st.sampled_from(
        "Rollo swears|of Rollo.|Normans swear|fealty to|the Normans|others.|It came.|He swore. "
        "|and then|? |\n\n- |\n- one|\n\n| | in 911 a.m. to Charles|Dr. Lee"
        "|\n\n    swear(fealty)\n\n".split("|")
    ),
    max_size=40,
)


@settings(max_examples=300, deadline=None)
@given(st.lists(_PARTS.map(" ".join), min_size=1, max_size=3))
@example(["They had to swear. It rained. Fealty to Charles came."])
def test_a_stored_reading_changes_no_sign(texts):
    hits = [hit(text) for text in texts]
    question = "Whom did Rollo of the Normans swear fealty to in 911?"
    # What kinds of blocks they have may be known or not.
    for prose in (False, True):
        blocks = [(Block(BlockKind.TEXT, 0, len(text)),) if prose else () for text in texts]
        passages = [replace(one.passage, blocks=of) for one, of in zip(hits, blocks, strict=True)]
        stored = [replace(one, reading=stored_reading(one)) for one in passages]
        known = [replace(one, passage=of) for one, of in zip(hits, stored, strict=True)]
        assert read(question, *known) == read(question, *hits)


def test_every_sign_is_read_and_explained():
    found = read("Whom did Rollo swear fealty to?", hit("Rollo agreed to swear fealty to Charles."))
    assert set(found) == set(SIGNS)
    assert set(default_calibration().models[0].signs) <= set(SIGNS)


def test_a_wrong_name_shows_in_the_signs_and_lowers_the_probability():
    text = "Under their leader Rollo they agreed to swear fealty to King Charles of West Francia."
    right = read("Whom did Rollo of the Normans swear fealty to?", hit(text))
    wrong = read("Whom did Herve of the Normans swear fealty to?", hit(text))
    assert (right["names_missing"], wrong["names_missing"]) == (0, 1)
    calibration = default_calibration()
    assert calibration.probability(right) > calibration.probability(wrong)


@pytest.mark.parametrize(
    ("keywords", "agreement"),
    [((0.9, 0.5, 0.1), 1.0), ((0.5, 0.9, 0.1), 1 / 2), ((0.1, 0.9, 0.5), 1 / 3), ((0.5,) * 3, 1.0)],
)
def test_the_legs_agree_as_far_as_the_keyword_leg_ranks_the_best_vector(keywords, agreement):
    hits = [
        hit("Rollo.", similarity=similarity, keyword=keyword)
        for similarity, keyword in zip((0.9, 0.6, 0.3), keywords, strict=True)
    ]
    assert read("Rollo?", *hits)["agreement"] == pytest.approx(agreement)


def test_words_count_together_only_within_one_sentence():
    apart = read("Did Rollo swear?", hit("Rollo came. Others swear.", title=""))
    joined = read("Did Rollo swear?", hit("Rollo came to swear.", title=""))
    assert apart["held"] == joined["held"] == 1.0
    assert apart["together"] < joined["together"] == 1.0


def test_the_cross_encoder_is_a_sign_only_where_it_read():
    assert "cross" not in read("Rollo?", hit("Rollo."))
    assert read("Rollo?", hit("Rollo.", cross=0.8))["cross"] == 0.8


@pytest.mark.parametrize("scores", [{"similarity": None}, {"keyword": None}])
def test_one_leg_alone_gives_no_signs(scores):
    one = hit("Rollo.")
    assert read("Rollo?", replace(one, scores=replace(one.scores, **scores))) == {}
    assert read("Rollo?") == {}


@pytest.mark.parametrize("question", ["?", "what is the", "Ünïcödé 日本", "a" * 5000, "\x00"])
def test_any_question_has_signs(question):
    found = read(question, hit(""), hit("日本語。"))
    assert default_calibration().probability(found) is not None


def test_without_its_own_calibration_a_pack_gates_on_similarity_and_says_so(pack):
    with open_library(str(pack)) as library:
        found = library.search("how do I rotate the signing key?")
        best = max(h.scores.similarity for h in found.hits)
    assert found.confidence == pytest.approx(best)
    assert found.probability is not None
    assert found.threshold == 0.5
    stage = next(s for s in found.trace.as_dict()["stages"] if s["name"] == "confidence")
    assert stage["calibration"] == "default"


def test_with_its_own_calibration_the_gate_gets_the_probability_and_its_threshold(pack):
    own_calibration(pack, threshold=0.83)
    with open_library(str(pack)) as library:
        found = library.search("which wine goes with roast duck?")
    assert found.confidence == found.probability == pytest.approx(1 / (1 + 2.718281828**-2))
    assert found.threshold == 0.83


@pytest.mark.parametrize("own", [0.2, 0.95])
@pytest.mark.parametrize("given", [None, 0.2, 0.95])
def test_asking_follows_the_calibrated_gate_unless_the_caller_has_a_threshold(pack, own, given):
    own_calibration(pack, threshold=own)
    with open_library(str(pack)) as library:
        answer = library.ask("how do I rotate the signing key?", synthesis=False, threshold=given)
    refused = (own if given is None else given) == 0.95
    assert (answer.query_type == "confidence_gated_fallback") == refused
    stages = {stage.name: stage.notes for stage in answer.trace.stages}
    assert stages["confidence"]["probability"] == pytest.approx(0.880797)


@pytest.mark.parametrize("passes", [True, False])
def test_the_gate_decides_before_the_cross_encoder_and_its_score_comes_in_after(pack, passes):
    sure, unsure = 2.0, -2.0
    biases = (
        {"cross": unsure, "similarity": sure} if passes else {"cross": sure, "similarity": unsure}
    )
    flat = {"mean": 0.0, "scale": 1.0, "weight": 0.0}
    models = [{"bias": bias, "signs": {name: flat}} for name, bias in biases.items()]
    own_calibration(pack, threshold=0.5, models=models)
    with open_library(str(pack)) as library:
        found = library.search(
            "how do I rotate the signing key?", gated=True, rerank="crossencoder"
        )
    assert found.refused != passes
    assert ("cross" in found.signs) == passes
    assert found.confidence == pytest.approx(0.119203)


@pytest.mark.parametrize("value", [0.2, 0.5])
def test_a_threshold_that_the_user_set_wins(pack, value):
    own_calibration(pack, threshold=0.95)
    settings = Settings.load(context_confidence_threshold=value)
    with open_library(str(pack), settings=settings) as library:
        assert library.search("signing key").threshold == value


def test_a_threshold_in_the_environment_wins_even_if_it_equals_the_default(pack, monkeypatch):
    own_calibration(pack, threshold=0.95)
    question = "how do I rotate the signing key?"
    for variable in ("CONTEXT_CONFIDENCE_THRESHOLD", "PACKWISE_CONTEXT_CONFIDENCE_THRESHOLD"):
        with monkeypatch.context() as patch, open_library(pack) as library:
            refused = library.ask(question, synthesis=False)
            patch.setenv(variable, "0.5")
            with open_library(pack) as library_with_threshold:
                answered = library_with_threshold.ask(question, synthesis=False)
        assert refused.query_type == "confidence_gated_fallback"
        assert answered.query_type == "vector_search"


def test_a_threshold_of_a_subclass_wins_even_if_it_equals_the_default(pack):
    class Agent(KnowledgeGraphAgent):
        CONTEXT_CONFIDENCE_THRESHOLD = 0.5

    own_calibration(pack, threshold=0.95)
    question = "how do I rotate the signing key?"
    with KnowledgeGraphAgent(pack) as usual, Agent(pack) as own:
        assert usual.query(question)["query_type"] == "confidence_gated_fallback"
        assert own.query(question)["query_type"] == "vector_search"


def test_a_calibration_for_another_embedder_does_not_count(pack):
    own_calibration(pack, embedder_version="another")
    with open_library(str(pack)) as library:
        assert load_calibration(library.info()).source == "default"


@pytest.mark.parametrize("content", ["oops", "[]", '{"format": 9}', '{"format": 1, "models": 3}'])
def test_a_file_that_is_no_calibration_is_one_line_with_what_mends_it(pack, content):
    (pack / CALIBRATION).write_text(content)
    with (
        open_library(str(pack)) as library,
        pytest.raises(DataError, match=r"is not a calibration: .*packwise calibrate"),
    ):
        library.search("signing key")


@pytest.mark.parametrize(
    "wrong",
    [
        {"threshold": 10**400},
        {"answer_scale": float("inf")},
        {"models": [{"bias": float("nan"), "signs": {}}]},
        {"models": [{"bias": 0, "signs": {"similarity": {"mean": 0, "scale": 0, "weight": 1}}}]},
    ],
)
def test_numbers_that_no_fit_gives_are_one_line(pack, wrong):
    own_calibration(pack, **wrong)
    with (
        open_library(str(pack)) as library,
        pytest.raises(DataError, match=r"is not a calibration: .*packwise calibrate"),
    ):
        library.search("signing key")


def test_a_correction_beyond_all_measure_still_gives_a_probability():
    calibration = replace(default_calibration(), answer_scale=1.0, answer_shift=-1e6)
    assert calibration.answer_probability(0.4) == 0.0


def test_one_leg_alone_keeps_the_raw_confidence(pack):
    own_calibration(pack)
    with open_library(str(pack)) as library:
        found = library.search("signing key", mode="keyword")
    assert found.probability is None
    assert found.confidence == max(h.scores.keyword for h in found.hits)


def test_the_probability_does_not_depend_on_how_many_are_asked_for(pack):
    with open_library(str(pack), settings=Settings.load(query_cache=0)) as library:
        one = library.search("how long is a backup kept?", 1)
        many = library.search("how long is a backup kept?", 10)
    assert len(one.hits) == 1
    assert one.probability == pytest.approx(many.probability)


def test_a_build_leaves_the_calibration_alone(pack, notes):
    from packwise.packs.build import build_pack

    own_calibration(pack)
    build_pack([str(notes / "guides")], str(pack))
    with open_library(str(pack)) as library:
        assert calibration_path(library.info()) == pack / CALIBRATION
        assert load_calibration(library.info()).source == "pack"


def test_a_store_that_is_no_folder_keeps_it_in_the_home_folder(pack, monkeypatch, tmp_path):
    monkeypatch.setenv("PACKWISE_HOME", str(tmp_path / "home"))
    with open_library(str(pack)) as library:
        info = replace(library.info(), kind="postgresql", location="postgresql://host/db")
    assert calibration_path(info).is_relative_to(tmp_path / "home" / "calibrations")
    assert load_calibration(info).source == "default"


def test_the_default_calibration_states_its_data_and_error():
    facts = default_calibration().facts
    assert facts["held_out"]["ece"] <= 0.05
    assert "SQuAD" in facts["data"]
    assert parse(default_calibration().as_dict(), "x") == default_calibration()


def test_the_endings_of_a_japanese_question_do_not_count():
    passage = hit("何人も、拷問又は残虐な刑罰を受けることはない。", title="第5条")
    statistics = TermStatistics(30, 40.0, {"拷問": 1})
    assert topic_similarity("拷問は許されるか", [passage], statistics, "ja") > 0.5
    assert topic_similarity("航空券はいくらですか", [passage], statistics, "ja") < 0.5


def test_a_passage_of_a_store_with_much_text_has_to_hold_more_of_the_question():
    passage, known = hit("Das Wasser ist kalt."), {"wass": 2, "berg": 2, "wolk": 2}
    little, much = (
        topic_similarity("Wasser Berge Wolken", [passage], TermStatistics(30, length, known), "de")
        for length in (25.0, 2500.0)
    )
    assert little > 0.5 > much


def test_an_embedder_counts_for_words_in_latin_letters_alone():
    def near(question, text, lang, similarity):
        return topic_similarity(question, [hit(text)], STATISTICS, lang, similarity)

    german = ("Sind Steine schwer?", "Das Wasser ist kalt.", "de")
    assert near(*german, 0.8) > 0.5 > near(*german, None) == near(*german, 0.3)
    russian = ("Тяжёлые ли камни?", "Вода холодная.", "ru")
    assert near(*russian, 0.8) == near(*russian, None)
