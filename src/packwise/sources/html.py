"""HTML: the content of a page, without navigation, banners and hidden text."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from packwise.sources import plain_blocks, shown_manuals
from packwise.sources.access import access, access_key
from packwise.sources.document_builder import DocumentBuilder
from packwise.sources.html_content import (
    MOST_CHECKED,
    content_of,
    is_in_box,
    is_index,
    is_mark,
    is_navigation,
    is_pager,
    is_place_number,
    may_be_navigation,
    shown_instead,
    title_above,
)
from packwise.sources.html_names import (
    BLOCKS,
    LISTS,
    classes_of,
    has_named_items,
    heading_level,
    is_bold,
    is_code,
    is_named,
    is_signature,
    is_target,
    term_name,
)
from packwise.sources.html_parser import parse
from packwise.sources.linked_text import LinkedText, TextBuilder

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

_DROPPED = frozenset(
    "script style noscript template nav svg iframe object embed canvas audio video button "
    "select option input textarea dialog map head".split()
)
# Not content, except inside main or article.
_OUTSIDE = frozenset("header footer aside".split())
_DROPPED_ROLES = frozenset("navigation banner contentinfo search menu".split())
_DROPPED_CLASSES = frozenset(
    "headerlink breadcrumb breadcrumbs navbar sidebar toc toctree-wrapper cookie-banner "
    "skip-link sr-only visually-hidden noprint linenos mw-editsection related sphinxsidebar "
    "navheader navfooter nav-panel pagination viewcode-link navpath ttc".split()
)
_DROPPED_IDS = frozenset(("titlearea",))
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_CELLS = frozenset(("td", "th"))
_WITHOUT_CHILDREN = frozenset(("br", "img", "pre"))
_METADATA = frozenset("author date description keywords".split())
_SECTIONING = frozenset("main article section".split())
_SECTIONS_AS_ITEMS = "li > section, li > h2, li > h3, li > h4"
_LAYOUT = "table, h1, h2, h3, h4, h5, h6, pre"

_FEWEST_TERMS = 3

_NUMBER = re.compile(r"-?[0-9]{1,9}")
_SITE_NAME = re.compile(r"(?<=\S)\s+[—|]\s")
"""What parts the title of a page from the name of its site."""
# What no one sees. Pages fade text in from opacity 0 and show panels that a style sheet hides,
# so those are content.
_HIDDEN_STYLE = re.compile(
    r"(?i)(?<![\w-])(?:display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)"
    r"|font-size\s*:\s*(?:0(?![.\d]*[1-9])|1px|1pt)|(?:left|top|right|text-indent)\s*:\s*-\d{3,})"
)


def read(builder: DocumentBuilder, source: str) -> None:
    """Add the blocks and the metadata of an HTML page."""
    if (page := parse(builder, source)) is not None:
        _read_head(page, builder)
        content = content_of(page)
        if content is not None and not is_index(builder.fallback_title, content):
            if above := title_above(page, content, builder.fallback_title):
                _HtmlReader(builder, inside=True).read(above)
            _HtmlReader(builder, inside=content.tag != "body").read(content)


def read_fragment(builder: DocumentBuilder, source: str) -> None:
    """Add the blocks of a piece of HTML, as found in other formats."""
    page = parse(builder, source)
    if page is not None and page.body is not None:
        _HtmlReader(builder, inside=True).read(page.body)


def _read_head(page: LexborHTMLParser, builder: DocumentBuilder) -> None:
    if title := page.css_first("title"):
        builder.fallback_title = _SITE_NAME.split(title.text())[0]
    if root := page.css_first("html"):
        builder.lang = builder.lang or root.attributes.get("lang") or ""
    if canonical := page.css_first('link[rel="canonical"]'):
        builder.url = builder.url or (canonical.attributes.get("href") or "").strip()
    for meta in page.css("meta[name], meta[property]"):
        name = meta.attributes.get("name") or meta.attributes.get("property") or ""
        name = name.strip().lower()
        content = " ".join((meta.attributes.get("content") or "").split())
        if name in _METADATA and content:
            builder.metadata.setdefault(name, content)
        elif access_key(name):
            builder.metadata |= access([*builder.metadata.items(), (name, content)])


class _HtmlReader:
    """Walks the tree without recursion, so depth costs no stack.

    ``inside`` says that the walk starts inside the content of the page.
    """

    def __init__(self, builder: DocumentBuilder, *, inside: bool) -> None:
        self._builder = builder
        self._inside = int(inside)
        self._checked = 0
        self._inline = TextBuilder()
        self._heading = 0
        self._after_term = False
        self._add: Callable[[LinkedText], None] = builder.paragraph
        self._lists: list[bool] = []
        self._rows: list[list[LinkedText]] | None = None
        self._cell: TextBuilder | None = None
        self._enters: dict[str, Callable[[LexborNode], None]] = {
            **dict.fromkeys(BLOCKS, lambda node: self._break()),
            "p": self._enter_paragraph,
            "div": self._enter_division,
            "dl": self._enter_definitions,
            "dt": lambda node: self._break(),
            "dd": self._enter_definition,
            "a": lambda node: self._text.open_link(node.attributes.get("href") or ""),
            "br": self._enter_break,
            "img": lambda node: self._write(shown_instead(node)),
            "li": lambda node: self._at_item(builder.open_item),
            "pre": self._enter_code,
            "table": self._enter_table,
            "tr": self._enter_row,
            **dict.fromkeys(_HEADINGS, self._enter_heading),
            **dict.fromkeys(LISTS, self._enter_list),
            **dict.fromkeys(_CELLS, self._enter_cell),
        }
        self._leaves: dict[str, Callable[[], None]] = {
            **dict.fromkeys(BLOCKS, self._break),
            "a": lambda: self._text.close_link(),
            "dl": self._leave_definitions,
            "dt": self._leave_term,
            "li": lambda: self._at_item(builder.close_item),
            "table": self._leave_table,
            **dict.fromkeys(_HEADINGS, self._leave_heading),
            **dict.fromkeys(LISTS, self._leave_list),
            **dict.fromkeys(_CELLS, self._leave_cell),
        }

    def read(self, root: LexborNode) -> None:
        node = root.first_child
        depth = 0
        while node is not None:
            if self._enter(node):
                child = node.first_child
                if child is not None:
                    node = child
                    depth += 1
                    continue
                self._leave(node)
            while node.next is None and depth and node.parent is not None:
                node = node.parent
                depth -= 1
                self._leave(node)
            node = node.next
        self._flush()

    def _enter(self, node: LexborNode) -> bool:
        """Handle the start of a node; returns whether to read what is inside."""
        tag = node.tag or ""
        if tag == "-text":
            self._write(node.text_content or "")
            return False
        if tag.startswith("-") or self._is_dropped(tag, node):
            return False
        if tag in _SECTIONING:
            self._inside += 1
        if code := self._code_of_doxygen(tag, node):
            self._flush()
            self._builder.code(code)
            return False
        if enter := self._enters.get(tag):
            enter(node)
        return tag not in _WITHOUT_CHILDREN

    def _leave(self, node: LexborNode) -> None:
        tag = node.tag or ""
        if tag in _SECTIONING:
            self._inside -= 1
        if leave := self._leaves.get(tag):
            leave()

    def _is_dropped(self, tag: str, node: LexborNode) -> bool:
        if tag in _DROPPED or (tag in _OUTSIDE and not self._inside):
            return True
        if tag == "a" and (is_mark(node) or is_pager(node)):
            return True
        if tag == "label" and is_place_number(node):
            return True
        given = node.attributes
        if not given:
            return False
        return (
            ("hidden" in given and given.get("role") != "tabpanel")
            or given.get("aria-hidden") == "true"
            or (given.get("role") or "") in _DROPPED_ROLES
            or not _DROPPED_CLASSES.isdisjoint((given.get("class") or "").split())
            or given.get("id") in _DROPPED_IDS
            or _HIDDEN_STYLE.search(given.get("style") or "") is not None
            or self._is_navigation(node)
        )

    def _is_navigation(self, node: LexborNode) -> bool:
        if self._checked >= MOST_CHECKED or not may_be_navigation(node):
            return False
        self._checked += 1
        return is_navigation(node)

    def _code_of_doxygen(self, tag: str, node: LexborNode) -> str:
        """The code that Doxygen writes as a row of elements, or a signature as a table or a row."""
        if self._cell is not None or tag not in ("div", "table", "tr"):
            return ""
        classes = classes_of(node)
        if tag == "div" and "fragment" in classes:
            for shown in node.css(".ttc, .lineno"):
                shown.decompose()
            return "\n".join(line.text().replace("\xa0", " ") for line in node.css("div.line"))
        declared = tag == "tr" and any(name.startswith("memitem:") for name in classes)
        signed = declared or (tag == "table" and "memname" in classes)
        return " ".join(node.text().split()) if signed else ""

    @property
    def _text(self) -> TextBuilder:
        return self._inline if self._cell is None else self._cell

    def _write(self, content: str) -> None:
        self._text.write_flowing(content.replace("\xa0", " "))
        if self._after_term and not content.isspace():
            self._after_term = False

    def _break(self) -> None:
        """End a paragraph at the edge of a block, unless the block is only part of a line."""
        if self._cell is not None or self._heading:
            self._text.write_flowing(" ")
        elif not self._after_term:
            self._flush()

    def _flush(self) -> None:
        self._after_term = False
        add, self._add = self._add, self._builder.paragraph
        add(self._inline.finish())

    def _enter_paragraph(self, node: LexborNode) -> None:
        self._break()
        if not self._inline.blank:
            return
        if self._cell is None and not self._heading and (level := heading_level(node)):
            self._add = partial(self._builder.heading, level)
        elif is_bold(node):
            self._add = partial(self._builder.label, target=is_target(node))
        elif self._cell is None and is_signature(node):
            self._add = self._add_signature
        elif self._cell is None and is_code(node):
            self._add = lambda linked: self._builder.code(linked.text)

    def _add_signature(self, linked: LinkedText) -> None:
        """Add the line that says how something is written, and names it; of several, the first
        does."""
        first, *others = linked.text.split("\n")
        name = first.rstrip("; ")
        if others or name != first:
            self._builder.name(LinkedText(name))
            self._builder.paragraph(linked)
        else:
            self._builder.label(linked)

    def _enter_division(self, node: LexborNode) -> None:
        self._break()
        if self._inline.blank and is_named(node):
            self._add = partial(self._builder.label, target=True)

    def _enter_break(self, node: LexborNode) -> None:
        if self._cell is not None or self._heading or self._inline.at_line_start:
            self._break()
        else:
            self._inline.write("\n")

    def _enter_code(self, node: LexborNode) -> None:
        for line_break in node.css("br"):
            line_break.replace_with("\n")
        self._flush()
        text = node.text().replace("\xa0", " ")
        if shown_manuals.is_manual(text):
            shown_manuals.read(self._builder, text)
        elif plain_blocks.is_prose(text):
            plain_blocks.read(self._builder, text)
        else:
            self._builder.code(text)

    def _enter_heading(self, node: LexborNode) -> None:
        if self._is_box_title(node):
            self._break()
        elif not self._heading:
            self._flush()
            self._heading = _HEADINGS[node.tag or ""]

    def _is_box_title(self, node: LexborNode) -> bool:
        """Whether a heading only says that a box is a note or a warning."""
        return is_in_box(node) and len(node.text(strip=True)) < 20

    def _leave_heading(self) -> None:
        if not self._heading:
            self._break()
        else:
            level, self._heading = self._heading, 0
            self._builder.heading(level, self._inline.finish())

    def _enter_list(self, node: LexborNode) -> None:
        # Items with headings are sections: the methods of a class, cards.
        sections = node.css_first(_SECTIONS_AS_ITEMS) is not None or has_named_items(node)
        self._lists.append(self._cell is None and not sections)
        if self._cell is None:
            self._flush()
        if self._lists[-1]:
            start = node.attributes.get("start") or ""
            number = int(start) if _NUMBER.fullmatch(start) else 1
            self._builder.open_list(ordered=node.tag == "ol", start=number)

    def _leave_list(self) -> None:
        if self._cell is None:
            self._flush()
        if self._lists.pop():
            self._builder.close_list()

    def _at_item(self, change: Callable[[], None]) -> None:
        if self._cell is None:
            self._flush()
            if self._lists and self._lists[-1]:
                change()
        else:
            self._break()

    def _enter_definitions(self, node: LexborNode) -> None:
        self._break()
        self._builder.open_terms(_FEWEST_TERMS)

    def _leave_definitions(self) -> None:
        self._flush()
        self._builder.close_terms()

    def _enter_definition(self, node: LexborNode) -> None:
        self._break()
        if self._after_term and self._cell is None and self._rows is None:
            term = self._inline.finish()
            # "Parameters" and "Returns" are parts of what is said about a function.
            around = (node.parent.attributes.get("class") or "") if node.parent else ""
            if "field-list" not in around.split():
                self._builder.term(term_name(term.text))
            self._inline.add(term)
            self._inline.write("\n")

    def _leave_term(self) -> None:
        """A term and its definition stay together, on two lines."""
        if self._cell is not None or self._inline.blank:
            self._break()
        else:
            self._inline.write("\n")
            self._after_term = True

    def _enter_table(self, node: LexborNode) -> None:
        self._break()
        # A query also matches the element it starts from, so it starts from the children.
        layout = any(child.css_first(_LAYOUT) is not None for child in node.iter())
        layout = layout or is_in_box(node)  # An icon beside the text of a note.
        if self._rows is None and not self._heading and not layout:
            self._flush()
            self._rows = []

    def _leave_table(self) -> None:
        if self._rows is None or self._cell is not None:
            self._break()
        else:
            self._flush()
            if len(self._rows) == 1 < len(self._rows[0]):
                # An option with its type and default, above what is said about it.
                self._builder.name(self._rows[0][0])
            self._builder.table(self._rows)
            self._rows = None

    def _enter_row(self, node: LexborNode) -> None:
        if self._rows is None:
            self._break()
        else:
            self._rows.append([])

    def _enter_cell(self, node: LexborNode) -> None:
        if self._rows:
            self._cell = TextBuilder()
        else:
            self._break()

    def _leave_cell(self) -> None:
        if self._rows and self._cell is not None:
            self._rows[-1].append(self._cell.finish())
            self._cell = None
        else:
            self._break()
