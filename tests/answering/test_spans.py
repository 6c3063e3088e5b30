"""Runs of words as short answers: which ones there are, and what each scores."""

import json
import re
from importlib.resources import files

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packwise.answering.spans import LONGEST, Marks, Sentence, candidates, shape_of, spans
from packwise.language.questions import parse_question
from packwise.language.word_classes import CONTENT, WordClass, words_of
from packwise.models.base import SpanLogits

WORDS = (
    "The the old Anna Berg Marie wrote is was in on of and or quickly running walked "
    '1867 July 12 twelve years % ( ) , . " which Paris lighthouse port'
).split()
TEXTS = st.lists(st.sampled_from(WORDS), max_size=24).map(" ".join)
QUESTION = parse_question("Which years did Anna Berg write on the lighthouse?", "en")
NOT_LAST = "comma open dash conjunction determiner preposition relative auxiliary pronoun quote"
NOT_FIRST = "comma close dash stop conjunction relative quote open determiner"


def weights(judge):
    stored = files("packwise.answering").joinpath("span_weights.json").read_text("utf-8")
    return json.loads(stored)[judge]


def marked(text):
    tokens = tuple(match.span() for match in re.finditer(r"\w+|[^\w\s]", text))
    logits = np.linspace(-2.0, 2.0, len(tokens), dtype=np.float32)
    return Marks(SpanLogits(tokens, logits, logits[::-1].copy(), 0.5))


@given(TEXTS)
def test_every_run_of_words_that_may_be_an_answer_is_a_candidate(text):
    words = words_of(text, "en")

    def may_be_one(first, last):
        run = words[first:last]
        opened = 0
        for word in run:
            opened += (word.kind is WordClass.OPEN) - (word.kind is WordClass.CLOSE)
            if word.kind is WordClass.STOP or opened < 0:
                return False
        filled = any(word.kind in CONTENT or word.kind is WordClass.ADVERB for word in run)
        whole = run[0].kind not in NOT_FIRST.split() and run[-1].kind not in NOT_LAST.split()
        return filled and whole

    every = [
        (first, last)
        for first in range(len(words))
        for last in range(first + 1, min(len(words), first + LONGEST) + 1)
        if may_be_one(first, last)
    ]
    assert [(one.first, one.last) for one in spans(QUESTION, Sentence(text, 1.0, "en"))] == every


@given(TEXTS, st.booleans())
def test_the_score_of_a_span_is_that_of_its_features(text, with_marks):
    marks = marked(text) if with_marks else None
    sentence = Sentence(text, 1.5, "en", marks)
    weight = weights("marks" if with_marks else "words")
    for span, (first, last, start, end, features) in zip(
        spans(QUESTION, sentence), candidates(QUESTION, sentence), strict=True
    ):
        assert (span.first, span.last, span.start, span.end) == (first, last, start, end)
        expected = sum(weight.get(name, 0.0) * value for name, value in features)
        assert span.score == pytest.approx(expected, abs=1e-9)


@given(TEXTS)
def test_the_features_of_a_run_name_its_shape_and_the_asked_words_in_it(text):
    words = words_of(text, "en")
    for first, last, _, _, features in candidates(QUESTION, Sentence(text, 1.0, "en")):
        held, run = dict(features), words[first:last]
        assert f"fits:{QUESTION.answer}:{shape_of(run)}" in held
        content = [word.term for word in run if word.term]
        asked = [term for term in content if term in QUESTION.weights]
        assert held.get("asked words", 0.0) == pytest.approx(len(asked) / max(1, len(content)))
        assert ("asked words:only" in held) == (bool(asked) and len(asked) == len(content))


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("12 July 1867", "date"),
        ("twelve years", "time"),
        ("12 %", "figures"),
        ("twelve", "number word"),
        ("lighthouse", "plain"),
        ("Anna wrote", "mixed"),
        ("Anna", "one name"),
        ("Anna Berg", "name"),
        ("Anna Berg Marie Paris", "long name"),
        ("", "plain"),
    ],
)
def test_a_run_of_words_has_a_shape(text, shape):
    assert shape_of(words_of(text, "en")) == shape


def test_what_is_near_the_rarest_asked_word_counts_by_that_word():
    question = QUESTION.weighted(lambda term: 5.0 if term == "lighthous" else 1.0)
    text = "Anna went to the big lighthouse there"
    found = {
        text[start:end]: dict(features)
        for _, _, start, end, features in candidates(question, Sentence(text, 1.0, "en"))
    }
    # Two words before it, not one: words that are asked for count from outside of the run.
    assert found["went"]["near:rarest"] == pytest.approx(np.exp(-4 / 5))
    assert found["went"]["near:closest"] == 1.0
    assert found["big"]["near:rarest"] == pytest.approx(np.exp(-1 / 5))


def test_the_word_before_a_run_is_no_part_of_its_shape():
    found = {
        (first, last): dict(features)
        for first, last, _, _, features in candidates(QUESTION, Sentence("two years Paris", 1.0))
    }
    assert f"fits:{QUESTION.answer}:one name" in found[2, 3]
    assert f"fits:{QUESTION.answer}:time" in found[1, 3]
