"""Shortcuts for common text find what the rules find without them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packwise.language import analyzer, key_matcher, names, sentences, word_classes
from packwise.language.analyzer import terms
from packwise.language.detection import guess, has_english_words
from packwise.language.entities import AliasIndex, facts_in
from packwise.language.key_matcher import phrases
from packwise.language.languages import languages
from packwise.language.names import MOST_NAME_WORDS, can_be_named, names_in
from packwise.language.sentences import sentence_spans
from packwise.language.word_classes import find_features
from packwise.language.words import count_words, word_count, words

_WORDS = st.sampled_from(
    "The is a an means first run then set Mr Dr No Inc U.S J ab Ab word Word longword 5 12 1984 $5"
    " 3,5% km days May in It v3 O'Neil Neil's Paris Texas New York 1. e.g foo.bar x_y () -".split()
)
_GAPS = st.sampled_from([" ", " ", " ", ". ", ". ", ".\n", "! ", "\n\n", "? ", ", ", ".", '." '])
_TEXTS = st.lists(st.tuples(_WORDS, _GAPS), max_size=40).map(
    lambda parts: "".join(word + gap for word, gap in parts)
)
_TITLES = AliasIndex([("1", "Paris"), ("2", "New York"), ("3", "Neil"), ("4", "Word O'Neil")])


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(_TEXTS, st.sampled_from("mr Dr Inc e.g st a word ofé p longword".split())))
)
def test_a_plain_full_stop_ends_what_the_rules_end(parts):
    text = "".join(f"{before}and some more of {last}. It " for before, last in parts)
    shortened = sentence_spans(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sentences, "_is_plain_stop", lambda *_: False)
        assert sentence_spans(text) == shortened


@settings(max_examples=300, deadline=None)
@given(_TEXTS)
def test_a_letter_beyond_ascii_changes_nothing_before_it(text):
    longer = f"{text}\n\né"
    assert list(find_features(longer)) == list(find_features(text))
    assert _TITLES.mentions(longer) == _TITLES.mentions(text)


def test_tokens_that_fill_the_memory_have_the_same_terms_afterwards(monkeypatch):
    monkeypatch.setattr(analyzer, "_MOST_KNOWN", 40)
    texts = [f"word{n}s of os.path{n}.join and running" for n in range(30)]
    for text in texts:
        words, identifiers = analyzer._token_terms(text, "en")
        assert terms(text, "en") == [*words, *identifiers]
        assert len(analyzer._known_tokens("en")) < 20


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(_TEXTS, st.text("a- .,'\u4e2d\u6587\n\x1f", max_size=12)), max_size=4))
def test_words_are_counted_as_they_are_listed(texts):
    assert word_count(texts) == count_words([word for text in texts for word in words(text)])


@settings(max_examples=300, deadline=None)
@given(_TEXTS)
def test_words_that_fill_the_memory_have_the_same_features_afterwards(text):
    found = list(find_features(text))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(word_classes, "_MOST_KNOWN", 0)
        assert list(find_features(text)) == found


def test_a_word_that_tells_something_only_after_another_is_seen_there_alone():
    assert [place for place, _ in find_features("it is a bird, a plane")] == [6]
    assert not list(find_features("a bird, the plane and is"))


@settings(max_examples=300, deadline=None)
@given(_TEXTS)
def test_names_on_one_line_are_those_of_the_whole_text(text):
    found = names_in(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            names,
            "_run_names",
            lambda text, run, nouns: names._split_run(
                text, run.span(), names.opens_sentence(text, run.start()), nouns
            ),
        )
        assert names_in(text) == found


@pytest.mark.parametrize(
    ("text", "subjects"),
    [
        ("A pack is a folder. It was open. The gate is one of them.", ["A pack", "The gate"]),
        ("The plan is", []),
        ("A plan is a\n\nNothing follows.", []),
        ("RPC stands for a call.\n\nQuality means the rest.", ["RPC", "Quality"]),
        ("Nothing here was defined.", []),
    ],
)
def test_a_sentence_without_the_words_of_a_definition_is_no_fact(text, subjects):
    assert [fact.subject for fact in facts_in(text)] == subjects


@settings(max_examples=300, deadline=None)
@given(st.one_of(_TEXTS, st.text("aA1' \u2019\ufb01\u00e9", max_size=20)))
def test_phrases_are_the_runs_of_words_that_can_be_named(text):
    words = key_matcher._Words(text).keys[:64]
    runs = [
        " ".join(words[at : at + length])
        for length in range(MOST_NAME_WORDS, 0, -1)
        for at in range(len(words) - length + 1)
    ]
    assert phrases(text) == [run for run in dict.fromkeys(runs) if can_be_named(run)]


def test_english_words_in_a_question_in_another_script_do_not_make_it_english():
    question = "what is 北京大学中文系"
    assert guess(question) == "zh"
    assert not has_english_words(question)


_FUNCTION_WORDS = sorted(word for row in languages().values() for word in row.stop_words)


@settings(max_examples=500, deadline=None)
@given(st.lists(st.sampled_from([*_FUNCTION_WORDS, "the", "when", "who", "of", "\u4e2d\u6587"])))
def test_no_other_language_is_guessed_where_there_are_english_words(words):
    question = " ".join(words)
    if has_english_words(question):
        assert guess(question) in ("", "en")
