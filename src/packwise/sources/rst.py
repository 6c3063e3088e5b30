"""reStructuredText, including the text of roles and directives that only Sphinx knows.

Other files are inserted, and cross-references found, by ``sphinx_tree``. Raw output is dropped and
nothing is reported.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from packwise.sources import plain_rst, sphinx_tree
from packwise.sources.access import access, access_key
from packwise.sources.document_builder import DocumentBuilder
from packwise.sources.linked_text import LinkedText, TextBuilder
from packwise.sources.rst_includes import leading_fields
from packwise.sources.rst_parser import OBJECT, parse

SIZE_LIMIT = 1_000_000
"""Characters. A larger file is read line by line: docutils takes 5 seconds for this many."""

_LINE_LIMIT, _LONG_PARAGRAPH = 10_000, 1000
_EFFORT_LIMIT, _WORD_EFFORT_LIMIT = 60_000_000, 10_000_000
_LONG_WORD = re.compile(r"\S{200,}")
_PARAGRAPHS = re.compile(r"\n[ \t]*\n")
_MARK = re.compile(r"[*`|_]")
# What docutils raises on unexpected markup; the text can still be read line by line.
_FAULTS = (
    RecursionError,
    AssertionError,
    AttributeError,
    LookupError,
    NameError,
    TypeError,
    ValueError,
)
_ADMONITIONS = frozenset("attention caution danger error hint important note tip warning".split())


def read(builder: DocumentBuilder, text: str) -> None:
    """Add the blocks of a reStructuredText file; a field list at its start becomes metadata."""
    builder.metadata |= access([*builder.metadata.items(), *leading_fields(text)])
    tree = None
    if not _is_too_much(text):
        with suppress(*_FAULTS):
            tree = parse(text, builder.find_reference)
    if tree is None:
        plain_rst.read(builder, text)
    else:
        reader = _RstReader(builder)
        reader.read(tree)
        reader.flush()


def _is_too_much(text: str) -> bool:
    """Whether docutils would refuse the text or take minutes: its time grows with the square of a
    word's length, and with a paragraph's length times the number of its markup characters."""
    if len(text) > SIZE_LIMIT or max(map(len, text.split("\n"))) > _LINE_LIMIT:
        return True
    words = sum(len(word) ** 2 for word in _LONG_WORD.findall(text))
    marked = sum(
        len(paragraph) * len(_MARK.findall(paragraph))
        for paragraph in _PARAGRAPHS.split(text)
        if len(paragraph) > _LONG_PARAGRAPH
    )
    return words > _WORD_EFFORT_LIMIT or marked > _EFFORT_LIMIT


class _RstReader:
    """Walks the tree. ``_lead`` is text that goes in front of the next paragraph."""

    def __init__(self, builder: DocumentBuilder) -> None:
        self._builder = builder
        self._level = 0
        self._lead = TextBuilder()
        self._readers: dict[str, Callable[[Any], None]] = {
            "definition_list": self._definitions,
            "docinfo": self._docinfo,
            "field": self._field,
            "line_block": self._lines,
            "option_list_item": self._option,
            "section": self._section,
            "system_message": self._message,
            "table": self._table,
            "title": self._title,
            **dict.fromkeys(("paragraph", "image", "line", "rubric", "term"), self._paragraph),
            **dict.fromkeys(("literal_block", "doctest_block", "math_block"), self._code),
            **dict.fromkeys(("bullet_list", "enumerated_list"), self._list),
            **dict.fromkeys(("footnote", "citation"), self._note),
            **dict.fromkeys(_ADMONITIONS, self._admonition),
            **dict.fromkeys(_UNSEEN, lambda node: None),
        }

    def read(self, node: Any) -> None:
        for child in node.children:
            if reader := self._readers.get(child.tagname):
                reader(child)
            elif child.tagname == "#text":
                self._emit(LinkedText(child.astext().strip()))
            else:
                self.read(child)

    def _emit(self, span: LinkedText) -> None:
        """Add a paragraph, with the lead in front of it."""
        self._lead.add(span)
        self._builder.paragraph(self._lead.finish())

    def flush(self) -> None:
        if not self._lead.blank:
            self._emit(LinkedText(""))

    def _paragraph(self, node: Any) -> None:
        bold = [child.tagname for child in node.children] == ["strong"]
        if self._lead.blank and (bold or node.tagname == "rubric"):
            self._builder.label(_span(node))
        else:
            self._emit(_span(node))

    def _section(self, node: Any) -> None:
        self._level += 1
        self.read(node)
        self._level -= 1

    def _title(self, node: Any) -> None:
        if node.parent.tagname == "section":
            self.flush()
            self._builder.heading(self._level, _span(node))
        else:
            self._emit(_span(node))

    def _code(self, node: Any) -> None:
        self.flush()
        self._builder.code(node.astext())

    def _lines(self, node: Any) -> None:
        self._emit(LinkedText("\n".join(_texts(node, "line"))))

    def _list(self, node: Any) -> None:
        self.flush()
        ordered = node.tagname == "enumerated_list"
        self._builder.open_list(ordered=ordered, start=int(node.get("start", 1)))
        for item in node.children:
            self._builder.open_item()
            self.read(item)
            self._builder.close_item()
        self._builder.close_list()

    def _definitions(self, node: Any) -> None:
        objects = OBJECT in node.get("classes", ())
        if node.parent.tagname == "field_body" and node is node.parent.children[0] and not objects:
            # Text that goes on further to the right than what follows it looks like a term.
            for item in node.children:
                self._lead.add(_span(item.children[0]))
                self._lead.write(" ")
                self.read(item.children[-1])
            return
        self.flush()
        self._builder.open_terms(fewest=1 if objects else 2)
        for item in node.children:
            name = item.children[0].astext()
            self._builder.term(_object_name(name) if objects else name)
            self._definition(item)
        self._builder.close_terms()

    def _definition(self, node: Any) -> None:
        self.flush()
        for child in node.children:
            if child.tagname in ("term", "classifier"):
                if not self._lead.blank:
                    self._lead.write(" : " if child.tagname == "classifier" else "\n")
                self._lead.add(_span(child))
            else:
                self._lead.write("\n")
                self.read(child)
        if node.children[-1].tagname == "definition":
            self.flush()
        else:
            self._lead.write("\n")  # a term that the next paragraph describes

    def _with_lead(self, lead: str, node: Any) -> None:
        self.flush()
        self._lead.write(lead)
        self.read(node)
        self.flush()

    def _field(self, node: Any) -> None:
        self._with_lead(f"{node.children[0].astext()}: ", node.children[1])

    def _option(self, node: Any) -> None:
        self._with_lead(", ".join(_texts(node, "option")) + "\n", node.children[-1])

    def _note(self, node: Any) -> None:
        labels = (child for child in node.children if child.tagname == "label")
        self._with_lead("".join(f"[{label.astext()}] " for label in labels), node)

    def _admonition(self, node: Any) -> None:
        self._with_lead(f"{node.tagname.capitalize()}: ", node)

    def _message(self, node: Any) -> None:
        """Keep what docutils could not parse as it was written, without roles."""
        self.flush()
        for text in _texts(node, "literal_block"):
            if not _NOT_WRITTEN.match(text):
                self._builder.code(sphinx_tree.without_markup(text))

    def _table(self, node: Any) -> None:
        self.flush()
        rows: list[list[LinkedText]] = []
        for child in node.findall():
            if child.tagname == "title" and child.parent is node:
                self._emit(_span(child))
            elif child.tagname == "row":
                rows.append([_cell(entry) for entry in child.children])
        self._builder.table(rows)

    def _docinfo(self, node: Any) -> None:
        for child in node.children:
            if child.tagname == "field":
                name, value = child.children[0].astext(), child.children[1].astext()
            else:
                name, value = child.tagname, child.astext()
            text = " ".join(value.split())
            if text and not access_key(name):
                self._builder.metadata.setdefault(name.lower(), text)


_UNSEEN = "comment label substitution_definition target pending meta raw decoration".split()
_NOT_WRITTEN = re.compile(r"\.\.\s+(?:include|raw|csv-table|\|[^|]+\|\s+date)::")


def _object_name(signature: str) -> str:
    """What an object is called: its signature without arguments."""
    name, bracket, _ = signature.partition("(")
    return f"{name}()" if bracket and name.strip() else signature


def _texts(node: Any, tagname: str) -> list[str]:
    return [child.astext() for child in node.findall() if child.tagname == tagname]


def _cell(entry: Any) -> LinkedText:
    inline = TextBuilder()
    for child in entry.children:
        if child.tagname == "system_message":
            continue
        if not inline.blank:
            inline.write(" ")
        inline.add(_span(child))
    return inline.finish()


def _span(node: Any) -> LinkedText:
    inline = TextBuilder()
    if node.tagname == "image":
        inline.write_flowing(node.get("alt", ""))
    _write_inline(inline, node)
    return inline.finish()


def _write_inline(inline: TextBuilder, node: Any) -> None:
    for child in node.children:
        match child.tagname:
            case "#text":
                inline.write_flowing(child.astext())
            case "literal" | "math":
                inline.write(child.astext())
            case "image":
                inline.write_flowing(child.get("alt", ""))
            case "footnote_reference" | "citation_reference":
                inline.write(f"[{child.astext()}]")
            case "title_reference":
                # With Sphinx, text without a role is often a reference with a title of its own.
                shown, target = sphinx_tree.title_and_target(child.astext())
                inline.write_flowing(shown or sphinx_tree.short_name(target))
            case "raw" | "system_message" | "substitution_definition":
                pass
            case "reference" if child.get("refuri"):
                inline.open_link(child["refuri"])
                _write_inline(inline, child)
                inline.close_link()
            case _:
                _write_inline(inline, child)
