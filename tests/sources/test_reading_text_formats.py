"""Notebooks, JSON, AsciiDoc, Org, manual pages, code and configuration become readable blocks."""

import gzip
import json

import pytest

from office_files import pdf
from packwise.errors import SourceError


@pytest.fixture
def one(folder, opened):
    """Read a file of a folder: ``one("a.org", text)``."""

    def read(name, content):
        found = opened(folder({name: content, "other.md": "x"}))
        assert not found.problems
        return found.documents[name]

    return read


def paths(document):
    return [" > ".join(section.path) for section in document.sections]


def test_a_notebook_keeps_prose_code_and_outputs_at_their_cells(one, blocks):
    cells = [
        {"cell_type": "markdown", "source": ["# Rates\n", "\n", "How fast it is."]},
        {
            "cell_type": "code",
            "source": "print(rate)",
            "outputs": [
                {"output_type": "stream", "text": ["\x1b[31m17.3 rows\x1b[0m\n"]},
                {"output_type": "execute_result", "data": {"text/plain": "<Figure size 1x1>"}},
                {
                    "output_type": "display_data",
                    "data": {"text/html": "<table><tr><th>a<th>b<tr><td>1<td>2</table>"},
                },
                {"output_type": "error", "ename": "ValueError", "evalue": "no rows"},
            ],
        },
    ]
    document = one("a.ipynb", json.dumps({"cells": cells, "metadata": {"acl": ["hr"]}}))
    assert document.title == "Rates"
    assert dict(document.metadata) == {"acl": "hr"}
    assert blocks(document) == [
        ("text", "How fast it is."),
        ("code", "print(rate)"),
        ("code", "17.3 rows"),
        ("table", "a | b\n1 | 2"),
        ("code", "ValueError: no rows"),
    ]
    at = document.text.index("17.3")
    assert document.place(at, at + 4) == "cell 2"


def test_json_becomes_sections_and_tables(one, blocks):
    value = {
        "info": {"title": "Pets", "version": "1.0"},
        "paths": {"/pets": {"get": {"summary": "List all pets", "tags": ["a", "b"]}}},
        "codes": [{"code": 200, "means": "fine"}, {"code": 404, "means": "no pet"}],
    }
    document = one("api.json", json.dumps(value))
    assert document.title == "Pets"
    assert paths(document) == [
        "info: Pets",
        "paths",
        "paths > /pets",
        "paths > /pets > GET /pets",
        "codes",
    ]
    assert ("text", "endpoint: GET /pets\nsummary: List all pets\ntags: a, b") in blocks(document)
    assert ("table", "code | means\n200 | fine\n404 | no pet") in blocks(document)


def test_a_short_part_of_json_is_lines_with_the_path_to_each_value(one, blocks):
    pets = {"summary": "Find a pet", "responses": {"404": {"description": "Pet not found"}}}
    document = one("api.json", json.dumps({"name": "Pets", "find": pets, "rest": ["long"] * 20}))
    assert paths(document) == ["", "find", "rest"]
    shown = "summary: Find a pet\nresponses.404.description: Pet not found"
    assert ("text", shown) in blocks(document)


def test_each_part_of_a_long_record_of_json_begins_with_its_name(one):
    values = {f"membership of organisation {n}": {"since": 2000 + n} for n in range(20)}
    text = one("a.json", json.dumps({"list": [{"country": "Croatia", **values}]})).text
    first, *more = text.split("- ")[1:]
    assert first.startswith("country: Croatia; membership of organisation 0.since: 2000; ")
    assert [part.partition("; ")[0] for part in more] == ["country: Croatia"] * len(more) != []


def test_who_may_see_a_json_file_holds_for_its_records(one):
    rows = [{"id": n, "note": "A note of more than eighty characters. " * 3} for n in range(4)]
    assert one("a.json", json.dumps({"tenant": "acme", "rows": rows})).metadata == {
        "tenant": "acme"
    }


def test_features_of_geojson_are_rows_of_their_properties(one, blocks):
    def feature(name, shape, points):
        place = {"type": shape, "coordinates": points}
        return {"type": "Feature", "properties": {"name": name, "bikes": 4}, "geometry": place}

    features = [feature("River", "Point", [0.5, 51]), feature("Canal", "LineString", [[1, 2]])]
    document = one("a.geojson", json.dumps({"type": "FeatureCollection", "features": features}))
    shown = "name | bikes | geometry\nRiver | 4 | Point 0.5, 51\nCanal | 4 | LineString"
    assert blocks(document) == [("table", shown)]


@pytest.mark.parametrize("features", [5, "none", None, {"river": 1}, [], [5], [{"geometry": [1]}]])
def test_what_only_calls_itself_geojson_is_read_all_the_same(one, features):
    collection = {"type": "FeatureCollection", "name": "Rivers", "features": features}
    assert "Rivers" in one("a.geojson", json.dumps(collection)).text


def test_json_records_are_documents_with_their_access_lists(folder, opened):
    long = "A text of some length that is about the keys and how often they change, in full."
    records = [
        {"id": "a", "title": "Keys", "body": long, "acl": ["hr"]},
        {"id": "b", "text": long, "ACL": "board"},
        {"id": "c", "body": long, "acl": []},
    ]
    found = opened(folder({"faq.json": json.dumps({"items": records})}))
    assert list(found.documents) == ["faq.json/a", "faq.json/b"]
    assert [document.metadata["acl"] for document in found.documents.values()] == ["hr", "board"]
    assert found.documents["faq.json/a"].title == "Keys"
    assert [problem.reason for problem in found.problems] == ["has an acl that cannot be used"]


