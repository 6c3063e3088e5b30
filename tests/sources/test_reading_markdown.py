"""What becomes of Markdown."""

from packwise.context.markdown import table_markdown
from packwise.documents import cells_of
from packwise.sources import markdown


def paths(document):
    return [section.path for section in document.sections]


def test_inline_markup_goes_and_its_text_stays(read):
    document = read(
        "markdown", "A **bold** `code` ~~old~~ &amp; ![a map](m.png) <b>tag</b>.\nNext."
    )
    assert document.text == "A bold code old & a map tag. Next."


def test_a_hard_break_stays_a_line(read):
    assert read("markdown", "one  \ntwo\\\nthree").text == "one\ntwo\nthree"


def test_lists_keep_their_marks_and_depth(read, blocks):
    document = read("markdown", "3. three\n4. four\n   more\n   - deep\n\n   para\n")
    assert blocks(document) == [("list", "3. three\n4. four more\n  - deep\n  para")]


def test_code_in_a_list_item_is_not_torn_into_the_list(read, blocks):
    document = read("markdown", "- one\n\n  ```sh\n  a\n\n    b\n  ```\n\n- two\n")
    assert blocks(document) == [("list", "- one"), ("code", "a\n\n  b"), ("list", "- two")]


def test_a_bar_in_a_cell_separates_no_cells(read):
    text = "| key | use |\n|---|---|\n| `a \\| b` | [either](one.md), or \\| [both](two.md) |\n"
    document = read("markdown", text)
    assert document.text == "key | use\na \\| b | either, or \\| both"
    assert cells_of(document.text.split("\n")[1]) == ["a \\| b ", " either, or \\| both"]
    assert [link.anchor for link in document.links] == ["either", "both"]
    assert all(document.text.startswith(link.anchor, link.start) for link in document.links)
    row = "| a \\| b | either, or \\| both |"
    assert row in table_markdown("", document.text)


def test_table_cells_keep_their_links(read):
    document = read("markdown", "| a | b |\n|---|---|\n| x | [y](z.md) |\n")
    assert document.text == "a | b\nx | y"
    assert [(link.href, link.anchor, link.start) for link in document.links] == [("z.md", "y", 10)]


def test_html_in_markdown_is_read_as_html(read, blocks):
    text = "<!-- no -->\n<h1 align='center'>Title</h1>\n\n<table><tr><td>a<td>b</table>\n"
    document = read("markdown", text)
    assert document.title == "Title"
    assert blocks(document) == [("table", "a | b")]


def test_headings_stand_in_the_text_but_in_no_block(read, blocks):
    document = read("markdown", "# T\n\nintro\n\n## A\n\n### B\n\nbody\n")
    assert document.text == "intro\n\nA\n\nB\n\nbody"
    assert blocks(document) == [("text", "intro"), ("text", "body")]
    assert paths(document) == [(), ("A",), ("A", "B")]
    assert [section.level for section in document.sections] == [0, 2, 3]


def test_several_first_level_headings_are_all_sections(read):
    document = read("markdown", "# A\n\na\n\n# B\n\nb\n\n## C\n\nc\n")
    assert document.title == "A"
    assert paths(document) == [("A",), ("B",), ("B", "C")]


def test_a_first_level_heading_below_others_stays_a_section(read):
    document = read("markdown", "## Before\n\na\n\n# Late\n\nb\n")
    assert document.title == "Late"
    assert paths(document) == [("Before",), ("Late",)]


def test_a_heading_other_than_the_declared_title_is_kept(read):
    same = read("markdown", "---\ntitle: One\n---\n# one\n\ntext\n")
    other = read("markdown", "---\ntitle: One\n---\n# Two\n\ntext\n")
    assert (same.title, paths(same)) == ("One", [()])
    assert (other.title, paths(other)) == ("One", [("Two",)])


def test_a_heading_in_a_quotation_is_not_part_of_the_outline(read):
    document = read("markdown", "# T\n\n> ## Quoted\n>\n> words\n")
    assert document.text == "Quoted\n\nwords"
    assert paths(document) == [()]


def test_a_paragraph_set_as_a_heading_is_text(read):
    document = read("markdown", f"## {'word ' * 200}\n\nbody\n")
    assert paths(document) == [()]
    assert len(document.text) > 1000


def test_a_link_in_the_title_is_kept_without_a_place(read):
    document = read("markdown", "# The [project](https://example.org/p#top)\n\ntext\n")
    assert document.title == "The project"
    assert [(link.href, link.anchor) for link in document.links] == [("https://example.org/p", "")]


def test_double_brackets_that_are_no_page_name_stay_text(read):
    text = "[[1, 2]] and [[ -f x ]] and [[3]](note.md)"
    document = read("markdown", text)
    assert document.text == "[[1, 2]] and [[ -f x ]] and [3]"
    assert [link.href for link in document.links] == ["note.md"]


def test_a_file_without_a_heading_is_titled_after_its_path(read):
    assert read("markdown", "text", id="guide/getting_started.md").title == "Getting started"
    assert read("markdown", "text", id="user-guide/README.md").title == "User guide"


def test_a_large_file_read_in_pieces_is_read_alike(read, blocks, monkeypatch):
    section = (
        "## Part\n\nWords with a [link][ref] in them.\n\n- one\n- two\n\n"
        "```py\n# no heading\n\ncode\n```\n\n| a | b |\n|---|---|\n| c | d |\n\n"
    )
    text = f"# Title\n\n{section * 40}[ref]: other.md\n"
    whole = read("markdown", text)
    monkeypatch.setattr(markdown, "SEGMENT", 300)
    pieces = read("markdown", text)
    assert pieces == whole
    assert len(whole.links) == 40


def test_code_larger_than_a_piece_stays_code(read, blocks, monkeypatch):
    monkeypatch.setattr(markdown, "SEGMENT", 300)
    text = "before\n\n```\n" + "# line\n\n" * 200 + "```\n\nafter\n"
    kinds = [kind for kind, _ in blocks(read("markdown", text))]
    assert kinds[0] == kinds[-1] == "text"
    assert {*kinds[1:-1]} == {"code"}
