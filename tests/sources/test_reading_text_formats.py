"""Notebooks, JSON, AsciiDoc, Org, manual pages, code and configuration become readable blocks."""

import gzip
import json

import pytest


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
        ("text", "term: its meaning"),
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
        ("text", "--lockable, -l: Make them lockable."),
        ("text", "-v: Say more. And more."),
    ]


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
        ("text", "'--bits'\nThe length."),
    ]


def test_texts_may_be_packed_and_have_no_suffix(folder, opened):
    text = b"The box opens with a key.\n"
    packed = gzip.compress(text)
    files = {"README": text, "a/README.Debian.gz": packed, "INSTALL": text, "b.txt.gz": packed}
    found = opened(folder({**files, "c.html.gz": gzip.compress(b"<p>The box.</p>")}))
    assert {d.text.strip() for d in found.documents.values()} == {
        "The box opens with a key.",
        "The box.",
    }
    assert len(found.documents) == 5
    # What is no documentation stays out.
    assert set(opened(folder({"LICENSE": text, "d.md": "x"}, "other")).documents) == {"d.md"}


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
