"""Options, settings and functions that are described at length are sections, found by name."""

import gzip
import time

import pytest

TOLD = "It says at some length what this is for, when it is needed and what is left out by it. " * 2


def paths(document):
    return [section.path for section in document.sections if section.path]


def objects(told=TOLD, between="", after=""):
    names = ("--first", "--second DIR")
    described = f"\n{between}\n".join(f".. option:: {name}\n\n   {told}\n" for name in names)
    return f"Manual\n======\n\nOptions\n-------\n\nAll of them.\n\n{described}\n{after}\n"


def test_an_option_described_at_length_is_a_section(read, blocks):
    document = read("rst", objects(after="More\n----\n\nWords.\n"))
    assert paths(document) == [
        ("Options",),
        ("Options", "--first"),
        ("Options", "--second DIR"),
        ("More",),
    ]
    assert ("text", f"--first\n{TOLD.strip()}") in blocks(document)


@pytest.mark.parametrize(
    ("told", "between", "after"),
    [("Short.", "", ""), (TOLD, "", "All that belongs to the section.")],
)
def test_short_ones_and_those_before_other_text_stay_in_their_section(read, told, between, after):
    assert paths(read("rst", objects(told, between, after))) == [("Options",)]


def test_only_the_last_run_of_descriptions_are_sections(read):
    document = read("rst", objects(between="Something about the next one.\n"))
    assert paths(document) == [("Options",), ("Options", "--second DIR")]


def test_the_methods_of_a_class_are_sections_in_its_section(read):
    page = (
        "Things\n======\n\n"
        f".. class:: Thing(size, *, colour=None)\n\n   {TOLD}\n\n"
        f"   .. method:: grow(by)\n\n      {TOLD}\n\n"
        f".. function:: make()\n\n   {TOLD}\n"
    )
    found = paths(read("rst", page))
    assert found == [("Thing()",), ("Thing()", "grow()"), ("make()",)]


def test_headings_inside_an_automodule_are_headings(folder, opened):
    page = (
        "Box\n===\n\n.. automodule:: box\n\n   Opening\n   -------\n\n"
        "   .. autofunction:: open_box\n\n"
        "   Closing\n   -------\n\n   Close it again.\n"
    )
    code = f'"""All about boxes."""\n\ndef open_box(name):\n    """{TOLD}"""\n'
    root = folder({"pyproject.toml": "", "box.py": code, "docs/conf.py": "", "docs/box.rst": page})
    document = opened(root / "docs").documents["box.rst"]
    assert paths(document) == [("Opening",), ("Opening", "box.open_box()"), ("Closing",)]
    assert "All about boxes." in document.text
    assert "-------" not in document.text


MAN = f""".TH BOX 1
.SH OPTIONS
These are the options.
.TP
.B \\-\\-first
{TOLD}
.IP
It goes on.
.TP
.BI \\-\\-second " dir"
{TOLD}
.RS
.TP
inner
{TOLD}
.RE
{{after}}.SH FILES
~/.box
"""
MDOC = f""".Dd today
.Dt BOX 1
.Sh COMMANDS
.Bl -tag
.It Xo Ic first
.Op Fl a
.Xc
{TOLD}
.Pp
It goes on.
.It Ic second
{TOLD}
.El
"""
DOCBOOK = f""".TH BOX 1
.SH OPTIONS
.PP
\\-\\-first
.RS 4
{TOLD}
.RE
.PP
\\-\\-second=DIR
.RS 4
{TOLD}
.RE
"""


@pytest.fixture
def manual(folder, opened):
    def read(text):
        return opened(folder({"box.1.gz": gzip.compress(text.encode())})).documents["box.1.gz"]

    return read


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            MAN.format(after=""),
            [("Options",), ("Options", "--first"), ("Options", "--second dir"), ("Files",)],
        ),
        (MAN.format(after=".PP\nAfter all options.\n"), [("Options",), ("Files",)]),
        (MDOC, [("Commands",), ("Commands", "first"), ("Commands", "second")]),
        (DOCBOOK, [("Options",), ("Options", "--first"), ("Options", "--second=DIR")]),
        (DOCBOOK.replace(TOLD, "Short."), [("Options",)]),
    ],
)
def test_the_options_of_a_manual_page_are_sections(manual, text, expected):
    assert paths(manual(text)) == expected


def test_what_is_said_of_an_option_stays_with_it(manual):
    document = manual(MAN.format(after=""))
    told = {
        section.path: document.text[section.start : section.end] for section in document.sections
    }
    assert told[("Options", "--first")] == f"--first\n{TOLD.strip()}\n\nIt goes on."
    assert "inner\nIt says" in told[("Options", "--second dir")]
    first = manual(MDOC)
    assert f"first [-a]\n{TOLD.strip()}" in first.text


def test_an_escaped_space_does_not_end_an_argument(manual):
    assert "-C dir" in manual(".TH BOX 1\n.SH OPTIONS\n.TP\n.BR \\-C\\ dir\nSome words.\n").text


@pytest.mark.parametrize("kind", ["note", "warning", "admonition tip"])
def test_the_label_of_a_box_is_not_a_heading(read, kind):
    box = f'<div class="{kind}"><h3 class="title">Note</h3><p>Mind this.</p></div>'
    document = read("html", f"<h1>Page</h1><h2>Part</h2><p>One.</p>{box}<p>Two.</p>")
    assert paths(document) == [("Part",)]
    assert "Note" in document.text


def test_a_table_of_a_manual_page_has_its_cells(manual, blocks):
    page = (
        ".TH BOX 1\n.SH TABLE\n.TS\ntab(;) allbox;\nl lx.\nname;meaning\n_\n"
        "add <name>;T{\nadd a place or a\n.B location\nto the list\nT};more\n"
        "on|off;turn it on\n.TE\n"
    )
    assert blocks(manual(page)) == [
        (
            "table",
            "name | meaning\nadd <name> | add a place or a location to the list | more\n"
            "on|off | turn it on",
        )
    ]


@pytest.mark.parametrize("start", [".TS\nl l.\na\tT{", ".Bl -tag\n.It Xo Ic box"])
def test_what_is_never_closed_takes_linear_time_and_loses_nothing(manual, start):
    lines = "\n".join(f"word{n} and more" for n in range(200_000))
    begun = time.process_time()
    text = manual(f".TH BOX 1\n.SH PART\n{start}\n{lines}\n").text
    assert time.process_time() - begun < 10
    assert "word199999 and more" in text
