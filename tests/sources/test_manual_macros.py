"""What the macros and escapes of manual pages stand for. The expected texts are those that
``mandoc`` shows (``benchmarks/man_text.py`` compares with it)."""

import gzip
import time

import pytest

from packwise.sources.readers import suffix

MAN = ".TH BOX 1\n.SH PART\n"
MDOC = ".Dd today\n.Dt BOX 1\n.Sh NAME\n.Nm box\n.Nd keep things\n.Sh PART\n"


@pytest.fixture
def page(read_file, blocks):
    def read(text):
        return blocks(read_file("box.1", text.encode()))

    return read


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (r"Run \fB\.[] | \.id\fR\. Done\.", "Run .[] | .id. Done."),
        (r"a\&b\|c\%d\:e \-\-flag", "abcde --flag"),
        (r"\(:ub\('er \[u2026] \(12 \*(Aqs\*(Aq", "übér … ½ 's'"),
        (r"all of it \" and nothing else", "all of it"),
        (r"back\eslash \_ \s-1SMALL\s0", "back\\slash _ SMALL"),
    ],
)
def test_escapes(page, line, shown):
    assert page(f"{MAN}{line}\n") == [("text", shown)]


def test_conditions_are_those_of_a_terminal(page):
    text = (
        f'{MAN}.ie n .IP "4" 4\n.el .IP "\\f(CW4\\fR" 4\nNetwork failure.\n'
        ".if t \\{\\\nfor a typesetter\n.\\}\n.if n \\{\\\nfor a terminal\n.\\}\n"
        ".if !n not shown\n.ie \\n(.g new\n.el old\n.ie t paper\n.el screen\n"
    )
    assert page(text) == [("text", "4\nNetwork failure. for a terminal new screen")]


def test_definitions_are_not_shown_and_strings_are(page):
    text = (
        ".TH BOX 1\n.de URL\nthe body\n..\n.if \\n[.g] \\{\\\n.  am URL\n.    ad l\n.  .\n.\\}\n"
        '.ds Pr "the box\n.SH PART\nOpen \\*(Pr.\n'
        '.URL "https://box.example" "Its page" "."\n'
    )
    assert page(text) == [("text", "Open the box. Its page <https://box.example>.")]


def test_a_definition_without_an_end_ends_with_the_next_section(page):
    assert page(".TH BOX 1\n.de X\nbody\n.SH PART\nShown.\n") == [("text", "Shown.")]


def test_what_pod2man_writes_verbatim_is_code(page):
    text = f"{MAN}For instance:\n.PP\n.Vb 1\n\\&        box \\-c thing\n.Ve\n.PP\nMore.\n"
    assert page(text) == [
        ("text", "For instance:"),
        ("code", "        box -c thing"),
        ("text", "More."),
    ]


def test_an_indented_request_is_none_of_the_text(page):
    text = f"{MAN}So:\n  .RS 2\n.nf\n  a = 1\n  .fi\n.RE\nMore.\n"
    assert page(text) == [("text", "So:"), ("code", "  a = 1"), ("text", "More.")]


def test_terms_that_share_a_description_are_one(page):
    text = f'{MAN}.IP "\\-b" 4\n.PD 0\n.IP "\\-\\-background" 4\n.PD\nGo to the background.\n'
    assert page(text) == [("text", "-b, --background\nGo to the background.")]


def test_bullets_and_numbers_are_lists(page):
    text = (
        f"{MAN}Two of them:\n.IP \\(bu 2\nOne\nthing.\n.IP \\(bu 2\nAnother.\n.PP\nThen:\n"
        ".IP 1. 4\nFirst.\n.IP 2. 4\nSecond.\n.PP\nEnd.\n"
    )
    assert page(text) == [
        ("text", "Two of them:"),
        ("list", "- One thing.\n- Another."),
        ("text", "Then:"),
        ("list", "1. First.\n2. Second."),
        ("text", "End."),
    ]


def test_the_items_that_docbook_writes_are_one_list(page):
    item = (
        ".sp\n.RS 4\n.ie n \\{\\\n\\h'-04'\\(bu\\h'+03'\\c\n.\\}\n"
        ".el \\{\\\n.sp -1\n.IP \\(bu 2.3\n"
        ".\\}\n{}\n.RE\n"
    )
    text = f"{MAN}These:\n{item.replace('{}', 'One.')}{item.replace('{}', 'Two.')}.PP\nEnd.\n"
    assert page(text) == [("text", "These:"), ("list", "- One.\n- Two."), ("text", "End.")]


def test_an_option_in_bold_beside_a_bullet_is_a_term(page):
    text = (
        f'{MAN}.IP "\\[ci]" 4\n\\fB\\-\\-raw\\fR / \\fB\\-r\\fR:\n.IP\nWithout quotes\\.\n'
        '.IP "\\[ci]" 4\n\\fB\\-\\-tab\\fR:\n.IP\nUse a tab\\.\n'
    )
    assert page(text) == [("text", "--raw / -r\nWithout quotes."), ("text", "--tab\nUse a tab.")]


