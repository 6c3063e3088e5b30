"""The page of a trace shows every text as text."""

from packing_world import MemoryStore, passage, prose

from packwise.context.html import render
from packwise.context.packer import pack
from packwise.settings import Settings


def page(question, *passages, budget=400):
    store = MemoryStore(passages)
    settings = Settings.load({})
    return render(pack(question, store.candidates(), store=store, settings=settings, budget=budget))


def test_markup_in_questions_titles_and_texts_is_shown_not_run():
    attack = '<script>alert("x")</script>'
    text = f"{attack} {prose('river')}"
    html = page(f"river {attack}?", passage("a", text, title=attack, path=(attack,)))
    assert "<script" not in html
    assert "&lt;script&gt;alert(&#34;x&#34;)&lt;/script&gt;" in html
    assert "default-src 'none'" in html


def test_the_page_says_what_is_in_and_why_the_rest_is_not():
    html = page(
        "river",
        passage("a", prose("river")),
        passage("b", prose("river")),
        passage("c", prose("tower")),
        passage("d", prose("meadow")),
        passage("e", "No."),
    )
    assert "[1] A" in html
    assert "repeats a better one" in html
    assert "a stub" in html
    assert "Left out (" in html


def test_an_empty_context_has_a_page_too():
    html = page("river")
    assert html.count("Nothing.") == 2
    assert "Left out (0)" in html


def test_text_that_no_encoding_knows_is_replaced():
    html = page("river \ud800", passage("a", prose("river")))
    assert "<title>river ?</title>" in html
    assert html.encode("utf-8")
