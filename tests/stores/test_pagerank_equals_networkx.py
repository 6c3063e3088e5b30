"""PageRank against networkx, on graphs with dangling nodes, loops and parallel links."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from packwise.stores.links import pagerank

BUSY = [HealthCheck.too_slow]
"""What a machine with other work to do must not turn into a failure."""


@st.composite
def graphs(draw):
    nodes = draw(st.integers(1, 25))
    node = st.integers(0, nodes - 1)
    return nodes, draw(st.lists(st.tuples(node, node), max_size=80))


def columns(links):
    pairs = np.array(links, dtype=np.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def expected(nodes, links):
    graph = nx.DiGraph()
    graph.add_nodes_from(range(nodes))
    graph.add_edges_from(links)
    ranks = nx.pagerank(graph, alpha=0.85, tol=1e-12, max_iter=2000)
    return [ranks[node] for node in range(nodes)]


@settings(max_examples=60, deadline=None, suppress_health_check=BUSY)
@given(graphs())
def test_ranks_equal_those_of_networkx(graph):
    nodes, links = graph
    ranks = pagerank(nodes, *columns(links))
    assert np.abs(ranks - expected(nodes, links)).max() < 1e-6
    assert ranks.sum() == pytest.approx(1)


def test_a_graph_without_nodes_has_no_ranks():
    assert pagerank(0, *columns([])).shape == (0,)