@pytest.mark.parametrize(
    ("lines", "shown"),
    [
        (".Fl i , -login", "-i, --login"),
        (".Fl -user Ns = Ns Ar name", "--user=name"),
        ("Used by\n.Nm .\nThen more.", "Used by box. Then more."),
        (".Ar", "file ..."),
        ("A colon\n.Pq Ql \\&:\nparts them.", "A colon (‘:’) parts them."),
        (".So \\en Sc or So \\er Sc", "‘\\n’ or ‘\\r’"),
        (".Oo Fl a Oc Op Fl b Ar c", "[-a] [-b c]"),
        ("see\n.Xr tar 1 ,\n.Xr zip 1 .", "see tar(1), zip(1)."),
        ('.Fn open "const char *path" "int flags" .', "open(const char *path, int flags)."),
        (".Fo close\n.Fa fd\n.Fa how\n.Fc", "close(fd, how)"),
        (".Po\nin brackets\n.Pc .", "(in brackets)."),
        (".Bx 4.4 , Fx 4.0 , At v7", "4.4BSD, FreeBSD 4.0, AT&T UNIX 7"),
        (".Ex -std", "The box utility exits 0 on success, and >0 if an error occurs."),
        (".Lk https://box.example Box", "Box: https://box.example"),
        (".Rs\n.%A J. Doe\n.%T On Boxes\n.Re", "J. Doe, On Boxes."),
    ],
)
def test_lines_of_mdoc(page, lines, shown):
    assert page(f"{MDOC}{lines}\n")[1:] == [("text", shown)]


def test_lists_of_mdoc(page):
    text = (
        f"{MDOC}.Bl -bullet\n.It\nOne.\n.It\nTwo.\n.El\n.Pp\nTable:\n.Bl -column a b\n"
        ".It Sy Type Ta Sy Flag\n.It input Ta\n.Fl i\n.El\nAfter.\n"
    )
    assert page(text)[1:] == [
        ("list", "- One.\n- Two."),
        ("text", "Table:"),
        ("table", "Type | Flag\ninput | -i"),
        ("text", "After."),
    ]


def test_only_displays_that_keep_their_lines_are_code(page):
    text = f"{MDOC}.Bd -ragged\nfilled\ntext\n.Ed\n.Bd -literal\na  b\nc\n.Ed\n.Dl box -x\n"
    assert page(text)[1:] == [("text", "filled text"), ("code", "a  b\nc"), ("code", "box -x")]


def test_a_page_is_named_like_its_file_if_it_bears_the_name_of_its_command(read_file):
    text = b".TH TC 8\n.SH NAME\ntbf - a filter\n"
    assert read_file("tc-tbf.8", text).title == "tc-tbf(8)"
    assert read_file("tc.8", text).title == "tc(8)"
    assert read_file("boxes", b".TH TC 8\n.SH NAME\ntc - a tool\n").title != "boxes(8)"


def test_what_follows_an_optional_part_of_a_command_is_part_of_its_name(read_file):
    told = "It does so in the box that is named, and in all boxes within that one. " * 3
    names = ("box [-all] run [ NAME ] COMMAND - run it in a box", "box list [ [-a] | -b ]")
    options = ("\\-p [port] [host]", "\\-L [address:]port:host")
    terms = "".join(f".TP\n.B {name}\n{told}\n" for name in (*names, *options))
    document = read_file("box.1", f"{MAN}{terms}".encode())
    assert [section.path[-1] for section in document.sections][1:] == [
        "box run COMMAND - run it in a box",
        "box list",
        "-p",
        "-L",
    ]


def test_a_command_after_a_prompt_is_code(page):
    text = (
        f"{MAN}To list:\n.P\n# box list \\\\\n  all\n.P\nThen this.\n.RS\n$ ./box -x\n.RE\nEnd.\n"
    )
    assert page(text) == [
        ("text", "To list:"),
        ("code", "# box list all"),
        ("text", "Then this."),
        ("code", "$ ./box -x"),
        ("text", "End."),
    ]


def test_the_lines_of_a_synopsis_in_bold_type_name_no_sections(read_file):
    lines = "".join(f".B box {name}\n.RI [ name ]\n.P\n{'| what ' * 40}\n.P\n" for name in "abc")
    text = f".TH BOX 1\n.SH SYNOPSIS\n{lines}.SH COMMANDS\n{lines}"
    paths = [section.path for section in read_file("box.1", text.encode()).sections]
    assert paths[:2] == [("Synopsis",), ("Commands",)]
    assert [len(path) for path in paths[2:]] == [2, 2, 2]


@pytest.mark.parametrize("name", ["box.3perl.gz", "box.1ssl", "box.9freebsd", "box.8postfix"])
def test_sections_of_manuals_with_longer_names_are_read(folder, opened, name):
    content = f"{MAN}Words.\n".encode()
    content = gzip.compress(content) if name.endswith(".gz") else content
    assert opened(folder({name: content})).documents[name].text == "Part\n\nWords."


@pytest.mark.parametrize(
    ("name", "found"),
    [("clip.3gp", ".3gp"), ("a.7z", ".7z"), ("a.3pm.gz", ".3.gz"), ("a.1x", ".1x")],
)
def test_a_film_is_no_manual(name, found):
    assert suffix(name) == found


def test_a_string_stands_for_at_most_200_characters(page):
    assert page(f"{MAN}.ds A {'x' * 300}\n\\*A\n") == [("text", "x" * 200)]


def test_a_long_word_is_read_in_linear_time(page):
    started = time.thread_time()
    assert page(f"{MAN}{'x' * 4_000_000}\n")
    assert time.thread_time() - started < 5


@pytest.mark.parametrize(
    "text",
    [
        MDOC + "." + "Op " * 20_000 + "\n",
        MAN + ".if n " * 20_000 + "x\n",
        MAN + ".ds A " + "x" * 10_000 + "\n" + "\\*A" * 30_000 + "\n",
        MDOC + ".Fl " + "a Ns " * 20_000 + "\n",
    ],
    ids=["nested", "conditions", "strings", "glued"],
)
def test_hostile_lines_are_read_in_good_time(page, text):
    assert len(page(text)) < 5
