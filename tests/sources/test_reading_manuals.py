"""Manuals in HTML and text: pages as a terminal shows them, and lists that describe parameters."""

import pytest

MANUAL = """VAULT(1)                                                              VAULT(1)

NAME
       vault - keep copies

SYNOPSIS
   To list copies:
       vault [-v] list

DESCRIPTION
       The  vault(1) command keeps copies of files and shows them in the order of recipi-
       ents.

       Options:

       -d name
              Delete one copy with the named ID  from
              the vault.

              To delete several copies:

              vault list | \\
                  vault -d -

       -f     Finish at once, even if a copy is
              still being written.

       o      Files that were moved are found again by
              their content.

VAULT                               2026                              VAULT(1)
"""
EXPECTED = [
    ("text", "vault - keep copies"),
    ("code", "vault [-v] list"),
    (
        "text",
        "The vault(1) command keeps copies of files and shows them in the order of recipients.",
    ),
    ("text", "Options:"),
    ("text", "-d name\nDelete one copy with the named ID from the vault."),
    ("text", "To delete several copies:"),
    ("code", "vault list | \\\n    vault -d -"),
    ("text", "-f\nFinish at once, even if a copy is still being written."),
    ("text", "Files that were moved are found again by their content."),
]


@pytest.mark.parametrize(
    ("format", "text"),
    [
        ("html", f"<title>vault(1)</title><pre>{MANUAL.replace('name', '<b>name</b>', 1)}</pre>"),
        ("text", MANUAL),
    ],
)
def test_a_manual_page_as_a_terminal_shows_it(read, blocks, format, text):
    document = read(format, text)
    assert blocks(document) == EXPECTED
    paths = [section.path for section in document.sections]
    assert ("NAME",) in paths
    assert ("DESCRIPTION",) in paths


def test_code_that_names_nothing_stays_code(read, blocks):
    page = "<pre>NAME\n  x = 1\n\nDESCRIBE\n  y = 2</pre>"
    assert blocks(read("html", page)) == [("code", "NAME\n  x = 1\n\nDESCRIBE\n  y = 2")]


TOLD = "The number of something that is limited here. " * 8


def definitions(told, after=""):
    terms = "".join(f"<dt>limit{n} (default: {n})</dt><dd>{told}</dd>" for n in (1, 2, 3))
    return f"<h1>Manual</h1><h2>Limits</h2><p>All of them.</p><dl>{terms}</dl>{after}"


def test_a_parameter_that_is_described_at_length_is_a_section_of_its_own(read, blocks):
    document = read("html", definitions(TOLD, "<h2>More</h2><p>Words.</p>"))
    paths = [section.path for section in document.sections]
    assert ("Limits", "limit2 (default: 2)") in paths
    assert ("More",) in paths
    assert blocks(document)[1] == ("text", f"limit1 (default: 1)\n{TOLD.strip()}")


def test_what_follows_a_definition_list_belongs_to_the_section_around_it(read):
    document = read("html", definitions(TOLD, "<p>All that belongs to the section.</p>"))
    last = document.sections[-1]
    assert last.path == ("Limits",)
    assert document.text[last.start : last.end] == "All that belongs to the section."


def test_short_definitions_are_text(read):
    document = read("html", definitions("Short."))
    assert [section.path for section in document.sections if "limit" in str(section.path)] == []
    assert "limit2 (default: 2)\n" in document.text


def test_terms_that_share_a_definition_are_one_section(read):
    terms = "".join(f"<dt>-{n}</dt><dt>--long{n}</dt><dd>{TOLD}</dd>" for n in (1, 2, 3))
    document = read("html", f"<h1>Options</h1><dl>{terms}</dl>")
    assert ("-2, --long2",) in [section.path for section in document.sections]
