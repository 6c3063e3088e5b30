"""The stores that the conformance suite runs on: one class a store."""

import pytest
from more_places import KuzuPlace, PackPlace, QdrantPlace
from postgres_place import PostgresPlace

PLACES = [PackPlace, PostgresPlace, QdrantPlace, KuzuPlace]


@pytest.fixture(scope="module", params=PLACES, ids=lambda place: place.__name__)
def kind(request):
    """Each kind of store in turn."""
    return request.param


@pytest.fixture
def place(kind, tmp_path):
    """A place without a store."""
    place = kind(tmp_path)
    yield place
    place.close()


@pytest.fixture(scope="module")
def shared_place(kind, tmp_path_factory):
    """Gives out places whose stores the tests of a module only read."""
    places = []

    def give():
        places.append(kind(tmp_path_factory.mktemp("shared")))
        return places[-1]

    yield give
    for place in places:
        place.close()
