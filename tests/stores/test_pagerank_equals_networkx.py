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


def expected(nodes, links, personalisation=None):
    graph = nx.DiGraph()
    graph.add_nodes_from(range(nodes))
    graph.add_edges_from(links)
    ranks = nx.pagerank(
        graph, alpha=0.85, personalization=personalisation, tol=1e-12, max_iter=2000
    )
    return [ranks[node] for node in range(nodes)]


@settings(max_examples=60, deadline=None, suppress_health_check=BUSY)
@given(graphs())
def test_ranks_equal_those_of_networkx(graph):
    nodes, links = graph
    ranks = pagerank(nodes, *columns(links))
    assert np.abs(ranks - expected(nodes, links)).max() < 1e-6
    assert ranks.sum() == pytest.approx(1)


@settings(max_examples=40, deadline=None, suppress_health_check=BUSY)
@given(graphs(), st.data())
def test_ranks_around_a_question_equal_those_of_networkx(graph, data):
    nodes, links = graph
    weight = st.floats(0, 10).map(lambda w: w if w > 1e-3 else 0.0)
    weights = data.draw(st.lists(weight, min_size=nodes, max_size=nodes).filter(any))
    ranks = pagerank(nodes, *columns(links), np.array(weights))
    wanted = expected(nodes, links, dict(enumerate(weights)))
    assert np.abs(ranks - wanted).max() < 1e-6


def test_a_graph_without_nodes_has_no_ranks():
    assert pagerank(0, *columns([])).shape == (0,)


@pytest.mark.parametrize("weights", [[0, 0], [1], [1, -1], [np.nan, 1], [np.inf, 1]])
def test_weights_that_say_nothing_are_refused(weights):
    with pytest.raises(ValueError, match="personalisation"):
        pagerank(2, *columns([(0, 1)]), np.array(weights, dtype=float))
