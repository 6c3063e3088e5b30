"""Term counts, sparse vectors, exact BM25, and tables of numbers, packed into payloads.

Qdrant applies IDF by itself and proposes candidates. Their scores are then computed with the
formula of ``stores.bm25``, from the counts each passage carries and the statistics of the
whole store, so they equal those of every other store.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from qdrant_client import models

from packwise.stores.bm25 import K1, B, idf, term_hash

TABLE_PARTS = 64
"""A table of numbers by name (passages per term, PageRank per document) is split by hash into
this many points: a reader fetches the parts it needs, a commit writes those that changed."""

_COUNTS = np.dtype([("hash", "<u8"), ("count", "<u2")])
_MOST_COUNTED = int(np.iinfo(np.uint16).max)
_NUMBERS = np.dtype([("hash", "<u8"), ("value", "<f8")])


def pack_terms(terms: Sequence[str]) -> tuple[str, int]:
    """The distinct terms of a passage with their counts, and the number of all its terms."""
    counted = Counter(terms)
    entries = np.empty(len(counted), dtype=_COUNTS)
    entries["hash"] = [term_hash(term) for term in counted]
    entries["count"] = [min(count, _MOST_COUNTED) for count in counted.values()]
    return base64.b64encode(entries.tobytes()).decode(), len(terms)


def unpack_terms(blob: str) -> NDArray[np.void]:
    """The inverse of ``pack_terms``: an array with ``hash`` and ``count``."""
    return np.frombuffer(base64.b64decode(blob), dtype=_COUNTS)


def pack_part(values: Mapping[int, float]) -> str:
    """Part of a table, from hash to number."""
    entries = np.empty(len(values), dtype=_NUMBERS)
    entries["hash"] = list(values)
    entries["value"] = list(values.values())
    return base64.b64encode(entries.tobytes()).decode()


def unpack_part(blob: str) -> dict[int, float]:
    """The inverse of ``pack_part``."""
    entries = np.frombuffer(base64.b64decode(blob), dtype=_NUMBERS)
    return dict(zip(entries["hash"].tolist(), entries["value"].tolist(), strict=True))


def sparse_vector(blob: str, length: int, average: float) -> models.SparseVector:
    """A passage's sparse vector: BM25 without IDF, for an assumed average length."""
    entries = unpack_terms(blob)
    counts = entries["count"].astype(np.float64)
    values = (K1 + 1.0) * counts / (counts + _length_norm(length, average))
    best: dict[int, float] = {}
    # Two terms of a passage may share an index: that only adds or drops a candidate.
    for index, value in zip((entries["hash"] & 0xFFFFFFFF).tolist(), values.tolist(), strict=True):
        best[index] = max(best.get(index, 0.0), value)
    return models.SparseVector(indices=list(best), values=list(best.values()))


def sparse_query(terms: Sequence[str]) -> models.SparseVector:
    """The sparse vector that finds passages with any of these terms."""
    indexes = list(dict.fromkeys(term_hash(term) & 0xFFFFFFFF for term in terms))
    return models.SparseVector(indices=indexes, values=[1.0] * len(indexes))


def bm25_scores(
    blobs: Sequence[str],
    lengths: Sequence[int],
    frequencies: Mapping[str, int],
    passages: int,
    average: float,
) -> NDArray[np.float64]:
    """BM25 of each passage over the terms of ``frequencies``; 0 if it has none of them."""
    scores = np.zeros(len(blobs), dtype=np.float64)
    if not blobs:
        return scores
    entries = [unpack_terms(blob) for blob in blobs]
    ends = np.cumsum([len(part) for part in entries])
    joined = np.concatenate(entries)
    norms = _length_norm(np.array(lengths, dtype=np.float64), average)
    for term, frequency in frequencies.items():
        hits = np.flatnonzero(joined["hash"] == np.uint64(term_hash(term)))
        rows = np.searchsorted(ends, hits, side="right")
        count = joined["count"][hits].astype(np.float64)
        scores[rows] += idf(passages, frequency) * (K1 + 1.0) * count / (count + norms[rows])
    return scores


def _length_norm(length: NDArray[np.float64] | float, average: float) -> NDArray[np.float64]:
    return np.asarray(K1 * (1.0 - B + B * length / max(average, 1e-9)))
