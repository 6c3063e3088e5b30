"""Knowledge nodes, what a search returns for them, and the specs a text-to-SQL prompt needs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, time
from decimal import Decimal
from typing import Any
from uuid import UUID

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


MAX_TEXT = 200_000
"""Characters of a node's text, after its words are split, that can be searched by keyword."""
_MAX_KEY_BYTES = 2000
"""The longest id: with tenant and data set, it is part of an index."""
_SPLIT = re.compile("[a-z0-9](?=[A-Z])|[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
"""After these characters, the database splits words."""


def band(score: float) -> str:
    """What a score means in a word: ``high``, ``good``, ``partial`` or ``low``."""
    return next((word for least, word in _BANDS if score >= least), "low")


@dataclass(frozen=True, slots=True)
class KnowledgeNode:
    """Something a tenant knows: a column of a table, a question with its SQL, a term.

    ``node_key`` is the writer's own name for the node, unique within a tenant's data set; a node
    without one is identified by its content. ``node_id`` is the database's, once it is stored.
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
        return content_hash(*texts, metadata_json(self.metadata))

    @property
    def key(self) -> str:
        """The key the node is stored under."""
        return self.node_key or self.fingerprint

    @property
    def identity(self) -> tuple[str, str, str]:
        """Tenant, data set and key: what no two stored nodes share."""
        return self.tenant_id, self.dataset_name, self.key


def metadata_json(metadata: Mapping[str, Any]) -> str:
    """Metadata as JSON; dates, decimals and the like become texts. Raises ``TypeError`` or
    ``ValueError`` for what cannot be stored."""
    plain = json_to_postgres(metadata)
    return json.dumps(plain, sort_keys=True, ensure_ascii=False, allow_nan=False, default=_as_text)


def _as_text(value: object) -> str:
    if isinstance(value, (date, time, Decimal, UUID)):
        return value.isoformat() if isinstance(value, (date, time)) else str(value)
    raise TypeError(f"{type(value).__name__} is not a JSON value")


def problem_of(node: KnowledgeNode) -> str:
    """Why a node cannot be stored; empty if it can."""
    texts = [getattr(node, name) for name in TEXT_FIELDS]
    if wrong := [
        n for n, text in zip(TEXT_FIELDS, texts, strict=True) if not isinstance(text, str)
    ]:
        return f"{wrong[0]} of the node {str(node.title)[:60]!r} is not text"
    if not node.node_type:
        return f"the node {node.title[:60]!r} has no node_type"
    try:
        metadata_json(node.metadata)
    except (TypeError, ValueError) as error:
        return f"the metadata of the node {node.title[:60]!r} cannot be stored: {error}"
    names = (node.tenant_id, node.dataset_name, node.node_key)
    if sum(len(name.encode("utf-8", "replace")) for name in names) > _MAX_KEY_BYTES:
        return f"the id of the node {node.title[:60]!r} is longer than {_MAX_KEY_BYTES} bytes"
    text = " ".join(texts[3:])
    if len(text) > MAX_TEXT // 2 and (size := len(text) + len(_SPLIT.findall(text))) > MAX_TEXT:
        return (
            f"the text of the node {node.title[:60]!r} has {size:,} characters, and"
            f" {MAX_TEXT:,} can be searched: split it"
        )
    return ""


@dataclass(frozen=True, slots=True)
class FoundNode:
    """A node that a search found, with all of its scores.

    bm25      BM25 among the nodes that were searched
    vector    cosine of query and node; ``None`` for a node without a vector
    keyword   ``bm25`` divided by the highest score this query can reach (0..1)
    combined  weighted average of the cosine, clipped to 0..1, and ``keyword``
    final     the score that the results are sorted by
    relevance probability that the node is relevant; ``None`` where it is not known: for a search
              by keywords or vectors alone, and for an embedder without a fitted map
    """

    node: KnowledgeNode
    combined: float
    bm25: float = 0.0
    vector: float | None = None
    keyword: float = 0.0
    final: float = 0.0
    relevance: float | None = None

    @property
    def score(self) -> float:
        """``relevance`` where it is known, else ``combined``."""
        return self.combined if self.relevance is None else self.relevance

    @property
    def band(self) -> str:
        """What the score means in a word."""
        return band(self.score)


@dataclass(frozen=True, slots=True)
class NodeWrite:
    """The result of writing nodes: their ids in the order given, and what changed."""

    ids: tuple[int, ...]
    added: int
    changed: int
    unchanged: int


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """The nodes of one tenant, data set and type, and how many have a vector."""

    tenant_id: str
    dataset_name: str
    node_type: str
    nodes: int
    vectors: int


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """A column of a database, as a prompt that writes SQL needs it.

    ``references`` is the column that it refers to, as ``table.column`` or
    ``schema.table.column``; columns of one table with the same ``foreign_key`` refer together.
    """

    field_name: str
    field_type: str
    description: str
    sample_values: tuple[str, ...] = ()
    table: str = ""
    schema: str = ""
    primary_key: bool = False
    required: bool = False
    references: str = ""
    foreign_key: str = ""

    @classmethod
    def from_node(cls, node: KnowledgeNode) -> FieldSpec:
        """The spec of a field node; its texts stand in for missing metadata, and a title such
        as ``schema.table.column`` names its table."""
        samples = node.metadata.get("sample_values", ())
        if not isinstance(samples, (list, tuple)):
            samples = () if samples is None else (samples,)
        name = _text(node, "field_name") or node.title.rpartition(".")[2]
        titled = node.title.removesuffix(f".{name}") if node.title != name else ""
        schema, _, table = titled.rpartition(".")
        schema = _text(node, "schema") or schema
        # Earlier versions stored the schema as part of the table.
        named = _text(node, "table").removeprefix(f"{schema}." if schema else "")
        return cls(
            table=named or table,
            schema=schema,
            primary_key=node.metadata.get("primary_key") is True,
            required=node.metadata.get("required") is True,
            references=_text(node, "references"),
            foreign_key=_text(node, "foreign_key"),
            field_name=name,
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
