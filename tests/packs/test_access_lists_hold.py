"""Who may see a document is never lost on its way from a file to a search."""

import json

import pytest

import packwise
from packwise.candidates import Filter
from packwise.documents import Document
from packwise.errors import StoreError
from packwise.packs.build import build_pack
from packwise.stores.records import checked_document

NOTEBOOK = {"nbformat": 4, "cells": [{"cell_type": "raw", "source": "---\nacl: hr\n---\n"}]}
NOTEBOOK["cells"].append({"cell_type": "markdown", "source": "About salaries."})
DEEP_HTML = '<meta name="acl" content="hr">' + "<div>" * 5000 + "salaries"
CLOSED = {
    "a.md": "---\nacl: hr\n---\nAbout salaries.\n",
    "b.md": "---\nACL: [hr, board]\n---\nAbout salaries.\n",
    "c.md": '+++\nAcl = ["hr"]\n+++\nAbout salaries.\n',
    "d.txt": "---\n' acl ': hr\n---\nAbout salaries.\n",
    "e.html": '<head><META NAME="ACL" CONTENT="hr, board"></head><p>About salaries.</p>',
    "i.html": '<head><meta property="acl" content="hr"></head><p>About salaries.</p>',
    "j.md": "---\na\u200bcl: hr\n---\nAbout salaries.\n",
    "k.md": "---\nａｃｌ: hr\n---\nAbout salaries.\n",
    "f.rst": ":acl: hr\n\nAbout salaries.\n",
    "g.rst": "Title\n=====\n\n:ACL: hr,\n  board\n\nAbout salaries.\n",
    "l.rst": "Title\n=====\n\nAbout salaries.\n\n.. meta::\n   :description: It.\n   :ACL: hr\n",
    "h.rst": ":acl: hr\n\n" + "About salaries. " * 700,  # too long a line for docutils
    "m.org": ":PROPERTIES:\n:ID: 1\n:ACL: hr\n:END:\n#+TITLE: Pay\n\nAbout salaries.\n",
    "n.org": "* Pay\n:PROPERTIES:\n:acl: hr\n:END:\nAbout salaries.\n",
    "o.ipynb": json.dumps(NOTEBOOK),
}
ROWS = [
    {"id": "list", "text": "About salaries: list.", "acl": ["hr"]},
    {"id": "text", "text": "About salaries: text.", "Acl": "hr,board"},
    {"id": "inner", "text": "About salaries: inner.", "metadata": {"ACL": ["hr", "board"]}},
    {"id": "both", "text": "About salaries: both.", "acl": "hr", "metadata": {"acl": ["hr"]}},
]
UNUSABLE = {
    "empty.md": "---\nACL:\n---\nAbout salaries.\n",
    "none.md": "---\nacl: []\n---\nAbout salaries.\n",
    "comma.md": '---\nacl: ","\n---\nAbout salaries.\n',
    "deep.md": "---\nacl: [[hr]]\n---\nAbout salaries.\n",
    "no.md": "---\nacl: no\n---\nAbout salaries.\n",
    "twice.md": "---\nacl: hr\nACL: board\n---\nAbout salaries.\n",
    "broken.md": "---\ntitle: a: b\nacl: hr\n---\nAbout salaries.\n",
    "inside.md": "---\ntitle: a: b\nseen: {by: all, acl: hr}\n---\nAbout salaries.\n",
    "nested.md": "---\nmetadata:\n  acl: hr\n---\nAbout salaries.\n",
    "name.md": '---\nacl: ["cn=hr,dc=example,dc=org"]\n---\nAbout salaries.\n',
    "unclosed.md": "---\nacl: hr\n\nAbout salaries.\n",
    "late.md": "\n---\nacl: hr\n---\nAbout salaries.\n",
    "comment.md": "<!-- Draft. -->\n---\nacl: hr\n---\nAbout salaries.\n",
    "object.md": '{\n  "title": "Pay",\n  "acl": ["hr"]\n}\n\nAbout salaries.\n',
    "fence.md": ';;;\n{"acl": ["hr"]}\n;;;\nAbout salaries.\n',
    "lines.md": "Title: Pay\nAcl: hr\n\nAbout salaries.\n",
    "deeper.md": "---\nseen:\n  by:\n    - acl: hr\n---\nAbout salaries.\n",
    "changed.adoc": "= Pay\n:acl: hr\n\nAbout salaries.\n\n:acl: board\n\nMore.\n",
    "tenants.md": "---\ntenant: [acme, globex]\n---\nAbout salaries.\n",
    "tenant.md": "---\ntenant:\n---\nAbout salaries.\n",
    "meta.html": '<head><meta name="acl" content=""></head><p>About salaries.</p>',
    "deep.html": DEEP_HTML,
    "field.rst": ":acl:\n\nAbout salaries.\n",
}


@pytest.fixture
def pack(tmp_path):
    """Build files into a pack; returns who finds what, and the problems."""

    def build(files: dict[str, str]):
        source = tmp_path / "docs"
        source.mkdir(exist_ok=True)
        for name, text in files.items():
            # Search folds equal texts, so each has a word of its own.
            own = text.replace("salaries", f"salaries of {name.replace('.', ' ')}")
            (source / name).write_text(own, encoding="utf-8")
        report = build_pack([str(source)], str(tmp_path / "pack"))

        def found(**where):
            with packwise.open(str(tmp_path / "pack")) as library:
                ranking = library.search("salaries", k=50, where=Filter(**where))
                return {hit.passage.document for hit in ranking.hits}

        return found, {problem.location.rpartition("/")[2] for problem in report.problems}

    return build


