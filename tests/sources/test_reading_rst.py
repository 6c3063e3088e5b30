"""What becomes of reStructuredText, also of the kind written for Sphinx."""

import pytest

from packwise.sources import rst


def test_roles_only_sphinx_knows_leave_their_text(read):
    document = read("rst", ":class:`~a.b.C`, :func:`!f`, :ref:`title <label>`, :term:`x`")
    assert document.text == "C, f, title, x"


def test_a_doc_role_and_a_toctree_are_links(read):
    toctree = ".. toctree::\n   :maxdepth: 1\n\n   install\n   T <use>\n   self\n"
    text = f":doc:`there </guide/use>`\n\n{toctree}"
    among = ("guide/use.rst", "guide/install.md")
    document = read("rst", text, id="guide/index.rst", among=among)
    assert document.text == "there"
    assert [link.href for link in document.links] == [
        "guide/use.rst",
        "guide/install.md",
        "guide/use.rst",
    ]


def test_directives_only_sphinx_knows_leave_their_content(read, blocks):
    text = (
        ".. function:: f(*args)\n\n   Does f.\n\n.. versionadded:: 3.2\n   With *care*.\n\n"
        ".. tabs::\n\n   .. tab:: One\n\n      Inside.\n\n.. index:: x\n\n"
        ".. doctest::\n\n   >>> 1\n"
    )
    assert blocks(read("rst", text)) == [
        ("text", "f(*args)\nDoes f."),
        ("text", "New in version 3.2: With care."),
        ("text", "One"),
        ("text", "Inside."),
        ("code", ">>> 1"),
    ]


def test_an_unknown_option_does_not_cost_the_code(read, blocks):
    text = ".. code-block:: python\n   :emphasize-lines: 1\n   :caption: x\n\n   a = 1\n"
    assert blocks(read("rst", text)) == [("code", "a = 1")]


def test_nothing_is_inserted_and_nothing_is_reported(read, tmp_path, capfd):
    secret = tmp_path / "secret.txt"
    secret.write_text("hidden words")
    text = (
        f"Text.\n\n.. include:: {secret}\n\n.. csv-table:: T\n   :file: {secret}\n\n"
        f".. raw:: html\n   :file: {secret}\n\n.. literalinclude:: {secret}\n\n"
        "`unknown`_ and |undefined| and :unknown:`role`\n\nTitle\n===\n"
    )
    document = read("rst", text)
    assert "hidden words" not in document.text
    assert "role" in document.text
    assert capfd.readouterr() == ("", "")


def test_what_docutils_cannot_parse_is_kept_as_written(read, blocks):
    broken = "===  ===\na    b\n===  ===\n1  2 3 4 5\n===  ==="
    ((kind, text),) = blocks(read("rst", f"{broken}\n"))
    assert kind == "code"
    assert "1  2 3 4 5" in text


def test_fields_at_the_head_are_metadata(read):
    document = read("rst", ":Author: Ada\n:Team: core\n\nTitle\n=====\n\ntext\n")
    assert dict(document.metadata) == {"author": "Ada", "team": "core"}
    assert document.title == "Title"


def test_tables_lists_notes_and_footnotes(read, blocks):
    text = (
        "===  ===\nA    B\n===  ===\n1    `x <x.rst>`_\n===  ===\n\n* one\n\n  2. two\n\n"
        ".. warning:: Hot.\n\nterm : kind\n   Meaning.\n\nSee [1]_.\n\n.. [1] Foot.\n"
    )
    document = read("rst", text)
    assert blocks(document) == [
        ("table", "A | B\n1 | x"),
        ("list", "- one\n  2. two"),
        ("text", "Warning: Hot."),
        ("text", "term : kind\nMeaning."),
        ("text", "See [1]."),
        ("text", "[1] Foot."),
    ]
    assert [link.href for link in document.links] == ["x.rst"]


def test_other_users_of_docutils_are_left_alone(read):
    from docutils.core import publish_doctree

    read("rst", ":func:`f`\n\n.. tab:: x\n")
    quiet = {"report_level": 5, "warning_stream": False}
    tree = publish_doctree(".. tab:: x\n", settings_overrides=quiet)
    assert "Unknown directive" in tree.astext()


def test_what_is_not_the_authors_text_stays_out(read):
    text = (
        ".. contents:: Overview\n.. sectnum::\n\n.. header:: H\n\n.. target-notes::\n\n"
        ".. |today| date::\n\nTitle\n=====\n\nOn |today|, `a <b.rst>`_.\n\nPart\n----\n\nEnd.\n"
    )
    document = read("rst", text)
    assert document.title == "Title"
    assert document.text == "On |today|, a.\n\nPart\n\nEnd."


