"""The identifiers that a question writes: names of functions, options, patterns, files."""

from __future__ import annotations

import re

from packwise.language.analyzer import FUNCTION_WORDS

QUOTES = "‘’“”'`\""
_JOINED = re.compile(r"(?<![\w-])(?:--?)?[A-Za-z]\w*(?:[_.:-]+\w+)+|(?<![\w-])--?\w+")
_SIGN = re.compile(r"[-$~@%&*+=<>|\\^#{}_.:/]")
"""What is in few words but identifiers: ``$@``, ``~U``, ``${name:-word}``."""
_AROUND = QUOTES + ".,;:?!()"
_KINDS = (
    "command builtin function method option flag setting directive statement keyword operator "
    "variable parameter module class decorator attribute field macro"
)
_KIND = rf"(?:{_KINDS.replace(' ', '|')})\b"
_OF_A_KIND = re.compile(rf"\b(\w+) {_KIND}|\bthe (\w+) (?=\w+ {_KIND})")


def identifiers(question: str) -> set[str]:
    """All identifiers of a question, as they are written: ``vcl_hit``, ``-x``, ``sub/*/*.py``."""
    signed = {word.strip(_AROUND) for word in question.split() if _SIGN.search(word)}
    return (signed | set(_JOINED.findall(question))) - {""}


def plain_identifiers(question: str) -> set[str]:
    """The plain words of a question that it says are identifiers: "the mapfile builtin", "the
    noatime mount option". They may be common words too, so that only what is written alike is
    meant."""
    named = {found[1] or found[2] for found in _OF_A_KIND.finditer(question)}
    return named - FUNCTION_WORDS
