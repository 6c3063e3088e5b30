"""A folder of reStructuredText is read as one tree: includes, definitions, cross-references."""

import pytest

from packwise.sources import rst_includes

CODE = "import os\n\n\ndef first():\n    return 1\n\n\n@cached\ndef second():\n    return 2\n"


def test_an_included_file_stands_where_it_is_included(folder, opened):
    root = folder(
        {
            "guide/a.rst": "Title\n=====\n\n* one\n\n  .. include:: ../parts/b.txt\n\nEnd.\n",
            "parts/b.txt": "Shared words.\n\n.. include:: c.inc\n",
            "parts/c.inc": "Deeper words.\n",
        }
    )
    document = opened(root).documents["guide/a.rst"]
    assert document.text == "- one\n  Shared words.\n  Deeper words.\n\nEnd."


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ("", CODE.rstrip()),
        (":lines: 4-5", "def first():\n    return 1"),
        (":lines: 1,9-", "import os\ndef second():\n    return 2"),
        (":pyobject: second", "@cached\ndef second():\n    return 2"),
        (":start-after: def first\n   :end-before: @cached", "return 1"),
        (":start-at: def second", "def second():\n    return 2"),
    ],
)
def test_included_code_is_the_part_that_is_asked_for(options, code, folder, opened, blocks):
    text = f"Look:\n\n.. literalinclude:: /code/x.py\n   :language: python\n   {options}\n\nEnd.\n"
    files = {"docs/a.rst": text, "docs/conf.py": "", "docs/code/x.py": CODE}
    found = blocks(opened(folder(files)).documents["docs/a.rst"])
    assert found == [("text", "Look:"), ("code", code.strip("\n")), ("text", "End.")]


def test_a_table_is_read_from_its_file(folder, opened, blocks):
    text = "Title\n=====\n\n.. csv-table:: Ports\n   {}:header-rows: 1\n   :file: {}\n\nEnd.\n"
    root = folder(
        {
            "guide/a.rst": text.format("", "../ports.csv"),
            "guide/b.rst": text.format(":widths: auto\n   ", "/secret.csv"),
            "ports.csv": 'Name,Port\n"web, inner",8080\n``db``,5432\n',
            "secret.csv": ":acl: staff\n\nkey,value\n",
            "guide/c.rst": "See:\n\n.. literalinclude:: a.rst\n",
            "conf.py": "",
        }
    )
    read = opened(root).documents
    assert ("table", "Name | Port\nweb, inner | 8080\ndb | 5432") in blocks(read["guide/a.rst"])
    assert "Ports" in read["guide/a.rst"].text
    assert blocks(read["guide/b.rst"]) == [("text", "End.")]
    assert ":file: ../ports.csv" in read["guide/c.rst"].text


def test_nothing_is_included_that_is_not_the_sources_own(folder, opened, tmp_path):
    (tmp_path / "outside.txt").write_text("hidden words")
    paths = ["../outside.txt", str(tmp_path / "outside.txt"), "link.txt", "linked/outside.txt"]
    paths += ["../docs/.env", "drafts/d.txt", "staff.rst", "team.txt", "client_secrets.json"]
    paths += ["missing.txt", ".", "<isonum.txt>"]
    root = folder(
        {
            "a.rst": "Text.\n\n" + "\n\n".join(f".. include:: {path}" for path in paths) + "\n",
            "b.rst": "Text.\n\n" + "\n\n".join(f".. literalinclude:: {path}" for path in paths),
            ".env": "hidden words",
            ".packwiseignore": "drafts/\n",
            "drafts/d.txt": "hidden words",
            "staff.rst": "Staff\n=====\n\n:acl: staff\n\nhidden words\n",
            "team.txt": "---\ntenant: team\n---\nhidden words\n",
            "client_secrets.json": '"hidden words"',
        }
    )
    (root / "link.txt").symlink_to(tmp_path / "outside.txt")
    (root / "linked").symlink_to(tmp_path)
    items = opened(root).items
    assert items["a.rst"].read().text == "Text."
    assert items["b.rst"].read().text == "Text."


def test_files_that_include_each_other_end(folder, opened):
    root = folder(
        {"a.rst": "One.\n\n.. include:: b.rst\n", "b.rst": "Two.\n\n.. include:: a.rst\n"}
    )
    assert {id: d.text for id, d in opened(root).documents.items()} == {
        "a.rst": "One.\n\nTwo.",
        "b.rst": "Two.\n\nOne.",
    }


def test_what_a_document_includes_is_bounded(folder, opened, monkeypatch):
    monkeypatch.setattr(rst_includes, "SIZE_LIMIT", 20)
    doubled = "0123456789\n\n.. include:: {}\n\n.. include:: {}\n"
    files = {f"{n}.txt": doubled.format(f"{n + 1}.txt", f"{n + 1}.txt") for n in range(7)}
    root = folder({"a.rst": "One.\n\n.. include:: 7.txt\n", "7.txt": "short", **files})
    assert opened(root).documents["a.rst"].text == "One.\n\nshort"
    (root / "a.rst").write_text("One.\n\n.. include:: 0.txt\n")
    assert opened(root).documents["a.rst"].text == "One."


