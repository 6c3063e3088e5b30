"""A page without a title of its own has the one that the navigation of MkDocs gives it."""

import pytest

MKDOCS = """
site_name: !ENV [NAME, x]
markdown_extensions:
  - emoji:
      generator: !!python/name:material.to_svg
nav:
  - Welcome: index.md
  - Guides:
      - How to install: guides/setup.md
      - guides/use.md
      - Signing: guides/keys.md
"""
PAGES = {
    "docs/index.md": "Words.",
    "docs/guides/setup.md": "Words.",
    "docs/guides/use.md": "Words.",
    "docs/guides/keys.md": "# Signing keys\n\nWords.",
}


def test_titles_come_from_the_navigation_where_a_page_has_none(folder, opened):
    documents = opened(folder({"mkdocs.yml": MKDOCS, **PAGES})).documents
    assert {id: documents[id].title for id in PAGES} == {
        "docs/index.md": "Welcome",
        "docs/guides/setup.md": "How to install",
        "docs/guides/use.md": "Use",
        "docs/guides/keys.md": "Signing keys",
    }


def test_pages_lie_in_the_folder_that_is_configured(folder, opened):
    site = {"site/mkdocs.yml": "docs_dir: src\nnav: [{First: a.md}]\n", "site/src/a.md": "Words."}
    assert opened(folder(site)).documents["site/src/a.md"].title == "First"


def test_a_page_is_read_again_when_its_title_changes(folder, opened):
    root = folder({"mkdocs.yml": MKDOCS, **PAGES})
    before = opened(root).hashes
    (root / "mkdocs.yml").write_text(MKDOCS.replace("Welcome", "Hello"))
    after = opened(root).hashes
    assert after["docs/index.md"] != before["docs/index.md"]
    assert after["docs/guides/use.md"] == before["docs/guides/use.md"]


@pytest.mark.parametrize(
    "text", ["nav: [", "- a", "nav: 5", "nav: &a [*a, *a]", "nav: {a: {b: 1}}"]
)
def test_a_navigation_that_cannot_be_used_costs_nothing(text, folder, opened):
    assert opened(folder({"mkdocs.yml": text, **PAGES})).documents["docs/index.md"].title == "Docs"
