"""A retriever and a query engine for LlamaIndex: ``pip install llama-index-core``."""

from __future__ import annotations

from typing import Any

from llama_index.core.base.response.schema import Response
from llama_index.core.query_engine import CustomQueryEngine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from pydantic import ConfigDict, Field

from packwise.answering.answer import Answer
from packwise.integrations.hits import hit_metadata
from packwise.library import Library
from packwise.retrieval.ranking import Ranking


class PackwiseRetriever(BaseRetriever):
    """The best passages of a library as nodes with scores.

    ``options`` are further options of ``Library.search``: ``mode``, ``where``, ``rerank``.
    """

    def __init__(self, library: Library, k: int = 5, **options: Any) -> None:
        super().__init__()
        self._library = library
        self._k = k
        self._options = options

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return _nodes(self._library.search(query_bundle.query_str, k=self._k, **self._options))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        found = await self._library.asearch(query_bundle.query_str, k=self._k, **self._options)
        return _nodes(found)


class PackwiseQueryEngine(CustomQueryEngine):
    """Answers of a library with their sources; its own language model, if any, writes them.

    The metadata of a response has the certainty (``likely``, ``unsure``, ``not covered``) and
    the probability of being right. ``options`` are those of ``Library.ask``.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    library: Library
    options: dict[str, Any] = Field(default_factory=dict)

    def custom_query(self, query_str: str) -> Response:
        """Answer a question."""
        return _response(self.library.ask(query_str, **self.options))

    async def acustom_query(self, query_str: str) -> Response:
        """Answer a question in another thread."""
        return _response(await self.library.aask(query_str, **self.options))


def _nodes(ranking: Ranking) -> list[NodeWithScore]:
    return [
        NodeWithScore(
            node=TextNode(id_=hit.passage.id, text=hit.passage.text, metadata=hit_metadata(hit)),
            score=hit.scores.final,
        )
        for hit in ranking.hits
    ]


def _response(answer: Answer) -> Response:
    sources = [
        NodeWithScore(
            node=TextNode(
                id_=citation.id,
                text=citation.text,
                metadata={
                    "document": citation.document,
                    "title": citation.title,
                    "url": citation.url,
                    "place": citation.place,
                },
            )
        )
        for citation in answer.citations
    ]
    facts = {"certainty": str(answer.certainty), "probability": answer.probability}
    return Response(response=answer.text, source_nodes=sources, metadata=facts)
