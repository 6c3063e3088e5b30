"""Where the conformance suite keeps a store in PostgreSQL."""

from pathlib import Path

from packwise.stores.base import Store
from packwise.stores.locate import create_or_open_store, open_store
from postgres_servers import Schema


class PostgresPlace:
    """A schema of its own on a real server."""

    def __init__(self, folder: Path) -> None:
        self._schema = Schema()
        self.location = self._schema.url
        self._open = []

    def build(self) -> Store:
        return self._kept(create_or_open_store(self.location))

    def read(self) -> Store:
        return self._kept(open_store(self.location))

    def close(self) -> None:
        for store in self._open:
            store.close()
        self._schema.drop()

    def _kept(self, store: Store) -> Store:
        self._open.append(store)
        return store
