"""A retriever for LangChain: ``pip install langchain-core``."""

from __future__ import annotations

from typing import Any

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import ConfigDict, Field

from packwise.integrations.hits import hit_metadata
from packwise.library import Library
from packwise.retrieval.ranking import Ranking


class PackwiseRetriever(BaseRetriever):
    """The best passages of a library as LangChain documents.

    ``options`` are further options of ``Library.search``: ``mode``, ``where``, ``rerank``.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    library: Library
    k: int = 5
    options: dict[str, Any] = Field(default_factory=dict)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        return _documents(self.library.search(query, k=self.k, **self.options))

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun
    ) -> list[Document]:
        return _documents(await self.library.asearch(query, k=self.k, **self.options))


def _documents(ranking: Ranking) -> list[Document]:
    return [
        Document(id=hit.passage.id, page_content=hit.passage.text, metadata=hit_metadata(hit))
        for hit in ranking.hits
    ]