def test_asciidoc(one, blocks):
    text = (
        "= Keys\n:acl: hr\n:name: Acme\n\nHow {name} *signs* with `gpg`, see "
        "link:other.md[the other page].\n\n== Steps\n\n* make\n** sign it\n* ship\n\n"
        "[source,sh]\n----\ngpg --sign\n----\n\nNOTE: Keep it safe.\n\n"
        '[cols="2*"]\n|===\n|a |b\n|1 |2\n|===\n\nOlder\n-----\nterm:: its meaning\n'
    )
    document = one("a.adoc", text)
    assert document.title == "Keys"
    assert document.metadata["acl"] == "hr"
    assert paths(document) == ["", "Steps", "Older"]
    assert [link.href for link in document.links] == ["other.md"]
    assert blocks(document) == [
        ("text", "How Acme signs with gpg, see the other page."),
        ("list", "- make\n  - sign it\n- ship"),
        ("code", "gpg --sign"),
        ("text", "Note: Keep it safe."),
        ("table", "a | b\n1 | 2"),
        ("text", "term\nits meaning"),
    ]


def test_asciidoc_resolves_attributes_characters_and_images(one, blocks):
    text = """:nbh: &#8209;
:lt: LTTng{nbh}tools

= {lt} =
https://ci.example.org/build[image:https://img.example.org/b.svg[Build, title="Build"]]

== Is it small? ==

* Linux{nbsp}3
+
Use `{nbh}{nbh}disable{nbh}epoll` &amp; wait.

* popt, see {unknown}

After the list.
"""
    document = one("a.adoc", text)
    assert document.title == "LTTng-tools"
    assert paths(document) == ["", "Is it small?"]
    assert blocks(document) == [
        ("text", "Build"),
        ("list", "- Linux 3\n  Use --disable-epoll & wait.\n- popt, see {unknown}"),
        ("text", "After the list."),
    ]


def test_terms_of_asciidoc_share_what_is_said_below_them(one, blocks):
    text = "`--lockable`::\n`-l`::\n  Make them lockable.\n`-v`:: Say more.\nAnd more.\n"
    assert blocks(one("a.adoc", text)) == [
        ("text", "--lockable, -l\nMake them lockable."),
        ("text", "-v\nSay more. And more."),
    ]


def test_terms_of_asciidoc_that_are_described_at_length_are_sections(one, blocks):
    said = "It is said here what that is for and when one would rather do without, in some words"
    text = f"""\
= keys

== Options

-f::
--force::

\tWrite. {said}.
+
There is more. {said}.
+
--
* one
* two

Both count.
--

\\--::
\tEnds. {said}, {said}.
+
quiet;;
\tnothing
loud;;
\tall

The rest is about ``other things'', at the end of the section.
"""
    document = one("a.adoc", text)
    options, force, dashes, rest = document.sections
    assert options.path == rest.path == ("Options",)
    assert force.path == ("Options", "-f, --force")
    assert dashes.path == ("Options", "--")
    kinds = [kind for kind, _ in blocks(document)]
    assert kinds == ["text", "text", "list", "text", "text", "text", "text", "text"]
    shown = [text for _, text in blocks(document)]
    assert shown[0] == f"-f, --force\nWrite. {said}."
    assert shown[3:] == [
        "Both count.",
        f"--\nEnds. {said}, {said}.",
        "quiet\nnothing",
        "loud\nall",
        'The rest is about "other things", at the end of the section.',
    ]


def test_remarks_on_code_in_asciidoc_are_a_list(one, blocks):
    remarks = "<1> It takes\n    a while.\n<2> It is quick.\n"
    text = f"----\nmake key  <1>\nmake box  <2>\n----\n{remarks}"
    assert blocks(one("a.adoc", text)) == [
        ("code", "make key  <1>\nmake box  <2>"),
        ("list", "1. It takes a while.\n2. It is quick."),
    ]


def test_a_part_of_an_asciidoc_manual_may_have_terms_alone(one):
    text = "".join(
        f"--option{n}::\n\tWhat it does is told here.\n+\nAnd {'more ' * 40}.\n\n" for n in range(6)
    )
    assert paths(one("options.txt", text)) == [f"--option{n}" for n in range(6)]
    examples = "".join(f"Write this::\n\n    make box{n}\n\n" for n in range(15))
    assert "Write this::" in one("examples.txt", examples).text


def test_a_table_of_asciidoc_has_the_columns_that_it_declares(one, blocks):
    text = (
        '[cols="^4,46,50a"]\n|===\n|S |Limit\n|How many.\n\n[options="compact"]\n* or none\n\n'
        "|D |Pause\n|How long.\n|===\n"
    )
    shown = "S | Limit | How many. * or none\nD | Pause | How long."
    assert blocks(one("a.adoc", text)) == [("table", shown)]


def test_a_part_of_json_is_called_by_its_name(one):
    text = '{"Ru": {"Name": "Ruthenium", "Melts": "2607 K"}, "iron": {"name": "Iron", "Z": 26}}'
    assert paths(one("a.json", text)) == ["Ru: Ruthenium", "iron"]


def test_org(one, blocks):
    text = (
        "#+TITLE: Keys\n#+ACL: hr\n* TODO Steps :tag:\n:PROPERTIES:\n:ID: 1\n:END:\nUse =gpg= "
        "and [[file:other.md][the page]].\n- make\n  - sign it\n- [X] ship\n\n#+BEGIN_SRC sh\n"
        "  gpg --sign\n#+END_SRC\n| a | b |\n|---+---|\n| 1 | 2 |\n"
    )
    document = one("a.org", text)
    assert (document.title, dict(document.metadata)) == ("Keys", {"acl": "hr"})
    assert paths(document) == ["Steps"]
    assert [link.href for link in document.links] == ["other.md"]
    assert blocks(document) == [
        ("text", "Use gpg and the page."),
        ("list", "- make\n  - sign it\n- ship"),
        ("code", "gpg --sign"),
        ("table", "a | b\n1 | 2"),
    ]


