"""The quality of a section is the specification's, to the digit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from packwise.context.quality import Exemption, exemption, section_quality
from packwise.language.analyzer import FUNCTION_WORDS

QUESTION = "quantum entanglement"


def section(words, matched=0):
    """So many words, the first of them keywords of the question."""
    return " ".join([*QUESTION.split()[:matched], *["word"] * (words - matched)])


@pytest.mark.parametrize(
    ("words", "matched", "score"),
    [
        (0, 0, 0.0),
        (2, 0, 0.0),
        (19, 2, 0.0),
        (20, 0, 0.26),
        (50, 0, 0.35),
        (50, 1, 0.45),
        (50, 2, 0.55),
        (100, 0, 0.50),
        (200, 0, 0.80),
        (200, 2, 1.0),
        (1000, 0, 0.80),
        (1000, 2, 1.0),
    ],
)
def test_the_score_follows_length_and_keywords(words, matched, score):
    assert section_quality(section(words, matched), QUESTION) == pytest.approx(score, abs=1e-12)


def test_the_examples_of_the_specification():
    assert section_quality("See also.", QUESTION) == 0.0
    assert section_quality(" ".join(["word"] * 50), QUESTION) == pytest.approx(0.35)
    full = " ".join(["quantum", "entanglement"] * 100)
    assert section_quality(full, QUESTION) == pytest.approx(1.0)


@pytest.mark.parametrize("question", ["", "???", "what is the of", "Who are you, and why?"])
def test_a_question_of_function_words_alone_matches_nothing(question):
    content = " ".join(["what is the of who are you and why"] * 3)
    assert section_quality(content[: len(content)], question) == pytest.approx(0.2 + 27 / 200 * 0.6)


def test_punctuation_and_case_cost_no_match_and_are_no_words():
    content = f"“Quantum” entanglement, {section(48)} - — … !"
    assert section_quality(content, "What is QUANTUM entanglement?") == pytest.approx(0.55)


@pytest.mark.parametrize(
    ("words", "matched", "kept"),
    [(2, 0, False), (20, 0, False), (50, 0, True), (50, 2, True), (200, 0, True), (200, 2, True)],
)
def test_the_specifications_threshold_of_three_tenths_parts_stubs_from_sections(
    words, matched, kept
):
    assert (section_quality(section(words, matched), QUESTION) >= 0.3) is kept


def test_stop_words_are_function_words_only():
    assert 80 <= len(FUNCTION_WORDS) <= 110
    assert {"a", "an", "the", "in", "of", "to", "for", "with", "by", "from"} <= FUNCTION_WORDS
    assert {"he", "they", "is", "have", "would", "and", "because"} <= FUNCTION_WORDS
    assert not {"photosynthesis", "first", "time", "number", "use", "make"} & FUNCTION_WORDS


@pytest.mark.parametrize(
    ("text", "question", "why"),
    [
        ("A mirror is a server that keeps a copy.", "What is a mirror?", Exemption.DEFINITION),
        ("Mirror: a server that keeps a copy.", "define mirror", Exemption.DEFINITION),
        ("TTL stands for time to live.", "What does TTL mean?", Exemption.DEFINITION),
        ("os.path.join(path, *paths) -> str", "how does path.join work?", Exemption.SIGNATURE),
        ("| timeout | 30 s |", "What is the default timeout?", Exemption.TABLE_ROW),
        ("timeout\t30 s", "What is the default timeout?", Exemption.TABLE_ROW),
        ("See also.", "What is a mirror?", None),
        ("See also: mirror", "What is a mirror?", None),
        ("Main article: mirror", "What is a mirror?", None),
        ("Mirror", "What is a mirror?", None),
        ("Mirrors and tenants", "What is a mirror?", None),
        ("A tenant is a customer.", "What is a mirror?", None),
        ("| name | value |", "What is the default timeout?", None),
        ("A mirror is a server" + "." * 580, "What is a mirror?", Exemption.DEFINITION),
        ("A mirror is a server" + "." * 581, "What is a mirror?", None),
    ],
)
def test_a_short_passage_that_answers_directly_is_exemption(text, question, why):
    assert exemption(text, question) is why
    if why is not None:
        assert section_quality(text, question) == 0.0


def test_a_short_definition_of_its_own_heading_is_exemption():
    text = "Lilu is a masculine Akkadian word for a spirit."
    assert exemption(text, "What was the demon called?") is None
    assert exemption(text, "What was the demon called?", heading="Lilu") is Exemption.DEFINITION
    born = 'Sergio "Kun" Agüero (born 2 June 1988) is a footballer who plays as a striker.'
    assert exemption(born, "Which position?", heading="Sergio Agüero") is Exemption.DEFINITION


@given(st.text(max_size=300), st.text(max_size=60))
def test_any_text_has_a_score_between_0_and_1(content, question):
    assert 0.0 <= section_quality(content, question) <= 1.0
    exemption(content, question)
