"""Where links lead: to documents of the same source where they can, else where they say."""

import pytest

from packwise.sources.links import LinkResolver

IDS = (
    "README.md",
    "guide/install.md",
    "guide/use.rst",
    "guide/deep/index.md",
    "guide/Dallas%2C_Texas.md",
    "notes/Big Idea.md",
    "notes/sub/plan.md",
    "plan.md",
    "über/straße.md",
)
RESOLVER = LinkResolver(IDS)


@pytest.mark.parametrize(
    ("href", "target"),
    [
        ("install.md", "guide/install.md"),
        ("install.md#part", "guide/install.md"),
        ("./install.md?x=1", "guide/install.md"),
        ("../README.md", "README.md"),
        ("/guide/use.rst", "guide/use.rst"),
        ("install", "guide/install.md"),
        ("install/", "guide/install.md"),
        ("use.html", "guide/use.rst"),
        ("deep/", "guide/deep/index.md"),
        ("..", "README.md"),
        ("../%C3%BCber/stra%C3%9Fe.md", "über/straße.md"),
        ("Dallas%2C_Texas.md", "guide/Dallas%2C_Texas.md"),
        ("nowhere.md", "guide/nowhere.md"),
        ("../../outside.md", "../../outside.md"),
        ("https://example.org/a#b", "https://example.org/a"),
        ("//example.org/a", "//example.org/a"),
        ("#part", None),
        ("?q=1", None),
        ("", None),
        ("mailto:a@example.org", None),
        ("javascript:alert(1)", None),
        ("data:text/plain,x", None),
    ],
)
def test_a_link_is_resolved_from_where_it_stands(href, target):
    assert RESOLVER.resolve("guide/page.md", href) == target


@pytest.mark.parametrize(
    ("base", "name", "target"),
    [
        ("guide/page.md", "big idea", "notes/Big Idea.md"),
        ("guide/page.md", "Big_Idea#Part", "notes/Big Idea.md"),
        ("guide/page.md", "plan", "plan.md"),
        ("notes/sub/page.md", "plan", "notes/sub/plan.md"),
        ("guide/page.md", "sub/plan", "notes/sub/plan.md"),
        ("guide/page.md", "plan.md", "plan.md"),
        ("guide/page.md", "No Such Page", "No Such Page"),
        ("guide/page.md", "#Part", None),
    ],
)
def test_a_page_is_found_by_its_name(base, name, target):
    assert RESOLVER.resolve_name(base, name) == target


def test_links_are_found_in_every_format(folder, opened):
    root = folder(
        {
            "a.md": "[x](b.html) [[c|see]] [y][r] <a href='d'>z</a>\n\n[r]: d.txt\n",
            "b.html": "<p><a href='a.md'>x</a> <a href='b.html#self'>self</a></p>",
            "c.rst": "`x <a.md>`_\n",
            "d.txt": "[not](a.link)",
        }
    )
    links = {
        id: [(link.href, link.anchor) for link in document.links]
        for id, document in opened(root).documents.items()
    }
    assert links == {
        "a.md": [("b.html", "x"), ("c.rst", "see"), ("d.txt", "y"), ("d.txt", "z")],
        "b.html": [("a.md", "x")],
        "c.rst": [("a.md", "x")],
        "d.txt": [],
    }
