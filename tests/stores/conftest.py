"""The stores that the conformance suite runs on: one class a store."""

from pathlib import Path

import pytest
from more_places import KuzuPlace, QdrantPlace
from postgres_place import PostgresPlace

from packwise.stores.base import Store
from packwise.stores.pack import create_or_open_pack, open_pack


class PackPlace:
    """Where a test keeps its pack."""

    def __init__(self, folder: Path) -> None:
        self.location = str(folder / "pack")
        self._open = []

    def build(self) -> Store:
        """The store, open to be built."""
        return self._kept(create_or_open_pack(self.location))

    def read(self) -> Store:
        """The store, open to be read."""
        return self._kept(open_pack(self.location))

    def close(self) -> None:
        for store in self._open:
            store.close()

    def _kept(self, store: Store) -> Store:
        self._open.append(store)
        return store


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
