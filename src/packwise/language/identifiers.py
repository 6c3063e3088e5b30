"""The identifiers that a question writes: names of functions, options, patterns, files."""

from __future__ import annotations

import re

QUOTES = "‘’“”'`\""
_JOINED = re.compile(r"(?<![\w-])(?:--?)?[A-Za-z]\w*(?:[_.:-]+\w+)+|(?<![\w-])--?\w+")
_SIGN = re.compile(r"[-$~@%&*+=<>|\\^#{}_.:/]")
"""What is in few words but identifiers: ``$@``, ``~U``, ``${name:-word}``."""
_AROUND = QUOTES + ".,;:?!()"


def identifiers(question: str) -> set[str]:
    """All identifiers of a question, as they are written: ``vcl_hit``, ``-x``, ``sub/*/*.py``."""
    signed = {word.strip(_AROUND) for word in question.split() if _SIGN.search(word)}
    return (signed | set(_JOINED.findall(question))) - {""}