MAN = (
    '.\\" a comment\n.TH KEYS 1 2020\n.SH NAME\nkeys \\- make keys\n.SH OPTIONS\n.TP\n'
    '.BR \\-f ", " \\-\\-force\nOverwrite them; see\n.BR gpg (1).\n.PP\n.nf\nkeys \\-f\n.fi\n'
)
MDOC = (
    ".Dd May 1\n.Dt KEYS 1\n.Sh NAME\n.Nm keys\n.Nd make keys\n.Sh OPTIONS\n.Bl -tag\n"
    ".It Fl f , Fl Fl force Ar name\nOverwrite them; see\n.Xr gpg 1 .\n.El\n"
)


@pytest.mark.parametrize(("name", "text"), [("keys.1", MAN), ("keys.1", MDOC)])
def test_manual_pages(name, text, one, folder, opened):
    document = one(name, text)
    assert document.title == "keys(1)"
    assert paths(document) == ["Name", "Options"]
    assert "keys - make keys" in document.text
    assert "-f" in document.text
    assert "Overwrite them; see gpg(1)." in document.text
    packed = opened(folder({"keys.1.gz": gzip.compress(text.encode())}, "packed"))
    assert packed.documents["keys.1.gz"].text == document.text


def test_a_file_with_a_number_as_its_suffix_is_no_manual(folder, opened):
    found = opened(folder({"notes.1": "plain words", "a.md": "x"}))
    assert list(found.documents) == ["a.md"]


def test_python_by_function_and_class_with_its_docstring(one, blocks):
    text = (
        '"""Keys and how they change."""\nimport os\n\nLIFETIME = 365\n\n\nclass Key:\n'
        '    """One key."""\n\n    def rotate(self, days):\n        """Replace it."""\n'
        "        return days + 30\n\n\ndef load(path):\n    return path\n"
    )
    document = one("keys.py", text)
    assert paths(document) == ["", "Key", "Key > Key.rotate", "load"]
    assert blocks(document) == [
        ("text", "Keys and how they change."),
        ("code", "import os\n\nLIFETIME = 365"),
        ("code", "class Key:"),
        ("text", "One key."),
        ("text", "Replace it."),
        ("code", "def rotate(self, days):\n    return days + 30"),
        ("code", "def load(path):\n    return path"),
    ]
    at = document.text.index("Replace")
    assert document.place(at, at + 3) == "line 11"


CODE = {
    "a.go": "package a\n// Rotate replaces a key.\nfunc Rotate(days int) int {\n\treturn days\n}\n",
    "a.rs": "/// Rotate replaces a key.\npub fn Rotate(days: u8) -> u8 { days }\n",
    "a.js": "/**\n * Rotate replaces a key.\n */\nexport function Rotate(days) { return days }\n",
    "a.ts": "// Rotate replaces a key.\nexport const Rotate = (days: number) => days;\n",
    "A.java": "class A {\n  /** Rotate replaces a key. */\n  int Rotate(int d) { return d; }\n}\n",
    "a.c": "/* Rotate replaces a key. */\nint Rotate(int days) { return days; }\n",
    "a.cpp": "// Rotate replaces a key.\nint Rotate(int days) { return days; }\n",
    "a.rb": "# Rotate replaces a key.\ndef Rotate(days)\n  days\nend\n",
    "a.sh": "# Rotate replaces a key.\nRotate() {\n  echo 1\n}\n",
    "a.php": "<?php\n// Rotate replaces a key.\nfunction Rotate($days) { return $days; }\n",
    "a.cs": "class A {\n  // Rotate replaces a key.\n  int Rotate(int d) { return d; }\n}\n",
}


@pytest.mark.parametrize("name", CODE)
def test_code_by_function_with_its_comment(name, one, blocks):
    pytest.importorskip("tree_sitter")
    document = one(name, CODE[name])
    section = next(s for s in document.sections if s.header.endswith("Rotate"))
    kinds = [(block.kind.value, document.text[block.start : block.end]) for block in section.blocks]
    assert kinds[0] == ("text", "Rotate replaces a key.")
    assert kinds[1][0] == "code"
    assert "Rotate" in kinds[1][1]


def test_functions_that_are_assigned_to_a_name_are_sections(one, blocks):
    pytest.importorskip("tree_sitter")
    code = (
        "'use strict';\nvar http = require('http');\n\n"
        "/**\n * Send JSON.\n */\nres.json = function json(body) { return body; };\n"
        "exports.set = exports.header = (name) => name;\nexports.count = 3;\n"
    )
    document = one("response.js", code)
    assert [s.header for s in document.sections if s.path] == [
        "res.json",
        "exports.set, exports.header",
    ]
    assert blocks(document)[0] == ("text", "Send JSON.")


def test_the_licence_above_a_file_is_no_comment_of_its_first_class(one, blocks):
    pytest.importorskip("tree_sitter")
    notice = "/*\n * This file is part of Pump.\n * For the license, view LICENSE.\n */\n"
    php = f"<?php\n{notice}\nnamespace Pump;\n\nuse B;\n\n/** Turns wheels. */\nclass Wheel {{}}\n"
    head = "// Copyright Pump.\n// Use it as you like.\n"
    go = f"{head}\n// Turn turns it.\nfunc Turn() int {{\n\treturn 1\n}}\n"
    assert blocks(one("Wheel.php", php))[0] == ("text", "Turns wheels.")
    assert blocks(one("wheel.go", go))[0] == ("text", "Turn turns it.")
    own = "<?php\n/** Checks the license of a pump. */\nclass Check {}\n"
    assert blocks(one("Check.php", own))[0] == ("text", "Checks the license of a pump.")


