"""Index terms in Qdrant: what a passage holds, its sparse vector, and exact BM25.

Qdrant weighs rarity by itself (its IDF modifier) and finds the passages that may be the
best; their scores are then worked out by the one formula of ``stores.bm25`` from the counts
each passage carries and the statistics of the whole store, so they equal every other
store's to the digit.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from packwise.stores.bm25 import K1, B, idf, term_hash

_ENTRY = np.dtype([("hash", "<u8"), ("count", "<u2")])
_MOST_COUNTED = int(np.iinfo(np.uint16).max)

Entries = NDArray[np.void]


def pack_terms(terms: Sequence[str]) -> tuple[str, int]:
    """The distinct terms of a passage with their counts, as text, and how many there are
    with repetitions."""
    counted = Counter(terms)
    entries = np.empty(len(counted), dtype=_ENTRY)
    entries["hash"] = [term_hash(term) for term in counted]
    entries["count"] = [min(count, _MOST_COUNTED) for count in counted.values()]
    return base64.b64encode(entries.tobytes()).decode(), len(terms)


def unpack_terms(blob: str) -> Entries:
    """The inverse: an array with ``hash`` and ``count``."""
    return np.frombuffer(base64.b64decode(blob), dtype=_ENTRY)


def sparse(entries: Entries, length: int, average: float) -> tuple[list[int], list[float]]:
    """A passage's sparse vector: BM25 without rarity, under an assumed average length."""
    counts = entries["count"].astype(np.float64)
    norm = K1 * (1.0 - B + B * length / max(average, 1e-9))
    values = (K1 + 1.0) * counts / (counts + norm)
    best: dict[int, float] = {}
    # Two terms of one passage may share an index; the list of candidates bears that.
    for index, value in zip((entries["hash"] & 0xFFFFFFFF).tolist(), values.tolist(), strict=True):
        best[index] = max(best.get(index, 0.0), value)
    return list(best), list(best.values())


def sparse_index(term: str) -> int:
    """The index of a term in a sparse vector."""
    return term_hash(term) & 0xFFFFFFFF


def scores(
    blobs: Sequence[str],
    lengths: Sequence[int],
    frequencies: Mapping[str, int],
    passages: int,
    average: float,
) -> NDArray[np.float64]:
    """BM25 of each passage over the terms of ``frequencies``; 0 where it holds none."""
    entries = [unpack_terms(blob) for blob in blobs]
    found = np.zeros(len(entries), dtype=np.float64)
    if not entries:
        return found
    every = np.concatenate(entries)
    ends = np.cumsum([len(part) for part in entries])
    norms = K1 * (1.0 - B + B * np.array(lengths, dtype=np.float64) / max(average, 1e-9))
    for term, frequency in frequencies.items():
        hits = np.flatnonzero(every["hash"] == np.uint64(term_hash(term)))
        at = np.searchsorted(ends, hits, side="right")
        count = every["count"][hits].astype(np.float64)
        found[at] += idf(passages, frequency) * (K1 + 1.0) * count / (count + norms[at])
    return found
