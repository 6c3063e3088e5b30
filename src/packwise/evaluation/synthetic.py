"""Synthetic documents and an embedder without a model, for measurements of size.

The text has what the cost of a search depends on: words of Zipf's frequencies, articles that
mention others by their titles, a few of them far more often than the rest, and names that some
articles share. The vectors follow the words, so that near passages exist. Everything follows
from the numbers of the documents: the same numbers give the same pack.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, product
from typing import overload

import numpy as np

from packwise.models.base import OnEmbedded, Vectors
from packwise.stores.checks import normalised

PASSAGES_PER_DOCUMENT = 10
"""On average."""

_SECTIONS = 2 * PASSAGES_PER_DOCUMENT

_SENTENCES = 10
_WORDS = 13
_TOPIC_WORDS = 3
_COMMON_WORDS = 4
"""Of the words of a sentence, on average: from the document's topic, and of grammar."""

_VOCABULARY = 60_000
_EXPONENT = 1.05
_TITLED = 0.1
"""Share of sentences that mention another article."""

_NAMED = 0.05
"""Share of sentences that name a person; there are as many persons as documents."""

_SYLLABLES = [c + v for c, v in product("bdfgklmnprstvz", "aeiou")]
_COMMON = (
    "the of and to in is was for on that by with as it from at are be this which were has its"
    " also more most after used other between known under during first many these such when"
).split()
_WORD = re.compile(r"(\w+)")
_ROWS = 1 << 14


class SyntheticDocuments(Sequence[dict[str, str]]):
    """``count`` documents as rows for a build; those of ``edited`` have another text."""

    def __init__(self, count: int, edited: frozenset[int] = frozenset()) -> None:
        self._count = count
        self._edited = edited

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> dict[str, str]: ...
    @overload
    def __getitem__(self, index: slice) -> list[dict[str, str]]: ...
    def __getitem__(self, index: int | slice) -> dict[str, str] | list[dict[str, str]]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self._count))]
        if not 0 <= index < self._count:
            raise IndexError(index)
        random = np.random.default_rng([index, index in self._edited])
        headings = self._sentences(random, index, _SECTIONS, 3)
        sentences = self._sentences(random, index, _SECTIONS * _SENTENCES, _WORDS)
        parts = [f"# {title(index)}"]
        for number, heading in enumerate(headings):
            text = " ".join(sentences[number * _SENTENCES : (number + 1) * _SENTENCES])
            parts.append(f"## {heading.rstrip('.')}\n\n{text}")
        text = "\n\n".join(parts)
        return {"id": document_id(index), "title": title(index), "text": text, "lang": "en"}

    def _sentences(
        self, random: np.random.Generator, number: int, count: int, length: int
    ) -> list[str]:
        topic = _topic(number)
        ranks = np.searchsorted(_shares(), random.random((count, length))).tolist()
        kinds = random.integers(0, _WORDS, (count, length)).tolist()
        places = random.integers(0, 1 << 30, (count, length)).tolist()
        draws = random.random((count, 2)).tolist()
        found: list[str] = []
        for row, (draw, which) in enumerate(draws):
            words = [
                topic[place % len(topic)]
                if kind < _TOPIC_WORDS
                else _COMMON[place % len(_COMMON)]
                if kind < _TOPIC_WORDS + _COMMON_WORDS
                else _word(rank)
                for rank, kind, place in zip(ranks[row], kinds[row], places[row], strict=True)
            ]
            words[0] = words[0].capitalize()
            if draw < _TITLED:
                words.insert(len(words) // 2, title(int(self._count * which**3)))
            elif draw < _TITLED + _NAMED:
                words.insert(len(words) // 2, _person(int(self._count * which)))
            found.append(" ".join(words) + ".")
        return found


def questions(count: int, documents: int) -> list[str]:
    """Questions to a store of ``documents`` documents: words of a topic, and often a title."""
    return [question for question, _ in judged_questions(count, documents)]


def judged_questions(count: int, documents: int) -> list[tuple[str, str]]:
    """The same questions, each with the id of the document whose topic it asks for."""
    asked: list[tuple[str, str]] = []
    for at in range(count):
        random = np.random.default_rng([at, 99])
        number = int(random.integers(0, documents))
        topic = _topic(number)
        one, two, three = (topic[i] for i in random.integers(0, len(topic), 3))
        subject = (
            title(number) if random.random() < 0.5 else _word(int(random.integers(0, _VOCABULARY)))
        )
        asked.append((f"Which {one} {two} was {three} for {subject}?", document_id(number)))
    return asked


def document_id(number: int) -> str:
    """The id of a document."""
    return f"article-{number:07}"


def title(number: int) -> str:
    """The title of a document."""
    return f"{_word(3 * number + 11).capitalize()} {_word(7 * number + 5).capitalize()}"


def _person(number: int) -> str:
    return f"{_word(number % 997 + 70_000).capitalize()} {_word(number + 90_000).capitalize()}"


@lru_cache(maxsize=1 << 18)
def _word(rank: int) -> str:
    """The word of a rank, two syllables at least; no two ranks share one."""
    number, found = rank + len(_SYLLABLES), ""
    while number:
        number, at = divmod(number, len(_SYLLABLES))
        found += _SYLLABLES[at]
    return found


@lru_cache(maxsize=4096)
def _topic(number: int) -> list[str]:
    """Words that come again and again in one document."""
    return [_word(int(at)) for at in np.random.default_rng([number, 7]).integers(200, 9000, 40)]


@lru_cache(maxsize=1)
def _shares() -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The sums of Zipf's frequencies up to each rank."""
    weights = 1.0 / np.arange(1, _VOCABULARY + 1) ** _EXPONENT
    return np.cumsum(weights) / weights.sum()


class SyntheticEmbedder:
    """The sum of one random vector per word, the long words alone."""

    name = "synthetic"
    version = "synthetic-1"
    window = 512
    dim = 384

    def __init__(self) -> None:
        self._table = np.random.default_rng(1).standard_normal((_ROWS, self.dim), np.float32)

    def embed_passages(self, texts: Sequence[str], progress: OnEmbedded | None = None) -> Vectors:
        rows = [self.embed_query(text) for text in texts]
        if progress is not None:
            progress(len(rows))
        return np.stack(rows) if rows else np.empty((0, self.dim), np.float32)

    def embed_query(self, text: str) -> Vectors:
        rows = [_row(word) for word in _WORD.findall(text.lower()) if len(word) > 3] or [0]
        return normalised(self._table[rows].sum(axis=0)[None])[0]

    def token_spans(self, text: str) -> list[tuple[int, int]]:
        edges = list(accumulate(map(len, _WORD.split(text))))
        return list(zip(edges[::2], edges[1::2], strict=False))

    def similarity(self, cosine: float) -> float | None:
        return min(1.0, max(0.0, cosine))


@lru_cache(maxsize=1 << 18)
def _row(word: str) -> int:
    """The vector of a word."""
    return int.from_bytes(word.encode()[:8], "little") * 2654435761 % 4294967291 % _ROWS
