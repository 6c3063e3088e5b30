"""Documents and passages as points of Qdrant, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from qdrant_client import models

from packwise.candidates import Filter
from packwise.documents import Document, Link, Passage, passage_id
from packwise.language.analyzer import terms
from packwise.language.names import Extraction
from packwise.stores.base import DocumentSummary
from packwise.stores.checks import normalised, storable
from packwise.stores.extractions import extraction_payload
from packwise.stores.qdrant.layout import DENSE, NEVER, Payload, has, has_any, tag
from packwise.stores.qdrant.statistics import pack_terms
from packwise.stores.records import (
    groups,
    layout_text,
    links_text,
    read_layout,
    read_links,
    read_sections,
    sections_text,
)

_PASSAGE = {
    "document": "document",
    "doc_title": "docTitle",
    "order_index": "orderIndex",
    "text": "text",
    "start": "start",
    "end": "end",
    "content_hash": "contentHash",
    "embedder_version": "embedderVersion",
    "url": "url",
    "lang": "lang",
}
"""The fields of a passage that a payload stores as they are, under these keys."""
_DOCUMENT = {
    "id": "id",
    "title": "title",
    "url": "url",
    "lang": "lang",
    "source_hash": "sourceHash",
}
PASSAGE_FIELDS = ["sectionPath", "metadata", "layout", *_PASSAGE.values()]
SUMMARY_FIELDS = ["passages", "metadata", *_DOCUMENT.values()]

_PREFIX_LENGTHS = (1, 2, 4, 8, 16, 32, 64)


def document_point(document: Document, passages: int, owner: int, size: int) -> Payload:
    """The payload of a staged document. ``owner`` is its key; ``size`` is in bytes."""
    return {
        "kind": "document",
        "born": NEVER,
        "died": NEVER,
        **{key: getattr(document, name) for name, key in _DOCUMENT.items()},
        "text": document.text,
        "metadata": dict(document.metadata),
        "passages": passages,
        "bytes": size,
        "sections": sections_text(document),
        "links": links_text(document),
        "tags": [
            tag("documents"),
            tag("document", document.id),
            *([tag("url", document.url)] if document.url else []),
            tag("owner", owner),
        ],
    }


def passage_point(passage: Passage, owner: int, extraction: Extraction | None) -> Payload:
    """The payload of a staged passage, with the fields that a context builder needs. ``owner``
    is the key of its document."""
    metadata = passage.metadata
    blob, length = pack_terms(terms(passage.indexed_text, passage.lang))
    payload: Payload = {
        "kind": "passage",
        "born": NEVER,
        "died": NEVER,
        **{key: getattr(passage, name) for name, key in _PASSAGE.items()},
        "sectionPath": list(passage.section_path),
        "layout": layout_text(passage),
        "header": passage.header,
        "tenant": metadata.get("tenant", ""),
        "spaceId": metadata.get("space", ""),
        "acl": groups(metadata),
        "metadata": dict(metadata),
        "terms": blob,
        "length": length,
        "owner": owner,
        "tags": [
            tag("passages"),
            tag("passages of", passage.document),
            tag("content", passage.content_hash),
            *(tag("prefix", prefix) for prefix in indexed_prefixes(passage.document)),
            *(tag("metadata", name, value) for name, value in metadata.items()),
            tag("owner", owner),
        ],
    }
    if extraction is not None:
        text = json.dumps(extraction_payload(extraction), ensure_ascii=False)
        payload["extraction"] = json.loads(storable(text))
    return payload


def read_passage(payload: Mapping[str, Any]) -> Passage:
    """A passage from a payload with ``PASSAGE_FIELDS``. Earlier builds stored no layout."""
    return Passage(
        id=passage_id(payload["document"], payload["orderIndex"]),
        section_path=tuple(payload["sectionPath"]),
        metadata=payload["metadata"],
        **read_layout(payload.get("layout", "")),
        **{name: payload[key] for name, key in _PASSAGE.items()},
    )


def read_summary(payload: Mapping[str, Any], pagerank: float) -> DocumentSummary:
    """A document without its text, from a payload with ``SUMMARY_FIELDS``."""
    return DocumentSummary(
        passages=payload["passages"],
        pagerank=pagerank,
        metadata=payload["metadata"],
        **{name: payload[key] for name, key in _DOCUMENT.items()},
    )


def read_document(payload: Mapping[str, Any], targets: Sequence[str | None] = ()) -> Document:
    """A document from its payload; ``targets`` are the documents its links lead to, if known."""
    links = read_links(payload["links"])
    return Document(
        text=payload["text"],
        sections=read_sections(payload["sections"]),
        links=tuple(
            Link(href, anchor, start, target, kind)
            for (href, anchor, start, kind), target in zip(
                links, targets or [None] * len(links), strict=True
            )
        ),
        metadata=payload["metadata"],
        **{name: payload[key] for name, key in _DOCUMENT.items()},
    )


def read_vector(record: Any, dim: int) -> NDArray[np.float32]:
    """The dense vector of a point, L2-normalised; zeros if it has none."""
    found = record.vector.get(DENSE) if isinstance(record.vector, dict) else None
    if found is None:
        return np.zeros(dim, dtype=np.float32)
    return normalised(np.asarray(found, dtype=np.float32))


def indexed_prefixes(document_id: str) -> list[str]:
    """The prefixes of an id that are indexed: short ones, whole folders, and the id itself."""
    lengths = {length for length in _PREFIX_LENGTHS if length < len(document_id)}
    lengths.update(at + 1 for at, letter in enumerate(document_id) if letter == "/")
    lengths.add(len(document_id))
    return [document_id[:length] for length in sorted(lengths) if length]


def is_indexed_prefix(prefix: str) -> bool:
    """Whether every id with this prefix has it among its indexed prefixes."""
    return prefix.endswith("/") or len(prefix) in _PREFIX_LENGTHS


def conditions(where: Filter) -> list[Any]:
    """A ``Filter``, except for its path prefix, as conditions on passages."""
    named = {"tenant": where.tenant, "spaceId": where.space, "lang": where.lang}
    found: list[Any] = [
        models.FieldCondition(key=field, match=models.MatchValue(value=storable(value)))
        for field, value in named.items()
        if value
    ]
    if where.acl:
        allowed = [storable(group.strip()) for group in where.acl]
        found.append(
            models.Filter(
                should=[
                    models.IsEmptyCondition(is_empty=models.PayloadField(key="acl")),
                    models.FieldCondition(key="acl", match=models.MatchAny(any=allowed)),
                ]
            )
        )
    if where.documents:
        found.append(has_any(tag("passages of", storable(name)) for name in where.documents))
    metadata = [*where.metadata.items()]
    if where.node_type:
        metadata.append(("node_type", where.node_type))
    found += has(*(tag("metadata", storable(name), storable(value)) for name, value in metadata))
    return found
