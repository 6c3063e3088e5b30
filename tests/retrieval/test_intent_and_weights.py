"""What a question is after, and how much each leg counts for it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from packwise.language.questions import Intent, parse_question
from packwise.retrieval.fusion import Weights, leg_weights
from packwise.retrieval.profile import LegProfile, Profile
from packwise.settings import Settings

DEFAULT = Settings.load({})


@pytest.mark.parametrize(
    ("question", "intent"),
    [
        ("What is a monad?", Intent.DEFINITION),
        ("What does ACID stand for?", Intent.DEFINITION),
        ("Who was Ada Lovelace?", Intent.DEFINITION),
        ("What is the process of water turning to vapour called?", Intent.DEFINITION),
        ("How many moons has Jupiter?", Intent.MEASUREMENT),
        ("In what year did the war end?", Intent.MEASUREMENT),
        ("When was the bridge built?", Intent.MEASUREMENT),
        ("How do I rotate the signing key?", Intent.PROCEDURE),
        ("how to install a pack", Intent.PROCEDURE),
        ("What is the difference between a list and a tuple?", Intent.COMPARISON),
        ("postgres vs qdrant", Intent.COMPARISON),
        ("what does os.path.join return", Intent.LOOKUP),
        ('where does it say "at most once"', Intent.LOOKUP),
        ("effects of sleep on memory", Intent.EXPLORATORY),
        ("", Intent.EXPLORATORY),
    ],
)
def test_intent_is_told_by_how_a_question_is_put(question, intent):
    assert parse_question(question).intent is intent


def test_presets_are_those_of_the_specification():
    definition = leg_weights("What is a monad?", DEFAULT)
    assert definition.weights == Weights(0.5, 0.5)
    assert definition.k_base == 16
    exploratory = leg_weights("effects of sleep on memory", DEFAULT)
    assert exploratory.weights.keyword == pytest.approx(0.3)
    assert exploratory.k_base == 12


def test_configured_weights_stay_as_they_are_without_adaptive_ones():
    fixed = Settings.load({"QUERY_ADAPTIVE_WEIGHTS": "off", "HYBRID_KEYWORD_WEIGHT": "0.7"})
    weights = leg_weights("What is a monad?", fixed)
    assert weights.weights == Weights(0.5, 0.5)
    assert weights.k_base == 12
    assert weights.after(0.99) == weights.weights


@given(
    question=st.text(max_size=60),
    low=st.floats(0, 1),
    high=st.floats(0, 1),
    keyword=st.floats(0, 1),
)
def test_weights_sum_to_one_and_never_rise_with_sureness(question, low, high, keyword):
    low, high = sorted((low, high))
    profile = Profile("v", {"": LegProfile(40, 0.5, 0.5, best=0.4, spread=0.1, scale=0.1)})
    weights = leg_weights(question, Settings.load({}, keyword_weight=keyword), profile=profile)
    first, second = weights.after(low), weights.after(high)
    assert first.keyword >= second.keyword >= 0
    assert first.vector + first.keyword == pytest.approx(1)


@given(st.text(max_size=2000))
def test_any_text_has_an_intent(text):
    assert parse_question(text).intent in Intent
