"""The reference of the running Python: documents on every machine."""

import pytest

from packwise.sources import open_source
from packwise.sources.python_reference import PythonReference


@pytest.fixture(scope="module")
def reference(opened):
    return opened("python:reference").documents


def test_topics_have_their_titles_and_sections(reference):
    assert reference["python:if"].title == 'The "if" statement'
    paths = [section.path for section in reference["python:comparisons"].sections]
    assert paths[:2] == [(), ("Value comparisons",)]
    assert all(document.title and document.text for document in reference.values())
    assert all(document.lang == "en" for document in reference.values())


def test_every_link_leads_to_a_topic(reference):
    hrefs = {link.href for document in reference.values() for link in document.links}
    assert len(hrefs) > 40
    assert hrefs <= reference.keys()


def test_links_are_the_sections_named_and_the_topics_related(reference):
    raised = reference["python:raise"].links
    assert ("python:try", "The try statement", "link") in {
        (link.href, link.anchor, link.kind) for link in raised
    }
    related = {link.href for link in reference["python:while"].links if link.kind == "related"}
    assert {"python:break", "python:continue", "python:if", "python:truth"} <= related


def test_code_is_code_and_prose_is_unwrapped(reference, blocks):
    kinds = dict.fromkeys(kind for kind, _ in blocks(reference["python:typesseq"]))
    assert {*kinds} == {"text", "list", "code", "table"}
    (grammar, *_) = [text for kind, text in blocks(reference["python:if"]) if kind == "code"]
    assert grammar.startswith("if_stmt ::=")
    for document in reference.values():
        for kind, text in blocks(document):
            assert not (kind == "text" and text.startswith(">>>")), text
            assert not (kind == "text" and "::=" in text.split("\n")[0]), text


def test_a_signature_stays_with_its_description(reference, blocks):
    texts = [text for _, text in blocks(reference["python:string-methods"])]
    (capitalize,) = [text for text in texts if text.startswith("str.capitalize()")]
    assert capitalize.startswith("str.capitalize()\nReturn a copy of the string")


def test_two_reads_are_equal(reference):
    source = open_source("python:reference")
    assert isinstance(source, PythonReference)
    assert {*source.ids()} == reference.keys()
    (topic,) = [item for item in source.items() if item.id == "python:with"]
    assert topic.read() == reference["python:with"]
