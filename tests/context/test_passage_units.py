"""A passage is shown in units: whole sentences, whole tables, whole code blocks."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from packwise.context.passage_features import passage_features
from packwise.context.units import read_units


def units(text):
    return [text[a:b] for a, b in read_units(text).spans]


def test_sentences_are_units():
    text = "The first is here. The second, e.g. this one, follows. Is that all?"
    assert units(text) == [
        "The first is here.",
        "The second, e.g. this one, follows.",
        "Is that all?",
    ]


def test_a_table_is_one_unit():
    text = "Limits follow.\n\n| name | value |\n|---|---|\n| a | 1 |\n| b | 2 |\n\nThat is all."
    assert units(text)[1] == "| name | value |\n|---|---|\n| a | 1 |\n| b | 2 |"


def test_fenced_code_is_one_unit():
    text = "Do this.\n\n```python\nx = 1\n\ny = 2\n```\n\nThen stop."
    assert units(text)[1] == "```python\nx = 1\n\ny = 2\n```"


def test_a_table_too_long_to_be_one_is_read_row_by_row():
    rows = "\n".join(f"| name {i} | value {i} |" for i in range(100))
    assert len(units(rows)) == 100


def test_what_ends_in_a_colon_brings_what_follows():
    assert read_units("Take these:\n- one\n- two").brings[0] == 0b010


def test_a_sentence_that_refers_to_the_one_before_depends_on_it():
    features = passage_features(
        "The tower was built in 1889. It is 300 m tall. Paris owns the tower."
    )
    assert features.brings == (0, 0b001, 0)
    assert passage_features("It is 300 m tall.").brings == (0,)


def test_terms_are_known_by_the_units_they_occur_in():
    features = passage_features("Keys rotate yearly. The vault keeps a key. Nothing else.")
    assert features.term_units["key"] == 0b011
    assert features.term_units["vault"] == 0b010
    assert "the" not in features.term_units


@given(st.text(alphabet="ab .!?\n|`-:1\t", max_size=120))
def test_units_hold_every_character_that_is_not_space_in_order(text):
    spans = read_units(text).spans
    assert all(a < b for a, b in spans)
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    rest, at = [], 0
    for a, b in spans:
        rest.append(text[at:a])
        at = b
    assert not "".join([*rest, text[at:]]).strip()
    assert passage_features(text).all_units == (1 << len(spans)) - 1
