"""The parts of passages that can be an answer: a paragraph, a list or one of its items, rows of a
table under its column names, a code block.

Each comes with what introduces it: the sentence before it, the line that announces a list, the
column names. They are shown as Markdown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from packwise.context.markdown import (
    MarkdownText,
    fenced,
    is_ruling,
    one_line,
    table_cells,
    table_markdown,
)
from packwise.documents import Block, BlockKind, Passage
from packwise.language.sentences import sentence_spans
from packwise.language.untrusted import suspicions
from packwise.lazy_pattern import lazy_pattern
from packwise.reading.units import guessed_blocks

LONGEST_WHOLE = 1500
"""Characters; longer lists and tables are shown item by item, longer code part by part."""

PARAGRAPH = 320
"""Characters; longer paragraphs are taken in parts of whole sentences."""
SHORT = 80
"""Characters; a shorter paragraph is taken together with the next."""
BEFORE = 250
"""Characters before a block that are read with it."""

_ITEM = lazy_pattern(r"^(?P<indent>[ \t]*)(?:[-*+•‣◦▪]|\d{1,3}[.)])\s+", re.MULTILINE)
_OPTION = lazy_pattern(r"^(?P<indent>[ \t]*)-{1,2}[A-Za-z?][^\n]*?(?:[ \t]{2,}|\n)", re.MULTILINE)
_TERM = lazy_pattern(r"-{1,2}[A-Za-z?]")
_LEAST_OPTIONS = 3
"""Lines that begin with an option in a code block that lists them, such as a command's help."""
_FENCES = ("```", "~~~")
_PARAGRAPH = lazy_pattern(r"\S.*?(?=\n[ \t]*\n|\Z)", re.DOTALL)
_BLANK_LINE = lazy_pattern(r"\n(?:[ \t]*\n)+")


class PartKind(StrEnum):
    """What a part of a passage is."""

    TEXT = "text"
    LIST = "list"
    ITEM = "item"
    CODE = "code"
    TABLE = "table"
    ROW = "row"
    STRETCH = "stretch"


_INNER = (PartKind.ITEM, PartKind.ROW)
"""Parts of other parts."""


@dataclass(frozen=True, slots=True)
class SourcePassage:
    """A passage that may hold the answer, cited by its ``marker``.

    ``score`` (0..1) is how well it fits the question, ``rank`` its place in the search, from 0.
    ``parts`` are the stored passages that it was joined of.
    """

    marker: int
    passage: Passage
    score: float = 0.0
    rank: int = 0
    parts: tuple[Passage, ...] = ()


@dataclass(frozen=True, slots=True)
class AnswerBlock:
    """One part: ``source.passage.text[start:end]``, and the text ``above`` that introduces it."""

    kind: PartKind
    source: SourcePassage
    start: int
    end: int
    above: str = ""

    @property
    def text(self) -> str:
        return self.source.passage.text[self.start : self.end]

    @property
    def before(self) -> str:
        """The text right before it, which says what a list, a table or code is about."""
        start = max(0, self.start - BEFORE)
        return self.source.passage.text[start : self.start] or self.above

    def includes(self, other: AnswerBlock) -> bool:
        """Whether another block is part of this one."""
        return self.source is other.source and self.start <= other.start and other.end <= self.end

    @property
    def place(self) -> tuple[int, int]:
        return self.source.marker, self.start

    @property
    def places(self) -> list[str]:
        """Where in the file it is, as far as the stored passages tell."""
        start, end = (self.source.passage.start + at for at in (self.start, self.end))
        parts = self.source.parts or (self.source.passage,)
        found = sorted((p for p in parts if p.start < end and p.end > start), key=lambda p: p.start)
        return [part.place for part in found]

    @property
    def shown(self) -> str:
        """The block as Markdown, with what introduces it."""
        text, above = self.text, one_line(self.above)
        if self.kind is PartKind.CODE:
            # Guessed code has its fences in the text.
            text = text if text.lstrip().startswith(_FENCES) else fenced(_dedented(text))
        elif self.kind is PartKind.ROW or ("|" in above and self.kind is PartKind.TABLE):
            return table_markdown(self.above, text)
        elif self.kind is PartKind.TABLE:
            text = table_markdown("", text)
        elif self.kind in (PartKind.LIST, PartKind.STRETCH):
            text = _markdown(self.source.passage, self.start, self.end)
        elif self.kind is PartKind.ITEM:
            own, *nested = item_parts(text)
            text = "\n".join((f"- {own}" if above or nested else own, *nested))
            return f"{above}\n\n{text}" if above else text
        else:
            return "\n\n".join(map(_paragraph, _BLANK_LINE.split(text)))
        # The rest of a list that began in an earlier passage brings what announces it.
        return f"{above}\n\n{text}" if above and not text.startswith(above) else text


