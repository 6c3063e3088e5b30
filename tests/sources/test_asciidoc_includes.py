"""AsciiDoc files include one another: a book is one document with its chapters in their places."""

import pytest

from packwise.sources import rst_includes

BOOK = (
    "= Handbook\n:product: Acme\n:parts: chapters\n\n"
    "include::{parts}/intro.adoc[leveloffset=+1]\n\ninclude::{parts}/keys.adoc[]\n\n"
    "== Last\n\nThe end.\n"
)
INTRO = "Who {product} is.\n\n== Aim\n\nTo sell.\n"
KEYS = "// old\n:x:\n\n= Keys\n\n{product} signs.\n\n----\ninclude::../x.py[tag=run]\n----\n"
CODE = "import os\n# tag::run[]\nrun()\n# end::run[]\nstop()\n"


def test_a_part_stands_in_its_book_and_a_chapter_has_the_attributes_of_its_book(
    folder, opened, blocks
):
    files = {"book.adoc": BOOK, "chapters/intro.adoc": INTRO, "chapters/keys.adoc": KEYS}
    documents = opened(folder({**files, "x.py": CODE})).documents
    # Code of which some lines are shown stays a document, and so does a chapter.
    assert sorted(documents) == ["book.adoc", "chapters/keys.adoc", "x.py"]
    book = documents["book.adoc"]
    assert [section.path for section in book.sections] == [(), ("Aim",), ("Last",)]
    assert [text for _, text in blocks(book)] == ["Who Acme is.", "To sell.", "Keys", "The end."]
    assert [(link.href, link.anchor) for link in book.links] == [("chapters/keys.adoc", "Keys")]
    assert book.sections[1].level == 3
    keys = documents["chapters/keys.adoc"]
    assert keys.title == "Keys"
    assert blocks(keys) == [("text", "Acme signs."), ("code", "run()")]


def test_an_underlined_title_makes_a_chapter(folder, opened):
    files = {"a.adoc": "include::b.adoc[]\n\ninclude::c.adoc[]\n", "b.adoc": "Keys\n====\n\nOne.\n"}
    documents = opened(folder({**files, "c.adoc": "Words\nand more\n"})).documents
    assert sorted(documents) == ["a.adoc", "b.adoc"]
    assert "Words and more" in documents["a.adoc"].text


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ("", "import os\nrun()\nstop()"),
        ("lines=1;5", "import os\nstop()"),
        ('lines="3..-1"', "run()\n# end::run[]\nstop()"),
        ("lines=4..", "# end::run[]\nstop()"),
        ("tags=run;other", "run()"),
    ],
)
def test_the_lines_that_are_asked_for_are_included(options, code, folder, opened, blocks):
    text = f"Look:\n\n----\ninclude::x.py[{options}]\n----\n"
    found = blocks(opened(folder({"a.adoc": text, "x.py": CODE})).documents["a.adoc"])
    assert found == [("text", "Look:"), ("code", code)]


def test_a_manual_in_a_text_file_includes_its_parts(folder, opened):
    text = "git-x(1)\n========\n\nNAME\n----\ngit-x\n\n[verse]\n'git x'\n\ninclude::opts.inc[]\n"
    root = folder({"git-x.txt": text, "opts.inc": "-n::\n\tShow nothing.\n"})
    assert "Show nothing." in opened(root).documents["git-x.txt"].text


def test_only_what_is_the_sources_own_and_public_is_included(folder, opened, tmp_path):
    (tmp_path / "outside.adoc").write_text("hidden words")
    paths = ["../outside.adoc", str(tmp_path / "outside.adoc"), "link.adoc", "drafts/d.adoc"]
    paths += [
        "staff.adoc",
        "https://example.org/x.adoc",
        "missing.adoc",
        ".env",
        "{unknown}/a.adoc",
    ]
    root = folder(
        {
            "a.adoc": "Text.\n\n" + "\n\n".join(f"include::{path}[]" for path in paths) + "\n",
            ".env": "hidden words",
            ".packwiseignore": "drafts/\n",
            "drafts/d.adoc": "hidden words",
            "staff.adoc": "= Staff\n:acl: staff\n\nhidden words\n",
        }
    )
    (root / "link.adoc").symlink_to(tmp_path / "outside.adoc")
    documents = opened(root).documents
    assert documents["a.adoc"].text == "Text."
    assert documents["staff.adoc"].metadata["acl"] == "staff"


def test_what_a_restricted_book_includes_stays_a_document(folder, opened):
    root = folder({"a.adoc": "= A\n:acl: hr\n\ninclude::b.adoc[]\n", "b.adoc": "Public words.\n"})
    documents = opened(root).documents
    assert documents["a.adoc"].metadata["acl"] == "hr"
    assert "acl" not in documents["b.adoc"].metadata


def test_files_that_include_each_other_end_and_stay(folder, opened):
    files = {"a.adoc": "One.\n\ninclude::b.adoc[]\n", "b.adoc": "Two.\n\ninclude::a.adoc[]\n"}
    documents = opened(folder(files)).documents
    assert documents["a.adoc"].text == "One.\n\nTwo."
    assert documents["b.adoc"].text == "Two.\n\nOne."


def test_what_does_not_fit_into_a_document_stays_one(folder, opened, monkeypatch):
    monkeypatch.setattr(rst_includes, "SIZE_LIMIT", 20)
    files = {"a.adoc": "One.\n\ninclude::b.adoc[]\n\ninclude::c.adoc[]\n"}
    files |= {"b.adoc": "Long words, too many of them.\n", "c.adoc": "Short.\n"}
    documents = opened(folder(files)).documents
    assert {name: one.text for name, one in documents.items()} == {
        "a.adoc": "One.\n\nShort.",
        "b.adoc": "Long words, too many of them.",
    }


def test_a_book_is_read_again_when_a_chapter_changes(folder, opened):
    root = folder({"a.adoc": "One.\n\ninclude::b.inc[]\n", "c.adoc": "C.\n", "b.inc": "old"})
    before = {name: item.source_hash for name, item in opened(root).items.items()}
    (root / "b.inc").write_text("new")
    after = {name: item.source_hash for name, item in opened(root).items.items()}
    assert before["a.adoc"] != after["a.adoc"]
    assert before["c.adoc"] == after["c.adoc"]


def test_conditions_leave_out_what_a_page_would_not_show(read):
    text = """:here:

ifdef::here[]
Is here.
endif::[]

ifdef::gone[]
Out.

ifdef::here[]
Out too.
endif::[]

ifdef::here[Out as well.]

:acl: hr
endif::gone[]

ifndef::gone[]
Not gone.
endif::[]

ifdef::here[In one line.]

ifdef::gone,here[]
Any.
endif::[]

ifdef::gone+here[]
All.
endif::[]

:!here:

ifdef::here[]
Unset.
endif::[]

ifeval::[{x} > 1]
Maybe.
endif::[]

End.
"""
    document = read("asciidoc", text)
    shown = ["Is here.", "Not gone.", "In one line.", "Any.", "Maybe.", "End."]
    assert document.text.split("\n\n") == shown
    assert document.metadata["acl"] == "hr"