def test_generated_and_minified_code_is_left_out(folder, opened):
    files = {
        "a.min.js": "x",
        "b.js": "var a=1;" * 2000,
        "c.py": "# Code generated by x. DO NOT EDIT.\n",
        "d.py": "x = 1\n",
    }
    assert list(opened(folder(files)).documents) == ["d.py"]


def test_configuration_is_code_below_headings(one, blocks):
    document = one("a.toml", 'name = "x"\n\n# How long.\n[keys]\ndays = 30\n')
    assert paths(document) == ["", "keys"]
    assert blocks(document) == [("code", 'name = "x"'), ("code", "# How long.\n[keys]\ndays = 30")]
    document = one("b.yaml", "---\nname: x\nkeys:\n  days: 30\n")
    assert paths(document) == ["", "keys"]
    assert blocks(document)[-1] == ("code", "keys:\n  days: 30")


def test_text_that_is_markup_is_read_as_such(one):
    rst = "Keys\n====\n\nSee :doc:`/other` and ``gpg``.\n\n.. note::\n\n   Use ``gpg``.\n"
    document = one("a.txt", rst)
    assert (document.title, document.text) == ("Keys", "See /other and gpg.\n\nNote: Use gpg.")
    fields = "".join(
        f":{name}: keeps {name}s\n    for a day.\n\n" for name in "key log tmp web man".split()
    )
    restructured = "Keys\n====\n\n" + fields + "See :doc:`a`, ``b`` and ``c``.\n"
    assert "log: keeps logs for a day." in one("c.txt", restructured).text.split("\n\n")
    asciidoc = "keys(1)\n=======\n\nNAME\n----\nkeys\n\n[verse]\n'keys' -f\n\n----\nx\n----\n"
    assert paths(one("b.txt", asciidoc)) == ["NAME"]
    plain = "Keys\n====\n\nNothing but words and *stars*.\n"
    document = one("c.txt", plain)
    assert (document.title, document.text) == ("Keys", "Nothing but words and *stars*.")


def test_plain_text_has_headings_lists_and_code_by_convention(one, blocks):
    text = """\
1. Stopping

The process supports two ways of stopping, a hard one and a graceful one, both by a signal :

  - SIGTERM closes all connections that are
    still open at once.

  - SIGUSR1 waits for them:
      * without new ones
      * for an hour at most

    It is the default.

To stop it by hand, send it one of these signals with the usual command:

    # kill -USR1 $(pidof server)

    # kill $(pidof server)

1.1. Numbers

1. one
2. two
"""
    document = one("a.txt", text)
    assert [s.path for s in document.sections] == [(), ("1.1. Numbers",)]
    assert document.title == "1. Stopping"
    first, *rest = blocks(document)
    assert first[1].startswith("The process supports")
    items = (
        "- SIGTERM closes all connections that are still open at once.\n- SIGUSR1 waits for them:"
        "\n  - without new ones\n  - for an hour at most\n  It is the default."
    )
    assert rest == [
        ("list", items),
        (
            "text",
            "To stop it by hand, send it one of these signals with the usual command:",
        ),
        ("code", "# kill -USR1 $(pidof server)\n\n# kill $(pidof server)"),
        ("list", "1. one\n2. two"),
    ]


def test_plain_text_has_headings_below_rulings_and_in_capitals(one):
    text = """\
About the server

=============================================================================
Stopping it

It stops when it gets a signal, and it tells its clients.

A FEW WORDS MORE

They are told once, and then the connection is closed by it.

-----------------------------------------------------------------------------

Nothing else is to be said here, but it may take some time.
=============================================================================
===== Starting it =====
=============================================================================
It starts by itself as soon as the machine is up and running.
"""
    document = one("a.txt", text)
    assert document.title == "A"
    assert paths(document) == ["", "Stopping it", "Stopping it > A FEW WORDS MORE", "Starting it"]
    assert "---" not in document.text
    assert "===" not in document.text


def test_terms_of_plain_text_stand_beside_their_descriptions(one, blocks):
    said = "  ".join(["words that say what it is"] * 3)
    text = f"""\
These are the options that it knows.

-f
--force         Write the file, {said},
                even if somebody else has it.

                Do not use it, {said}, without a reason.

-q              Say nothing at all, {said},
                except for errors.

-v              Say more, {said},
                about what is done.

Of the keys, which are described in the manual, the most useful ones are:
    a           to do it once
    b           to do it twice, with a
                pause between
    c           to stop

The rest can be read there by those who want to.
"""
    document = one("a.txt", text)
    assert paths(document) == ["", "-f, --force", "-q", "-v", ""]
    shown = blocks(document)
    assert shown[1][1].startswith(f"-f, --force\nWrite the file, {said}, even if somebody")
    assert shown[2][1].startswith("Do not use it,")
    keys = "a | to do it once\nb | to do it twice, with a pause between\nc | to stop"
    assert shown[-2] == ("table", keys)


def test_terms_of_plain_text_stand_above_their_descriptions(one, blocks):
    said = "and that is how it has always been with these boxes, as far as anybody knows"
    text = f"""\
These kinds of boxes are known, and there may be more of them.

    small
        One that fits into a pocket, {said},
        {said}.
    big
        One that does not fit into it, {said},
        {said}.
    huge
        One that nobody can lift alone, {said},
        {said}.

The kind is chosen in the file of settings, where it has a line:

    /etc/box.conf:
        kind = small
"""
    document = one("a.txt", text)
    assert paths(document) == ["", "small", "big", "huge", ""]
    assert blocks(document)[1][1].startswith("small\nOne that fits into a pocket, and")
    assert blocks(document)[-1] == ("code", "/etc/box.conf:\n    kind = small")


