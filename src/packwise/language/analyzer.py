"""Index terms: how text becomes the words the keyword leg matches, and the stop words.

Every store indexes and searches the same terms, so a passage scores alike in each. Text from
a user passes through here and is therefore never query syntax.

The script of a word and the language of its text decide how it is read. Words are stemmed by
the Snowball algorithm of the language, or cut to a number of letters. Chinese, Japanese, Thai and
other scripts without spaces are indexed by pairs of neighbouring characters, and so is Korean,
whose words carry their particles: on xquad-zh pairs find as much as the words of a dictionary.
"""

from __future__ import annotations

import itertools
import re
import threading
import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import Stemmer

from packwise.language.languages import Language, language_for, script_of
from packwise.lazy_pattern import lazy_pattern

ANALYZER = "packwise-5"
"""Name of these rules; stores keep it and rebuild their keyword index when it changes."""

STOP_WORDS = frozenset(
    "a an and are as at be but by for if in into is it no not of on or such that the their "
    "then there these they this to was will with".split()
)
"""English words that are not indexed: those of Lucene's English analyser."""

FUNCTION_WORDS = STOP_WORDS | frozenset(
    "about after am any because been before being between can could did do does down during each "
    "else every from had has have having he her him his how i its may me might must my nor off our "
    "out over shall she should so some than them those through under up us we were what when where "
    "which while who whom whose why would yet you your".split()
)
"""English words that say nothing about the topic of a text; a superset of ``STOP_WORDS``."""

# Vowel signs and other marks are part of a word, though ``\w`` does not match them: without
# these Hindi and Arabic words would fall apart.
MARKS = (
    "\u0300-\u036f\u0591-\u05bd\u05bf-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc"
    "\u06df-\u06e8\u06ea-\u06ed\u0900-\u0903\u093a-\u094f\u0955-\u0957\u0962\u0963\u0981-\u0983"
    "\u09bc-\u09cd\u09d7\u09e2\u09e3\u0a01-\u0a03\u0a3c-\u0a4d\u0a70\u0a71\u0a81-\u0a83"
    "\u0abc-\u0acd\u0b01-\u0b03\u0b3c-\u0b4d\u0b82\u0bbe-\u0bcd\u0bd7\u0c00-\u0c04\u0c3e-\u0c56"
    "\u0c81-\u0c83\u0cbc-\u0cd6\u0d00-\u0d03\u0d3b-\u0d4d\u0d57\u0dca-\u0ddf\u200c\u200d"
)
"""Combining marks of scripts with spaces, for a character class."""

LETTERS = rf"(?:[^\W_]++[{MARKS}]*+)++"
"""A run of letters, digits and their marks."""

UNSPACED = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ecf\u1000-\u103f\u1050-\u109f\u1780-\u17d3"
    "\u3005-\u3007\u3041-\u3096\u3099\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff"
    "\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
"""Characters that are indexed in pairs, for a character class: those of scripts without spaces
between words, and Hangul."""

_PLAIN_WORD = lazy_pattern(r"[^\W_]+(?:['’][^\W_]+)*")
_WORD = lazy_pattern(rf"{LETTERS}(?:['’]{LETTERS})*+")
_UNSPACED = lazy_pattern(f"([{UNSPACED}]+)")
# What is one character to a reader of Thai, Lao, Khmer or Burmese: a consonant with its vowels
# and tone marks. Any other character stands for itself.
CLUSTER = (
    "[\u0e40-\u0e44\u0ec0-\u0ec4]?+[\u0e01-\u0e2f\u0e81-\u0eae]"
    "[\u0e30-\u0e3a\u0e45-\u0e4e\u0eb0-\u0ebc\u0ec8-\u0ecd]*+"
    "|[\u1000-\u102a\u103f-\u109f][\u102b-\u103e]*+|[\u1780-\u17b3][\u17b4-\u17d3]*+|."
)
_CLUSTER = lazy_pattern(CLUSTER)
# Possessive, and only from the start of a word: a long run of letters is passed once, not
# once for each of its letters.
_IDENTIFIER = lazy_pattern(
    r"(?<!\w)(?:[^\W\d]\w*+(?:(?:\.|::|->)[^\W\d]\w*+)++|(?=[^\W_]*+_)(?=_*+[^\W_])\w++)"
)
# What is known by its signs: options, which are as rare as words as they are common as letters,
# and formats, escapes and variables of one letter. Capitals make a difference.
_SIGNED = lazy_pattern(
    r"(?<![\w-])-(?:[0-9](?![\w.,])|-?+[A-Za-z][\w-]*+)"
    r"|(?<![\w%~\\$@&])[%~\\$@&](?:[A-Za-z0-9](?!\w)|(?<=\$)[@*#?!$])"
)
_MAX_LENGTH = 64
_MOST_KNOWN = 1 << 20
"""Characters of tokens whose terms are remembered."""

