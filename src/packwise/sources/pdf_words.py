"""The words of a PDF page with their positions and fonts, as pdfium finds them."""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pypdfium2 import PdfPage

MOST_CHARACTERS = 200_000
"""Characters of a page that are read; a map or a drawing may have millions."""

_LIGATURES = {
    "ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st", "ﬆ": "st",
    "\x02": "-", "\ufffe": "-", "\xad": "-", "\xa0": " ",
}  # fmt: skip
_TEX = dict(zip(
    (*range(0x0B, 0x0D), *range(0x0E, 0x17), *range(0x1B, 0x20)),
    ("ff", "fi", "ffi", "ffl", "“", "”", "„", "«", "»", "–", "—", "ff", "fi", "fl", "ffi", "ffl"),
    strict=True,
))  # fmt: skip
"""What the codes of a TeX font mean that are no characters; its bitmap fonts name none."""
_LINE_HYPHEN = 2
_MONO = re.compile(r"(?i)mono|courier|consol|typewriter|cmtt|cmsltt|lmtt|menlo|inconsolata|fixed")
_BOLD = re.compile(r"(?i)bold|black|heavy|semibold|demi|-bd|cmbx|cmssbx|lmbx|[-_]b$|\bbx\d")
_SIGNS = re.compile(rb"(?i)wingdings|webdings")
_SIGN = {"ü": "✓", "û": "✗", "þ": "✓", "ý": "✗", "à": "→"}
"""What the letters of a font of signs show; the others are bullets."""
_FIXED_PITCH, _FORCE_BOLD = 1, 1 << 18
_BOLD_WEIGHT = 600
_SPLIT_GAP = 0.95
"""A gap of this many ems or more separates two columns or cells."""
_CODE_GAP = 4.0
_FEWEST_DOTS = 3
_FIGURE = re.compile(r"[-–—($€£]?[\d.,:/%)]*|\(?[A-Z]{1,2}\)?")
"""What a cell of figures holds: a number, a dash, or the letter of a footnote."""


_Turn = Callable[[float, float], tuple[float, float]]


class PdfWord(NamedTuple):
    """A word; ``y`` is its baseline, counted from the bottom of the page."""

    text: str
    x0: float
    x1: float
    y: float
    size: float
    bold: bool
    mono: bool


@dataclass(frozen=True, slots=True)
class PdfSegment:
    """Words of one line without a wide gap between them."""

    words: tuple[PdfWord, ...]

    @property
    def text(self) -> str:
        return " ".join(word.text for word in self.words)

    @property
    def x0(self) -> float:
        return self.words[0].x0

    @property
    def x1(self) -> float:
        return self.words[-1].x1

    @property
    def y(self) -> float:
        return max(self.words, key=lambda word: len(word.text) * word.size).y

    @property
    def size(self) -> float:
        return max(self.words, key=lambda word: len(word.text)).size

    @property
    def mono(self) -> bool:
        return all(word.mono for word in self.words)

    @property
    def bold(self) -> bool:
        return all(word.bold for word in self.words)


@dataclass(frozen=True, slots=True)
class PageWords:
    """What is on a page. ``wrong`` is the share of characters that are no letters or signs,
    ``unnamed`` that of words whose font does not say what their letters are, so that codes are
    taken for them, and ``pictured`` says whether pictures cover most of the page."""

    width: float
    height: float
    words: tuple[PdfWord, ...]
    wrong: float = 0.0
    unnamed: float = 0.0
    pictured: bool = False


def page_words(page: PdfPage) -> PageWords:
    """The words of a page, in the order of the file."""
    width, height = page.get_size()
    text_page = page.get_textpage()
    try:
        words, wrong, unnamed = _words(text_page, _upright(page))
        words = [word for word in words if _is_visible(word, width, height)]
    finally:
        text_page.close()
    pictured = len(words) < 10 and _pictured(page, width * height)
    return PageWords(width, height, tuple(words), wrong, unnamed, pictured)


def _is_visible(word: PdfWord, width: float, height: float) -> bool:
    """Whether a word lies on the page, rather than beside it where no one sees it."""
    return word.x1 > 0 and word.x0 < width and -word.size < word.y < height


def _upright(page: PdfPage) -> _Turn:
    """The function that turns coordinates of a rotated page upright."""
    box = page.get_mediabox()
    left, bottom, right, top = box if box is not None else (0.0, 0.0, *page.get_size())

    rotation = page.get_rotation()

    def turn(x: float, y: float) -> tuple[float, float]:
        match rotation:
            case 90:
                return y - bottom, right - x
            case 180:
                return right - x, top - y
            case 270:
                return top - y, x - left
            case _:
                return x - left, y - bottom

    return turn


def _words(text_page: Any, upright: _Turn) -> tuple[list[PdfWord], float, float]:
    import pypdfium2.raw as pdfium

    unicode_of, error_at = pdfium.FPDFText_GetUnicode, pdfium.FPDFText_HasUnicodeMapError
    measure = _Measure(pdfium, text_page, upright)
    words: list[PdfWord] = []
    letters: list[str] = []
    first = last = wrong = unnamed = total = asked = 0
    count = min(text_page.count_chars(), MOST_CHARACTERS)
    for index in range(count + 1):
        code = unicode_of(text_page, index) if index < count else 32
        character = chr(code) if code < 0xD800 or 0xE000 <= code < 0x110000 else "\ufffd"
        # To ask of every character whether its font names it takes as long as all the rest.
        ask = index < count and (code in _TEX or (not letters and not character.isspace()))
        nameless = ask and error_at(text_page, index) == 1
        if nameless and code in _TEX:
            character, code = _TEX[code], ord(_TEX[code][0])
        character = _LIGATURES.get(character, character)
        if not character.isspace():
            if not letters:
                first = index
            last = index
            if code:
                letters.append(character)
            total += 1
            odd = (code < 32 and code != _LINE_HYPHEN) or 0xE000 <= code <= 0xF8FF or code == 0xFFFD
            wrong += odd
            unnamed += nameless
            asked += ask
        # After the hyphen of a divided word, pdfium goes on in the next line without a break.
        if letters and (character.isspace() or code == _LINE_HYPHEN):
            words.append(measure.word("".join(letters), first, last))
            letters = []
    return words, wrong / max(total, 1), unnamed / max(asked, 1)


