"""MkDocs and MyST: admonitions, tabs, roles and directives are read as their authors meant them."""


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


def test_a_link_to_an_object_is_its_text(read, blocks):
    text = (
        "# Keys\n\nCall [`key.sign`][keys.Key.sign] of a [key][keys.Key], see [more][1.2] and "
        "`a[x][b.c]`.\n\n[1.2]: https://keys.example\n"
    )
    document = read("markdown", text)
    assert blocks(document) == [("text", "Call key.sign of a key, see more and a[x][b.c].")]
    assert [link.href for link in document.links] == ["https://keys.example"]
