"""Shortcuts for common text find what the rules find without them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packwise.language import analyzer, sentences
from packwise.language.analyzer import terms
from packwise.language.entities import AliasIndex
from packwise.language.sentences import sentence_spans
from packwise.language.word_classes import find_features

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
