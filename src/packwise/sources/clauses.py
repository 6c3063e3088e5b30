"""Headings of contracts, licences, laws and standards in plain text: centred lines, and numbered
clauses whose title ends with a full stop, alone on its line or at the beginning of the clause."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from packwise.sources.plain_terms import indent_of

_FEWEST_INDENT = 8
_NARROWEST, _WIDEST = 60, 84
"""Columns that a page of text may have."""
_OFF_CENTRE = 12
_LONGEST_TITLE = 64
_LONG_CLAUSE = 150
"""Characters; a clause that begins with its title goes on at least this long."""
_CLAUSE = re.compile(r"[ ]{0,4}(\d{1,2})\.[ ]+(?=[^\W\d_])([^.\n]{2,64})\.(?:[ ]+|$)")
_CLAUSE_NUMBER = re.compile(r"[ ]*\d{1,2}\.[ ]")
_DIVISION = re.compile(
    r"(?i:(?P<part>part|title|chapter|division|book|teil|titel|kapitel|abschnitt|titre|chapitre)"
    r"|(?:article|section|artikel|schedule|annex|appendix|anhang|anlage|annexe)|§§?)"
    r"[ ](?:\d{1,4}[a-z]?|[IVXLC]{1,7})(?:[.:)]?|[.:)]?[ ]+[-–—]?[ ]*(?P<name>[^\W\d_][^\n]{0,80}))"
)
_SMALL_WORDS = frozenset("with from into upon than that this your when under over between".split())
_ADDRESS = re.compile(r"<?(?:https?://|www\.)\S+>?")


def page_width(lines: Iterable[str]) -> int:
    """How many columns a page of this text has: hardly any line is longer."""
    lengths = sorted(len(line) for line in lines if len(line) >= _NARROWEST)
    return min(lengths[len(lengths) * 19 // 20], _WIDEST) if lengths else _NARROWEST


def centred_title(lines: Sequence[str], width: int) -> str:
    """The title in lines that are all in the middle of a page; empty if they are not. Addresses
    are no part of it."""
    if not all(_is_centred(line, width) for line in lines):
        return ""
    if len(lines) > 1 and len({*map(indent_of, lines)}) == 1:
        return ""  # Lines that begin in one column are indented text.
    words = " ".join(line.strip() for line in lines if not _ADDRESS.fullmatch(line.strip()))
    return words if words[:1].isalpha() and not words.islower() else ""


def _is_centred(line: str, width: int) -> bool:
    text, indent = line.strip(), indent_of(line)
    least = _FEWEST_INDENT // 3 if text.isupper() else _FEWEST_INDENT
    fits = indent >= least and len(text) <= _LONGEST_TITLE and text[-1:] not in ".,;:"
    return fits and abs(2 * indent + len(text) - width) <= _OFF_CENTRE


def division(line: str) -> int:
    """Whether a line alone names a part of a law or contract: 1 for a chapter or part, 2 for a
    section or article, 0 for neither."""
    found = _DIVISION.fullmatch(line.strip())
    name = (found and found["name"]) or "X"
    if found is None or not name[0].isupper() or name.endswith((".", ",", ";")):
        return 0  # "Section 12 says so." is a sentence.
    return 1 if found["part"] else 2


def clause_title(lines: Sequence[str], following: str) -> tuple[str, int]:
    """The title of a clause with its number and where its text goes on in the first line; the
    title is empty if there is none. Every longer word of a title has a capital letter. What
    stands alone before the next number, which ``following`` may begin with, is an item."""
    found = _CLAUSE.match(lines[0])
    if found is None:
        return "", 0
    words = [word for word in found[2].split() if len(word) > 3 and word not in _SMALL_WORDS]
    if not words or not all(word.strip("\"'(“‘")[:1].isupper() for word in words):
        return "", 0
    alone = found.end() == len(lines[0]) and not _CLAUSE_NUMBER.match(following)
    runs_in = len(" ".join(lines)) - found.end() >= _LONG_CLAUSE
    return (found[0].strip(), found.end()) if (alone and len(lines) == 1) or runs_in else ("", 0)
