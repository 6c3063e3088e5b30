"""Databases for the tests of knowledge nodes, on both kinds of server."""

import pytest
from nodes_world import Database, field

from postgres_servers import WHEELS


@pytest.fixture(params=WHEELS)
def database(request):
    """An empty database on each server."""
    made = Database(request.param)
    yield made
    made.close()


@pytest.fixture
def plain():
    """An empty database on the server without extensions for BM25."""
    made = Database("plain")
    yield made
    made.close()


@pytest.fixture
def shop(database):
    """Two tenants' nodes of two types and two data sets."""
    adapter = database.adapter()
    adapter.add_nodes(
        [
            field("acme", "customers.email", summary="customer email address"),
            field("acme", "customers.name", summary="customer name"),
            field("acme", "orders.total", summary="total revenue of an order"),
            field("acme", "staff.email", summary="employee email address", dataset_name="hr"),
            field(
                "acme",
                "show total revenue",
                node_type="qa_example",
                metadata={"sql": "SELECT sum(total) FROM orders", "explanation": "adds up"},
            ),
            field("rival", "customers.email", summary="customer email address secret"),
        ]
    )
    return adapter
