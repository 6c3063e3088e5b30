"""PowerPoint presentations: a section per slide with its title, text, tables and speaker notes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import compress
from typing import TYPE_CHECKING

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

_DEEPEST = 50
"""Groups within groups that are read."""
_INTEGER = re.compile(r"-?\d{1,18}")
_NOT_CONTENT = frozenset(("dt", "ftr", "sldNum", "hdr", "sldImg"))


def read(builder: DocumentBuilder, file: SourceFile) -> None:
    """Add the slides of a presentation."""
    with ZippedFile(file.path, "PowerPoint (.pptx)") as parts:
        main = next(
            (target for kind, target in parts.relations("").values() if kind == "officeDocument"),
            "ppt/presentation.xml",
        )
        builder.fallback_title = core_title(parts)
        relations = parts.relations(main)
        slides = [relations[id][1] for id in _relation_ids(parts.xml(main)) if id in relations]
        if not slides:
            raise SourceError("is a presentation without slides")
        missing = 0
        for number, slide in enumerate(slides, start=1):
            if parts.has(slide):
                builder.place(f"slide {number}")
                _SlideReader(builder, parts, slide, number).read()
            else:
                missing += 1
        if missing:
            builder.warn(f"{missing} of {len(slides)} slides are missing in the file")


def _relation_ids(presentation: Element) -> Iterator[str]:
    """The ids of the slides' relations; a slide's own id differs only in its namespace."""
    for one in descendants(presentation, "sldId"):
        yield from (v for k, v in one.attrib.items() if k.endswith("}id"))


class _SlideReader:
    """Reads one slide."""

    def __init__(
        self, builder: DocumentBuilder, parts: ZippedFile, slide: str, number: int
    ) -> None:
        self._builder, self._parts, self._number = builder, parts, number
        self._slide = slide
        self._relations = parts.relations(slide)

    def read(self) -> None:
        shapes = list(_shapes(child(self._parts.xml(self._slide), "cSld", "spTree")))
        titles = [shape for shape in shapes if _placeholder(shape) in ("title", "ctrTitle")]
        title = " ".join(line.text for shape in titles for _, line in self._lines(shape))
        self._builder.heading(2, LinkedText(" ".join(title.split()) or f"Slide {self._number}"))
        for shape in shapes:
            if shape in titles or _placeholder(shape) in _NOT_CONTENT:
                continue
            if tag(shape) == "graphicFrame":
                self._add_frame(shape)
            else:
                self._add_lines(list(self._lines(shape)))
        for kind, target in self._relations.values():
            if kind == "notesSlide" and self._parts.has(target):
                self._add_notes(target)

    def _add_frame(self, frame: Element) -> None:
        for table in descendants(frame, "tbl"):
            rows = [
                [self._cell(cell) for cell in row if tag(cell) == "tc"]
                for row in table
                if tag(row) == "tr"
            ]
            self._builder.table(rows)
        for one in descendants(frame, "relIds"):
            if (diagram := self._related(attribute(one, "dm"))) is not None:
                self._add_lines([(0, line) for _, line in self._lines(diagram)])
        for one in descendants(frame, "chart"):
            if (chart := self._related(attribute(one, "id"))) is not None:
                self._add_chart(chart)

    def _related(self, id: str) -> Element | None:
        target = self._relations.get(id, ("", ""))[1]
        return self._parts.xml(target) if target and self._parts.has(target) else None

    def _add_chart(self, chart: Element) -> None:
        """The values that a chart shows: a row per category, a column per series."""
        for title in (one for one in descendants(chart, "title") if child(one, "tx") is not None):
            self._add_lines(list(self._lines(title)))
            break
        series = list(descendants(chart, "ser"))
        names = [" ".join(_points(child(one, "tx")).values()) for one in series]
        values = [_points(child(one, "val")) or _points(child(one, "yVal")) for one in series]
        categories = [_points(child(one, "cat")) or _points(child(one, "xVal")) for one in series]
        labels = {number: label for one in categories for number, label in one.items()}
        rows = [["", *names]]
        for number in sorted({number for one in values for number in one}):
            cells = (one.get(number, "") for one in values)
            rows.append([labels.get(number, str(number + 1)), *cells])
        if len(rows) > 1:
            self._builder.table([[LinkedText(cell) for cell in row] for row in rows])

    def _cell(self, cell: Element) -> LinkedText:
        return LinkedText(" ".join(line.text for _, line in self._lines(cell)))

    def _add_notes(self, target: str) -> None:
        for shape in _shapes(child(self._parts.xml(target), "cSld", "spTree")):
            if _placeholder(shape) == "body":
                for _, line in self._lines(shape):
                    self._builder.paragraph(line)

    def _add_lines(self, lines: list[tuple[int, LinkedText]]) -> None:
        """Several lines are a list, one is a paragraph."""
        if len(lines) == 1:
            self._builder.paragraph(lines[0][1])
            return
        depth = 0
        for level, line in lines:
            while depth > level + 1:
                self._builder.close_list()
                depth -= 1
            while depth <= level:
                self._builder.open_list()
                depth += 1
            self._builder.open_item()
            self._builder.paragraph(line)
            self._builder.close_item()
        for _ in range(depth):
            self._builder.close_list()

    def _lines(self, shape: Element) -> Iterator[tuple[int, LinkedText]]:
        """The paragraphs of a shape with their level."""
        for paragraph in descendants(shape, "p"):
            text = TextBuilder()
            for run in paragraph:
                link = child(run, "rPr", "hlinkClick")
                href = self._relations.get(attribute(link, "id"), ("", ""))
                content = "".join(one.text or "" for one in run if tag(one) == "t")
                if tag(run) == "br":
                    text.write(" ")
                elif href[0] == "hyperlink" and content:
                    text.link(href[1], content)
                else:
                    text.write(content)
            level = attribute(child(paragraph, "pPr"), "lvl")
            if line := text.finish():
                yield (min(int(level), 8) if level.isdigit() else 0), line.on_one_line()


def _points(values: Element | None) -> dict[int, str]:
    """The values that a file keeps of a part of a chart, by their number."""
    found: dict[int, str] = {}
    for point in descendants(values, "pt") if values is not None else ():
        number, value = attribute(point, "idx"), child(point, "v")
        if number.isdecimal() and value is not None and value.text:
            found[int(number)] = " ".join(value.text.split())
    return found


def _shapes(tree: Element | None, depth: int = 0) -> Iterator[Element]:
    """Shapes and tables, also those in groups, as they are read: by rows, from left to right.

    A file has them in the order in which they were drawn. Placeholders are in reading order.
    """
    found = [*_flat(tree)] if tree is not None else []
    free = [bool(_position(shape)) and not _placeholder(shape) for shape in found]
    in_order = iter(_by_rows([*compress(found, free)]))
    for shape in (next(in_order) if moves else one for one, moves in zip(found, free, strict=True)):
        if tag(shape) != "grpSp":
            yield shape
        elif depth < _DEEPEST:
            yield from _shapes(shape, depth + 1)


def _flat(tree: Element) -> Iterator[Element]:
    for shape in tree:
        if tag(shape) in ("AlternateContent", "Choice"):
            yield from _flat(shape)
        elif tag(shape) in ("sp", "graphicFrame", "grpSp"):
            yield shape


def _by_rows(shapes: list[Element]) -> list[Element]:
    placed = sorted(((*_position(shape), at) for at, shape in enumerate(shapes)), key=_top)
    rows: list[list[tuple[int, ...]]] = []
    for place in placed:
        # Shapes stand in one row if the middle of one is beside the other.
        if rows and place[1] + place[2] / 2 < rows[-1][0][1] + rows[-1][0][2]:
            rows[-1].append(place)
        else:
            rows.append([place])
    return [shapes[place[-1]] for row in rows for place in sorted(row)]


def _top(place: tuple[int, ...]) -> int:
    return place[1]


def _position(shape: Element) -> tuple[int, ...]:
    """The left and top edge of a shape and its height; empty if its layout has them."""
    frame = child(shape, "xfrm")
    for properties in ("spPr", "grpSpPr"):
        frame = frame if frame is not None else child(shape, properties, "xfrm")
    corner, size = child(frame, "off"), child(frame, "ext")
    found = attribute(corner, "x"), attribute(corner, "y"), attribute(size, "cy")
    return tuple(map(int, found)) if all(_INTEGER.fullmatch(one) for one in found) else ()


def _placeholder(shape: Element) -> str:
    """What a shape is for; empty if it is not a placeholder."""
    found = next(descendants(shape, "ph"), None)
    return "" if found is None else found.get("type", "body")
