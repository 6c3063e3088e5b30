"""What asking comes back with: the answer, what it rests on, and how it was come by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from packwise.context.packer import Context, PackedPassage
from packwise.models.llm import NO_USAGE, Usage
from packwise.trace import Trace

VECTOR_SEARCH = "vector_search"
GATED = "confidence_gated_fallback"
GRAPH_QUERY = "graph_query"
CYPHER = "cypher"

EXTRACTIVE = "extractive"
NOBODY = "none"


@dataclass(frozen=True, slots=True)
class Citation:
    """A passage the answer cites: ``[marker]`` in its text.

    ``ids`` are the stored passages it is made of, ``id`` the best ranked of them. What a
    graph query found is cited too, and has neither passages nor a document.
    """

    marker: int
    id: str
    ids: tuple[str, ...]
    document: str
    title: str
    section_path: tuple[str, ...]
    url: str
    text: str

    @classmethod
    def of(cls, passage: PackedPassage) -> Citation:
        return cls(
            marker=passage.marker,
            id=passage.id,
            ids=passage.ids,
            document=passage.document,
            title=passage.title or passage.document,
            section_path=passage.section_path,
            url=passage.url,
            text=passage.text,
        )

    def as_dict(self) -> dict[str, Any]:
        return {
            "marker": self.marker,
            "id": self.id,
            "ids": list(self.ids),
            "document": self.document,
            "title": self.title,
            "section_path": list(self.section_path),
            "url": self.url,
            "text": self.text,
        }


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer with its sources and its record.

    ``query_type`` says how it was come by: ``vector_search``, ``graph_query`` or ``cypher``
    from the store; ``confidence_gated_fallback`` when the store holds nothing on the question.
    ``answered_by`` is the language model's name, ``extractive`` for sentences of the documents,
    ``none`` when there is no answer. ``degraded`` names, a line each, what could not be done as
    asked. ``confidence`` is that of the search, ``probability`` the calibrated chance that the
    store holds the answer, where it is known.
    """

    question: str
    text: str
    query_type: str
    answered_by: str
    citations: tuple[Citation, ...] = ()
    entities: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    usage: Usage = NO_USAGE
    confidence: float = 0.0
    probability: float | None = None
    degraded: tuple[str, ...] = ()
    trace: Trace | None = None
    context: Context | None = None
    cypher_query: str | None = None

    @property
    def sources(self) -> tuple[str, ...]:
        """The titles of the cited documents, each once, in the order of first use."""
        return tuple(dict.fromkeys(c.title for c in self.citations if c.document))

    def as_dict(self) -> dict[str, Any]:
        """The answer as ``packwise ask --json`` prints it."""
        trace = self.trace.as_dict() if self.trace is not None else {}
        trace["packing"] = self.context.trace.as_dict() if self.context is not None else None
        return {
            "answer": self.text,
            "sources": list(self.sources),
            "entities": list(self.entities),
            "facts": list(self.facts),
            "cypher_query": self.cypher_query,
            "query_type": self.query_type,
            "token_usage": self.usage.as_dict(),
            "confidence": round(self.confidence, 6),
            "probability": None if self.probability is None else round(self.probability, 6),
            "degraded": list(self.degraded),
            "citations": [citation.as_dict() for citation in self.citations],
            "answered_by": self.answered_by,
            "question": self.question,
            "trace": trace,
        }