def test_questions_of_plain_text_are_headings_of_their_answers(one, blocks):
    marked = """\
Q:   Why is it impossible to open the
     box when the key is lost?

A:   It has no other lock, and that
     is how it should be.

Q: I have lost it. What now?
A: Ask somebody who has another one.
"""
    document = one("a.txt", marked)
    lost = "Why is it impossible to open the box when the key is lost?"
    assert paths(document) == [lost, "I have lost it. What now?"]
    assert blocks(document) == [
        ("text", "It has no other lock, and that\nis how it should be."),
        ("text", "Ask somebody who has another one."),
    ]
    numbered = """\
1. How do I open it?
2. How do I close it?

1. How do I open it, if that is at all
   possible?

\tWith the key that came with it, from the left.

2. How do I close it?

\tPush the lid down, and turn the key.

3. It does not turn.

\tOil it.
"""
    document = one("b.txt", numbered)
    asked = ["1. How do I open it, if that is at all possible?", "2. How do I close it?"]
    asked.append("3. It does not turn.")
    assert paths(document) == ["", *asked]
    assert blocks(document)[0][0] == "list"


def test_a_list_follows_the_line_that_announces_it(one, blocks):
    text = "These are the steps that have to be taken:\n- one\n- two\n"
    assert [kind for kind, _ in blocks(one("a.txt", text))] == ["text", "list"]


def test_numbered_lines_left_of_the_text_are_headings_also_as_questions(one, blocks):
    text = """\
Chapter 1. Boxes

1.1.\N{NO-BREAK SPACE}What is a box?

    A box is a thing with a lid, and the lid has a key.

1.2. Why would anybody who has a chest of drawers
in the house want a box?

    It can be carried.

7 What a box!

    1.3. is the version of this text.
"""
    document = one("faq.txt", text)
    second = "1.2. Why would anybody who has a chest of drawers in the house want a box?"
    assert [path.split(" > ")[-1] for path in paths(document)] == [
        "Chapter 1. Boxes",
        "1.1. What is a box?",
        second,
    ]
    assert blocks(document) == [
        ("text", "A box is a thing with a lid, and the lid has a key."),
        ("text", "It can be carried."),
        ("text", "7 What a box!"),
        ("text", "1.3. is the version of this text."),
    ]


def test_the_contents_of_a_plain_text_are_left_out_and_lists_are_not(one, blocks):
    names = ("Boxes", "Lids", "Keys", "Locks")
    contents = "\n".join(f"  1.{n} {name}" for n, name in enumerate(names, start=1))
    told = "\n\n".join(
        f"1.{n} {name}\n\nSomething about {name.lower()} is told here at last."
        for n, name in enumerate(names, start=1)
    )
    document = one(
        "a.txt", f"Contents\n\n{contents}\n\n{told}\n\n2.1 Steps\n\n1. a\n2. b\n3. c\n4. d\n"
    )
    assert [path.split(" > ")[-1] for path in paths(document)[1:]] == [
        *(f"1.{n} {name}" for n, name in enumerate(names, start=1)),
        "2.1 Steps",
    ]
    assert document.text.count("Boxes") == 1
    assert blocks(document)[-1] == ("list", "1. a\n2. b\n3. c\n4. d")


def test_equal_lists_of_steps_and_text_beside_numbers_are_no_contents(one):
    steps = "1. Open the box\n2. Take the key\n3. Turn the lid\n4. Close it again"
    told = "What is in a box is told here\n" * 9
    text = f"First way:\n\n{steps}\n\nSecond way:\n\n{steps}\n\n{told}{steps}\n"
    loose = steps.replace("\n", "\n\n")
    document = one("a.txt", f"{text}\n{loose}\n")
    assert document.text.count("Take the key") == 4
    assert document.text.count("What is in a box") == 9
    numbered = "\n".join(f"1.{n} Part {n}" for n in range(1, 5))
    titles = "\n\n".join(f"1.{n} Part {n}\n\nIt is told here." for n in range(1, 5))
    document = one("b.txt", f"{told}{numbered}\n\n{titles}\n")
    assert document.text.count("What is in a box") == 9
    document = one("c.txt", f"{numbered}\n\nAgain:\n\n{numbered}\n")
    assert document.text.count("Part 2") == 2


def test_text_for_a_printer_is_read_once_and_its_bold_lines_are_headings(one, blocks):
    def bold(words):
        return "".join(letter if letter == " " else f"{letter}\b{letter}" for letter in words)

    text = f"""\
{bold("All about keys")}

{"-" * 79}

{bold("How to make them")}

Use _\bg_\bp_\bg, and be {bold("careful")} with it, as always with a key.

    {bold("Note")}

    Keep it.

{bold("How to lose them")}

Give them away.
"""
    document = one("KEYS_README", text)
    assert document.title == "All about keys"
    assert paths(document) == ["How to make them", "How to lose them"]
    assert blocks(document)[0][1].startswith("Use gpg, and be careful with it")
    assert document.places[0].name == "line 5"


