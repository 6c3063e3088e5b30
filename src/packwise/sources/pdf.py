"""PDF: text in reading order, with headings, lists, tables and code, and the page of everything.

Pages stream through a window, in which lines that repeat at the top or bottom are recognised as
running headers and footers. The bookmarks of the file are its headings where they are found in
the text; otherwise large and bold lines are. Pages that are pictures are read by the extra ``ocr``
if it is installed, and are part of a warning if it is not.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

from packwise.documents import BlockKind
from packwise.errors import SourceError
from packwise.sources.document_builder import DocumentBuilder
from packwise.sources.linked_text import LinkedText, TextBuilder
from packwise.sources.pdf_layout import Part, joined, parts, without_contents
from packwise.sources.pdf_streams import check_streams
from packwise.sources.pdf_words import PageWords, PdfSegment, page_words, segments
from packwise.sources.readers import installed

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument, PdfPage

    from packwise.sources.readers import SourceFile

MOST_PAGES = 10_000
"""The rest of a longer file is left out, with a warning."""

_WINDOW = 4
"""Pages before and after a page that are searched for its running headers and footers."""
_EDGE = 0.13
"""The share of a page at its top and at its bottom where they stand."""
_EDGE_LINES = 3
_SAMPLED_PAGES = 40
_GARBLED = 0.3
"""A page with a larger share of unknown characters than this cannot be read."""
_ODD_WORDS = 0.6
_FEWEST_LETTERS, _COMMON_LETTERS = 150, 0.3
_HEADING_SIZE = 1.15
_HEADING_WORDS = 20
_NEAR = 2.0
_INDEX = re.compile(r"(?i)(?:\S+ ){0,3}index(?: of \S+)?")
_PAGES = re.compile(r"\b\d{1,4}\b")
_LONG_ENTRY = 60
"""Characters of an entry of an index, with the numbers of its pages."""
_SENTENCE = re.compile(r"[.!?,;]$")
_PAGE_NUMBER = re.compile(
    r"(?i)[-–—\s|]*(?:page|p\.)?\s*(?:\d{1,4}|[ivxlc]{1,7})(?:\s*(?:of|/)\s*\d+)?[-–—\s|]*"
)
_NUMBERED = re.compile(
    r"(?:chapter |appendix )?(\d{1,2}(?:\.\d{1,2})*|[A-Z](?:\.\d{1,2})+)\.?\s", re.I
)
_FILE_NAME = re.compile(
    r"(?i)untitled|microsoft \w+ - .*|\W*"
    r"|.*\.(?:docx?|dvi|tex|indd|qxd|pptx?|xlsx?|pdf|ps|rtf)"
)
_DIGITS = re.compile(r"\d+|\b[ivxlc]+\b")
_PLAIN_WORD = re.compile(r"[\W_]*(?:[^\W\d_]+(?:['’.-][^\W\d_]+)*|[\d.,:/%-]+)[\W_]*")


def read(builder: DocumentBuilder, file: SourceFile) -> None:
    """Add the pages of a PDF file."""
    import pypdfium2 as pdfium

    check_streams(file.path)
    try:
        document = pdfium.PdfDocument(file.path)
    except pdfium.PdfiumError as error:
        if "password" in str(error).lower():
            raise SourceError("is encrypted", fix="save a copy without its password") from error
        raise SourceError("is not a PDF file that can be read") from error
    try:
        _PdfReader(builder, document).read()
    finally:
        document.close()


@dataclass(slots=True)
class _Page:
    number: int
    width: float
    height: float
    found: list[PdfSegment]
    keys: dict[int, str] = field(default_factory=dict[int, str])
    """By index in ``found``: lines near the edge as they would repeat on other pages."""


class _PdfReader:
    """Reads one document."""

    def __init__(self, builder: DocumentBuilder, document: PdfDocument) -> None:
        self._builder = builder
        self._document = document
        self._count = min(len(document), MOST_PAGES)
        self._without_text: list[int] = []
        self._garbled: list[int] = []
        self._broken: list[int] = []
        self._recognised: list[int] = []
        self._body = 10.0
        self._bold_body = False
        self._sizes: list[float] = []
        self._outline = _Outline(document)
        self._paragraph: list[tuple[int, str]] = []
        """The open paragraph: texts with their pages."""
        self._in_list = False
        self._named = False
        """Whether the paragraph begins with the name of what it describes."""
        self._terms_x: float | None = None
        """Where the names begin of what is described one after another."""
        self._in_index = False
        self._texts = 0
        self._untitled_slide = False

    def read(self) -> None:
        if not self._count:
            raise SourceError("has no pages")
        metadata = self._document.get_metadata_dict(skip_empty=True)
        title = metadata.get("Title", "").strip()
        if not _FILE_NAME.fullmatch(title):
            self._builder.title = title
        for name in ("Author", "Subject", "Keywords"):
            if value := " ".join(metadata.get(name, "").split()):
                self._builder.metadata[name.lower()] = value
        self._measure()
        for page in self._pages():
            self._add_page(page)
        self._close()
        self._report()

    def _measure(self) -> None:
        """Learn the size of running text and of headings from some pages."""
        step = max(1, self._count // _SAMPLED_PAGES)
        letters: Counter[float] = Counter()
        bold = 0
        for number in range(0, self._count, step):
            page = self._words(number)
            if number == 0 and page is not None:
                self._guess_title(page)
            for word in page.words if page else ():
                letters[round(word.size, 1)] += len(word.text)
                bold += len(word.text) if word.bold else 0
        if letters:
            self._body = letters.most_common(1)[0][0]
            self._bold_body = bold > 0.5 * letters.total()
            least = _HEADING_SIZE * self._body
            self._sizes = sorted((size for size in letters if size > least), reverse=True)

    def _guess_title(self, page: PageWords) -> None:
        """The largest text of the first page's upper half."""
        upper = [word for word in page.words if word.y > 0.4 * page.height]
        if upper and not self._builder.title:
            largest = max(word.size for word in upper)
            if largest > 1.2 * median(word.size for word in page.words):
                words = [word.text for word in upper if word.size > 0.95 * largest]
                if 0 < len(words) <= _HEADING_WORDS and len(" ".join(words)) > 3:
                    self._builder.title = " ".join(words)

    def _words(self, number: int) -> PageWords | None:
        import pypdfium2 as pdfium

        try:
            page = self._document[number]
        except pdfium.PdfiumError:
            return None
        try:
            return page_words(page)
        except pdfium.PdfiumError:
            return None
        finally:
            page.close()

    def _pages(self) -> Iterator[_Page]:
        """The pages without their running headers and footers."""
        window: deque[_Page] = deque()
        waiting: deque[_Page] = deque()
        for number in range(self._count):
            page = self._page(number)
            window.append(page)
            waiting.append(page)
            if len(waiting) > _WINDOW:
                yield self._cleaned(waiting.popleft(), window)
            if len(window) > 2 * _WINDOW:
                window.popleft()
        while waiting:
            yield self._cleaned(waiting.popleft(), window)

    def _page(self, number: int) -> _Page:
        words = self._words(number)
        if words is None:
            self._broken.append(number + 1)
            return _Page(number + 1, 0.0, 0.0, [])
        garbled = words.wrong > _GARBLED or _odd(words)
        if garbled or words.pictured:
            if installed("rapidocr") and (seen := self._recognise(number)):
                self._recognised.append(number + 1)
                words = seen
            else:
                (self._garbled if garbled else self._without_text).append(number + 1)
        page = _Page(number + 1, words.width, words.height, without_contents(segments(words.words)))
        near = [
            index
            for index, one in enumerate(page.found)
            if not _EDGE * words.height < one.y < (1 - _EDGE) * words.height
        ]
        heights = sorted({round(one.y) for one in (page.found[i] for i in near)})
        outer = {*heights[:_EDGE_LINES], *heights[-_EDGE_LINES:]}
        for index in near:
            segment = page.found[index]
            if round(segment.y) in outer and segment.size < _HEADING_SIZE * self._body:
                page.keys[index] = f"{_DIGITS.sub('#', segment.text.lower())}@{segment.y:.0f}"
        return page

    def _recognise(self, number: int) -> PageWords | None:
        from packwise.sources.pdf_ocr import recognise

        page: PdfPage = self._document[number]
        try:
            return recognise(page)
        finally:
            page.close()

    def _cleaned(self, page: _Page, window: deque[_Page]) -> _Page:
        near = [one for one in window if 0 < abs(one.number - page.number) <= _WINDOW]
        repeated = Counter(key for one in near for key in set(one.keys.values()))
        positions = Counter(
            key.rpartition("@")[2] for one in near for key in set(one.keys.values())
        )
        kept: list[PdfSegment] = []
        for index, segment in enumerate(page.found):
            key = page.keys.get(index, "")
            again = repeated[key] >= 2
            numbered = _PAGE_NUMBER.fullmatch(segment.text) and positions[key.rpartition("@")[2]]
            running = key and (again or numbered)
            if not running:
                kept.append(segment)
        return _Page(page.number, page.width, page.height, kept)

    def _add_page(self, page: _Page) -> None:
        self._untitled_slide = page.width > page.height
        for part in self._outline.with_whole_headings(parts(page.found), page.number):
            self._texts += len(part.text) + len(part.rows)
            if self._in_index and _is_indexed(part):
                continue
            match part.kind:
                case BlockKind.TABLE:
                    self._close()
                    self._builder.place(f"page {page.number}")
                    rows = [[LinkedText(cell) for cell in row] for row in part.rows]
                    self._builder.table(rows)
                case BlockKind.CODE:
                    self._close()
                    self._builder.place(f"page {page.number}")
                    self._builder.code(part.text)
                case _:
                    self._add_text(part, page.number)

    def _add_text(self, part: Part, page: int) -> None:
        if level := self._level(part, page):
            self._in_index = _INDEX.fullmatch(part.text) is not None
            self._untitled_slide = False
            self._close()
            self._builder.place(f"page {page}")
            self._builder.heading(level, LinkedText(part.text))
            self._terms_x = None
        elif part.term:
            self._open_term(part, page)
        elif part.item:
            self._close_paragraph()
            if not self._in_list:
                self._builder.open_list()
                self._in_list = True
            self._builder.place(f"page {page}")
            marker, _, text = part.text.partition(" ")
            numbered = marker[-1:] in ".)" and marker.strip("().").isalnum()
            self._builder.open_item()
            self._builder.paragraph(LinkedText(f"{marker} {text}" if numbered else text))
            self._builder.close_item()
        elif self._continues(part) or (self._named and len(self._paragraph) == 1):
            self._paragraph.append((page, part.text))
        else:
            self._close()
            if self._terms_x is not None and part.x0 < self._terms_x + _NEAR:
                self._builder.close_terms()
                self._terms_x = None
            self._paragraph.append((page, part.text))

    def _open_term(self, part: Part, page: int) -> None:
        """Begin the description of a name."""
        self._close()
        if self._terms_x is None:
            self._builder.open_terms()
            self._terms_x = part.x0
        self._builder.term(part.text)
        self._paragraph.append((page, part.text))
        self._named = True

    def _continues(self, part: Part) -> bool:
        """Whether a paragraph goes on after the end of a column or page."""
        before = self._paragraph[-1][1] if self._paragraph else ""
        return bool(before) and before[-1:] not in ".!?:" and part.text[:1].islower()

    def _level(self, part: Part, page: int) -> int:
        """The level of a heading; 0 for other text."""
        if level := self._outline.level(part.text, page):
            return level
        if not 0 < len(part.text.split()) <= _HEADING_WORDS or part.lines > 3:
            return 0
        if not any(character.isalpha() for character in part.text):
            return 0
        large = part.size > _HEADING_SIZE * self._body
        bold = part.bold and not self._bold_body and part.gap
        lower = part.text[0].islower() and not (self._untitled_slide and large)
        if self._untitled_slide and not part.item and part.size > 0.95 * self._body:
            large = True
        if not (large or bold) or _SENTENCE.search(part.text) or lower:
            return 0
        bullet = part.item and not part.text.lstrip("(")[0].isalnum()
        if bullet or (part.item and not large):
            return 0
        numbered = _NUMBERED.match(part.text)
        if numbered:
            own = numbered[1].count(".") + 1
        elif large:
            own = 1 + min(sum(size > part.size + 0.3 for size in self._sizes), 3)
        else:
            own = min(len(self._sizes), 3) + 1
        return min(self._outline.deepest + own, 6)

    def _close_paragraph(self) -> None:
        if not self._paragraph:
            return
        text, places, page = "", list[tuple[int, str]](), self._paragraph[0][0]
        self._builder.place(f"page {page}")
        for at, (number, part) in enumerate(self._paragraph):
            if number != page:
                places.append((len(text), f"page {number}"))
                page = number
            text = f"{text}\n{part}" if self._named and at == 1 else joined(text, part)
        self._paragraph.clear()
        name, gap, told = text.partition("\n") if self._named else ("", "", text)
        self._named = False
        builder = TextBuilder()
        builder.write(name + gap)
        builder.write_flowing(told)
        self._builder.paragraph(builder.finish(), places)

    def _close(self) -> None:
        self._close_paragraph()
        if self._in_list:
            self._builder.close_list()
            self._in_list = False

    def _report(self) -> None:
        total = len(self._document)
        ocr = "pip install 'packwise[ocr]'"
        if not self._texts and self._without_text:
            fix = None if installed("rapidocr") else ocr
            raise SourceError(f"none of its {total} pages has text", fix=fix)
        if not self._texts:
            raise SourceError(f"none of its {total} pages can be read")
        for pages, what in (
            (self._without_text, "have no text" if len(self._without_text) > 1 else "has no text"),
            (self._garbled, "decode to wrong letters"),
        ):
            if pages:
                fix = "" if installed("rapidocr") else f": {ocr}"
                self._builder.warn(f"{len(pages)} of {total} pages {what}{fix}")
        if self._broken:
            self._builder.warn(f"{len(self._broken)} of {total} pages are damaged")
        if self._recognised:
            count = len(self._recognised)
            self._builder.warn(f"{count} of {total} pages were read by OCR: check what they say")
        if total > self._count:
            self._builder.warn(f"the pages after {self._count:,} were left out")


