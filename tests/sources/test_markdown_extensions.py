"""MkDocs and MyST: admonitions, tabs, roles and directives are read as their authors meant them."""

import time

import pytest

from packwise.sources.markdown_extensions import plain_markdown


def test_admonitions_and_tabs_of_mkdocs(read, blocks):
    text = (
        '# Keys\n\n!!! warning "Mind"\n    Keep it *safe*.\n\n    - one\n    - two\n\nAfter.\n\n'
        '=== "Linux"\n    ```sh\n    gpg --sign\n    ```\n\n=== "Mac"\n    Use brew.\n\n'
        "--8<-- 'part.md'\n\n```text\n!!! note\n    code\n```\n"
    )
    assert blocks(read("markdown", text)) == [
        ("text", "Warning: Mind"),
        ("text", "Keep it safe."),
        ("list", "- one\n- two"),
        ("text", "After."),
        ("text", "Linux"),
        ("code", "gpg --sign"),
        ("text", "Mac"),
        ("text", "Use brew."),
        ("code", "!!! note\n    code"),
    ]


def test_an_underlined_heading_is_no_tab(read):
    document = read("markdown", "Keys\n===\n\n!!! note\n    Words.\n")
    assert (document.title, document.text) == ("Keys", "Note\n\nWords.")


def test_directives_and_roles_of_myst(read, blocks):
    text = (
        "(keys)=\n# Keys\n\nSee {ref}`the steps <steps>`, {doc}`other` and {class}`Key`.\n\n"
        "```{note}\n:class: wide\nKeep it **safe**.\n```\n\n:::{tip} Faster\n:open:\nUse a card.\n"
        ":::\n\n```{toctree}\nother\n```\n\n```{code-block} sh\n:linenos:\ngpg --sign\n```\n\n"
        "Plain `{x}` and {y}.\n"
    )
    document = read("markdown", text, among=("other.md",))
    assert document.title == "Keys"
    assert [link.href for link in document.links] == ["other.md"]
    assert blocks(document) == [
        ("text", "See the steps, other and Key."),
        ("text", "Note"),
        ("text", "Keep it safe."),
        ("text", "Tip: Faster"),
        ("text", "Use a card."),
        ("code", "gpg --sign"),
        ("text", "Plain {x} and {y}."),
    ]


def test_tabs_and_versions_of_myst_keep_their_labels(read, blocks):
    text = (
        "# Paths\n\n````{tab} Linux\n```\n~/.cache/pip\n```\n\nAlso `XDG_CACHE_HOME`.\n````\n\n"
        "````{tab} Windows\n```\n%LocalAppData%\n```\n````\n\n```{versionadded} 20.1\n\n```\n\n"
        "```{versionchanged} 26.2\nOn macOS too.\n```\n\n```{tab-set}\nInside.\n```\n\n"
        "```{mermaid}\ngraph TD\n```\n\n:::{deprecated} 3.0\nUse `lock`.\n:::\n"
    )
    assert blocks(read("markdown", text)) == [
        ("text", "Linux"),
        ("code", "~/.cache/pip"),
        ("text", "Also XDG_CACHE_HOME."),
        ("text", "Windows"),
        ("code", "%LocalAppData%"),
        ("text", "New in version 20.1"),
        ("text", "Changed in version 26.2"),
        ("text", "On macOS too."),
        ("text", "Inside."),
        ("code", "graph TD"),
        ("text", "Deprecated since version 3.0"),
        ("text", "Use lock."),
    ]


def test_attributes_icons_and_objects_of_mkdocs_are_not_text(read, blocks):
    text = (
        "# Keys { #keys }\n\n::: keys.store.Key\n    options:\n      members:\n      - sign\n\n"
        '## Sign ### {: #sign .wide title="a b" }\n\nSee [it](more.md){ .button target=_top } and '
        "`#!toml keys = 1`{ .x } :material-key:.\n\n{: .wide }\n\n::: tip Faster\nUse a {1} card "
        "or `{ .x }`.\n:::\n\n```text\n# a { #b }\n::: a.b\n    c\n```\n"
    )
    document = read("markdown", text, among=("more.md",))
    assert document.title == "Keys"
    assert [section.path for section in document.sections] == [("Sign",)]
    assert blocks(document) == [
        ("text", "See it and keys = 1 ."),
        ("text", "Tip: Faster"),
        ("text", "Use a {1} card or { .x }."),
        ("code", "# a { #b }\n::: a.b\n    c"),
    ]


def test_markdown_in_an_html_element_is_read(read, blocks):
    text = (
        '# Keys\n\n<div class="grid" markdown>\n\n- **one**\n- two\n\n</div>\n\n<figure markdown>\n'
        '  ![The key](key.png){ width="3" }\n  <figcaption>A key</figcaption>\n</figure>\n\nEnd.\n'
    )
    assert blocks(read("markdown", text)) == [
        ("list", "- one\n- two"),
        ("text", "The key"),
        ("text", "A key"),
        ("text", "End."),
    ]


def test_a_link_to_a_heading_or_an_object_is_its_text(read, blocks):
    text = (
        "# Keys\n\nCall [`key.sign`][keys.Key.sign] of [it][keys.Key], see [more][1.2], [lids][] "
        "and [a box][boxes]: `a[x][b.c]`, x[0][1], [0][1], [Boxes][], [all][Boxes].\n\n"
        "[1.2]: https://keys.example\n[boxes]: https://boxes.example\n"
    )
    document = read("markdown", text)
    said = "Call key.sign of it, see more, lids and a box: a[x][b.c], x[0][1], [0][1], Boxes, all."
    assert blocks(document) == [("text", said)]
    boxes = "https://boxes.example"
    assert [link.href for link in document.links] == ["https://keys.example", *[boxes] * 3]


def test_an_admonition_in_an_item_of_a_list_is_part_of_it(read, blocks):
    text = (
        "# Keys\n\n!!! hint\n\n    -   One:\n\n        !!! tip\n\n            Use it.\n\n"
        "    -   Two.\n\nEnd.\n"
    )
    assert blocks(read("markdown", text)) == [
        ("text", "Hint"),
        ("list", "- One:\n  Tip\n  Use it.\n- Two."),
        ("text", "End."),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "# " + " " * 100_000 + "{ #a",
        " " * 100_000 + "{ #a",
        "{ #a " * 50_000,
        "[a][b" * 30_000 + "{ #a }",
    ],
)
def test_lines_that_look_like_attributes_are_read_in_linear_time(text):
    started = time.thread_time()
    plain_markdown(text)
    assert time.thread_time() - started < 2