def test_help_of_vim(one, blocks):
    text = """\
*keys.txt*\tFor Vim version 9.0.

\t\t  VIM USER MANUAL - by A. Writer

\t\t\tAll about keys

|01.1|\tMaking them
|01.2|\tLosing them

==============================================================================
*01.1*\tMaking them\t\t\t\t\t*making-keys*

See |gpg| for that, or type this >
\t:make key
<\tIt takes a while until it is there.

How long it takes ~

A minute.

==============================================================================
*01.2*\tLosing them

\t\t\t\t\t\t\t*:lose*
<Lose>\tor
:los\t\tLose the key that is named, and all of the files that were
\t\tmade with it, as far as they are not open.  Nobody gets them back,
\t\tneither today nor at any other time that is known to us.
\t\t\t\t\t\t\t*:give*
:gi[ve]\t\tGive the key that is named to those who wait for it, and all of
\t\tthe files with it.  They have to say thanks,
\t\tat once, and in the form that is usual where they live.

:fi[nd]\t\tFind the key that is named, wherever it may be.  That is
\t\tonly possible if it was lost before, and not for long,
\t\tas it is with everything else that one may want to find.

 vim:tw=78:ts=8:noet:ft=help:norl:
"""
    document = one("keys.txt", text)
    assert document.title == "All about keys"
    lost = "01.2 Losing them"
    made = "01.1 Making them"
    assert paths(document) == [
        made,
        f"{made} > How long it takes",
        lost,
        f"{lost} > <Lose>, :los",
        f"{lost} > :gi[ve]",
        f"{lost} > :fi[nd]",
    ]
    assert blocks(document)[:3] == [
        ("text", "See gpg for that, or type this"),
        ("code", ":make key"),
        ("text", "It takes a while until it is there."),
    ]


def test_preformatted_sentences_of_a_page_are_text_and_code_stays_code(one, blocks):
    prose = (
        "The graceful stop is triggered when the signal is sent to the\n"
        "process. It waits for all connections that are still open:\n\n"
        "    kill -USR1 1234\n"
    )
    code = "for i in range(10):\n    print(i)  # the number of the line\n"
    document = one("a.html", f"<pre>{prose}</pre><pre>{code}</pre>")
    assert [kind for kind, _ in blocks(document)] == ["text", "code", "code"]


INFO = b"""This is box.info, produced by makeinfo version 6.8 from box.texi.

\x1f
File: box.info,  Node: Top,  Next: Keys,  Up: (dir)

The Box
*******

How to use the box.

* Menu:

* Keys::     How to make keys.
* Index::    All words,
             in order.

More on the box.

\x1f
File: box.info,  Node: Keys,  Prev: Top,  Up: Top

1 Keys
******

1.1 Making keys
===============

A key has 4096 bits.  *Note Top:: for more.

   Make one
with this command:

     box make
     box list

'--bits'
     The length.

\x1f
File: box.info,  Node: Index,  Up: Top

Index
*****

\x00\x08[index\x00\x08]
* Menu:

* bits: Keys. (line 3)

\x1f
Tag Table:
Node: Top\x7f70
\x1f
End Tag Table
"""


@pytest.mark.parametrize("name", ["box.info", "box.info-2.gz"])
def test_a_manual_of_gnu_info_has_its_nodes_as_sections(name, one, blocks):
    document = one(name, gzip.compress(INFO) if name.endswith(".gz") else INFO)
    assert paths(document) == ["The Box", "1 Keys", "1 Keys > 1.1 Making keys"]
    assert blocks(document) == [
        ("text", "How to use the box."),
        ("text", "More on the box."),
        ("text", "A key has 4096 bits.  see Top for more."),
        ("text", "Make one with this command:"),
        ("code", "box make\nbox list"),
        ("text", "--bits\nThe length."),
    ]


INFO_LAYOUT = """This is box.info, produced by makeinfo.

\x1f
File: box.info,  Node: Options,  Up: Top

1 Options
*********

   The program accepts the following options.  Also see *note Common
options::, and *note Keys: (lock)Making keys, for keys.

‘-f’
‘--force’
     Overwrite the box, also if somebody else has it open at the moment.
     Sizes have one of these suffixes:
          ‘K’  =>  1024
          ‘M’  =>  1024*1024
     and so on.  It is the same as this command, which first asks for
     the key:

          box ask

     It does not ask again
        • if the box is empty,
          or has no key
        • if there is no box:

               box: none

‘--when=WHEN’

     Say when to open it; WHEN is one of the following, and what you do
     not say is looked up in the settings:
     ‘never’
          Not at all.
     ‘auto’
          If there is a key.
     ‘always’
          Each time.

‘--list’
        • It lists boxes, with the length, the width and the height of each,
          in the order in which they were made.

Three examples:
     box -f
The second one takes no key.
     box --list
   The end of the options, which belongs to the section around them.

 -- Function: box_open (BOX, KEY, LENGTH, WIDTH, HEIGHT, DEPTH,
          COLOUR)
 -- Macro: BOX_OPEN (BOX)
     Opens a box with its key and returns what it held before it was
     opened by somebody else, who must have had the key as well.

 -- Function: box_close (BOX)
     Closes a box, after which nobody can open it without the key that
     the function returns; the key is not stored anywhere.

  1. Take the key.
  2. Open the box.

          box open

The Detailed Node Listing is not a menu here.

* Menu:

* Keys::

 — The Detailed Node Listing —

Keys

* Making keys::   How to make keys.
"""


