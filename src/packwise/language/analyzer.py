"""Index terms: how text becomes the words the keyword leg matches, and the stop words.

Every store indexes and searches the same terms, so a passage scores alike in each. Text from
a user passes through here and is therefore never query syntax.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from functools import lru_cache
from typing import Any

import Stemmer

ANALYZER = "packwise-en-1"
"""Name of these rules; stores keep it and rebuild their keyword index when it changes."""

STOP_WORDS = frozenset(
    "a an and are as at be but by for if in into is it no not of on or such that the their "
    "then there these they this to was will with".split()
)
"""Words that are not indexed: those of Lucene's English analyser."""

FUNCTION_WORDS = STOP_WORDS | frozenset(
    "about after am any because been before being between can could did do does down during each "
    "else every from had has have having he her him his how i its may me might must my nor off our "
    "out over shall she should so some than them those through under up us we were what when where "
    "which while who whom whose why would yet you your".split()
)
"""Words that say nothing about the topic of a text; a superset of ``STOP_WORDS``."""

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
# Possessive, and only from the start of a word: a long run of letters is passed once, not
# once for each of its letters.
_IDENTIFIER = re.compile(
    r"(?<!\w)(?:[^\W\d]\w*+(?:(?:\.|::|->)[^\W\d]\w*+)++|(?=[^\W_]*+_)(?=_*+[^\W_])\w++)"
)
_MAX_LENGTH = 64
_local = threading.local()


def terms(text: str) -> list[str]:
    """The index terms of a text, in order, with repetitions.

    Words are case-folded, stripped of accents and stemmed (Snowball English). A dotted or
    underscored identifier (``os.path.join``) also counts as one term of its own.
    """
    folded = fold(text)
    found = [_stem(word) for word in _WORD.findall(folded) if word not in STOP_WORDS]
    found.extend(name[:_MAX_LENGTH] for name in _IDENTIFIER.findall(folded) if len(name) > 2)
    return found


def fold(text: str) -> str:
    """The text in small letters and without accents."""
    if text.isascii():
        return text.lower()
    # Decomposed first: a compatibility form may hide a capital.
    decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return "".join(c for c in decomposed if not unicodedata.combining(c))


@lru_cache(maxsize=65536)
def _stem(word: str) -> str:
    for apostrophe in ("'", "’"):
        if word.endswith(f"{apostrophe}s"):
            word = word[:-2]
        word = word.replace(apostrophe, "")
    return _stemmer().stemWord(word[:_MAX_LENGTH])


def _stemmer() -> Any:
    # A Snowball stemmer keeps state while it works: one per thread.
    if not hasattr(_local, "stemmer"):
        _local.stemmer = Stemmer.Stemmer("english")
    return _local.stemmer