def _paragraph(text: str) -> str:
    """A paragraph on one line; an option above what it does in bold type."""
    term, gap, told = text.partition("\n")
    if gap and _TERM.match(term) and "*" not in term:
        return f"**{one_line(term)}**: {one_line(told)}"
    return one_line(text)


def _markdown(passage: Passage, start: int, end: int) -> str:
    """A part of a passage that may hold blocks of several kinds."""
    at = passage.start
    text = MarkdownText([passage], lambda a, b: passage.text[a - at : b - at])
    start, end = at + start, at + end
    spans = [(max(start, b.start), min(end, b.end)) for b in passage.blocks]
    return text.render(text.cut([span for span in spans if span[0] < span[1]] or [(start, end)]))


def hull(blocks: Sequence[AnswerBlock]) -> AnswerBlock:
    """All from the first to the last of some blocks of one passage, as one block."""
    start = min(block.start for block in blocks)
    end = max(block.end for block in blocks)
    first = min(blocks, key=lambda block: block.start)
    above = "" if first.kind is PartKind.TEXT else first.above
    return AnswerBlock(PartKind.STRETCH, first.source, start, end, above)


def surroundings(block: AnswerBlock, room: int) -> AnswerBlock:
    """A block with whole blocks of its passage after and before it, as many as ``room`` characters
    hold, up to text that seems to address a model. A row or an item stays by itself, and what an
    announcement announces comes with it."""
    if block.kind in _INNER:
        return block
    if announces(block.text):
        room = LONGEST_WHOLE
    parts = [part for part in answer_blocks(block.source) if part.kind not in _INNER]
    start, end = block.start, block.end
    odd = [part for part in parts if suspicions(part.text)]
    first = max((part.end for part in odd if part.end <= start), default=0)
    last = min((part.start for part in odd if part.start >= end), default=start + LONGEST_WHOLE)
    parts = [part for part in parts if first <= part.start and part.end <= last]
    text = block.source.passage.text
    while following := [p.end for p in parts if p.start >= end]:
        # A line that announces what follows is shown with it.
        if min(following) - start > (LONGEST_WHOLE if announces(text[start:end]) else room):
            break
        end = min(following)
    while before := [p.start for p in parts if p.end <= start and end - p.start <= room]:
        start = max(before)
    if (start, end) == (block.start, block.end):
        return block
    above = "" if start < block.start or block.kind is PartKind.TEXT else block.above
    return AnswerBlock(PartKind.STRETCH, block.source, start, end, above)


def answer_blocks(source: SourcePassage) -> list[AnswerBlock]:
    """All parts of a passage that can be an answer, in reading order."""
    passage = source.passage
    blocks = [
        Block(block.kind, block.start - passage.start, block.end - passage.start)
        for block in passage.blocks
    ] or guessed_blocks(passage.text)
    blocks = _with_short_ones(blocks, passage.text)
    found: list[AnswerBlock] = []
    above = passage.lead
    for i, block in enumerate(blocks):
        following = blocks[i + 1].kind if i + 1 < len(blocks) else None
        if block.kind is BlockKind.TEXT:
            found.extend(_sentences(source, block, above if _leads_on(above) else ""))
            above = found[-1].text
            if following is not None and _leads_on(above, following):
                # It is part of what it introduces, and no answer by itself.
                found.pop()
            continue
        if block.kind is BlockKind.LIST:
            # A code block inside an item cuts a list in two.
            whole = _with_rest(blocks, i)
            if whole.end > block.end and whole.end - whole.start <= LONGEST_WHOLE:
                span = (whole.start, whole.end)
                found.append(AnswerBlock(PartKind.LIST, source, *span, above))
        found.extend(_PARTS[block.kind](source, block, above))
        # Two blocks of code often belong to one sentence above both.
        above = above if block.kind is BlockKind.CODE and following is BlockKind.CODE else ""
    return found


def _with_short_ones(blocks: Sequence[Block], text: str) -> list[Block]:
    """The blocks, a short paragraph joined with the one beside it: "Default: 180" says nothing
    without the text that tells what it is the default of. What announces several stays apart."""
    joined: list[Block] = []
    for block in blocks:
        last = joined[-1] if joined else None
        if (
            last is not None
            and last.kind is block.kind is BlockKind.TEXT
            and not announces(text[last.start : last.end])
        ):
            least = min(last.end - last.start, block.end - block.start)
            if least <= SHORT and block.end - last.start <= PARAGRAPH:
                joined[-1] = Block(BlockKind.TEXT, last.start, block.end)
                continue
        joined.append(block)
    return joined