def test_gnu_info_is_read_by_its_indentation(one, blocks):
    document = one("box.info", INFO_LAYOUT)
    assert paths(document) == [
        "",
        "-f, --force",
        "--when=WHEN",
        "--list",
        "",
        "box_open (BOX, KEY, LENGTH, WIDTH, HEIGHT, DEPTH, COLOUR), BOX_OPEN (BOX)",
        "box_close (BOX)",
        "",
    ]
    assert blocks(document) == [
        (
            "text",
            "The program accepts the following options.  Also see Common options, and see Keys "
            "for keys.",
        ),
        (
            "text",
            "-f, --force\nOverwrite the box, also if somebody else has it open at the moment. "
            "Sizes have one of these suffixes:",
        ),
        ("code", "‘K’  =>  1024\n‘M’  =>  1024*1024"),
        (
            "text",
            "and so on.  It is the same as this command, which first asks for the key:",
        ),
        ("code", "box ask"),
        ("text", "It does not ask again"),
        ("list", "- if the box is empty, or has no key\n- if there is no box:"),
        ("code", "box: none"),
        (
            "text",
            "--when=WHEN\nSay when to open it; WHEN is one of the following, and what you do "
            "not say is looked up in the settings:",
        ),
        (
            "table",
            "never | Not at all.\nauto | If there is a key.\nalways | Each time.",
        ),
        ("text", "--list"),
        (
            "list",
            "- It lists boxes, with the length, the width and the height of each, in the order in "
            "which they were made.",
        ),
        ("text", "Three examples:"),
        ("code", "box -f"),
        ("text", "The second one takes no key."),
        ("code", "box --list"),
        ("text", "The end of the options, which belongs to the section around them."),
        (
            "text",
            "box_open (BOX, KEY, LENGTH, WIDTH, HEIGHT, DEPTH, COLOUR), BOX_OPEN (BOX)\n"
            "Opens a box with its key and returns what it held before it was opened by somebody "
            "else, who must have had the key as well.",
        ),
        (
            "text",
            "box_close (BOX)\nCloses a box, after which nobody can open it without the key that "
            "the function returns; the key is not stored anywhere.",
        ),
        ("list", "1. Take the key.\n2. Open the box."),
        ("code", "box open"),
        ("text", "The Detailed Node Listing is not a menu here."),
    ]


def test_questions_of_gnu_info_are_sections_with_their_answers(one, blocks):
    asked = ("How do I open it?", "What opens it\n     from the left?", "Who has the key?")
    told = "Somebody has a key that opens it, and he is asked first, which takes a whole day."
    items = "".join(
        f"  {n}. {question}\n\n          box open {n}\n\n     {told}\n     {told}\n     {told}\n\n"
        for n, question in enumerate(asked, start=1)
    )
    start = "\x1f\nFile: box.info,  Node: Top\n\n1 Usage\n*******\n\n"
    document = one("box.info", f"{start}{items}  4. Ask again.\n\nThe end.\n")
    names = ["1. How do I open it?", "2. What opens it from the left?", "3. Who has the key?"]
    assert paths(document) == [*names, "4. Ask again.", ""]
    said = f"{told} {told} {told}"
    first = [("text", names[0]), ("code", "box open 1"), ("text", said)]
    assert blocks(document)[:3] == first
    listed = one("b.info", f"{start}  1. One.\n\n  2. Two?\n\n  3. Three.\n")
    assert blocks(listed) == [("list", "1. One.\n2. Two?\n3. Three.")]


LICENCE = """\
                              THE BOX LICENSE
                         Version 2, 1 April 2019
                          https://example.org/box

                                 Preamble

  This licence lets you open the box, share what is in it with others, and
close it again when you have finished with all of that for the day.

     TERMS AND CONDITIONS FOR OPENING THE BOX, AND FOR CLOSING IT

  1. Who May Open It.

  Anyone with a key may open it, and nobody else may do so on any day.

  2. Use with Other Boxes. You may put the box into a larger one, if that one
is open too, and if everyone who receives it can get at the contents of both of
them without a further key.

  3. Closing. The box is to be closed at night. This holds for every night, also
for those on which nobody is there who could close it, since there is a warden
who has been asked to see to that.

                         How to Apply This to Your Box

  Write the name of the licence on the lid, and send one dollar by post to the
address below.

                               A. Warden
                               The Box
"""


def test_a_licence_has_centred_titles_and_numbered_clauses(one, blocks):
    document = one("BOX-2", LICENCE)
    assert document.title == "THE BOX LICENSE Version 2, 1 April 2019"
    terms = "TERMS AND CONDITIONS FOR OPENING THE BOX, AND FOR CLOSING IT"
    assert [section.path for section in document.sections if section.path] == [
        ("Preamble",),
        (terms,),
        (terms, "1. Who May Open It"),
        (terms, "2. Use with Other Boxes"),
        (terms, "3. Closing"),
        ("How to Apply This to Your Box",),
    ]
    assert ("text", "Anyone with a key may open it, and nobody else may do so on any day.") in (
        blocks(document)
    )
    assert "You may put the box into a larger one" in document.text


def test_capitals_are_a_heading_where_all_text_is_indented(one):
    text = "   The box is to be closed at night, and opened in the morning.\n"
    assert paths(one("a.txt", f"{text}\n   END OF TERMS\n\n{text}")) == ["", "END OF TERMS"]
    assert paths(one("b.txt", f"{text[3:]}\n   END OF TERMS\n\n{text[3:]}")) == [""]


def test_steps_and_indented_sentences_are_no_clauses(one):
    steps = "1. Open Settings.\n\n2. Choose Network.\n\n3. Press Enter. It blinks three times.\n"
    assert paths(one("a.txt", steps)) == [""]
    assert paths(one("e.txt", "What to do:\n\n1. Press Enter. It blinks three times.\n")) == [""]
    quoted = "He said that it was the box with the letters in it, and then:\n\n"
    quoted += "        The letters are in the other box\n        that stands below the window\n"
    assert paths(one("b.txt", quoted)) == [""]
    assert paths(one("c.txt", quoted.rpartition("        ")[0])) == [""]
    assert paths(one("d.txt", f"{quoted}\n{' ' * 18}It is never open on Sundays.\n")) == [""]


