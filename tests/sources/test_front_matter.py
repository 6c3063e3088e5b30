"""Front matter becomes metadata, and never costs a document its text."""

import pytest

from packwise.sources import front_matter


def test_known_fields_are_taken_and_the_rest_is_metadata(read):
    text = (
        "---\ntitle: T\nlang: fr\nsource_url: https://example.org/t\ntags: [a, b]\n"
        "date: 2024-01-02\ndraft: false\nempty:\nauthor: {name: Ada}\n---\nBody.\n"
    )
    document = read("markdown", text)
    assert (document.title, document.lang, document.url) == ("T", "fr", "https://example.org/t")
    assert dict(document.metadata) == {
        "tags": "a, b",
        "date": "2024-01-02",
        "draft": "false",
        "author": '{"name": "Ada"}',
    }
    assert document.text == "Body."


@pytest.mark.parametrize(
    "broken",
    ["title: a: b", "x: [1", "\tx: 1", "a: &x 1\nb: *x", "!!python/object:os.system x: 1"],
)
def test_broken_front_matter_is_text_and_makes_no_heading(broken, read):
    document = read("markdown", f"---\n{broken}\n---\n\nBody words.\n")
    assert "Body words." in document.text
    assert not document.metadata
    assert [section.path for section in document.sections] == [()]


@pytest.mark.parametrize("text", ["---\n\nafter a rule\n", "---\njust words\n---\n", "--- x\n"])
def test_a_rule_at_the_top_is_no_front_matter(text):
    builder, rest = front_matter.split(text)
    assert (builder.title, builder.metadata, rest) == ("", {}, text)


def test_nested_brackets_do_not_exhaust_the_stack(read):
    document = read("markdown", f"---\nx: {'[' * 20000}\n---\nBody.\n")
    assert "Body." in document.text
