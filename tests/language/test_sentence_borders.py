"""Where sentences end, and where they only seem to."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from packwise.language import sentences as rules
from packwise.language.sentences import sentence_spans


def sentences(text: str) -> list[str]:
    return [text[start:end] for start, end in sentence_spans(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One ends. Two begins! Three? Four", ["One ends.", "Two begins!", "Three?", "Four"]),
        ("Dr. Smith met Mrs. Jones. They spoke.", ["Dr. Smith met Mrs. Jones.", "They spoke."]),
        ("Fruit, e.g. Apples, i.e. Pomes. Eat.", ["Fruit, e.g. Apples, i.e. Pomes.", "Eat."]),
        ("See Fig. 3 and No. 5 on p. 12. Good.", ["See Fig. 3 and No. 5 on p. 12.", "Good."]),
        ("No. That is wrong.", ["No.", "That is wrong."]),
        (
            "On Jan. 5 it rained. In Feb. It snowed.",
            ["On Jan. 5 it rained.", "In Feb.", "It snowed."],
        ),
        ("The U.S. Senate met. It voted.", ["The U.S. Senate met.", "It voted."]),
        ("He lives in the U.S. She does not.", ["He lives in the U.S.", "She does not."]),
        ("J. K. Rowling and George W. Bush.", ["J. K. Rowling and George W. Bush."]),
        ("It holds vitamin C. The rest is water.", ["It holds vitamin C.", "The rest is water."]),
        (
            "Acme Inc. Limited grew. Acme Inc. The end.",
            ["Acme Inc. Limited grew.", "Acme Inc.", "The end."],
        ),
        ("Doe et al. (2005) agree. So do we.", ["Doe et al. (2005) agree.", "So do we."]),
        ("It cost $3.5 million. Pi is 3.14.", ["It cost $3.5 million.", "Pi is 3.14."]),
        ("Wait... and see. Then... Go.", ["Wait... and see.", "Then...", "Go."]),
        ("It faded . . . and ended. Yes.", ["It faded . . . and ended.", "Yes."]),
        ('He said "Stop." Then he left.', ['He said "Stop."', "Then he left."]),
        (
            "“Why?” he asked. “So.” (See below.) Now.",
            ["“Why?” he asked.", "“So.”", "(See below.)", "Now."],
        ),
        ("It holds.[12][b] Next one.", ["It holds.[12][b]", "Next one."]),
        ("Open foo.py. Use v1.2.3 now.", ["Open foo.py.", "Use v1.2.3 now."]),
        ("See http://a.b/c?d=e.f! Then go.", ["See http://a.b/c?d=e.f!", "Then go."]),
        (
            "Call it. os.path.join joins. `sep` splits.",
            ["Call it.", "os.path.join joins.", "`sep` splits."],
        ),
        ("1. Wash. 2. Dry.", ["1. Wash.", "2. Dry."]),
        ("Portable . Released in Japan .", ["Portable .", "Released in Japan ."]),
        ("it expires in 2027. a tax is due.", ["it expires in 2027.", "a tax is due."]),
        ("The plant. * Hop * Beer", ["The plant.", "* Hop * Beer"]),
        ("これは文です。次の文！終わり", ["これは文です。", "次の文！", "終わり"]),
        ("यह एक है। यह दो है।", ["यह एक है।", "यह दो है।"]),
    ],
)
def test_a_stop_ends_a_sentence_only_where_one_ends(text, expected):
    assert sentences(text) == expected


def test_a_blank_line_ends_a_sentence_and_a_single_line_break_does_not():
    text = "A title\n\nIt goes on\nover lines \n \r\n\nand starts anew"
    assert sentences(text) == ["A title", "It goes on\nover lines", "and starts anew"]


def test_list_items_and_table_rows_are_sentences_of_their_own():
    assert sentences("Take:\n- salt\n* pepper\n2) oil\n(b) more") == [
        "Take:",
        "- salt",
        "* pepper",
        "2) oil",
        "(b) more",
    ]
    assert sentences("Year | Sum\n2019 | 5\n| 2020 | 7 |") == [
        "Year | Sum",
        "2019 | 5",
        "| 2020 | 7 |",
    ]


@pytest.mark.parametrize("text", ["", " \n\t ", "\n\n\n"])
def test_white_space_has_no_sentences(text):
    assert sentence_spans(text) == []


PIECES = 'A b . ! ? … 。 " ” ) ( [1] - | 1. e.g. Dr. The x_y ` * 3 #'.split(" ")
PIECES += [" ", "  ", "\n", "\n\n", "- ", "| ", " | "]
TEXTS = st.one_of(
    st.text(),
    st.lists(
        st.sampled_from(PIECES),
        max_size=40,
    ).map("".join),
)


@settings(max_examples=200, deadline=None)
@given(TEXTS)
@example("\n\n.a")
@example(". \x1f. A")
def test_spans_are_ordered_trimmed_apart_and_hold_all_but_white_space(text):
    spans = sentence_spans(text)
    assert all(a_end <= b_start for (_, a_end), (b_start, _) in pairwise(spans))
    assert all(text[a:b] == text[a:b].strip() != "" for a, b in spans)
    inside = "".join(text[a:b] for a, b in spans)
    assert "".join(inside.split()) == "".join(text.split())


@settings(max_examples=100, deadline=None)
@given(TEXTS, TEXTS)
def test_no_sentence_reaches_over_a_blank_line(before, after):
    text = f"{before}\n\n{after}"
    assert all(not (a < len(before) and b > len(before) + 2) for a, b in sentence_spans(text))


_STOPS = "approximately Dr. e.g. The Inc trans. messrs. prof lineages. Winter. 12. J. (citation."
_MORE_STOPS = "bc. universal.The universal. “The a. nr. 5 ... !! \n \n\n - x [1] generation.”"


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from([*_STOPS.split(), *_MORE_STOPS.split(" "), ""]), max_size=16))
@example(["approximately.", "The", "lineages.", "Winter."])
def test_a_stop_after_a_long_word_needs_no_rules(pieces):
    text = " ".join(pieces)
    spans = sentence_spans(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rules, "_LONG_WORD", len(text))
        assert sentence_spans(text) == spans