@pytest.mark.parametrize("line", ["Article 7", "Section 12. Powers of the Warden", "§ 4 Strafen"])
def test_the_parts_of_a_law_are_headings(one, line):
    law = f"THE BOX ACT\n===========\n\nCHAPTER II\n\n{line}\n\nThe warden keeps the box.\n"
    document = one("act.txt", law)
    assert document.sections[-1].path == ("CHAPTER II", line)
    assert one("b.txt", f"The warden says so in\n{line}, and that is all.\n").sections[0].path == ()
    assert paths(one("c.txt", "Section 12 says so.\n\nIt is long.\n")) == [""]
    assert paths(one("d.txt", "Part 2 says so\n\nIt is long.\n")) == [""]


def test_texts_may_be_packed_and_have_no_suffix(folder, opened):
    text = b"The box opens with a key.\n"
    packed = gzip.compress(text)
    files = {"README": text, "a/README.Debian.gz": packed, "INSTALL": text, "b.txt.gz": packed}
    files |= {
        "BOX_README": text,
        "keys-HOWTO.gz": packed,
        "README.ssl": text,
        "b/README.SSL.gz": packed,
        "c.html.gz": gzip.compress(b"<p>The box."),
    }
    found = opened(folder({**files, "npm-install": b"cd $(dirname $0) && ./box --open -k=7\n"}))
    assert set(found.documents) == set(files)
    assert {d.text.strip() for d in found.documents.values()} == {
        "The box opens with a key.",
        "The box.",
    }


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("box.pdf", pdf([(60, 700, 10, "The box opens with a key.")])),
        ("box.csv", b"box,key\nred,brass\n"),
        ("box.org", b"* Keys\n\nThe box opens with a key.\n"),
        ("box.adoc", b"= Keys\n\nThe box opens with a key.\n"),
        ("box.wiki", b"== Keys ==\n\nThe box opens with a key.\n"),
        ("box.eml", b"Subject: Keys\nFrom: ann@example.org\n\nThe box opens with a key.\n"),
        ("box.ipynb", b'{"cells": [{"cell_type": "code", "source": "box.open(key)"}]}'),
    ],
)
def test_a_packed_file_of_any_format_is_read_as_the_plain_one_is(name, content, folder, opened):
    plain = opened(folder({name: content})).documents[name]
    packed = opened(folder({f"{name}.gz": gzip.compress(content)}, "packed"))
    assert [*packed.documents] == [f"{name}.gz"]
    found = packed.documents[f"{name}.gz"]
    assert (found.text, found.title) == (plain.text, plain.title)
    assert found.sections == plain.sections


def test_a_packed_pdf_that_is_cut_or_too_large_is_a_problem(folder, opened, monkeypatch):
    monkeypatch.setattr("packwise.sources.files.FILE_LIMIT", 1 << 20)
    whole = gzip.compress(pdf([(60, 700, 10, "The box opens with a key.")]))
    files = {"large.pdf.gz": gzip.compress(bytes(2 << 20)), "cut.pdf.gz": whole[:-20]}
    found = opened(folder(files)).items
    with pytest.raises(SourceError, match=r"large\.pdf\.gz: holds more than 1 MiB"):
        found["large.pdf.gz"].read()
    with pytest.raises(SourceError, match=r"cut\.pdf\.gz: is not a whole gzip file"):
        found["cut.pdf.gz"].read()


def test_a_packed_text_that_is_cut_or_too_large_is_a_problem(folder, opened, monkeypatch):
    monkeypatch.setattr("packwise.sources.decoding.SIZE_LIMIT", 1 << 20)
    files = {
        "large.txt.gz": gzip.compress(bytes(2 << 20)),
        "cut.txt.gz": gzip.compress(b"text" * 9999)[:-20],
        "other.txt.gz": b"no gzip",
        "good.txt": "x",
    }
    found = opened(folder(files))
    reasons = {p.location.rpartition("/")[2]: p.reason for p in found.problems}
    assert reasons["large.txt.gz"] == "holds more than 1 MiB"
    assert "is not a whole gzip file" in reasons["cut.txt.gz"]
    assert "is not a whole gzip file" in reasons["other.txt.gz"]
    assert list(found.documents) == ["good.txt"]


@pytest.mark.parametrize("above", ["[source,sh]", ".Open it now"])
def test_what_is_said_of_a_block_of_asciidoc_is_no_title_of_it(above, one, blocks):
    line = "-" * len(above)
    document = one(
        "box.adoc", f"= Box\n\nRun this.\n\n{above}\n{line}\nbox open\n{line}\n\nDone.\n"
    )
    assert paths(document) == [""]
    assert ("code", "box open") in blocks(document)
    assert blocks(document)[-1] == ("text", "Done.")


def test_signs_around_literal_text_of_asciidoc_are_not_shown(one):
    document = one("box.adoc", "= Box\n\nThe +force+ argument of C++, 1 + 2 + 3 and +5 or + 6.\n")
    assert document.text.strip().endswith("The force argument of C++, 1 + 2 + 3 and +5 or + 6.")


def test_cells_that_only_set_up_a_notebook_are_left_out(one, blocks):
    sources = [
        "%matplotlib inline\n%load_ext autoreload",
        "%matplotlib inline\nopen(box)",
        "%%time\nrun()",
    ]
    cells = [{"cell_type": "code", "source": source} for source in sources]
    document = one("box.ipynb", json.dumps({"cells": cells}))
    assert blocks(document) == [("code", sources[1]), ("code", sources[2])]