def test_a_list_holds_however_it_is_written(pack):
    rows = "\n".join(map(json.dumps, ROWS))
    open_to_all = {"open.md": "About salaries in general.\n", "rows.jsonl": rows}
    found, problems = pack({**CLOSED, **open_to_all})
    assert problems == set()
    documents = {*CLOSED, "open.md", *(f"rows.jsonl/{row['id']}" for row in ROWS)}
    assert found() == found(acl=("hr",)) == documents
    assert found(acl=("board",)) == {
        *("open.md", "b.md", "e.html", "g.rst", "rows.jsonl/text", "rows.jsonl/inner")
    }
    assert found(acl=("sales",)) == {"open.md"}


def test_a_value_that_cannot_be_used_is_a_problem_and_not_an_open_document(pack):
    rows = [
        {"id": str(n), "text": "About salaries.", "acl": value}
        for n, value in enumerate(([], "", " , ", None, {"groups": ["hr"]}, [None], True))
    ]
    rows.append({"id": "x", "text": "About salaries.", "acl": "hr", "metadata": {"acl": "it"}})
    rows.append({"id": "y", "text": "About salaries.", "meta": {"acl": ["hr"]}})
    rows.append({"id": "z", "text": "About salaries.", "acl": ["hr", "cn=it,dc=example,dc=org"]})
    rows.append({"id": "s", "text": "About salaries.", "metadata": '{"acl": ["hr"]}'})
    rows.append({"id": "t", "text": "About salaries.", "metadata": [{"acl": "hr"}]})
    rows.append({"id": "u", "text": "About salaries.", "seen": {"by": {"acl": "hr"}}})
    unusable = {**UNUSABLE, "rows.jsonl": "\n".join(map(json.dumps, rows))}
    found, problems = pack({**unusable, "open.md": "About salaries in general.\n"})
    assert found() == {"open.md"}
    assert problems == {*UNUSABLE, *(f"rows.jsonl:{n}" for n in range(1, 14))}


def test_tenants_and_spaces_are_read_in_any_case_and_as_a_list(pack):
    found, _ = pack(
        {
            "a.md": "---\nTenant: [acme]\nSPACE: ops\n---\nAbout salaries.\n",
            "b.html": '<meta name="Tenant" content="globex"><p>About salaries.</p>',
        }
    )
    assert found(tenant="acme") == found(space="ops") == {"a.md"}
    assert found(tenant="globex") == {"b.html"}


JSON = {
    "array.json": [{"id": "1", "note": "Salaries.", "acl": ["hr"]}, {"id": "2", "note": "Salary."}],
    "alone.json": [{"id": "1", "text": "Salaries.", "Tenant": "acme", "acl": "hr"}],
    "named.json": {"notes": [{"id": "1", "text": "More salaries.", "metadata": {"acl": ["hr"]}}]},
}


def test_records_that_say_who_may_see_them_are_never_put_together(pack):
    found, problems = pack({name: json.dumps(value) for name, value in JSON.items()})
    assert problems == set()
    closed = {"array.json/1", "alone.json/1", "named.json/1"}
    assert found(acl=("hr",)) == {*closed, "array.json/2"}
    assert found(acl=("board",)) == {"array.json/2"}
    deeper = {"info": {"a": 1}, "parts": [[{"note": "Salaries.", "acl": ["hr"]}]]}
    found, problems = pack({name: json.dumps(deeper) for name in JSON})
    assert problems == set(JSON)
    assert found() == set()


LONG = "About salaries, of which there are many, and about what each of them has to do with it."
INSIDE = {
    "keyed.json": {"a": {"text": "Salaries.", "acl": "hr"}, "b": {"text": "More salaries."}},
    "deep.json": {"notes": {"a": {"body": LONG, "acl": ["hr"]}, "b": {"body": LONG}}},
    "rights.json": {"title": "Salaries", "body": LONG, "rights": {"acl": ["hr"]}},
    "place.json": {"type": "Feature", "properties": {"note": LONG, "acl": "hr"}},
}


def test_a_json_file_with_a_list_where_it_has_no_effect_is_a_problem(pack):
    either = {"acl": "hr", "properties": {"text": "Salaries.", "acl": "board"}}
    either = {"type": "FeatureCollection", "features": [either]}
    schema = {"properties": {"acl": {"type": "string"}, "tenant": {"type": "string"}}}
    schema |= {"title": "Salaries", "example": {"request": {"tenant": "acme", "note": "Salary."}}}
    values = {**INSIDE, "either.json": either, "schema.json": schema}
    found, problems = pack({name: json.dumps(value) for name, value in values.items()})
    assert found() == {"schema.json"}
    assert problems == {*INSIDE, "either.json: record 1"}


def test_a_stored_version_does_not_outlive_its_access_list(pack):
    found, _ = pack({"a.md": "About salaries.\n", "b.md": "About salaries too.\n"})
    assert found() == {"a.md", "b.md"}
    found, problems = pack({"a.md": "---\nacl: []\n---\nAbout salaries.\n"})
    assert problems == {"a.md"}
    assert found() == {"b.md"}


@pytest.mark.parametrize("metadata", [{"acl": ","}, {"acl": ""}, {"ACL": "hr"}])
def test_no_store_takes_a_document_whose_list_names_no_group(metadata):
    document = Document("a", "A", "text", (), metadata=metadata)
    with pytest.raises(StoreError, match="names no group"):
        checked_document(document, [], "1")
