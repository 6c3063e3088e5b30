"""Where the conformance suite keeps a store in PostgreSQL."""

from pathlib import Path

from more_places import Place

from postgres_servers import Schema


class PostgresPlace(Place):
    """A schema of its own on a real server."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._schema = Schema()
        self.location = self._schema.url

    def close(self) -> None:
        super().close()
        self._schema.drop()
