"""Questions made from headings and definitions are good English, or are not made."""

import pytest

from packwise.language.phrasing import Spelling, question_from_definition, question_from_heading

TEXT = """
You might register many filters in two ways. Then open a shell on the server and run the tests; the
development server restarts. We copied the files, and Flask reads the config.py of an application.
Each blueprint records operations. Such signals tell subscribers. It has autoescaping of templates.
Some hosting platforms are cheap. In debug mode the server reloads. The context works like this.
People who know Quart and SQLite like applications. She met Ada Lovelace and her machine, an engine.
"""


@pytest.fixture(scope="module")
def spelling():
    return Spelling([TEXT])


@pytest.mark.parametrize(
    ("heading", "question"),
    [
        ("Open a Shell", "How do I open a shell?"),
        ("Run the Development Server", "How do I run the development server?"),
        ("Registering Filters", "How do I register filters?"),
        ("How to Run the Tests", "How do I run the tests?"),
        ("Copying Files", "How do I copy files?"),
        ("How to copy your files", "How do I copy my files?"),
        ("Run tests", None),
        ("How the Context Works", "How does the context work?"),
        ("How signals work", "How do signals work?"),
        ("Opening the SQLite Server", "How do I open the SQLite server?"),
        ("Why is Flask small?", "Why is Flask small?"),
        ("How Might I Open the Files?", "How might I open the files?"),
        ("How Many Files?", None),
        ("Where are these Files?", None),
        ("Where are Filters Tested?", None),
        ("Where are the Files?", "Where are the files?"),
        ("7.8. Where are the Files?", "Where are the files?"),
        ("2.1 Open a Shell", "How do I open a shell?"),
        ("Chapter IV. Copying Files", "How do I copy files?"),
        ("3 Filters", None),
        # A noun that looks like a verb, or a word in -ing that describes one.
        ("Debug Mode", None),
        ("Hosting Platforms", None),
        ("Using Applications", None),
        ("Test Server", None),
        ("Signals", None),
        ("Open the Zanzibar", None),
        ("Installation", None),
        ("Really?", None),
        ("Run `make` <b>", None),
    ],
)
def test_a_heading_becomes_a_question_only_where_its_grammar_is_sure(spelling, heading, question):
    assert question_from_heading(heading, spelling) == question


@pytest.mark.parametrize(
    ("sentence", "question"),
    [
        ("A blueprint is a set of operations.", "What is a blueprint?"),
        ("An application context is a place for data.", "What is an application context?"),
        ("The development server is the one to start with.", "What is the development server?"),
        ("Signals are a lightweight way to notify others.", "What are signals?"),
        ("Autoescaping is the concept of escaping for you.", "What is autoescaping?"),
        ("Quart is a reimplementation of Flask.", "What is Quart?"),
        ("Ada Lovelace was an English mathematician and writer.", "Who was Ada Lovelace?"),
        ("This is a set of operations.", None),
        ("Lines 3-5 are the operations of a blueprint.", None),
        ("The sender is the application.", None),
        ("The first argument is the function to call.", None),
        ("A common example is a URL.", None),
        ("The logic applied is the following.", None),
        ("Testing logout is the opposite of login.", None),
        ("Ada Lovelace was the heart of the machine.", None),
        ("g is a name for data.", None),
        ("Typically, Flask is the application.", None),
        ("Flask reads a file.", None),
    ],
)
def test_a_definition_becomes_a_question_only_where_its_subject_stands_alone(
    spelling, sentence, question
):
    assert question_from_definition(sentence, spelling) == question