class _Measure:
    """Measures words; its buffers are used again for each of them."""

    def __init__(self, pdfium: Any, text_page: Any, upright: _Turn) -> None:
        self._pdfium, self._page, self._upright = pdfium, text_page, upright
        self._edges = [ctypes.c_double() for _ in range(4)]
        self._name = ctypes.create_string_buffer(128)
        self._flags = ctypes.c_int()
        self._matrix = pdfium.FS_MATRIX()

    def word(self, text: str, first: int, last: int) -> PdfWord:
        pdfium, page = self._pdfium, self._page
        a, b, c, d = self._edges
        pdfium.FPDFText_GetCharBox(page, first, a, b, c, d)
        left = a.value
        pdfium.FPDFText_GetCharBox(page, last, a, b, c, d)
        right = b.value
        pdfium.FPDFText_GetCharOrigin(page, first, a, b)
        x0, y0 = self._upright(left, b.value)
        x1, _ = self._upright(right, b.value)
        size = pdfium.FPDFText_GetFontSize(page, first)
        # Some files scale a font of size 1 by a matrix. A box says less: it is low around a dot.
        if size < 3 and pdfium.FPDFText_GetMatrix(page, first, self._matrix):
            size *= math.hypot(self._matrix.c, self._matrix.d) or 1.0
        pdfium.FPDFText_GetFontInfo(page, first, self._name, 128, self._flags)
        mono, bold = _style(self._name.value, self._flags.value)
        if len(text) == 1 and _SIGNS.search(self._name.value):
            text = _SIGN.get(chr(ord(text) & 0xFF), "•")
        bold = bold or pdfium.FPDFText_GetFontWeight(page, first) >= _BOLD_WEIGHT
        return PdfWord(text, min(x0, x1), max(x0, x1), y0, size, bold, mono)


@lru_cache(maxsize=1024)
def _style(name: bytes, flags: int) -> tuple[bool, bool]:
    font = name.decode("latin-1")
    mono = bool(flags & _FIXED_PITCH) or _MONO.search(font) is not None
    return mono, bool(flags & _FORCE_BOLD) or _BOLD.search(font) is not None


def _pictured(page: PdfPage, area: float) -> bool:
    import pypdfium2.raw as pdfium

    covered = 0.0
    for found in page.get_objects(filter=[pdfium.FPDF_PAGEOBJ_IMAGE], max_depth=3):
        left, bottom, right, top = found.get_bounds()
        covered += abs(right - left) * abs(top - bottom)
    return covered > 0.3 * area


def segments(words: tuple[PdfWord, ...]) -> list[PdfSegment]:
    """The words as segments, from the top of the page down and from left to right."""
    return [
        segment for row in _rows(words) for part in _at_leaders(row) for segment in _split(part)
    ]


def _rows(words: tuple[PdfWord, ...]) -> Iterator[list[PdfWord]]:
    """Words on about the same baseline, from left to right."""
    row: list[PdfWord] = []
    base = size = -math.inf
    for word in sorted(words, key=lambda word: -word.y):
        if row and base - word.y > 0.4 * max(size, word.size):
            yield sorted(row, key=lambda word: word.x0)
            row = []
        if not row or word.size > size:
            base, size = word.y, word.size
        row.append(word)
    if row:
        yield sorted(row, key=lambda word: word.x0)


def _at_leaders(row: list[PdfWord]) -> list[list[PdfWord]]:
    """A row of a table before and after the dots that lead from its name to its figures. One
    figure alone may be the page in a list of contents, which stays a line of text."""
    dots = [at for at, word in enumerate(row) if not word.text.strip(".")]
    if len(dots) < _FEWEST_DOTS or not dots[0]:
        return [row]
    figures = row[dots[-1] + 1 :]
    together = dots[-1] - dots[0] < len(dots)
    if not together or len(figures) < 2 or not all(_FIGURE.fullmatch(w.text) for w in figures):
        return [row]
    return [row[: dots[0]], figures]


def _split(row: list[PdfWord]) -> Iterator[PdfSegment]:
    part = [row[0]]
    for word in row[1:]:
        before = part[-1]
        if before.text.endswith(".") and not word.text.strip("."):
            part.append(word)  # Dots that lead to a figure, however far apart.
            continue
        ems = _CODE_GAP if before.mono and word.mono else _SPLIT_GAP
        # A dash or a letter before a figure is the cell of a table.
        marker = len(part) == 1 and is_marker(before.text) and not _FIGURE.fullmatch(word.text)
        if word.x0 - before.x1 > ems * max(before.size, word.size) * (4 if marker else 1):
            yield PdfSegment(tuple(part))
            part = []
        part.append(word)
    yield PdfSegment(tuple(part))


_MARKER = re.compile(
    r"[•‣◦▪▫●○■□▶►➤✓❖\uf0b7\uf0a7\uf0d8·*–—-]|\(?(?:\d{1,2}|[a-zA-Z]|[ivx]{1,4})[.)]"
)


def is_marker(text: str) -> bool:
    """Whether a word is the bullet or number of a list item."""
    return _MARKER.fullmatch(text) is not None
