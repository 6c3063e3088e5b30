"""Which language a document or a question is in.

The script decides where it can. Otherwise documents go to ``py3langid``, which tells 97
languages apart in a few milliseconds; an answer it is not sure of counts as unknown. A question
is too short for that: its function words decide, among the languages that a store holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any, cast

from packwise.documents import BlockKind, Document
from packwise.language.analyzer import FUNCTION_WORDS, LETTERS
from packwise.language.languages import (
    PAIRED,
    asked_in,
    base_code,
    known_language,
    languages,
    script_of,
)
from packwise.lazy_pattern import lazy_pattern

READ = 4000
"""Characters of a document that are read."""

_SURE = 0.96
"""On five English sets of 9,000 texts, every wrong answer has a lower probability."""
_LIKELY = 0.5

# A character of these says as much as some letters of an alphabet.
_HEAVY = {"han": 3, "hangul": 2}
_MIXED = 0.3
"""Share of such characters from which English words in a text do not decide."""
_KANA = lazy_pattern("[\u3041-\u30ff]")
_THAI = lazy_pattern("[\u0e01-\u0e5b]")
_BY_SCRIPT = {
    "hangul": "ko",
    "greek": "el",
    "hebrew": "he",
    "armenian": "hy",
    "tamil": "ta",
    "bengali": "bn",
}
# Codes of the detector that are indexed as another language.
_SAME = {"wuu": "zh", "yue": "zh", "lzh": "zh", "pcm": "en", "nb": "no", "nn": "no"}
_ENGLISH_SHARE = 0.25
_FEWEST_WORDS = 12
_MOST_CANDIDATES = 3
_UNKNOWN_SHARE = 0.1

_WORD = lazy_pattern(LETTERS)


def with_language(document: Document) -> Document:
    """The document with the code of its language: the declared one, else the detected one."""
    lang = base_code(document.lang) or detect(_prose(document))
    return document if lang == document.lang else replace(document, lang=lang)


def detect(text: str) -> str:
    """The ISO 639 code of the language of a text; empty if that is not clear."""
    text = text[:READ]
    script = main_script(text)
    if script not in ("latin", "cyrillic", "arabic", "devanagari"):
        return _by_script(text, script)
    words = _WORD.findall(text.lower())
    english = sum(word in FUNCTION_WORDS for word in words)
    if len(words) >= _FEWEST_WORDS and english >= _ENGLISH_SHARE * len(words):
        return "en"
    code, probability = _identified(text)
    if script != "latin":
        return code if probability >= _LIKELY else ""
    # An English text about a German film holds German words, but English function words.
    votes = _votes(text, [code, "en"])
    sure = probability >= _SURE and votes[code] + 1 >= votes["en"]
    likely = probability >= _LIKELY and votes[code] > votes["en"] == 0
    return code if sure or likely else ""


def main_script(text: str) -> str:
    """The script that most of a text is written in; empty without letters."""
    if text.isascii():
        return "latin" if any(map(str.isalpha, text)) else ""
    scripts = Counter(script_of(character) for character in text if character.isalpha())
    del scripts[""]
    for script, weight in _HEAVY.items():
        scripts[script] *= weight
    total = scripts.total()
    for script in _HEAVY:
        if scripts[script] > _MIXED * total:
            return script
    return scripts.most_common(1)[0][0] if total else ""


def is_paired(text: str) -> bool:
    """Whether a text is indexed by pairs of characters."""
    return main_script(text) in PAIRED


def _by_script(text: str, script: str) -> str:
    if script == "han":
        return "ja" if len(_KANA.findall(text)) * 20 > len(text) else "zh"
    if script == "thai":
        return "th" if _THAI.search(text) else ""
    return _BY_SCRIPT.get(script, "")


def _prose(document: Document) -> str:
    """Title and prose of a document: code would be taken for English."""
    parts = [document.title]
    length = 0
    for section in document.sections:
        for block in section.blocks:
            if block.kind in (BlockKind.TEXT, BlockKind.LIST) and length < READ:
                parts.append(document.text[block.start : min(block.end, block.start + READ)])
                length += block.end - block.start
    return "\n".join(parts) if length else f"{document.title}\n{document.text[:READ]}"


def _identified(text: str) -> tuple[str, float]:
    code, probability = cast("tuple[str, float]", _identifier().classify(text))
    return _SAME.get(code, code), probability


@cache
def _identifier() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    # Among fewer languages it is surer: Spanish looks much like Aragonese.
    known = {"en", *languages(), *_SAME}
    identifier.set_languages([code for code in identifier.nb_classes if code in known])
    return identifier


def question_language(question: str, held: Mapping[str, int]) -> str:
    """The language in which to read a question to a store that holds these languages, with the
    number of documents in each.

    Where several are possible, all of them with spaces between, as ``terms`` takes them.
    """
    return _question_language(question, tuple(held.items()))


@lru_cache(maxsize=256)
def _question_language(question: str, held: tuple[tuple[str, int], ...]) -> str:
    script = main_script(question) or "latin"
    total = sum(count for _, count in held)
    possible = [
        code or "en"
        for code, count in sorted(held, key=lambda item: (-item[1], item[0]))
        if _script_of_language(code) == script and (code or count >= _UNKNOWN_SHARE * total)
    ]
    possible = list(dict.fromkeys(possible))
    if len(possible) < 2:
        return possible[0] if possible else guess(question)
    votes = _votes(question, possible)
    best, second = votes.most_common(2)
    if best[1] > second[1]:
        return best[0]
    return " ".join(sorted(possible, key=lambda code: -votes[code])[:_MOST_CANDIDATES])


@lru_cache(maxsize=256)
def guess(question: str) -> str:
    """The most likely language of a short text by its script and function words; empty if that
    is not clear."""
    script = main_script(question)
    if script in _BY_SCRIPT or script in ("han", "thai"):
        return _by_script(question, script)
    votes = _votes(question, ["en", *(c for c, row in languages().items() if row.script == script)])
    best, second = (*votes.most_common(2), ("", 0), ("", 0))[:2]
    clear = best[1] > max(1, second[1]) and (best[0] == "en" or not votes["en"])
    return best[0] if clear else ""


@lru_cache(maxsize=256)
def has_english_words(question: str) -> bool:
    """Whether a short text in Latin letters has function or question words of English: ``guess``,
    which takes much longer, then finds no other language in it."""
    return main_script(question) == "latin" and _votes(question, ["en"])["en"] > 0


def _votes(question: str, codes: Iterable[str]) -> Counter[str]:
    """How many words of a question are function or question words of each language."""
    words = _WORD.findall(question.casefold())
    votes: Counter[str] = Counter()
    for code in codes:
        row = known_language(code)
        known = FUNCTION_WORDS if code == "en" else row.stop_words if row else frozenset[str]()
        votes[code] = sum(word in known for word in words) + sum(
            1 for _ in asked_in(question, code)
        )
    return votes


def _script_of_language(code: str) -> str:
    row = known_language(code)
    return row.script if row else "latin"
