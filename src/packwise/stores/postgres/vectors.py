"""Vectors on their way to PostgreSQL."""

from __future__ import annotations

from packwise.stores.base import Vectors


def literal(vector: Vectors) -> str:
    """A vector as pgvector reads it."""
    return f"[{','.join(map(str, vector.tolist()))}]"