def _with_rest(blocks: Sequence[Block], at: int) -> Block:
    """A list with the lists after it that only code parts from it."""
    last = at
    for i in range(at + 1, len(blocks)):
        if blocks[i].kind is BlockKind.LIST and blocks[i - 1].kind is BlockKind.CODE:
            last = i
        elif blocks[i].kind is not BlockKind.CODE:
            break
    return Block(BlockKind.LIST, blocks[at].start, blocks[last].end)


def _sentences(source: SourcePassage, block: Block, above: str) -> Iterator[AnswerBlock]:
    """A paragraph; a long one in parts of whole sentences."""
    text, whole = source.passage.text, (block.start, block.end)
    spans = [
        (block.start + start, block.start + end)
        for start, end in sentence_spans(text[block.start : block.end])
    ] or [whole]
    part: list[tuple[int, int]] = []
    for i, (start, end) in enumerate(spans):
        # A question is answered by what follows it, an announcement belongs to its list.
        last = i == len(spans) - 1
        alone = text[start:end].endswith("?") or (
            last and _leads_on(text[start:end], BlockKind.LIST)
        )
        if part and (alone or end - part[0][0] > PARAGRAPH):
            yield AnswerBlock(PartKind.TEXT, source, part[0][0], part[-1][1], above)
            above, part = text[slice(*part[-1])], []
        if alone and not last:
            above = text[start:end]
        else:
            part.append((start, end))
    if part:
        yield AnswerBlock(PartKind.TEXT, source, part[0][0], part[-1][1], above)


def _leads_on(sentence: str, following: BlockKind = BlockKind.TEXT) -> bool:
    """Whether a sentence is a question, or announces the block after it."""
    ends = ("?",) if following is BlockKind.TEXT else ("?", ":", "：")
    return sentence.endswith(ends)


def _list_parts(source: SourcePassage, block: Block, above: str) -> Iterator[AnswerBlock]:
    whole = (block.start, block.end)
    if block.end - block.start <= LONGEST_WHOLE:
        yield AnswerBlock(PartKind.LIST, source, *whole, above)
    for start, end in item_spans(source.passage.text, *whole):
        yield AnswerBlock(PartKind.ITEM, source, start, end, above)


