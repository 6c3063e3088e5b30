"""What is stored with a passage is what reading its text again would find."""

import struct
from binascii import a2b_base64, b2a_base64
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from packwise.documents import Block, BlockKind, Passage
from packwise.language.analyzer import terms
from packwise.language.words import holds_word, is_spaced, words
from packwise.models.tokens import token_counter
from packwise.reading.passage_reading import (
    READING_RULES,
    reading_of,
    stored_reading,
    term_hash,
    unit_pieces,
)

TEXT = (
    "Install the client first. It needs Python 3.11 and 200 MB. Then run this:\n\n"
    "pip install client\nclient --version\n\nAnn Lee wrote it in 2019."
)
CODE = Block(BlockKind.CODE, TEXT.index("pip"), TEXT.index("\n\nAnn"))


def passage(text=TEXT, blocks=(), title="Client", path=("Setup",)):
    return Passage("a#0", "a", title, path, 0, text, 0, len(text), "hash", blocks=blocks)


def parts(reading):
    """A reading as values that can be compared."""
    values = {name: getattr(reading, name) for name in reading.__slots__}
    return values | {"terms": reading.terms.tolist()}


def read_back(given):
    stored = stored_reading(given)
    assert stored.startswith(f"{READING_RULES}:")
    return reading_of(replace(given, reading=stored))


@given(
    st.text(alphabet="aB1 .:!?\n|`-é中。", max_size=200),
    st.sampled_from(["", "Title of it", "中文"]),
)
def test_a_stored_reading_equals_a_new_one(text, title):
    given = passage(text, title=title)
    assert parts(read_back(given)) == parts(reading_of(given))


def test_code_and_what_a_unit_brings_are_stored():
    stored = read_back(passage(blocks=(CODE,)))
    shown = [TEXT[a:b] for a, b in stored.units]
    assert shown[3] == "pip install client\nclient --version"
    assert stored.code == 0b01000
    # "It needs" brings the sentence before, "Then run this:" the code, the code that sentence.
    assert stored.brings == (0, 0b00001, 0b01000, 0b00100, 0)


def test_stored_tokens_are_those_of_the_default_encoding():
    stored = read_back(passage())
    counted = token_counter("o200k_base").count_many(unit_pieces(TEXT, stored.units))
    assert list(stored.tokens) == counted
    assert counted == [5, 12, 4, 8, 10]


def test_terms_go_by_the_heading_and_each_unit():
    stored = read_back(passage("Keys rotate. The vault keeps a key."))
    raw = [term_hash(term) for part in ("Client Setup", "Keys rotate") for term in terms(part)]
    assert stored.term_counts == (2, 2, 3)
    assert stored.terms.tolist()[:4] == raw
    assert term_hash("key") in stored.terms.tolist()[4:]


def test_a_reading_is_not_trusted_for_another_text_or_by_other_rules():
    mine = passage()
    stored = stored_reading(mine)
    longer = passage("Nothing of that. At all.")
    assert parts(reading_of(replace(longer, reading=stored))) == parts(reading_of(longer))
    earlier = replace(mine, reading=stored.replace(READING_RULES, "0-rules"))
    assert parts(reading_of(earlier)) == parts(reading_of(mine))
    assert stored_reading(earlier) == stored


def test_a_text_too_long_for_the_stored_form_is_read_when_needed():
    long = passage("A sentence of words. " * 4000)
    assert stored_reading(long) == ""
    assert len(reading_of(long).units) == 4000


@given(st.text(alphabet="ab é.,-(\n\t中。", max_size=40), st.sampled_from(["a", "ab", "b-a", "é"]))
def test_a_word_is_found_without_listing_all_words(text, word):
    if is_spaced(text):
        assert holds_word(text.lower(), word) == (word in words(text))


@pytest.mark.parametrize("text", ["中文", "end。Next", "ไทย"])
def test_scripts_without_spaces_are_known(text):
    assert not is_spaced(text)
    assert is_spaced("naïve – “quoted” words")


NOT_WRITTEN_BY_A_BUILD = {
    "no base64": lambda raw: None,
    "nothing": lambda raw: b"",
    "too short": lambda raw: raw[:40],
    "more units than numbers": lambda raw: raw[:6] + struct.pack("<H", 60_000) + raw[8:],
    "no units": lambda raw: raw[:6] + struct.pack("<2H", 0, 0) + raw[10:12],
    "a unit that brings one that is not there": lambda raw: changed(raw, -1, 999),
    "a unit after the end of the text": lambda raw: changed(raw, 0, 60_000),
    "fewer terms than it counts": lambda raw: raw[:-4],
}


def changed(raw, at, number):
    """A stored reading with another number."""
    units, brought = struct.unpack_from("<2H", raw, 6)
    numbers = list(struct.unpack_from(f"<{5 * units + 1 + 2 * brought}H", raw, 10))
    numbers[at] = number
    packed = struct.pack(f"<{len(numbers)}H", *numbers)
    return raw[:10] + packed + raw[10 + len(packed) :]


@pytest.mark.parametrize("change", NOT_WRITTEN_BY_A_BUILD.values(), ids=NOT_WRITTEN_BY_A_BUILD)
def test_a_stored_reading_that_no_build_wrote_is_not_used(change):
    given = passage(blocks=(CODE,))
    raw = a2b_base64(stored_reading(given).partition(":")[2])
    crafted = change(raw)
    encoded = "a" if crafted is None else b2a_base64(crafted, newline=False).decode()
    hostile = replace(given, reading=f"{READING_RULES}:{encoded}")
    assert parts(reading_of(hostile)) == parts(reading_of(given))