_AROUND_WORDS = ".,;:!?\"'()[]{}<>*`"
_PHRASAL = lazy_pattern(r"\b([a-z]{3,20}) (up|in|out|off|on|down|back|over)\b")
_HYPHENATED = lazy_pattern(r"(?<![\w-])[a-z]{1,20}-[a-z]{2,20}(?![\w-])")
_MOST_JOINED = 2000
_LONGEST_ELISION = 5
_local = threading.local()


def terms(text: str, lang: str = "") -> list[str]:
    """The index terms of a text, in order, with repetitions.

    ``lang`` is the code of its language, or several codes with spaces between them where that
    is not clear: the terms of the first come first, then those that only another one gives. A
    dotted or underscored identifier (``os.path.join``) also counts as one term of its own.
    """
    first, *others = lang.split() or ("",)
    found = _terms(text, first)
    for other in others:
        known = set(found)
        found.extend(term for term in _terms(text, other) if term not in known)
    return found


def _terms(text: str, lang: str) -> list[str]:
    # No term reaches across a space, and most of what stands between two has been read before.
    tokens = text.split()
    known = _known_tokens(lang)
    if known.characters > _MOST_KNOWN:
        _known_tokens.cache_clear()
        known = _known_tokens(lang)
    found = list(itertools.chain.from_iterable(map(known.__getitem__, tokens)))
    if not known.identifiers.keys().isdisjoint(tokens):
        for token in tokens:
            found += known.identifiers.get(token, ())
    return found


class _KnownTokens(dict[str, tuple[str, ...]]):
    """The terms of texts without spaces in one language, each found when first asked for, and
    apart from them the identifiers of those that have any."""

    def __init__(self, lang: str) -> None:
        super().__init__()
        self.identifiers: dict[str, tuple[str, ...]] = {}
        self.characters = 0
        self._lang = lang

    def __missing__(self, token: str) -> tuple[str, ...]:
        words, identifiers = _token_terms(token, self._lang)
        if identifiers:
            self.identifiers[token] = identifiers
        self[token] = words
        self.characters += len(token)
        return words


_known_tokens = lru_cache(maxsize=32)(_KnownTokens)


