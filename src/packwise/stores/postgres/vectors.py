"""Vectors on their way to PostgreSQL and back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from packwise.errors import EmbedderMismatch, UsageError
from packwise.stores.base import Vectors
from packwise.stores.rows import normalised


def literal(vector: Vectors) -> str:
    """A vector as pgvector reads it."""
    return f"[{','.join(map(str, vector.tolist()))}]"


def question(vector: Vectors | Sequence[float], dim: int, location: str) -> Vectors:
    """A question's vector, L2-normalised. Raises on the wrong shape or a number that is not
    finite."""
    asked = np.asarray(vector, dtype=np.float32)
    if asked.shape != (dim,):
        raise EmbedderMismatch(
            f"the question's vector has shape {asked.shape}, the vectors of {location} have"
            f" {dim} dimensions",
            fix="search with the embedder the store was built with",
        )
    if not np.isfinite(asked).all():
        raise UsageError("the question's vector holds a number that is not finite")
    return normalised(asked)
