"""BM25: the formula every store uses.

idf(t)   = ln(1 + (N - n_t + 0.5) / (n_t + 0.5))
score    = sum over terms of idf(t) * (k1 + 1) * f / (f + k1 * (1 - b + b * length / average))
bound    = sum over terms of idf(t) * (k1 + 1): every term present, at saturation
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from functools import lru_cache

from packwise.stores.base import TermStatistics

K1 = 1.2
B = 0.75


def idf(passages: int, frequency: int) -> float:
    """Rarity of a term that ``frequency`` of ``passages`` passages hold; above 0."""
    return math.log(1.0 + (passages - frequency + 0.5) / (frequency + 0.5))


def bound(terms: Sequence[str], statistics: TermStatistics) -> float:
    """The score no passage can exceed for these terms (duplicates count once)."""
    return sum(
        idf(statistics.passages, statistics.frequency.get(term, 0)) * (K1 + 1.0)
        for term in dict.fromkeys(terms)
    )


@lru_cache(maxsize=1 << 17)
def term_hash(term: str) -> int:
    """A term as 64 bits; that any two of a million terms share them has odds of 3 in 10**8."""
    digest = hashlib.blake2b(term.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")
