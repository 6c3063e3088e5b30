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


def test_short_ones_stay_in_their_section(read):
    assert paths(read("rst", objects("Short."))) == [("Options",)]


@pytest.mark.parametrize(
    "after", ["All that belongs to the section.", "- one\n- two", "::\n\n  code"]
)
def test_what_follows_the_descriptions_belongs_to_the_section_around_them(read, after):
    document = read("rst", objects(after=after))
    assert paths(document) == [
        ("Options",),
        ("Options", "--first"),
        ("Options", "--second DIR"),
        ("Options",),
    ]
    last = document.sections[-1]
    assert document.text[last.start : last.end] == after.replace("::\n\n  ", "")


def test_text_between_the_descriptions_belongs_to_the_section_around_them(read):
    document = read("rst", objects(between="Something about the next one.\n"))
    assert paths(document) == [
        ("Options",),
        ("Options", "--first"),
        ("Options",),
        ("Options", "--second DIR"),
    ]


@pytest.mark.parametrize(
    "written",
    [
        "first\n  {0}\nsecond\n  {0}\n",
        "``first``\n\n  {0}\n\n  *Default*: 1\n\n``second``\n\n  {0}\n",
        "**first**\n\n{0}\n\n**second**\n\n{0}\n",
        ".. rubric:: first\n\n{0}\n\n.. rubric:: second\n\n{0}\n",
    ],
)
def test_terms_described_at_length_are_sections_however_they_are_written(read, written):
    page = "Manual\n======\n\nOptions\n-------\n\nAll of them.\n\n" + written.format(TOLD)
    assert paths(read("rst", page)) == [("Options",), ("Options", "first"), ("Options", "second")]
    short = read("rst", page.replace(TOLD, "Short."))
    assert paths(short) == [("Options",)]
    assert "first\n" in short.text


def test_a_quotation_below_a_sentence_is_not_its_definition(read):
    page = f"Manual\n======\n\nHe said:\n\n  {TOLD}\n\nShe answered.\n\n  {TOLD}\n"
    assert paths(read("rst", page)) == []


def test_questions_and_answers_are_not_sections_called_q_and_a(read):
    page = "FAQ\n===\n\n" + f"Q\n  {TOLD}\n\nA\n  {TOLD}\n\n" * 3
    assert paths(read("rst", page)) == []


@pytest.mark.parametrize(
    ("suffix", "page"),
    [
        (
            "markdown",
            "# Manual\n\n## Part\n\n**One**\n\n{0}\n\n**Two**\n\n{0}\n\n## Next\n\nEnd.\n",
        ),
        (
            "html",
            "<h1>Manual</h1><h2>Part</h2><p><b>One</b></p><p>{0}</p><p> <strong>Two</strong></p>"
            "<p>{0}</p><h2>Next</h2><p>End.</p>",
        ),
    ],
)
def test_lines_in_bold_type_head_what_follows_them(read, blocks, suffix, page):
    document = read(suffix, page.format(TOLD))
    assert paths(document) == [("Part",), ("Part", "One"), ("Part", "Two"), ("Next",)]
    assert blocks(document) == [("text", TOLD.strip())] * 2 + [("text", "End.")]
    for other in (page.format("Short."), page.format(TOLD).replace("Two", "Mind this:")):
        assert paths(read(suffix, other)) == [("Part",), ("Next",)]


@pytest.mark.parametrize("gap", ["\n", "\n\n"])
def test_definitions_of_markdown_are_terms(read, blocks, gap):
    page = "# Manual\n\nWords.\n\n" + "".join(f"**-{n}**{gap}: {TOLD}\n\n" for n in "ab")
    document = read("markdown", page)
    assert paths(document) == [("-a",), ("-b",)]
    assert ("text", f"-a\n{TOLD.strip()}") in blocks(document)
    short = read(
        "markdown", f"# Manual\n\nThey are:\n\nThe first{gap}: One.\n\nThe last{gap}: Two.\n"
    )
    assert paths(short) == []
    assert blocks(short)[1:] == [("text", "The first\nOne."), ("text", "The last\nTwo.")]


def test_the_title_of_a_note_heads_only_the_note(read):
    note = '!!! note "{0}"\n    Words.\n\n' + TOLD + "\n\n"
    document = read("markdown", "# Manual\n\n" + note.format("One") + note.format("Two"))
    assert paths(document) == []
    assert "Note: One" in document.text


def test_of_two_lines_in_bold_type_the_second_says_more_about_the_first(read):
    page = f"# Manual\n\n**One**\n\n**more**\n\n{TOLD}\n\n**Two**\n\n{TOLD}\n"
    document = read("markdown", page)
    assert paths(document) == [("One",), ("Two",)]
    first = document.sections[0]
    assert document.text[first.start : first.end].startswith("more\n\nIt says")


def test_lines_in_bold_type_that_are_announced_are_a_list(read):
    page = f"# Manual\n\nThese are the arguments:\n\n**One**\n\n{TOLD}\n\n**Two**\n\n{TOLD}\n"
    assert paths(read("markdown", page)) == []
    assert paths(
        read("markdown", page + page.replace("# Manual", "## Next").replace("s:", "s."))
    ) == [
        ("Next",),
        ("Next", "One"),
        ("Next", "Two"),
    ]


def test_a_title_of_several_options_is_not_the_name_of_the_first(manual):
    page = MAN.format(after="").replace(".TP\n.B", ".TP\n.B ALL OF THEM:\n.TP\n.B", 1)
    assert ("Options", "--first") in paths(manual(page))
    assert "options.\n\nALL OF THEM:\n\n--first\n\n--first\nIt says" in manual(page).text


