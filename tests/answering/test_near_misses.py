"""What a question says that a text does not, so that a near miss is not called likely."""

import pytest

from packwise.answering.mismatches import mismatches
from packwise.language.analyzer import terms
from packwise.language.questions import parse_question

TEXT = "The steam engine was improved by James Watt in 1769. It used less coal than before."


def signs(question, text=TEXT):
    return mismatches(parse_question(question), text, set(terms(text)))


@pytest.mark.parametrize(
    ("question", "sign", "value"),
    [
        ("Who improved the engine?", "only asker negates", 0.0),
        ("Who did not improve the engine?", "only asker negates", 1.0),
        ("Which engine used less coal?", "opposite", 0.0),
        ("Which engine used more coal?", "opposite", 1.0),
    ],
)
def test_a_mismatch_is_seen_and_a_match_is_not(question, sign, value):
    assert signs(question)[sign] == value


def test_a_negation_in_both_is_no_mismatch():
    assert signs("Who did not sell it?", "He did not sell it.")["only asker negates"] == 0.0
