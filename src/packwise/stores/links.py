"""Where links lead, and PageRank over them.

A link leads to the document of that id, else the one at that URL, else the same for the link
without its fragment. A document's link to itself leads nowhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

DAMPING = 0.85
TOLERANCE = 1e-10
MOST_ROUNDS = 1000


def index_urls(documents: Iterable[tuple[str, str]]) -> dict[str, str]:
    """URL to document id, from (id, url); of several at one URL the first id counts."""
    urls: dict[str, str] = {}
    for name, url in documents:
        if url:
            urls[url] = min(name, urls.get(url, name))
    return urls


def target_of(
    href: str, source: str, ids: Mapping[str, object] | set[str], urls: Mapping[str, str]
) -> str | None:
    """The document a link of ``source`` leads to, if any."""
    page = href.partition("#")[0]
    for name in (href, page):
        found = name if name in ids else urls.get(name) if name else None
        if found is not None:
            return None if found == source else found
    return None


def pagerank(
    nodes: int, sources: NDArray[np.int64], targets: NDArray[np.int64]
) -> NDArray[np.float64]:
    """The rank of nodes ``0..nodes-1``, summing to 1.

    Several links between the same two nodes count as one. A node without links passes its
    rank on to all nodes equally.
    """
    if nodes == 0:
        return np.empty(0, dtype=np.float64)
    pairs = np.unique(np.stack([sources, targets], axis=1).reshape(-1, 2), axis=0)
    sources, targets = pairs[:, 0], pairs[:, 1]
    out_degree = np.bincount(sources, minlength=nodes)
    dangling = out_degree == 0
    share = 1.0 / np.maximum(out_degree, 1)

    rank = np.full(nodes, 1.0 / nodes)
    for _ in range(MOST_ROUNDS):
        followed = np.bincount(targets, weights=(rank * share)[sources], minlength=nodes)
        spread = DAMPING * rank[dangling].sum() + (1.0 - DAMPING)
        following = DAMPING * followed + spread / nodes
        following /= following.sum()
        moved = np.abs(following - rank).sum()
        rank = following
        if moved < TOLERANCE:
            break
    return rank


def document_ranks(
    documents: Sequence[int], links: Iterable[tuple[int, int]]
) -> list[tuple[int, float]]:
    """Each document (keys, ascending) with its PageRank over links between keys."""
    keys = np.array(documents, dtype=np.int64)
    pairs = np.array(list(links), dtype=np.int64).reshape(-1, 2)
    at = np.searchsorted(keys, pairs)
    ranks = pagerank(len(keys), at[:, 0], at[:, 1])
    return list(zip(documents, ranks.tolist(), strict=True))
