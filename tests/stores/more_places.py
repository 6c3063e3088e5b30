"""Places for stores of every kind: see ``conftest.PLACES``."""

import atexit
import itertools
from functools import cache
from pathlib import Path

import pytest

from packwise.stores.base import Store
from packwise.stores.locate import create_or_open_store, open_store
from qdrant_server import Qdrant, Unavailable

_numbers = itertools.count()


class Place:
    """Where a test keeps a store of some kind."""

    location: str

    def __init__(self) -> None:
        self._open = []

    def build(self) -> Store:
        return self._kept(create_or_open_store(self.location))

    def read(self) -> Store:
        return self._kept(open_store(self.location))

    def close(self) -> None:
        for store in self._open:
            store.close()

    def _kept(self, store: Store) -> Store:
        self._open.append(store)
        return store


class PackPlace(Place):
    """A folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.location = str(folder / "pack")


@cache
def qdrant() -> Qdrant | Unavailable:
    """One server for all tests of a run, stopped at its end; or why there is none."""
    try:
        server = Qdrant()
    except Unavailable as reason:
        return reason
    atexit.register(server.stop)
    return server


def running_qdrant() -> Qdrant:
    server = qdrant()
    if isinstance(server, Unavailable):
        pytest.skip(f"no Qdrant server to test on: {server}")
    return server


def drop(location: str) -> None:
    """Remove the collections of a store, so that a long run does not slow its server down."""
    from qdrant_client import QdrantClient

    url, _, name = location.removeprefix("qdrant+").partition("?")[0].rpartition("/")
    client = QdrantClient(url=url, check_compatibility=False)
    for collection in client.get_collections().collections:
        if collection.name.startswith(f"{name}--"):
            client.delete_collection(collection.name)
    client.close()


class QdrantPlace(Place):
    """A collection on a real server, spoken to by HTTP."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        server = running_qdrant()
        self.location = f"qdrant+{server.url}/test-{next(_numbers)}"

    def close(self) -> None:
        super().close()
        drop(self.location)


class QdrantGrpcPlace(Place):
    """The same, spoken to by gRPC."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        server = running_qdrant()
        self.location = f"qdrant+{server.url}/test-{next(_numbers)}?grpc={server.grpc_port}"

    def close(self) -> None:
        super().close()
        drop(self.location)


class KuzuPlace(Place):
    """A Kuzu database in a file."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.location = f"kuzu:{folder / 'pack.db'}"
