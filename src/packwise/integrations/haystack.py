"""A retriever component for Haystack: ``pip install haystack-ai``."""

from typing import Any

from haystack import Document, component, default_from_dict, default_to_dict

from packwise.integrations.hits import hit_metadata
from packwise.library import Library, open_library


@component
class PackwiseRetriever:
    """The best passages of a store as Haystack documents.

    ``store`` is anything that ``packwise.open`` takes; it is opened at ``warm_up``, which a
    pipeline calls. ``options`` are further options of ``Library.search``.
    """

    def __init__(self, store: str, top_k: int = 5, options: dict[str, Any] | None = None) -> None:
        self.store = store
        self.top_k = top_k
        self.options = options or {}
        self._library: Library | None = None

    def warm_up(self) -> None:
        """Open the store and load its embedder."""
        if self._library is None:
            self._library = open_library(self.store)

    @component.output_types(documents=list[Document], confidence=float)
    def run(self, query: str, top_k: int | None = None) -> dict[str, Any]:
        """The documents, best first, and how sure the search is that they hold the answer."""
        self.warm_up()
        assert self._library is not None
        ranking = self._library.search(query, k=top_k or self.top_k, **self.options)
        documents = [
            Document(
                id=hit.passage.id,
                content=hit.passage.text,
                meta=hit_metadata(hit),
                score=hit.scores.final,
            )
            for hit in ranking.hits
        ]
        return {"documents": documents, "confidence": ranking.confidence}

    def close(self) -> None:
        """Close the store."""
        if self._library is not None:
            self._library.close()
            self._library = None

    def to_dict(self) -> dict[str, Any]:
        """The component as part of a saved pipeline."""
        return default_to_dict(self, store=self.store, top_k=self.top_k, options=self.options)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "PackwiseRetriever":
        """The component of a saved pipeline."""
        return default_from_dict(cls, data)
