"""Sentences of a text become the questions that they answer."""

import pytest

from packwise.language.phrasing import Spelling
from packwise.language.statements import question_from_statement

TEXT = """
Vaultic keeps secrets. The groups of Vaultic are listed in groups.conf. In Vaultic a ledger is kept,
and Debian packages it. To rotate keys is easy with Vaultic. The Debian Project helps.
"""


@pytest.fixture(scope="module")
def spelling():
    return Spelling([TEXT])


@pytest.mark.parametrize(
    ("sentence", "question", "holds"),
    [
        ("To list the groups, run `vaultic groups`.", "How do I list the groups?", ""),
        (
            "If you want to change your password, use the command passwd.",
            "How do I change my password?",
            "",
        ),
        (
            "Use vaultic dev to start the ledger from the source tree.",
            "How do I start the ledger from the source tree?",
            "",
        ),
        (
            "You can disable colored output by setting NO_COLOR.",
            "How do I disable colored output?",
            "",
        ),
        (
            "The Debian Project was created by Ian Murdock in 1993, under a sponsor.",
            "When was the Debian Project created?",
            "1993",
        ),
        ("Vaultic was written by Ada Merrin.", "Who wrote Vaultic?", "Ada Merrin"),
        (
            "The groups.conf file is used to list groups.",
            "What is the groups.conf file used for?",
            "",
        ),
        (
            "/var/spool contains data that waits to be processed.",
            "What does /var/spool contain?",
            "",
        ),
        (
            "The Architecture field specifies the chip of a package.",
            "What does the Architecture field specify?",
            "",
        ),
        (
            "The default port of the daemon is 874.",
            "What is the default port of the daemon?",
            "874",
        ),
        ("A ledger is a list of every payment.", "What is a ledger?", ""),
    ],
)
def test_a_statement_is_asked_for(spelling, sentence, question, holds):
    made = question_from_statement(sentence, spelling)
    assert made is not None
    assert (made.text, made.holds) == (question, holds)


@pytest.mark.parametrize(
    "sentence",
    [
        "To do this, run the command below.",
        "To rotate these keys, use the second form.",
        "You can build the ledger by following these instructions.",
        "You can install the ledger by simply running it.",
        "To be sure of the result, run the command twice.",
        "Use the numbers from 1 to the length of a list.",
        "To make a file non-executable, Vaultic turns off all its bits.",
        "This directory contains the files of the release.",
        "The server contains everything that is needed for it.",
        "The VVV component is the version number.",
        "The name attribute is optional and is used for documentation.",
        "Where app.py contains a command of its own:",
        "Vaultic supports many things that are useful.",
        "The default order can be customized.",
        "The default behavior of reading is typically not desirable.",
        "It was created in 1993 by someone.",
    ],
)
def test_what_cannot_be_understood_alone_is_not_asked_for(spelling, sentence):
    assert question_from_statement(sentence, spelling) is None
