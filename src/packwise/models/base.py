"""The protocols of the models: what the rest of Packwise needs of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
OnEmbedded = Callable[[int], None]

LONGEST_SPAN = 30
"""Tokens of an answer that a span reader may mark."""


class Embedder(Protocol):
    """Turns texts into L2-normalised vectors. A text's vector depends on that text alone."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str:
        """Changes whenever the same text would get a different vector."""
        ...

    @property
    def dim(self) -> int: ...

    @property
    def window(self) -> int:
        """Tokens the model reads; it ignores the rest of a longer text."""
        ...

    def embed_passages(self, texts: Sequence[str], progress: OnEmbedded | None = None) -> Vectors:
        """One row per text; ``progress`` is called with the number of texts just embedded."""
        ...

    def embed_query(self, text: str) -> Vectors:
        """The vector of a question, shape ``(dim,)``."""
        ...

    def token_spans(self, text: str) -> list[tuple[int, int]]:
        """The character span of each token of the text, without special tokens."""
        ...

    def similarity(self, cosine: float) -> float | None:
        """A cosine of this model on the scale of the confidence gate (0..1).

        ``None`` if that scale was never measured for the model: then the cosine says which
        passage is nearer, but not whether it is near.
        """
        ...


class Encoding(Protocol):
    """The tokens of a text, or of two in one sequence."""

    @property
    def ids(self) -> list[int]: ...

    @property
    def type_ids(self) -> list[int]: ...

    @property
    def sequence_ids(self) -> list[int | None]:
        """Which text each token is from; ``None`` for special tokens."""
        ...

    @property
    def offsets(self) -> list[tuple[int, int]]:
        """The character span of each token in its text."""
        ...


class Tokenizer(Protocol):
    """Splits texts into a model's tokens. A subset of what the library tokenizers has."""

    def token_to_id(self, token: str) -> int | None: ...

    def enable_truncation(self, max_length: int) -> None:
        """Return at most this many tokens from now on; of two texts, the longer one is cut."""
        ...

    def encode(self, text: str, *, add_special_tokens: bool = True) -> Encoding: ...

    def post_process(self, first: Any, second: Any) -> Encoding:
        """The tokens of two encoded texts in one sequence, with its special tokens."""
        ...


class CrossEncoder(Protocol):
    """Reads a question and a passage together and scores how well they match."""

    @property
    def name(self) -> str: ...

    def score(self, question: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Relevance of each text, 0..1."""
        ...


class SpanLogits(NamedTuple):
    """Where in a text an answer may begin and end.

    ``offsets`` are the character spans of the text's tokens; ``start`` and ``end`` have a logit
    for each. ``null`` is the sum of the two logits that stand for "no answer in this text".
    """

    offsets: tuple[tuple[int, int], ...]
    start: NDArray[np.float32]
    end: NDArray[np.float32]
    null: float

    def scores(self) -> NDArray[np.float64]:
        """The score of each span by its first and last token; minus infinity for what is none."""
        scores = np.add.outer(self.start.astype(float), self.end.astype(float))
        first, last = np.indices(scores.shape)
        scores[(last < first) | (last - first >= LONGEST_SPAN)] = -np.inf
        return scores

    def best(self) -> tuple[float, int, int] | None:
        """Score, start and end of the best span, in characters; ``None`` of an empty text."""
        if not self.offsets:
            return None
        scores = self.scores()
        first, last = divmod(int(scores.argmax()), scores.shape[1])
        return float(scores[first, last]), self.offsets[first][0], self.offsets[last][1]


class SpanReader(Protocol):
    """Reads a question and a text together and finds where the answer begins and ends."""

    @property
    def name(self) -> str: ...

    def read(self, question: str, texts: Sequence[str]) -> list[SpanLogits]:
        """The logits of each text."""
        ...


@runtime_checkable
class MarkingCrossEncoder(Protocol):
    """A cross-encoder that also marks where in a text the answer may be, in the same reading."""

    def marks(self, question: str, texts: Sequence[str]) -> list[tuple[float, SpanLogits]] | None:
        """Relevance (0..1) and logits of each text; ``None`` if this build cannot mark."""
        ...


class TokenCounter(Protocol):
    """Counts the tokens a language model will see."""

    @property
    def name(self) -> str: ...

    @property
    def exact(self) -> bool:
        """Whether the count is the model's own rather than an estimate with a margin."""
        ...

    def count(self, text: str) -> int: ...

    def count_many(self, texts: Sequence[str]) -> list[int]: ...
