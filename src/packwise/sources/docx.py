"""Word documents: headings, lists, tables, links and footnotes; comments and deletions left out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from packwise.errors import SourceError
from packwise.sources.document_builder import DocumentBuilder
from packwise.sources.linked_text import LinkedText, TextBuilder
from packwise.sources.zipped import (
    Element,
    ZippedFile,
    attribute,
    child,
    core_title,
    descendants,
    tag,
)

if TYPE_CHECKING:
    from packwise.sources.readers import SourceFile

_HEADING = re.compile(r"(?i)(?:heading|überschrift|titre|título|titolo|заголовок|标题)\s*(\d)")
_WITHOUT_TEXT = frozenset("del moveFrom Fallback instrText pPr rPr".split())
_SIGNS = {"tab": " ", "ptab": " ", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
_HEADING_WORDS = 12
_SHORT_LINE = 80
"""Characters of a line of a cell that may be a cell of its own."""
_DEEPEST = 200


class _Style(NamedTuple):
    level: int = 0
    """Of a heading; 0 for other text."""
    number: str = ""
    title: bool = False
    code: bool = False
    contents: bool = False
    """A line of a table of contents, which only repeats headings."""


def read(builder: DocumentBuilder, file: SourceFile) -> None:
    """Add the text of a Word document."""
    with ZippedFile(file.path, "Word (.docx)") as parts:
        main = next(
            (target for kind, target in parts.relations("").values() if kind == "officeDocument"),
            "word/document.xml",
        )
        builder.fallback_title = core_title(parts)
        body = child(parts.xml(main), "body")
        if body is None:
            raise SourceError("is a Word document without a text")
        _DocxReader(builder, parts, main).read(body)


class _DocxReader:
    """Reads one document."""

    def __init__(self, builder: DocumentBuilder, parts: ZippedFile, main: str) -> None:
        self._builder = builder
        self._relations = parts.relations(main)
        named = dict(self._relations.values())
        self._styles = _styles(_part(parts, named.get("styles", "")))
        self._ordered = _ordered_lists(_part(parts, named.get("numbering", "")))
        self._notes = {
            (kind, attribute(note, "id")): note
            for kind in ("footnote", "endnote")
            if (notes := _part(parts, named.get(f"{kind}s", ""))) is not None
            for note in notes
        }
        self._headings = False
        self._page = 0
        self._depth = 0
        self._code: list[str] = []

    def read(self, body: Element) -> None:
        paged = next(descendants(body, "lastRenderedPageBreak"), None) is not None
        self._headings = any(self._style(paragraph).level for paragraph in descendants(body, "p"))
        if paged:
            self._page = 1
            self._builder.place("page 1")
        for element in _blocks(body):
            if tag(element) == "tbl":
                self._close()
                self._add_table(element)
            else:
                self._add_paragraph(element)
        self._close()

    def _style(self, paragraph: Element) -> _Style:
        properties = child(paragraph, "pPr")
        style = self._styles.get(attribute(child(properties, "pStyle"), "val"), _Style())
        own = attribute(child(properties, "outlineLvl"), "val")
        if own.isdigit() and int(own) < 9:
            style = style._replace(level=int(own) + 1)
        return style

    def _add_paragraph(self, paragraph: Element) -> None:
        style = self._style(paragraph)
        notes: list[Element] = []
        linked = self._text(paragraph, notes)
        breaks = sum(1 for _ in descendants(paragraph, "lastRenderedPageBreak"))
        starts = bool(breaks) and _starts_with_break(paragraph)
        if breaks and self._page and starts:
            self._turn(breaks)
        numbering = child(paragraph, "pPr", "numPr")
        number = attribute(child(numbering, "numId"), "val") or style.number
        level = style.level or (0 if self._headings else _bold_heading(paragraph, linked.text))
        if style.code and not level:
            self._close_lists(0)
            self._code.append(linked.text)
        elif not linked or style.contents:
            pass
        elif style.title and not self._builder.title:
            self._close()
            self._builder.title = linked.text
        elif level:
            self._close()
            self._builder.heading(level, linked)
        elif number and number != "0":
            self._close_code()
            depth = attribute(child(numbering, "ilvl"), "val")
            self._add_item(linked, number, min(int(depth), 8) if depth.isdigit() else 0)
        else:
            self._close()
            self._builder.paragraph(linked)
        for note in notes:
            self._close()
            self._builder.paragraph(self._text(note, []))
        if breaks and self._page and not starts:
            self._turn(breaks)

    def _turn(self, pages: int) -> None:
        self._close_code()
        self._page += pages
        self._builder.place(f"page {self._page}")

    def _add_item(self, linked: LinkedText, number: str, depth: int) -> None:
        self._close_lists(depth + 1)
        while self._depth <= depth:
            ordered = self._ordered.get((number, str(self._depth)), False)
            self._builder.open_list(ordered=ordered)
            self._depth += 1
        self._builder.open_item()
        self._builder.paragraph(linked)
        self._builder.close_item()

    def _close(self) -> None:
        self._close_code()
        self._close_lists(0)

    def _close_code(self) -> None:
        """Each line of code is a paragraph; together they are one block."""
        lines, self._code = self._code, []
        if any(lines):
            self._builder.code("\n".join(lines))

    def _close_lists(self, depth: int) -> None:
        while self._depth > depth:
            self._builder.close_list()
            self._depth -= 1

    def _add_table(self, table: Element) -> None:
        rows: list[list[LinkedText]] = []
        places: list[str] = []
        for row in (one for one in _flat(table) if tag(one) == "tr"):
            cells: list[list[LinkedText]] = []
            breaks = 0
            for cell in (one for one in _flat(row) if tag(one) == "tc"):
                breaks = max(breaks, sum(1 for _ in descendants(cell, "lastRenderedPageBreak")))
                merge = child(cell, "tcPr", "vMerge")
                above = rows[-1][len(cells)] if rows and len(cells) < len(rows[-1]) else None
                if merge is not None and attribute(merge, "val") != "restart" and above:
                    cells.append([above])
                    continue
                span = attribute(child(cell, "tcPr", "gridSpan"), "val")
                cells.append(self._lines(cell))
                if span.isdigit():
                    cells += [[]] * min(int(span) - 1, 63)
            if self._page:
                self._page += breaks
            added = _rows_of_lines(cells)
            rows += added
            places += [f"page {self._page}" if self._page else ""] * len(added)
        self._builder.table(rows, places if self._page else None)
        if self._page:
            self._turn(0)

    def _lines(self, cell: Element) -> list[LinkedText]:
        lines = [self._text(paragraph, []) for paragraph in descendants(cell, "p")]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    def _text(self, element: Element, notes: list[Element], depth: int = 0) -> LinkedText:
        text = TextBuilder()
        self._write(text, element, notes, depth)
        return text.finish()

    def _write(self, text: TextBuilder, element: Element, notes: list[Element], depth: int) -> None:
        if depth > _DEEPEST:
            return
        for one in filter(_is_shown, element):
            name = tag(one)
            match name:
                case "t":
                    text.write(one.text or "")
                case _ if name in _SIGNS:
                    text.write(_SIGNS[name])
                case "p":  # of a text box within this paragraph
                    text.write_flowing(" ")
                    text.add(self._text(one, notes, depth + 1))
                case "hyperlink":
                    relation = self._relations.get(attribute(one, "id"), ("", ""))
                    inner = self._text(one, notes, depth + 1)
                    if relation[1]:
                        text.link(relation[1], inner.text)
                    else:
                        text.add(inner)
                case "footnoteReference" | "endnoteReference":
                    key = (name.removesuffix("Reference"), attribute(one, "id"))
                    if key in self._notes:
                        notes.append(self._notes[key])
                case _ if name not in _WITHOUT_TEXT:
                    self._write(text, one, notes, depth + 1)
                case _:
                    pass


def _rows_of_lines(cells: Sequence[Sequence[LinkedText]]) -> list[list[LinkedText]]:
    """The row of a table; several where lines of its cells, not rows, keep the values apart."""
    split = [[text for line in cell for text in line.text.split("\n")] for cell in cells]
    lengths = {len(lines) for lines in split}
    longest = max((len(line) for lines in split for line in lines), default=0)
    if len(cells) > 1 and len(lengths) == 1 and max(lengths) > 2 and longest <= _SHORT_LINE:
        return [[LinkedText(line) for line in row] for row in zip(*split, strict=True)]
    row: list[LinkedText] = []
    for cell in cells:
        text = TextBuilder()
        for line in cell:
            text.write_flowing(" ")
            text.add(line.on_one_line())
        row.append(text.finish())
    return [row]


def _part(parts: ZippedFile, name: str) -> Element | None:
    return parts.xml(name) if name and parts.has(name) else None


def _flat(element: Element) -> Iterator[Element]:
    """The children of an element, also those in content controls and insertions."""
    for one in element:
        if tag(one) in ("sdt", "sdtContent", "ins", "customXml", "smartTag", "moveTo"):
            yield from _flat(one)
        else:
            yield one


def _blocks(body: Element) -> Iterator[Element]:
    return (one for one in _flat(body) if tag(one) in ("p", "tbl"))


def _styles(styles: Element | None) -> Mapping[str, _Style]:
    """The styles by id, with what they inherit."""
    found = (
        {}
        if styles is None
        else {attribute(one, "styleId"): one for one in styles if tag(one) == "style"}
    )

    def resolved(style: str, depth: int = 0) -> _Style:
        element = found.get(style)
        if element is None or depth > 20:
            return _Style()
        base = resolved(attribute(child(element, "basedOn"), "val"), depth + 1)
        name = attribute(child(element, "name"), "val")
        heading = _HEADING.match(name)
        outline = attribute(child(element, "pPr", "outlineLvl"), "val")
        if heading:
            base = base._replace(level=max(int(heading[1]), 1))
        elif outline.isdigit():
            base = base._replace(level=int(outline) + 1 if int(outline) < 9 else 0)
        number = attribute(child(element, "pPr", "numPr", "numId"), "val")
        return base._replace(
            number=number or base.number,
            title=name.lower() == "title",
            code=base.code or bool(re.search(r"(?i)code|preformatted|source|listing", name)),
            contents=bool(re.fullmatch(r"(?i)(?:toc|contents) ?\d+|table of figures", name)),
        )

    return {style: resolved(style) for style in found}


def _ordered_lists(numbering: Element | None) -> Mapping[tuple[str, str], bool]:
    """Whether a level of a list is numbered, by the list's id and the level."""
    if numbering is None:
        return {}
    formats = {
        (attribute(abstract, "abstractNumId"), attribute(level, "ilvl")): attribute(
            child(level, "numFmt"), "val"
        )
        for abstract in numbering
        if tag(abstract) == "abstractNum"
        for level in abstract
        if tag(level) == "lvl"
    }
    lists = {
        attribute(one, "numId"): attribute(child(one, "abstractNumId"), "val")
        for one in numbering
        if tag(one) == "num"
    }
    return {
        (number, level): format not in ("bullet", "none", "")
        for number, own in lists.items()
        for (abstract, level), format in formats.items()
        if abstract == own
    }


def _starts_with_break(paragraph: Element) -> bool:
    """Whether a page ends before the first word of a paragraph."""
    for one in paragraph.iter():
        if tag(one) == "lastRenderedPageBreak":
            return True
        if tag(one) == "t" and (one.text or "").strip():
            return False
    return False


def _bold_heading(paragraph: Element, text: str) -> int:
    """2 for a short line in bold, which is a heading where no style says what is one."""
    if not text or len(text.split()) > _HEADING_WORDS or text.endswith((".", ",", ";", ":")):
        return 0
    runs = [
        run for run in descendants(paragraph, "r") if next(descendants(run, "t"), None) is not None
    ]
    bold = (child(run, "rPr", "b") for run in runs)
    return 2 * (
        bool(runs)
        and all(b is not None and attribute(b, "val") not in ("0", "false") for b in bold)
    )


def _is_shown(element: Element) -> bool:
    """Whether Word shows what is in an element: runs of text may be hidden."""
    mark = child(element, "rPr", "vanish") if tag(element) == "r" else None
    return mark is None or attribute(mark, "val") in ("0", "false", "off")
