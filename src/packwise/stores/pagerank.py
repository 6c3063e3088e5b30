"""PageRank by power iteration, over links given as two arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

DAMPING = 0.85
TOLERANCE = 1e-10
MOST_ROUNDS = 1000


def pagerank(
    nodes: int,
    sources: NDArray[np.int64],
    targets: NDArray[np.int64],
    personalisation: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """The rank of nodes ``0..nodes-1``, summing to 1.

    Several links between the same two nodes count as one. A node without links passes its
    rank on to all alike, or by ``personalisation``, which also says where a reader who
    follows no link starts over; it is scaled to sum to 1 and must not be all zero.
    """
    if nodes == 0:
        return np.empty(0, dtype=np.float64)
    start = _start(nodes, personalisation)
    pairs = np.unique(np.stack([sources, targets], axis=1).reshape(-1, 2), axis=0)
    sources, targets = pairs[:, 0], pairs[:, 1]
    out_degree = np.bincount(sources, minlength=nodes)
    dangling = out_degree == 0
    share = 1.0 / np.maximum(out_degree, 1)

    rank = start.copy()
    for _ in range(MOST_ROUNDS):
        followed = np.bincount(targets, weights=(rank * share)[sources], minlength=nodes)
        spread = DAMPING * rank[dangling].sum() + (1.0 - DAMPING)
        following = DAMPING * followed + spread * start
        following /= following.sum()
        moved = np.abs(following - rank).sum()
        rank = following
        if moved < TOLERANCE:
            break
    return rank


def _start(nodes: int, personalisation: NDArray[np.float64] | None) -> NDArray[np.float64]:
    if personalisation is None:
        return np.full(nodes, 1.0 / nodes)
    weights = np.asarray(personalisation, dtype=np.float64)
    if weights.shape != (nodes,):
        raise ValueError(f"personalisation has shape {weights.shape}, not ({nodes},)")
    total = weights.sum()
    if not np.isfinite(total) or total <= 0 or weights.min() < 0:
        raise ValueError("personalisation must hold finite weights, none below 0, not all 0")
    return weights / total
