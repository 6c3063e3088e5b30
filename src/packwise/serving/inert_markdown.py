"""An answer for a client that renders Markdown, without images, which the client would load.

Whoever writes a document could otherwise send what an answer says to a server of their own, in the
address of an image.
"""

from __future__ import annotations

import re

from packwise.language.untrusted import clean

# `![text](address)` and `![text][name]`. Labels take too many forms to list those of an image, so
# every `![` counts as one except what is plainly none: Rust's vec![1], JavaScript's ![1].includes.
_PLAIN = r"[^\[\]\\`<\n]"
_INNER = rf"\[{_PLAIN}{{0,200}}\](?![(\[])"
_IMAGE = re.compile(rf"!(?=\[)(?!\[(?:{_PLAIN}|{_INNER}){{0,200}}\](?![(\[]))")
# `[name]: address`, which makes an image of `![name]`, also in quotes and lists.
_MARGIN = r"[ \t>*+\d.):|#-]*"
_DEFINITION = re.compile(rf"(?m)^({_MARGIN})(?=\[(?:[^\]\\]|\\.){{0,1000}}\]:)", re.DOTALL)
_OPEN = re.compile(
    r"!(?:\[[^\n]*(?:\n[^\n]+)*\n?)?\Z"
    rf"|(?:(?<=\n)|\A){_MARGIN}(?:\[(?:[^\]\\]|\\.)*\\?\]?)?\Z",
    re.DOTALL,
)
# What the next character may still change: a line end, a joined emoji.
_JOINERS = "\u200c\u200d\ufe0f"
_TAIL = re.compile(
    rf"(?:[^\x00-\x7f{_JOINERS}][{_JOINERS}]+)*[^\x00-\x7f{_JOINERS}]?[{_JOINERS}]*\Z|\r\Z"
)
_LONGEST = 2000
"""Characters that are held back until it is clear what they are."""


def inert(text: str) -> str:
    """The text cleaned, with its images as text."""
    return _DEFINITION.sub(r"\1\\", _IMAGE.sub(r"!\\", clean(text)))


class InertStream:
    """The same for a text that comes in pieces, at whatever place it is cut."""

    def __init__(self) -> None:
        self._unclean = ""
        self._held = ""
        self._line_start = True

    def feed(self, piece: str) -> str:
        """What can be shown after one more piece."""
        raw = self._unclean + piece
        tail = _TAIL.search(raw)
        end = tail.start() if tail else len(raw)
        self._unclean = raw[end:]
        return self._decided(clean(raw[:end]))

    def close(self) -> str:
        """What was held back."""
        shown = self._decided(clean(self._unclean)) + self._shown(self._held)
        self._unclean = self._held = ""
        return shown

    def _decided(self, text: str) -> str:
        """What is known to be an image or none; the rest is held back."""
        text = self._held + text
        found = _OPEN.search(text, max(0, len(text) - _LONGEST))
        end = found.start() if found else len(text)
        self._held = text[end:]
        return self._shown(text[:end])

    def _shown(self, text: str) -> str:
        if not text:
            return ""
        # A definition counts at the start of a line only, which may lie in an earlier piece.
        made = inert(text) if self._line_start else inert(f"x{text}")[1:]
        self._line_start = text.endswith("\n")
        return made
