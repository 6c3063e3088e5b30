"""From bytes to text: what is text, in which encoding, and what is not."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

from packwise.errors import SourceError
from packwise.sources.flow import clean

NOT_TEXT_SHARE = 0.10
"""A file with a larger share of unreadable bytes than this is not text."""

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_CONTROL = bytes(set(range(32)) - set(b"\t\n\v\f\r\x1b")) + b"\x7f"
_CHARSET = re.compile(rb"""(?i)<meta[^>]{0,200}?charset\s*=\s*["']?([\w\-]{1,40})""")


@dataclass(frozen=True, slots=True)
class Decoded:
    """Text with ``\\n`` line ends and no control characters; a warning if bytes were lost."""

    text: str
    warning: str = ""


def decode(raw: bytes, *, html: bool = False) -> Decoded:
    """The text in ``raw``: UTF-8, or what its byte order mark or its HTML head declares.

    A few bytes that do not fit are replaced, with a warning. Raises ``SourceError``
    with the bare reason (no location) when it is no text at all.
    """
    mark = next((name for start, name in _MARKS if raw.startswith(start)), "")
    if not mark and b"\0" in raw:
        raise SourceError("is not text (it holds NUL bytes)")
    if not mark or mark == "utf-8-sig":
        control = len(raw) - len(raw.translate(None, _CONTROL))
        if control > NOT_TEXT_SHARE * len(raw):
            raise SourceError("is not text (too many control characters)")
    for encoding in (mark or "utf-8", _declared(raw) if html and not mark else ""):
        if encoding:
            try:
                return Decoded(clean(raw.decode(encoding)))
            except (UnicodeDecodeError, LookupError):
                continue
    text = raw.decode(mark or "utf-8", "replace")
    lost = text.count("\ufffd")
    if lost > NOT_TEXT_SHARE * len(text):
        raise SourceError(f"is not UTF-8 text ({lost / len(text):.0%} of it cannot be read)")
    counted = "one byte is" if lost == 1 else f"{lost} bytes are"
    return Decoded(clean(text), f"{counted} not {(mark or 'utf-8').upper()}: replaced")


def _declared(raw: bytes) -> str:
    found = _CHARSET.search(raw[:4096])
    return found[1].decode("ascii") if found else ""