def item_spans(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """The outermost items of a list, each with what is nested in it."""
    marks = list(_ITEM.finditer(text, start, end))
    # The first item may have lost its indentation when the block was trimmed.
    outer = min((len(mark["indent"]) for mark in marks[1:]), default=0)
    starts = [mark.start() for mark in marks if len(mark["indent"]) <= outer]
    starts = starts if starts and starts[0] == start else [start, *starts]
    return [
        (a, a + len(text[a:b].rstrip())) for a, b in zip(starts, [*starts[1:], end], strict=True)
    ]


def item_parts(text: str) -> list[str]:
    """What an item of a list says, on one line, and the items nested in it with their marks."""
    marks = [mark.start() for mark in _ITEM.finditer(text)][1:]
    ends = [*marks, len(text)]
    own = one_line(_ITEM.sub("", text[: ends[0]], count=1))
    nested = [text[a:b] for a, b in zip(marks, ends[1:], strict=True)]
    return [own, *(part[: len(part) - len(part.lstrip())] + one_line(part) for part in nested)]


def _code_parts(source: SourcePassage, block: Block, above: str) -> Iterator[AnswerBlock]:
    text, whole = source.passage.text, (block.start, block.end)
    for start, end in option_spans(text, *whole):
        yield AnswerBlock(PartKind.CODE, source, start, end, above)
    if block.end - block.start <= LONGEST_WHOLE:
        yield AnswerBlock(PartKind.CODE, source, *whole, above)
        return
    for part in _PARAGRAPH.finditer(text, *whole):
        start = text.rfind("\n", block.start, part.start()) + 1 or part.start()
        yield AnswerBlock(PartKind.CODE, source, max(start, block.start), part.end(), above)


def option_spans(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """The options that a command's help lists, each with its description; none in other code."""
    marks = list(_OPTION.finditer(text, start, end))
    if len(marks) < _LEAST_OPTIONS:
        return []
    starts = [mark.start() for mark in marks]
    found: list[tuple[int, int]] = []
    for at, following in zip(starts, [*starts[1:], end], strict=True):
        gap = _BLANK_LINE.search(text, at, following)
        found.append((at, at + len(text[at : gap.start() if gap else following].rstrip())))
    return found


def _table_parts(source: SourcePassage, block: Block, above: str) -> Iterator[AnswerBlock]:
    text, whole = source.passage.text, (block.start, block.end)
    lines = [
        (at, at + len(line))
        for at, line in _lines(text[block.start : block.end], block.start)
        if not is_ruling(line)
    ]
    lead = source.passage.lead
    # The rest of a table that began in an earlier passage has its column names as lead.
    head = lead if lead and block.start == 0 and "|" in lead else ""
    if not head:
        names = _heads([text[start:end] for start, end in lines])
        head = "\n".join(text[start:end] for start, end in lines[:names])
        lines = lines[names:] or lines
    if block.end - block.start <= LONGEST_WHOLE:
        yield AnswerBlock(PartKind.TABLE, source, *whole, above)
    for start, end in lines:
        yield AnswerBlock(PartKind.ROW, source, start, end, head)


_PARTS = {
    BlockKind.LIST: _list_parts,
    BlockKind.CODE: _code_parts,
    BlockKind.TABLE: _table_parts,
}


def _lines(text: str, start: int) -> Iterator[tuple[int, str]]:
    for line in text.split("\n"):
        if line.strip():
            yield start, line
        start += len(line) + 1


def _heads(lines: Sequence[str]) -> int:
    """How many of the first lines name columns: those whose first cell is empty, else one."""
    rows = table_cells(lines)
    empty = next((i for i, row in enumerate(rows) if row[0]), len(rows))
    return max(1, empty) if len(rows) > 1 else 0


def _dedented(text: str) -> str:
    """Code without the indentation that all its lines but a trimmed first one share."""
    lines = text.rstrip().split("\n")
    indents = [len(line) - len(line.lstrip()) for line in lines[1:] if line.strip()]
    shared = min(indents, default=0) if not lines[0][:1].isspace() else 0
    # The first line lost its own indentation only if all others have some.
    if shared and _opens_block(lines[0]):
        return "\n".join(lines)
    return "\n".join([lines[0], *(line[shared:] for line in lines[1:])])


def _opens_block(line: str) -> bool:
    """Whether the lines after this one are indented because of it."""
    return line.rstrip().endswith((":", "{", "(", "[", ",", "\\")) or line.startswith(
        ("[", "$", ">")
    )


def blocks_of(sources: Iterable[SourcePassage]) -> list[AnswerBlock]:
    """The parts of all passages; text that overlapping passages share is listed once."""
    seen: set[tuple[str, PartKind, int, int]] = set()
    found: list[AnswerBlock] = []
    for source in sources:
        for block in answer_blocks(source):
            at = source.passage.start
            key = (source.passage.document, block.kind, block.start + at, block.end + at)
            if key not in seen and block.text.strip():
                seen.add(key)
                found.append(block)
    return found


def announces(text: str) -> bool:
    """Whether a text ends with what announces a list."""
    return _leads_on(text.rstrip(), BlockKind.LIST)


def with_neighbours(passage: Passage, near: Sequence[Passage]) -> Passage:
    """A passage joined with those around it in its section, so that lists, tables and code
    that chunking cut are whole again, and with the terms that it announces if each is a section
    of its own. ``near`` are passages of its document."""
    joined = passage
    around = sorted(
        (p for p in near if p.section_path == passage.section_path), key=lambda p: p.order_index
    )
    for other in [p for p in around if p.order_index > passage.order_index]:
        joined = _joined(joined, other)
    for other in [p for p in reversed(around) if p.order_index < passage.order_index]:
        joined = _joined(other, joined)
    announced = sorted((p for p in near if p.start >= joined.end), key=lambda p: p.order_index)
    for other in announced if announces(joined.text) else ():
        inside = other.section_path[: len(passage.section_path)] == passage.section_path
        # A term opens its description; the text of a heading is not part of any passage.
        is_term = inside and other.section_path and other.text.startswith(other.section_path[-1])
        if not is_term or other.end - joined.start > LONGEST_WHOLE:
            break
        joined = _joined(joined, other)
    return joined


def _joined(first: Passage, second: Passage) -> Passage:
    """Two passages that follow each other, as one. Only white space lies between them."""
    gap = second.start - first.end
    text = first.text + "\n" * gap + second.text[max(0, -gap) :]
    blocks = list(first.blocks)
    for i, block in enumerate(second.blocks):
        last = blocks[-1] if blocks else None
        if last is None or block.start >= last.end:
            continues = i == 0 and (bool(second.lead) or gap == 1)
        else:
            continues = True
        if last is not None and continues and block.kind is last.kind:
            blocks[-1] = Block(last.kind, last.start, max(last.end, block.end))
        else:
            start = block.start if last is None else max(block.start, last.end)
            blocks += [Block(block.kind, start, block.end)] if start < block.end else []
    return replace(first, text=text, end=second.end, blocks=tuple(blocks))
