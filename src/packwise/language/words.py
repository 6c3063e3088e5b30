"""The words of a text as people count them.

Words are taken without punctuation, so a question mark does not cost a match. Scripts that put
no spaces between words (Chinese, Japanese, Thai and others) are read in overlapping pairs of
characters, and two characters count as one word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from packwise.lazy_pattern import lazy_pattern

_UNSPACED = lazy_pattern(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3041-\u30ff\u3400-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff]+"
)
# Where a word may end without a space after it.
_UNSPACED_OR_MARK = lazy_pattern(f"{_UNSPACED.pattern[:-2]}。｡！？，；：、]")
_RUN = lazy_pattern(r"\S+")
_PUNCTUATION = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~“”‘’„«»‹›…–—¿¡·•。、，？！：；（）"
_WITHOUT_MARKS = str.maketrans("", "", _PUNCTUATION)


def words(text: str) -> list[str]:
    """The words of a text in lower case, without the punctuation around them; of text without
    spaces every pair of characters."""
    lower = text.lower()
    if not lower.isascii():
        lower = _UNSPACED.sub(_pairs, lower)
    return [word for raw in lower.split() if (word := raw.strip(_PUNCTUATION))]


def _pairs(found: re.Match[str]) -> str:
    run = found[0]
    return f" {' '.join(run[i : i + 2] for i in range(max(1, len(run) - 1)))} "


def count_words(found: Sequence[str]) -> int:
    """How many words a text has, of which ``words`` found these."""
    if all(map(str.isascii, found)):
        return len(found)
    pairs = sum(not word.isascii() and _UNSPACED.match(word) is not None for word in found)
    return len(found) - pairs // 2


def word_count(texts: Iterable[str]) -> int:
    """How many words some texts have together."""
    text = "\n".join(texts)
    if not text.isascii():
        return count_words(words(text))
    # Without punctuation as many words are left, and those that were nothing else are gone.
    return len(text.translate(_WITHOUT_MARKS).split())


def is_spaced(text: str) -> bool:
    """Whether spaces set off every word of a text."""
    return text.isascii() or _UNSPACED_OR_MARK.search(text) is None


def holds_word(lower: str, word: str) -> bool:
    """Whether ``words`` finds this word in a text in lower case, all of whose words are set
    off by spaces; faster than to list them."""
    at = lower.find(word)
    while at >= 0:
        start = at
        while start and not lower[start - 1].isspace():
            start -= 1
        run = _RUN.match(lower, start)
        if run is not None and run[0].strip(_PUNCTUATION) == word:
            return True
        at = lower.find(word, at + 1)
    return False
