"""Knowledge nodes, what a search returns for them, and the specs a text-to-SQL prompt needs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from packwise.documents import content_hash
from packwise.stores.postgres.rows import json_to_postgres

FIELD = "field"
QA_EXAMPLE = "qa_example"
TEXT_FIELDS = (
    "tenant_id",
    "dataset_name",
    "node_type",
    "title",
    "summary",
    "content_description",
    "content",
)
_BANDS = ((0.85, "high"), (0.70, "good"), (0.50, "partial"))


def band(score: float) -> str:
    """What a combined score means in a word: ``high``, ``good``, ``partial`` or ``low``."""
    return next((word for least, word in _BANDS if score >= least), "low")


@dataclass(frozen=True, slots=True)
class KnowledgeNode:
    """Something a tenant knows: a column of a table, a question with its SQL, a term.

    ``node_key`` is the writer's own name for the node, unique within a tenant; a node without
    one is identified by its content. ``node_id`` is the database's, once the node is stored.
    """

    tenant_id: str
    node_type: str
    title: str = ""
    summary: str = ""
    content_description: str = ""
    content: str = ""
    dataset_name: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    node_key: str = ""
    node_id: int | None = None
    embedder_version: str = ""

    @property
    def embedded_text(self) -> str:
        """The text to embed: title, summary and description (the content if there is none).

        The content of an answered question is its SQL, which resembles no question.
        """
        content = "" if self.node_type == QA_EXAMPLE else self.content
        parts = (self.title, self.summary, self.content_description or content)
        return " ".join(part for part in parts if part)

    @property
    def fingerprint(self) -> str:
        """Equal for nodes of equal content."""
        texts = [getattr(self, name) for name in TEXT_FIELDS if name != "tenant_id"]
        metadata = json.dumps(json_to_postgres(self.metadata), sort_keys=True, ensure_ascii=False)
        return content_hash(*texts, metadata)

    @property
    def key(self) -> str:
        """The key the node is stored under."""
        return self.node_key or self.fingerprint


@dataclass(frozen=True, slots=True)
class FoundNode:
    """A node that a search found, with all of its scores.

    bm25      BM25 among the nodes that were searched
    vector    cosine of query and node; ``None`` for a node without a vector
    keyword   ``bm25`` divided by the highest score this query can reach (0..1)
    combined  weighted average of the cosine, clipped to 0..1, and ``keyword``
    final     the score that the results are sorted by
    """

    node: KnowledgeNode
    combined: float
    bm25: float = 0.0
    vector: float | None = None
    keyword: float = 0.0
    final: float = 0.0

    @property
    def band(self) -> str:
        return band(self.combined)


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """A column of a database, as a prompt that writes SQL needs it."""

    field_name: str
    field_type: str
    description: str
    sample_values: tuple[str, ...] = ()

    @classmethod
    def from_node(cls, node: KnowledgeNode) -> FieldSpec:
        """The spec of a field node; its texts stand in for missing metadata."""
        samples = node.metadata.get("sample_values", ())
        if not isinstance(samples, (list, tuple)):
            samples = () if samples is None else (samples,)
        return cls(
            field_name=_text(node, "field_name") or node.title.rpartition(".")[2],
            field_type=_text(node, "field_type"),
            description=_text(node, "description")
            or node.content
            or node.content_description
            or node.summary,
            sample_values=tuple(map(str, samples)),
        )


@dataclass(frozen=True, slots=True)
class ExampleSpec:
    """A question with the SQL that answers it, and why."""

    question: str
    sql: str
    explanation: str = ""

    @classmethod
    def from_node(cls, node: KnowledgeNode) -> ExampleSpec:
        """The spec of an answered question; its texts stand in for missing metadata."""
        return cls(
            question=_text(node, "question") or node.title,
            sql=_text(node, "sql") or node.content,
            explanation=_text(node, "explanation") or node.summary,
        )


def _text(node: KnowledgeNode, name: str) -> str:
    value = node.metadata.get(name)
    return "" if value is None else str(value)