def test_a_document_is_read_again_when_what_it_includes_changes(folder, opened):
    root = folder({"a.rst": "One.\n\n.. include:: b.inc\n", "c.rst": "C.\n", "b.inc": "old"})
    before = opened(root).hashes
    (root / "b.inc").write_text("new")
    after = opened(root).hashes
    assert after["a.rst"] != before["a.rst"]
    assert after["c.rst"] == before["c.rst"]


def test_a_field_without_a_value_is_read(folder, opened):
    root = folder({"a.rst": ":orphan:\n\nTitle\n=====\n\nWords.\n"})
    assert opened(root).documents["a.rst"].text == "Words."


def test_substitutions_come_from_the_file_and_from_the_literals_of_conf_py(folder, opened):
    conf = (
        "import os\nversion = '2.1'\nrelease = os.environ['NEVER']\nrst_prolog = '''\n"
        ".. |app| replace:: The App\n\nA banner.\n'''\n"
        "rst_epilog = '.. _home: https://example.org/\\n'\n"
    )
    text = "|app| |version| |release| |own|, `home`_.\n\n.. |own| replace:: it\n"
    root = folder({"docs/conf.py": conf, "docs/x/a.rst": text, "b.rst": "|version|"})
    found = opened(root)
    document = found.documents["docs/x/a.rst"]
    assert document.text == "The App 2.1 |release| it, home."
    assert [link.href for link in document.links] == ["https://example.org/"]
    assert found.documents["b.rst"].text == "|version|"
    (root / "docs/conf.py").write_text(conf.replace("2.1", "2.2"))
    changed = opened(root)
    assert changed.hashes["docs/x/a.rst"] != found.hashes["docs/x/a.rst"]
    assert changed.hashes["b.rst"] == found.hashes["b.rst"]


PLACES = {
    "docs/conf.py": (
        "source_suffix = ['.rst', '.txt']\n"
        "extlinks = {'ticket': ('https://example.org/t/%s', '#%s')}\n"
    ),
    "docs/ref/keys.rst": (
        ".. _keys:\n.. _Old Keys:\n\n==============\nSigning *keys*\n==============\n\n"
        ".. module:: pkg.keys\n\n.. class:: Key(name)\n\n   A key.\n\n"
        "   .. method:: load(path)\n               load(file)\n\n      Loads.\n\n"
        ".. program:: tool\n\n.. option:: --level LEVEL, -l LEVEL\n\n   How much.\n\n"
        ".. envvar:: KEY_HOME\n\n   Where keys are.\n\n.. py:function:: f(a, b)\n\n   Does f.\n"
    ),
    "docs/ref/settings.txt": (
        "Settings\n========\n\n.. setting:: KEY_SIZE\n\n``KEY_SIZE``\n------------\n\nBits.\n\n"
        ".. glossary::\n\n   Key ring : noun\n      Many keys.\n"
    ),
}


@pytest.mark.parametrize(
    ("role", "text", "leads_to"),
    [
        (":ref:`keys`", "Signing keys", "docs/ref/keys.rst"),
        (":std:ref:`OLD  keys`", "Signing keys", "docs/ref/keys.rst"),
        (":ref:`here <keys>`", "here", "docs/ref/keys.rst"),
        (":ref:`unknown`", "unknown", None),
        (":doc:`/ref/keys`", "Signing keys", "docs/ref/keys.rst"),
        (":doc:`../ref/settings`", "Settings", "docs/ref/settings.txt"),
        (":class:`~pkg.keys.Key`", "Key", "docs/ref/keys.rst"),
        (":py:class:`.Key`", "Key", "docs/ref/keys.rst"),
        (":meth:`Key.load`", "Key.load", "docs/ref/keys.rst"),
        (":class:`!Key`", "Key", None),
        (":class:`other.Key`", "other.Key", None),
        (":func:`f() <pkg.keys.f>`", "f()", "docs/ref/keys.rst"),
        (":mod:`pkg.keys`", "pkg.keys", "docs/ref/keys.rst"),
        (":option:`tool --level`", "tool --level", "docs/ref/keys.rst"),
        (":option:`-l`", "-l", "docs/ref/keys.rst"),
        (":envvar:`KEY_HOME`", "KEY_HOME", "docs/ref/keys.rst"),
        (":setting:`KEY_SIZE`", "KEY_SIZE", "docs/ref/settings.txt"),
        (":envvar:`KEY_SIZE`", "KEY_SIZE", None),
        (":term:`key ring`", "key ring", "docs/ref/settings.txt"),
        (":ticket:`12`", "#12", "https://example.org/t/12"),
    ],
)
def test_a_cross_reference_reads_well_and_leads_to_its_target(role, text, leads_to, folder, opened):
    document = opened(folder({**PLACES, "docs/use/a.rst": role})).documents["docs/use/a.rst"]
    assert document.text == text
    assert [link.href for link in document.links] == ([leads_to] if leads_to else [])