def test_terms_below_a_line_in_bold_type_are_sections_in_its_section(read):
    terms = "".join(f"<dt>-{name}</dt><dd>{TOLD}</dd>" for name in "abc")
    page = f"<h1>Manual</h1><p><b>One</b></p><dl>{terms}</dl><p><b>Two</b></p><p>{TOLD}</p>"
    found = paths(read("html", page))
    assert found == [("One",), ("One", "-a"), ("One", "-b"), ("One", "-c"), ("Two",)]


def test_a_line_in_bold_type_after_terms_is_kept(read):
    terms = "".join(f"<dt>-{name}</dt><dd>{TOLD}</dd>" for name in "abc")
    terms = terms.removesuffix("</dd>") + "Such as:</dd>"
    document = read("html", f"<h1>Manual</h1><dl>{terms}</dl><p><b>Mind this</b></p><p>End.</p>")
    assert document.text.endswith("Such as:\n\nMind this\n\nEnd.")


def test_a_line_in_bold_type_in_the_description_of_a_term_belongs_to_it(read):
    terms = "".join(
        f"<dt>-{name}</dt><dd><p>Words.</p><p><b>Mind {name}</b></p>{TOLD}</dd>" for name in "abc"
    )
    assert paths(read("html", f"<h1>Manual</h1><dl>{terms}</dl>")) == [("-a",), ("-b",), ("-c",)]


@pytest.mark.parametrize(("length", "sections"), [(150, 2), (149, 0)])
def test_at_length_means_150_characters_on_average(read, length, sections):
    # The lines in bold type count, too.
    terms = "".join(f"<p><b>{name}</b></p><p>{'x' * (length - 1)}</p>" for name in "ab")
    document = read("html", f"<h1>Manual</h1>{terms}")
    assert len(paths(document)) == sections


@pytest.mark.parametrize(("length", "sections"), [(80, 2), (81, 0)])
def test_a_line_in_bold_type_is_a_heading_up_to_80_characters(read, length, sections):
    names = ("a" * length, "b" * length)
    terms = "".join(f"<p><b>{name}</b></p><p>{TOLD}</p>" for name in names)
    assert len(paths(read("html", f"<h1>Manual</h1>{terms}"))) == sections


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
COMMANDS = f""".TH BOX 1
.SH COMMANDS
All of them.
.PP
.B first
.PP
{TOLD}
.PP
\\fBsecond\\fP [\\fIname\\fP]
.PP
{TOLD}
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
        (
            MAN.format(after=".PP\nAfter all options.\n"),
            [
                ("Options",),
                ("Options", "--first"),
                ("Options", "--second dir"),
                ("Options",),
                ("Files",),
            ],
        ),
        (COMMANDS, [("Commands",), ("Commands", "first"), ("Commands", "second [name]")]),
        (COMMANDS.replace("All of them.", "Try this:"), [("Commands",)]),
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


def test_the_terms_of_a_term_are_sections_in_its_section(manual):
    inner = "".join(f".TP\n{name}\n{TOLD}\n" for name in ("inner", "other"))
    found = paths(manual(MAN.format(after="").replace(f".TP\ninner\n{TOLD}\n", inner)))
    assert ("Options", "--second dir", "other") in found
    assert found[-1] == ("Files",)


@pytest.mark.parametrize(
    ("option", "name"),
    [
        ("\\-s, \\-\\-server=" + "[<domain>][,<domain>]" * 4, "-s, --server"),
        ("\\-R host | [host]:port", "-R host"),
    ],
)
def test_a_long_option_is_named_without_its_arguments(manual, option, name):
    page = MAN.format(after="").replace("\\-\\-first", option)
    assert ("Options", name) in paths(manual(page))


def test_punctuation_stays_outside_of_quotes(manual):
    page = ".Dd today\n.Dt BOX 1\n.Sh PART\nIf it is\n.Dq yes ,\nthe\n.Ux\nway.\n"
    assert "If it is “yes”, the UNIX way." in manual(page).text


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
        "on|off;turn it on\n.T&\nl l\nl l.\nend;it\\*(Aqs the end\n.TE\n"
    )
    assert blocks(manual(page)) == [
        (
            "table",
            "name | meaning\nadd <name> | add a place or a location to the list | more\n"
            "on\\|off | turn it on\nend | it's the end",
        )
    ]


@pytest.mark.parametrize("start", [".TS\nl l.\na\tT{", ".Bl -tag\n.It Xo Ic box"])
def test_what_is_never_closed_takes_linear_time_and_loses_nothing(manual, start):
    lines = "\n".join(f"word{n} and more" for n in range(200_000))
    begun = time.process_time()
    text = manual(f".TH BOX 1\n.SH PART\n{start}\n{lines}\n").text
    assert time.process_time() - begun < 10
    assert "word199999 and more" in text


def test_what_the_parser_says_about_a_table_is_not_read(read):
    cell = "`redis <https://redis.example/>`_"
    line = f"=====  {'=' * len(cell)}\n"
    page = f"Redis\n=====\n\nWords.\n\n{line}Needs  {cell}\n{line}"
    assert read("rst", page).text.endswith("Needs | redis")


@pytest.mark.parametrize(
    ("announcement", "told", "apart"),
    [
        ("It is called in these ways:", TOLD, False),
        ("It is called in these ways:", 4 * TOLD, True),
        ("It is called in these ways.", TOLD, True),
        ("WAYS TO CALL IT:", TOLD, True),
    ],
)
def test_a_few_terms_stay_with_the_sentence_that_announces_them(read, announcement, told, apart):
    terms = "".join(f"<dt>{name}</dt><dd>{told}</dd>" for name in ("install", "remove", "purge"))
    document = read("html", f"<h1>Scripts</h1><h2>Calls</h2><p>{announcement}</p><dl>{terms}</dl>")
    assert (("Calls", "install") in paths(document)) is apart
