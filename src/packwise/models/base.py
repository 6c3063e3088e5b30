"""The protocols of the models: what the rest of Packwise needs of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
OnEmbedded = Callable[[int], None]


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

    def similarity(self, cosine: float) -> float:
        """A cosine of this model on the scale of the confidence gate (0..1)."""
        ...


class CrossEncoder(Protocol):
    """Reads a question and a passage together and scores how well they match."""

    @property
    def name(self) -> str: ...

    def score(self, question: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Relevance of each text, 0..1."""
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