def test_an_object_is_a_term_with_its_description(folder, opened, blocks):
    found = opened(folder(PLACES)).documents
    texts = [text for _, text in blocks(found["docs/ref/keys.rst"])]
    assert texts == [
        "pkg.keys",
        "Key(name)\nA key.",
        "load(path)\nload(file)\nLoads.",
        "--level LEVEL, -l LEVEL\nHow much.",
        "KEY_HOME\nWhere keys are.",
        "f(a, b)\nDoes f.",
    ]
    assert found["docs/ref/settings.txt"].text == "KEY_SIZE\n\nBits.\n\nKey ring : noun\nMany keys."


def test_a_reference_is_read_again_when_its_target_is_renamed_or_moves(folder, opened):
    root = folder({**PLACES, "docs/a.rst": "See :ref:`keys`.", "docs/b.rst": "Nothing."})
    before = opened(root).hashes
    keys = root / "docs/ref/keys.rst"
    keys.write_text(keys.read_text().replace("Signing", "Private"))
    after = opened(root)
    assert after.documents["docs/a.rst"].text == "See Private keys."
    assert after.hashes["docs/a.rst"] != before["docs/a.rst"]
    keys.rename(root / "docs/ref/moved.rst")
    moved = opened(root)
    assert [link.href for link in moved.documents["docs/a.rst"].links] == ["docs/ref/moved.rst"]
    assert moved.hashes["docs/a.rst"] != after.hashes["docs/a.rst"]
    assert moved.hashes["docs/b.rst"] == before["docs/b.rst"]


def test_a_heading_of_a_restricted_document_stays_in_it(folder, opened):
    root = folder(
        {
            "staff.rst": ":acl: staff\n\n.. _plan:\n\nSecret plan\n===========\n\nx\n",
            "a.rst": ":ref:`plan` and :doc:`staff`",
        }
    )
    assert opened(root).documents["a.rst"].text == "plan and staff"


def test_a_title_of_an_rfc_is_kept(read):
    assert read("rst", ":rfc:`the standard <9110#section-15>`").text == "the standard"


def test_the_docutils_directive_for_css_classes_stays_unseen(read):
    assert read("rst", ".. class:: wide\n\nWords.\n").text == "Words."


def test_a_toctree_below_a_conf_py_starts_at_its_folder(folder, opened):
    root = folder({**PLACES, "docs/use/index.rst": ".. toctree::\n\n   /ref/keys\n"})
    (link,) = opened(root).documents["docs/use/index.rst"].links
    assert link.href == "docs/ref/keys.rst"


def test_reading_for_a_document_ends_however_often_it_includes(folder, opened, monkeypatch):
    monkeypatch.setattr(rst_includes, "READ_LIMIT", 100)
    part = ".. literalinclude:: x.py\n   :lines: 1\n\n"
    root = folder({"a.rst": part * 9, "x.py": "first\n" + "y" * 40})
    assert opened(root).documents["a.rst"].text.split() == ["first"] * 3


@pytest.mark.parametrize(
    "text",
    [
        "===\n" * 60_000,
        ".. x:: a\n\na\n===\n\n" * 20_000,
        ".. include:: a" + " " * 200_000 + "b\n",
        ".. glossary::\n" + "   \n" * 60_000 + "x",
        "." * 100_000 + ":" * 100_000 + "`",
    ],
)
def test_hostile_markup_is_scanned_in_linear_time(text, folder, opened):
    """Quadratic time would take minutes for these."""
    files = {"a.rst": text, "b.rst": ":ref:`x`", "conf.py": ""}
    assert opened(folder(files)).hashes.keys() == files.keys()


@pytest.mark.parametrize("conf", ["source_suffix = 5", "version = ''", "extlinks = {1: 2}", "x ="])
def test_any_conf_py_will_do(conf, folder, opened):
    root = folder({"conf.py": conf, "a.rst": "|version| :ref:`x`"})
    assert opened(root).documents["a.rst"].text == "|version| x"


def test_a_term_stays_with_the_paragraph_that_describes_it(read, blocks):
    option = ".. django-admin-option:: --fake\n\nMarks only.\n\nMore.\n\n"
    text = f"{option}.. setting:: A\n\nPart\n----\n\nEnd.\n\n.. setting:: B\n"
    assert blocks(read("rst", text)) == [
        ("text", "--fake\nMarks only."),
        ("text", "More."),
        ("text", "A"),
        ("text", "End."),
        ("text", "B"),
    ]


def test_what_cannot_be_parsed_is_kept_without_roles(read):
    rows = "``OLD(*a, *b)`` :setting:`new` and more\n:ref:`a title <x>`  2"
    text = read("rst", f"====  ====\na     b\n====  ====\n{rows}\n====  ====\n").text
    assert "OLD(*a, *b) new and more\na title  2" in text


def test_the_settings_of_a_tree_are_not_a_document(folder, opened):
    conf = 'project = "Box"\nextensions = ["sphinx.ext.autodoc"]\n'
    page = "Box\n===\n\nAbout |project|.\n"
    found = opened(folder({"conf.py": conf, "index.rst": page, "tools/conf.py": conf})).items
    assert sorted(found) == ["index.rst", "tools/conf.py"]
