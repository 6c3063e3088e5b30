"""Text with links in it, as a reader writes it piece by piece."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate

from packwise.lazy_pattern import lazy_pattern

_UNWANTED = lazy_pattern("[\x00-\x08\x0b-\x1f\x7f\ufeff\ud800-\udfff]")
_SPACES = lazy_pattern(r"[ \t\n\r\f]+")
_LINE_ENDS = lazy_pattern(r"(?<![ \t])[ \t]++(?=\n)")


_IMAGE_FILE = lazy_pattern(r"(?i)\S+\.(?:png|jpe?g|gif|svg|webp|bmp|ico|avif)")


def said_of_image(text: str) -> str:
    """The text that stands for an image; none where a generator wrote the name of its file."""
    return "" if _IMAGE_FILE.fullmatch(text.strip()) else text


def clean(text: str) -> str:
    """Text without control characters; half of a surrogate pair becomes U+FFFD."""
    if _UNWANTED.search(text) is None:
        return text
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\f", "\n").replace("\v", "\n")
    return _UNWANTED.sub(lambda m: "\ufffd" if m[0] >= "\ud800" and m[0] != "\ufeff" else "", text)


@dataclass(frozen=True, slots=True)
class Anchor:
    """A link on ``text[start:end]``; ``wiki`` marks a link by page name."""

    href: str
    start: int
    end: int
    wiki: bool = False


@dataclass(frozen=True, slots=True)
class LinkedText:
    """Finished text and the links in it."""

    text: str
    anchors: tuple[Anchor, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.text or self.anchors)

    def on_one_line(self) -> LinkedText:
        return LinkedText(self.text.replace("\n", " "), self.anchors)

    def as_cell(self) -> LinkedText:
        """On one line, and with ``\\|`` for the sign that separates cells."""
        text = self.text.replace("\n", " ")
        if "|" not in text:
            return LinkedText(text, self.anchors)
        moved = [*accumulate((character == "|" for character in text), initial=0)]
        anchors = (
            Anchor(a.href, a.start + moved[a.start], a.end + moved[a.end], a.wiki)
            for a in self.anchors
        )
        return LinkedText(text.replace("|", "\\|"), tuple(anchors))


class TextBuilder:
    """Builds a ``LinkedText``."""

    __slots__ = ("_anchors", "_length", "_open", "_parts", "_spaced")

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._length = 0
        self._anchors: list[Anchor] = []
        self._open: list[tuple[str, int]] = []
        self._spaced = True

    def write(self, text: str) -> None:
        """Add text as it is."""
        text = clean(text)
        if text:
            self._parts.append(text)
            self._length += len(text)
            self._spaced = text[-1].isspace()

    def write_flowing(self, text: str) -> None:
        """Add text, with every run of white space as one space."""
        text = _SPACES.sub(" ", text)
        self.write(text[1:] if self._spaced and text.startswith(" ") else text)

    def add(self, linked: LinkedText) -> None:
        at = self._length
        self._anchors += (Anchor(a.href, a.start + at, a.end + at, a.wiki) for a in linked.anchors)
        self.write(linked.text)

    def link(self, href: str, text: str, *, wiki: bool = False) -> None:
        start = self._length
        self.write(text)
        self._anchors.append(Anchor(href, start, self._length, wiki))

    def open_link(self, href: str) -> None:
        self._open.append((href, self._length))

    def close_link(self) -> None:
        if self._open:
            href, start = self._open.pop()
            if href:
                self._anchors.append(Anchor(href, start, self._length))

    @property
    def length(self) -> int:
        return self._length

    @property
    def blank(self) -> bool:
        """Nothing but white space so far."""
        return not any(part.strip() for part in self._parts)

    @property
    def at_line_start(self) -> bool:
        return bool(self._parts) and self._parts[-1].endswith("\n")

    def finish(self) -> LinkedText:
        """The text, stripped, with its links adjusted. The builder is empty afterwards."""
        while self._open:
            self.close_link()
        text = "".join(self._parts)
        anchors = sorted(self._anchors, key=lambda a: (a.start, a.end))
        self.__init__()
        if _LINE_ENDS.search(text):
            text, anchors = _without_line_end_spaces(text, anchors)
        lead = len(text) - len(text.lstrip())
        text = text.strip()
        return LinkedText(text, tuple(_fitted(text, a, lead) for a in anchors))


def _without_line_end_spaces(text: str, anchors: list[Anchor]) -> tuple[str, list[Anchor]]:
    """Drop blanks before line breaks, which only come from markup; adjust the links."""
    cuts = [m.span() for m in _LINE_ENDS.finditer(text)]
    starts = [start for start, _ in cuts]
    removed = [0, *accumulate(end - start for start, end in cuts)]

    def moved(offset: int) -> int:
        before = bisect_left(starts, offset)
        if not before:
            return offset
        overlap = max(cuts[before - 1][1] - offset, 0)
        return offset - removed[before] + overlap

    shifted = [Anchor(a.href, moved(a.start), moved(a.end), a.wiki) for a in anchors]
    return _LINE_ENDS.sub("", text), shifted


def _fitted(text: str, anchor: Anchor, lead: int) -> Anchor:
    """The anchor after ``lead`` characters were removed, without blanks at its own ends."""
    start = min(max(anchor.start - lead, 0), len(text))
    end = min(max(anchor.end - lead, start), len(text))
    linked = text[start:end]
    start += len(linked) - len(linked.lstrip())
    return Anchor(anchor.href, start, start + len(linked.strip()), anchor.wiki)
