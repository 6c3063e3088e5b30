"""Finding names that are known in advance in a text, and the phrases of a text that may be one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate, chain

from packwise.language.analyzer import fold
from packwise.language.names import (
    ARTICLES,
    MOST_NAME_WORDS,
    OPENERS,
    PLAIN_WORD,
    Kind,
    Name,
    bare,
    can_be_named,
    names_something,
    opens_sentence,
)
from packwise.lazy_pattern import lazy_pattern

_ASCII_WORD = lazy_pattern(r"([a-z0-9]++(?:'[a-z0-9]++)*+)")


class KeyMatcher:
    """Finds names with known keys in texts: longest match, word by word."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._keys = frozenset(key for key in keys if key)
        lengths: dict[str, set[int]] = {}
        for key in self._keys:
            words = key.split(" ")
            lengths.setdefault(words[0], set()).add(len(words))
        self._lengths = {word: sorted(found, reverse=True) for word, found in lengths.items()}

    def mentions(self, text: str) -> list[Name]:
        """Where a text uses the keys as names, in order, without overlap.

        Capitals tell a name from ordinary words ("the Long Walk", not "a long walk"); in a
        text without capitals, any key of two or more words counts. A lone word inside a longer
        name ("York" in "New York") does not.
        """
        words = _Words(text)
        keys = words.keys
        cased = text != text.lower()
        found: list[Name] = []
        past = 0
        for at in [at for at, first in enumerate(keys) if first in self._lengths]:
            if at < past:
                continue
            for length in self._lengths[keys[at]]:
                key = " ".join(keys[at : at + length])
                if at + length > len(keys) or key not in self._keys:
                    continue
                sure = _used_as_name(words, at, length, cased)
                if sure is not None:
                    start, end = words.spans[at][0], words.spans[at + length - 1][1]
                    found.append(Name(text[start:end], key, Kind.TITLE, start, end, sure))
                    past = at + length
                    break
        return found


def phrases(text: str, most_words: int = 64) -> list[str]:
    """The keys of all runs of words that may name something in a store, longest first.

    Only the first ``most_words`` words of the text are used.
    """
    words = _Words(text).keys[:most_words]
    # As ``can_be_named`` says of each run, but a word is looked at once.
    named = [0, *accumulate(bool(word) and names_something(word) for word in words)]
    runs = (
        " ".join(words[at : at + length])
        for length in range(min(MOST_NAME_WORDS, len(words)), 1, -1)
        for at in range(len(words) - length + 1)
        if named[at] < named[at + length]
    )
    return list(dict.fromkeys(chain(runs, filter(can_be_named, words))))


class _Words:
    """The words of a text in the form of keys, with articles, and their places.

    Places are computed when first needed: most texts mention nothing.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        if text.isascii():
            self._parts: Sequence[str] = _ASCII_WORD.split(text.lower())
            self.keys = self._parts[1::2]
            if "'" in text:
                self.keys = [bare(key) if "'" in key else key for key in self.keys]
        else:
            self._parts = ()
            self.keys = list(chain.from_iterable(map(_keys_of, PLAIN_WORD.findall(text))))

    @cached_property
    def spans(self) -> list[tuple[int, int]]:
        if not self._parts:
            matches = PLAIN_WORD.finditer(self.text)
            return [match.span() for match in matches for _ in _keys_of(match[0])]
        edges = list(accumulate(map(len, self._parts)))
        return list(zip(edges[::2], edges[1::2], strict=False))

    def capitalised(self, at: int) -> bool:
        return self.text[self.spans[at][0]].isupper()


@lru_cache(maxsize=1 << 14)
def _keys_of(word: str) -> tuple[str, ...]:
    """A word as keys. A ligature or a compatibility form can fold into several."""
    folded = [word.lower()] if word.isascii() else PLAIN_WORD.findall(fold(word))
    return tuple(map(bare, folded))


def _used_as_name(words: _Words, at: int, length: int, cased: bool) -> bool | None:
    """Whether words that form an alias are used as a name here; ``False`` is perhaps, ``None``
    is no."""
    opens = opens_sentence(words.text, words.spans[at][0])
    if length == 1:
        if not words.capitalised(at) or _inside_longer_name(words, at):
            return None
        return not opens
    capitals = [words.capitalised(i) for i in range(at, at + length)]
    if not cased or sum(capitals) > 1 or any(map(str.isdigit, words.keys[at : at + length])):
        return True
    if not any(capitals):
        return None
    return not (capitals[0] and opens)


def _inside_longer_name(words: _Words, at: int) -> bool:
    """Whether the word next to this one belongs to the same name."""
    if at > 0 and _joined(words, at - 1) and words.capitalised(at - 1):
        before = words.keys[at - 1]
        if before not in OPENERS or not opens_sentence(words.text, words.spans[at - 1][0]):
            return before not in ARTICLES
    return at + 1 < len(words.keys) and _joined(words, at) and words.capitalised(at + 1)


def _joined(words: _Words, at: int) -> bool:
    """Whether a word and the next are parted by one space, hyphen or ampersand."""
    end = words.spans[at][1]
    return words.spans[at + 1][0] == end + 1 and words.text[end] in " -&"