def _token_terms(token: str, lang: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The terms of a text without spaces, and the identifiers in it."""
    if lang in ("", "en") and token.isascii():
        folded = token.lower()
        word = folded.strip(_AROUND_WORDS)
        if word.isalnum():
            return (() if word in STOP_WORDS else (_english(word),)), ()
        words = (word for word in _PLAIN_WORD.findall(folded) if word not in STOP_WORDS)
        return tuple(map(_english, words)), _identifiers(folded, token)
    found = list[str]()
    folded = lower(token, lang)
    for at, part in enumerate(_UNSPACED.split(folded)):
        if at % 2:
            found.extend(pairs(_CLUSTER.findall(part)))
        else:
            for word in _WORD.findall(part):
                found.extend(_word_terms(word, lang))
    return tuple(found), _identifiers(strip_accents(folded), token)


def _identifiers(folded: str, token: str) -> tuple[str, ...]:
    names = (name for name in _IDENTIFIER.findall(folded) if len(name) > 2)
    return tuple(name[:_MAX_LENGTH] for name in (*names, *_SIGNED.findall(token)))


def joined_verbs(text: str) -> list[str]:
    """The terms of the nouns that the phrasal verbs of an English text make, as manuals often
    write them: "log in" and "logged in" give ``login``. "Read-only" gives ``readonly``."""
    words = text[:_MOST_JOINED].lower()
    joined = [
        f"{_english(verb)}{particle}"
        for verb, particle in _PHRASAL.findall(words)
        if verb not in STOP_WORDS
    ]
    joined += (word.replace("-", "") for word in _HYPHENATED.findall(words))
    return [term for noun in joined for term in terms(noun)]


# The digits of other scripts are numbers like any other.
_DIGITS = {zero + n: str(n) for zero in (0x660, 0x6F0, 0x966, 0x9E6, 0xE50) for n in range(10)}


def lower(text: str, lang: str = "") -> str:
    """The text in small letters and in one of the ways to write each character."""
    if lang == "tr":
        text = text.replace("İ", "i").replace("I", "ı")
    # Compatibility forms first: they may hide a capital.
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    # Two Thai vowels side by side look like the one that is meant.
    return folded.translate(_DIGITS).replace("\u0e40\u0e40", "\u0e41")


def fold(text: str) -> str:
    """The text in small letters and without accents.

    Only marks that a reader can do without are left out: accents of Latin and Greek letters,
    and the vowel points of Arabic and Hebrew.
    """
    return text.lower() if text.isascii() else strip_accents(lower(text))


_ACCENTS = lazy_pattern(
    "(?<![\u0400-\u052f])[\u0300-\u036f]+|[\u0591-\u05bd\u05bf-\u05c7\u0610-\u061a\u0640"
    "\u064b-\u0652\u0670\u06d6-\u06ed]+"
)
_PLAIN = str.maketrans(
    {"ё": "е", "ı": "i", "ø": "o", "ł": "l", "đ": "d", "æ": "ae", "œ": "oe", "ð": "d", "þ": "th"}
)


def strip_accents(text: str) -> str:
    """A text in small letters without accents and vowel points."""
    if text.isascii():
        return text
    bare = _ACCENTS.sub("", unicodedata.normalize("NFD", text.translate(_PLAIN)))
    return unicodedata.normalize("NFC", bare)


def pairs(characters: list[str]) -> list[str]:
    """Every two neighbours of a run of characters; a single one stands for itself."""
    if len(characters) < 2:
        return characters
    return [first + second for first, second in itertools.pairwise(characters)]


@lru_cache(maxsize=65536)
def _english(word: str) -> str:
    for apostrophe in ("'", "’"):
        if word.endswith(f"{apostrophe}s"):
            word = word[:-2]
        word = word.replace(apostrophe, "")
    return _stemmer("english").stemWord(word[:_MAX_LENGTH])


def _word_terms(word: str, lang: str) -> tuple[str, ...]:
    """The terms of one word in small letters, in a text of a language."""
    script = script_of(word[0]) if not word[0].isdigit() else "latin"
    language = language_for(lang, script)
    if language is None:
        folded = strip_accents(word)
        return () if folded in STOP_WORDS else (_english(folded),)
    word = _without_elision(word, language.code)
    if word in language.stop_words:
        return ()
    return (_stemmed(word[:_MAX_LENGTH], language),)


def _without_elision(word: str, lang: str) -> str:
    """A word without what an apostrophe ties to it: "l'homme", "Ankara'nın"."""
    word = word.replace("’", "'")
    first, apostrophe, rest = word.partition("'")
    if not apostrophe:
        return word
    if lang in ("fr", "it", "ca") and len(first) <= _LONGEST_ELISION:
        return rest.replace("'", "")
    return first if lang == "tr" or rest == "s" else word.replace("'", "")


# Words that are written in two ways, with an "and" before the article, or in a plural that the
# stemmer does not know. In Hindi the dot of borrowed sounds is often left out, and a nasal before
# a consonant of its own place is a letter or a dot. In Vietnamese the tone of "hoà" may stand on
# either vowel.
_SPELLINGS: Mapping[str, tuple[re.Pattern[str], Mapping[str, str]]] = {
    "hi": (
        lazy_pattern(
            "(?<=[कखगजफ])\u093c|\u0901|[\u200c\u200d]|ङ्(?=[क-घ])|ञ्(?=[च-झ])|ण्(?=[ट-ढ])"
            "|न्(?=[त-ध])|म्(?=[प-भ])"
        ),
        dict.fromkeys(("\u0901", "ङ्", "ञ्", "ण्", "न्", "म्"), "\u0902"),
    ),
    "ar": (lazy_pattern("^[وف](?=ال..)|(?<=...)ات$|ى$"), {"ات": "ة", "ى": "ي"}),
    "fa": (lazy_pattern("[يكة\u200c]"), {"ي": "ی", "ك": "ک", "ة": "ه"}),
    "vi": (
        lazy_pattern("(?:o[àáảãạèéẻẽẹ]|(?<!q)u[ỳýỷỹỵ])$"),
        dict(
            zip(
                "oà oá oả oã oạ oè oé oẻ oẽ oẹ uỳ uý uỷ uỹ uỵ".split(),
                "òa óa ỏa õa ọa òe óe ỏe õe ọe ùy úy ủy ũy ụy".split(),
                strict=True,
            )
        ),
    ),
    # The stemmer takes "автомобили" for a verb in the past, like "купили".
    "ru": (lazy_pattern("(?<=моб)или$"), {"или": "иль"}),
}
# The German stemmer leaves the "s" of "Autos", and that of "Kurse" where "Kurs" loses it.
_GERMAN_S = lazy_pattern("(?<=..[bdfghklmnrt])s$|(?<=...[aiouy])s$")


def _stemmed(word: str, language: Language) -> str:
    if language.script != "latin":
        word = strip_accents(word)
    if language.code in _SPELLINGS:
        variants, usual = _SPELLINGS[language.code]
        word = variants.sub(lambda match: usual.get(match[0], ""), word)
    if language.stemmer:
        word = _stemmer(language.stemmer).stemWord(word) or word
    if language.code == "de":
        word = _GERMAN_S.sub("", word)
    if language.letters and word.isalpha():
        return strip_accents(word)[: language.letters]
    # The accents of Vietnamese are letters of their own to its readers.
    return word if language.code == "vi" else strip_accents(word)


def _stemmer(algorithm: str) -> Any:
    # A Snowball stemmer keeps state while it works: one per thread.
    stemmers = _local.__dict__
    if algorithm not in stemmers:
        stemmers[algorithm] = Stemmer.Stemmer(algorithm)
    return stemmers[algorithm]
