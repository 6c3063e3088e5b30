"""A retriever for DSPy: ``pip install dspy``."""

from __future__ import annotations

from typing import Any

import dspy

from packwise.integrations.hits import hit_metadata
from packwise.library import Library


class PackwiseRetriever(dspy.Module):
    """The best passages of a library, for use in a DSPy program.

    A prediction has ``passages`` (the texts), ``sources`` (where each comes from) and
    ``confidence``. ``options`` are further options of ``Library.search``.
    """

    def __init__(self, library: Library, k: int = 5, **options: Any) -> None:
        super().__init__()
        self.k = k
        self._library = library
        self._options = options

    def forward(self, query: str, k: int | None = None) -> dspy.Prediction:
        """Search for a query."""
        ranking = self._library.search(query, k=k or self.k, **self._options)
        return dspy.Prediction(
            passages=[hit.passage.text for hit in ranking.hits],
            sources=[hit_metadata(hit) for hit in ranking.hits],
            confidence=ranking.confidence,
        )
