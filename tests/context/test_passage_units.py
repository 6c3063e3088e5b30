"""A passage is shown in units: whole sentences, whole tables, whole code blocks."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from packwise.reading.units import read_units


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


@pytest.mark.parametrize(("characters", "read"), [(1200, 1), (1201, 109)])
def test_a_table_of_1200_characters_is_one_unit_and_a_longer_one_is_not(characters, read):
    rows = ["| 123456 |"] * 108
    filled = characters - len("\n".join(rows)) - len("\n|  |")
    text = "\n".join([*rows, f"| {'x' * filled} |"])
    assert len(text) == characters
    assert len(units(text)) == read


def test_what_ends_in_a_colon_brings_what_follows():
    assert read_units("Take these:\n- one\n- two").brings[0] == 0b010


def test_a_sentence_that_refers_to_the_one_before_depends_on_it():
    read = read_units("The tower was built in 1889. It is 300 m tall. Paris owns the tower.")
    assert read.brings == (0, 0b001, 0)
    assert read_units("It is 300 m tall.").brings == (0,)


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


def test_a_list_that_was_stored_without_blocks_is_read_by_items():
    text = "Take these.\n\n- one apple. Or two.\n- a pear\n\n```\nx = 1\n\ny = 2\n```"
    code = "```\nx = 1\n\ny = 2\n```"
    assert units(text) == ["Take these.", "- one apple. Or two.", "- a pear", code]