def test_notes_on_targets_do_not_hang_the_parser(read):
    """Docutils itself never returns from this text."""
    document = read("rst", ".. target-notes::\n\n`a`_ x\n`a <b.rst>`_\n")
    assert document.text == "a x a"


def test_a_fault_of_the_parser_does_not_cost_the_text(read):
    """Docutils fails on this figure with an UnboundLocalError."""
    document = read("rst", "Title\n=====\n\nwords\n\n.. figure:: x.png\n\n   .. role:: r\n")
    assert document.title == "Title"
    assert document.text.startswith("words")


def test_a_role_one_document_defines_is_unknown_to_the_next(read):
    before = read("rst", ":doc:`x`", id="a.rst")
    read("rst", ".. role:: doc(emphasis)\n\n:doc:`x`\n")
    assert read("rst", ":doc:`x`", id="a.rst") == before
    assert [link.href for link in before.links] == ["x"]


def test_a_text_too_large_for_docutils_keeps_its_structure(read, blocks, monkeypatch):
    monkeypatch.setattr(rst, "SIZE_LIMIT", 10)
    text = (
        "Title\n=====\n\nSome *words*, a `link <x.rst>`_ and\nmore.\n\nPart\n----\n\n"
        "* one\n* two\n\nCode::\n\n    a = 1\n\n+---+---+\n| a | b |\n+===+===+\n| c | d |\n"
        "+---+---+\n\n.. _gone:\n\n.. note:: Kept.\n"
    )
    document = read("rst", text)
    assert document.title == "Title"
    assert [section.path for section in document.sections] == [(), ("Part",)]
    assert blocks(document) == [
        ("text", "Some words, a link and more."),
        ("list", "- one\n- two"),
        ("text", "Code:"),
        ("code", "a = 1"),
        ("table", "a | b\nc | d"),
        ("text", "Kept."),
    ]
    assert [link.href for link in document.links] == ["x.rst"]


def test_directives_that_only_sphinx_can_fill_leave_nothing(read):
    text = (
        "Keys\n====\n\n.. automodule:: keys\n   :members:\n\n.. autoclass:: keys.Key\n\n"
        "   A key of its own.\n\n.. autofunction:: keys.load\n\nAfter.\n"
    )
    document = read("rst", text)
    assert "automodule" not in document.text
    assert "keys.load" not in document.text
    assert "A key of its own." in document.text
    assert document.text.endswith("After.")


def test_code_in_tabs_is_code_under_the_name_of_its_file(read, blocks):
    text = (
        "Set it:\n\n.. tabs::\n\n    .. code-tab:: toml\n        :caption: pyproject.toml\n\n"
        "        [tool.coverage.run]\n        branch = true\n\n    .. code-tab:: ini\n\n"
        "        [run]\n        branch = True\n"
    )
    assert blocks(read("rst", text)) == [
        ("text", "Set it:"),
        ("text", "pyproject.toml"),
        ("code", "[tool.coverage.run]\nbranch = true"),
        ("text", "ini"),
        ("code", "[run]\nbranch = True"),
    ]


def test_text_of_a_field_that_goes_on_further_to_the_right_is_one_paragraph(read, blocks):
    text = (
        "Sockets\n=======\n\n.. class:: Socket(limit, decode)\n\n"
        "   :param int limit: largest size of the buffer, 64 KB by default.\n"
        "                     Once it is full, writers wait until it is empty.\n\n"
        "      .. versionadded:: 3.11\n\n"
        "   :param bool decode: whether messages are decoded.\n"
    )
    document = read("rst", text)
    said = "largest size of the buffer, 64 KB by default. Once it is full, writers wait until it is"
    assert any(f"param int limit: {said} empty." in held for _, held in blocks(document))
    assert not any("64 KB" in name for section in document.sections for name in section.path)


@pytest.mark.parametrize("name", ["console", "terminal"])
def test_what_an_unknown_directive_shows_to_type_is_code(read, blocks, name):
    text = f"Open it:\n\n.. {name}::\n\n    $ box open --key=red\n    $ box close\n"
    assert blocks(read("rst", text)) == [
        ("text", "Open it:"),
        ("code", "$ box open --key=red\n$ box close"),
    ]
    prose = read("rst", ".. terminal::\n\n    The box costs $ 4 and is red.\n")
    assert blocks(prose) == [("text", "The box costs $ 4 and is red.")]