def _is_indexed(part: Part) -> bool:
    """Whether a part of an index consists of its entries, or is the letter above some."""
    said = [cell for row in part.rows for cell in row if cell] or [part.text]
    entries = sum(
        len(one) < 3 or (one[-1].isdigit() and len(one) <= _LONG_ENTRY * len(_PAGES.findall(one)))
        for one in said
    )
    return part.kind is not BlockKind.CODE and 2 * entries > len(said)


def _odd(words: PageWords) -> bool:
    """Whether a font decodes to the wrong letters: few are the common ones of any language that
    is written with them (more than half are), or most words mix letters and signs."""
    text = "".join(word.text for word in words.words).lower()
    letters = [letter for letter in text if "a" <= letter <= "z"]
    if len(letters) >= (_FEWEST_LETTERS if words.unnamed < _GARBLED else _FEWEST_LETTERS // 5):
        common = sum(letter in "etaoinsr" for letter in letters)
        return common < _COMMON_LETTERS * len(letters)
    longer = [word.text for word in words.words if len(word.text) > 1 and not word.mono]
    odd = sum(_PLAIN_WORD.fullmatch(text) is None for text in longer)
    return len(longer) >= 40 and odd > _ODD_WORDS * len(longer)


class _Outline:
    """The bookmarks of a document."""

    def __init__(self, document: PdfDocument) -> None:
        self._levels: dict[str, list[tuple[int, int]]] = {}
        self.deepest = 0
        for number, entry in enumerate(document.get_toc(max_depth=6)):
            if number > 20_000:
                break
            destination = entry.get_dest()
            page = destination.get_index() if destination is not None else None
            title = _folded(entry.get_title())
            if title and page is not None:
                self._levels.setdefault(title, []).append((page + 1, entry.level + 1))
                self.deepest = max(self.deepest, entry.level + 1)

    def with_whole_headings(self, found: Sequence[Part], page: int) -> Iterator[Part]:
        """The parts of a page, two as one that together are the title of a bookmark: the lines of
        a long title begin below its first word, not below its number."""
        rest = iter(pairwise([*found, None]))
        for part, below in rest:
            assert part is not None
            texts = below is not None and part.kind is below.kind is BlockKind.TEXT
            whole = joined(part.text, below.text) if texts and below is not None else ""
            if self.level(part.text, page) or not self.level(whole, page):
                yield part
            else:
                yield replace(part, text=whole)
                next(rest, None)

    def level(self, text: str, page: int) -> int:
        """The level of the bookmark that leads to a line of a page; 0 if none does."""
        for key in {_folded(text), _folded(_NUMBERED.sub("", text, count=1))}:
            for where, level in self._levels.get(key, ()):
                if abs(where - page) <= 1:
                    return level
        return 0


def _folded(text: str) -> str:
    text = _NUMBERED.sub("", text.strip(), count=1)
    return "".join(character for character in text.casefold() if character.isalnum())
