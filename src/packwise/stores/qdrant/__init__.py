"""A store in Qdrant, for collections that one machine cannot hold."""

from packwise.errors import StoreError

try:
    import qdrant_client  # noqa: F401  # pyright: ignore[reportUnusedImport]
except ImportError as error:
    raise StoreError(
        "the package qdrant-client is not installed", fix="pip install 'packwise[qdrant]'"
    ) from error
