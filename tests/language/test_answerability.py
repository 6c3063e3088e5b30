"""What looks like an answer gets a small bonus, and nothing else does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from packwise.language.questions import QuestionKind, answerability, parse_question
from packwise.language.word_classes import (
    DATE,
    DEFINITION,
    DURATION,
    LIST,
    NAME,
    NUMBER,
    QUANTITY,
    STEPS,
    find_features,
    find_names,
)


def features_of(text):
    found = NAME if find_names(text) else 0
    for _, features in find_features(text):
        found |= features
    return found


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("Who wrote Ulysses?", QuestionKind.WHO),
        ("Which author wrote it?", QuestionKind.WHO),
        ("When did the war begin?", QuestionKind.WHEN),
        ("In what year was it built?", QuestionKind.WHEN),
        ("Where is the Louvre?", QuestionKind.WHERE),
        ("How many people live there?", QuestionKind.HOW_MANY),
        ("What is the population of Ghana?", QuestionKind.HOW_MANY),
        ("How long does a restore take?", QuestionKind.HOW_LONG),
        ("How often is it backed up?", QuestionKind.HOW_LONG),
        ("What is a mirror?", QuestionKind.WHAT_IS),
        ("What does TTL mean?", QuestionKind.WHAT_IS),
        ("How do I rotate the key?", QuestionKind.HOW_TO),
        ("How to roll back", QuestionKind.HOW_TO),
        ("Compare the two systems", QuestionKind.OTHER),
        ("", QuestionKind.OTHER),
    ],
)
def test_a_question_is_known_by_its_wording(question, kind):
    assert parse_question(question).kind is kind


@pytest.mark.parametrize(
    ("text", "held", "not_held"),
    [
        ("It weighs 40 kg.", NUMBER | QUANTITY, DATE | DURATION),
        ("It costs $12 today.", QUANTITY, DATE),
        ("It rose by 3.5% again.", QUANTITY, DATE),
        ("Forty minutes are enough.", NUMBER | QUANTITY | DURATION, DATE),
        ("There are 12 of them.", NUMBER, QUANTITY | DATE),
        ("It began in 1973.", DATE | NUMBER, QUANTITY),
        ("It began on 4 July there.", DATE, QUANTITY),
        ("It began in March.", DATE, NUMBER),
        ("They march in step.", 0, DATE),
        ("You may go.", 0, DATE),
        ("It is due on Tuesday.", DATE, NUMBER),
        ("It runs nightly.", DURATION, DATE),
        ("A mirror is a server.", DEFINITION, LIST),
        ("It refers to a place.", DEFINITION, STEPS),
        ("Dogs chase the cats.", 0, DEFINITION),
        ("It holds:\n- one thing\n- another", LIST, STEPS),
        ("1. Open it.\n2. Close it.", LIST | STEPS, 0),
        ("Then run the check.", STEPS, LIST),
        ("People run the shop.", 0, STEPS),
        ("He met Rollo there.", NAME, NUMBER),
        ("He met somebody there. They left.", 0, NAME),
    ],
)
def test_features_are_seen_where_they_are_and_only_there(text, held, not_held):
    found = features_of(text)
    assert found & held == held
    assert not found & not_held


def test_each_kind_of_question_asks_for_its_own_feature():
    when, how_long = parse_question("When did it begin?"), parse_question("How long is it?")
    assert when.features & features_of("It began in 1973.")
    assert not when.features & features_of("It weighs 40 kg.")
    assert how_long.features & features_of("It takes forty minutes.")
    assert not how_long.features & features_of("It began in 1973.")
    assert parse_question("Compare the two systems").features == 0


@pytest.mark.parametrize(
    ("features", "matches", "bonus"),
    [
        (0, False, 0.0),
        (NUMBER | NAME, False, 0.0),
        (QUANTITY, False, 0.05),
        (QUANTITY | DATE, False, 0.075),
        (QUANTITY | DATE | LIST, False, 0.075),
        (NAME, True, 0.125),
        (DATE, True, 0.125),
        (DATE | QUANTITY, True, 0.15),
    ],
)
def test_the_bonus_is_half_to_one_and_a_half_of_the_setting(features, matches, bonus):
    assert answerability(features, matches, 0.1).bonus == pytest.approx(bonus)
    assert answerability(features, matches, 0.0).bonus == 0.0


def test_names_are_found_with_their_places():
    text = "The king met Rollo and (Anna) in Paris."
    assert find_names(text) == [(13, "rollo"), (24, "anna"), (33, "paris")]


@given(st.text(max_size=400))
def test_any_text_can_be_read(text):
    assert features_of(text) >= 0
    parse_question(text)


def test_reading_takes_time_linear_in_the_text():
    for hostile in ("1" * 100_000, "A " * 50_000, "\n" * 100_000, "1,2." * 25_000, " $" * 50_000):
        assert features_of(hostile) >= 0
