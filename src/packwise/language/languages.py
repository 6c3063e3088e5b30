"""The languages whose words Packwise knows: script, stemmer, stop words and question words.

The table itself is ``languages.toml``. A language that is not in it is indexed word by word, as
written: no stemming and no stop words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

Asked = Literal["who", "when", "where", "count", "duration", "why", "how", "define", "what"]
"""What a question word asks for; ``define`` is "what is"."""

_KINDS: tuple[Asked, ...] = get_args(Asked)

PAIRED = ("han", "thai", "hangul")
"""Scripts whose text is indexed by pairs of characters."""


@dataclass(frozen=True, slots=True)
class Language:
    """One language. ``stemmer`` is the name of its Snowball algorithm, if there is one; with
    ``letters``, a word is indexed by so many of its first letters. ``compounds`` says whether it
    writes several words as one.

    ``questions`` holds the words and phrases that ask, with what they ask for, ``asking`` further
    words that only make a question.
    """

    code: str
    name: str
    script: str = "latin"
    stemmer: str = ""
    letters: int = 0
    compounds: bool = False
    stop_words: frozenset[str] = frozenset()
    questions: tuple[tuple[str, Asked], ...] = ()
    asking: tuple[str, ...] = ()


# The language of a text that does not say which it is, by script.
_USUAL = {
    "latin": "en",
    "cyrillic": "ru",
    "arabic": "ar",
    "devanagari": "hi",
    "greek": "el",
    "tamil": "ta",
    "armenian": "hy",
}

# Where the letters of a script begin; the last one that begins before a letter is its script.
_SCRIPTS = (
    *((0x00, "latin"), (0x370, "greek"), (0x400, "cyrillic"), (0x530, "armenian")),
    *((0x590, "hebrew"), (0x600, "arabic"), (0x780, ""), (0x8A0, "arabic"), (0x900, "devanagari")),
    *((0x980, "bengali"), (0xA00, ""), (0xB80, "tamil"), (0xC00, ""), (0xE00, "thai")),
    *((0xF00, ""), (0x1000, "thai"), (0x10A0, ""), (0x1100, "hangul"), (0x1200, "")),
    *((0x1780, "thai"), (0x1800, ""), (0x1E00, "latin"), (0x1F00, "greek"), (0x2000, "")),
    *((0x2C60, "latin"), (0x2C80, ""), (0x3040, "han"), (0x3130, "hangul"), (0x3190, "han")),
    *((0xA000, ""), (0xAC00, "hangul"), (0xD7B0, ""), (0xF900, "han"), (0xFB00, "latin")),
    *((0xFB50, "arabic"), (0xFE00, ""), (0xFE70, "arabic"), (0xFEFF, ""), (0xFF21, "latin")),
    *((0xFF66, "han"), (0xFFA0, ""), (0x20000, "han"), (0x40000, "")),
)


@cache
def script_of(letter: str) -> str:
    """The script of a letter: "latin", "han" (with kana), "thai" (with Khmer, Lao and Burmese),
    and so on; empty for others."""
    code = ord(letter)
    return next(script for start, script in reversed(_SCRIPTS) if start <= code)


@cache
def languages() -> Mapping[str, Language]:
    """The table, by ISO 639 code. English is not in it: its words are in ``analyzer.py``."""
    import tomllib  # With the table it costs a question in English as much as its search.

    table = tomllib.loads(Path(__file__).with_name("languages.toml").read_text("utf-8"))
    return {code: _language(code, row) for code, row in table.items()}


def known_language(code: str) -> Language | None:
    """The row of a language; ``None`` for English, which is not in the table, and unknown ones."""
    return None if code in ("", "en") else languages().get(code)


def _language(code: str, row: Mapping[str, Any]) -> Language:
    return Language(
        code,
        row["name"],
        row.get("script", "latin"),
        row.get("stemmer", ""),
        row.get("letters", 0),
        row.get("compounds", False),
        frozenset(row.get("stop", "").casefold().split()),
        tuple(
            (word.replace("_", " "), asked)
            for asked in _KINDS
            for word in row.get(asked, "").split()
        ),
        tuple(word.replace("_", " ") for word in row.get("asking", "").split()),
    )


def language_for(lang: str, script: str) -> Language | None:
    """The language in which a word of this script is read in a text of language ``lang``.

    ``None`` is English: the usual reading of Latin words, also in a Chinese or Russian text.
    """
    known = known_language(lang)
    if lang and lang != "en" and known is None and script == "latin":
        return Language(lang, lang)
    if known is None or known.script != script:
        known = known_language(_USUAL.get(script, ""))
    return known


def base_code(lang: str) -> str:
    """The language of a tag such as ``de-AT`` or ``zh_Hans``: its first part, in small letters."""
    return re.split(r"[-_]", lang.strip().lower(), maxsplit=1)[0]


def language_name(code: str) -> str:
    """The English name of a language, or the code itself."""
    if code == "en":
        return "English"
    known = known_language(code)
    return known.name if known else code


@cache
def _asking(code: str) -> re.Pattern[str]:
    language = languages()[code]
    found = _any_of(phrase for phrase, _ in language.questions)
    spaced = language.script not in ("han", "thai")
    return re.compile(rf"(?<!\w)(?:{found})(?!\w)" if spaced else found)


def _any_of(phrases: Iterable[str]) -> str:
    """A pattern of phrases, the longest first."""
    return "|".join(re.escape(phrase) for phrase in sorted(set(phrases), key=len, reverse=True))


def without_asking(question: str, code: str) -> str:
    """A question without the words that only ask, in a language indexed by pairs of characters:
    the pairs across their borders are no words. Questions in other languages stay as they are."""
    language = known_language(code)
    if language is None or language.script not in PAIRED or not language.questions:
        return question
    return _asking_anywhere(code).sub(" ", question)


@cache
def _asking_anywhere(code: str) -> re.Pattern[str]:
    language = languages()[code]
    return re.compile(_any_of((*language.asking, *(phrase for phrase, _ in language.questions))))


def asked_in(question: str, code: str) -> Iterator[tuple[int, Asked]]:
    """What a question in a language asks for, with the places of the words that ask."""
    language = known_language(code)
    if language is None or not language.questions:
        return
    kinds = dict(reversed(language.questions))
    for match in _asking(code).finditer(question.lower()):
        yield match.start(), kinds[match[0]]
