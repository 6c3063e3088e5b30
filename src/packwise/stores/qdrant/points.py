"""Documents and passages as points of Qdrant, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from packwise.candidates import Filter
from packwise.documents import Document, Link, Passage, passage_id
from packwise.language.analyzer import terms
from packwise.language.names import Extraction
from packwise.stores.checks import normalised, storable
from packwise.stores.entity_extraction import extraction_payload
from packwise.stores.qdrant.layout import NEVER, Payload, tag
from packwise.stores.qdrant.weights import pack_terms
from packwise.stores.records import (
    PassageRecord,
    groups,
    links_text,
    passage_of,
    read_links,
    read_sections,
    sections_text,
)

PASSAGE_FIELDS = [
    "born",
    "died",
    "document",
    "docTitle",
    "sectionPath",
    "orderIndex",
    "text",
    "start",
    "end",
    "contentHash",
    "embedderVersion",
    "url",
    "lang",
    "metadata",
]
SUMMARY_FIELDS = ["id", "title", "url", "lang", "sourceHash", "passages", "metadata"]


def document_point(document: Document, passages: int) -> Payload:
    """The payload of a staged document; ``tags`` gets its owner tag from the writer."""
    return {
        "kind": "document",
        "born": NEVER,
        "died": NEVER,
        "id": document.id,
        "title": document.title,
        "text": document.text,
        "url": document.url,
        "lang": document.lang,
        "metadata": dict(document.metadata),
        "sourceHash": document.source_hash,
        "passages": passages,
        "sections": sections_text(document),
        "links": links_text(document),
        "tags": [
            tag("documents"),
            tag("document", document.id),
            *([tag("url", document.url)] if document.url else []),
        ],
    }


def passage_point(
    document: Document, row: PassageRecord, embedder_version: str, extraction: Extraction | None
) -> Payload:
    """The payload of a staged passage, with the fields a context builder asks for."""
    metadata = document.metadata
    passage = passage_of(document, row, embedder_version)
    blob, length = pack_terms(terms(passage.indexed_text))
    payload: Payload = {
        "kind": "passage",
        "born": NEVER,
        "died": NEVER,
        "document": document.id,
        "docTitle": document.title,
        "sectionPath": list(row.section_path),
        "header": passage.header,
        "orderIndex": row.position,
        "text": passage.text,
        "start": row.start,
        "end": row.end,
        "contentHash": row.content_hash,
        "embedderVersion": embedder_version,
        "url": passage.url,
        "lang": document.lang,
        "tenant": metadata.get("tenant", ""),
        "spaceId": metadata.get("space", ""),
        "acl": groups(metadata),
        "metadata": dict(metadata),
        "terms": blob,
        "length": length,
        "tags": [
            tag("passages"),
            tag("passages of", document.id),
            tag("content", row.content_hash),
            *(tag("prefix", rung) for rung in rungs(document.id)),
            *(tag("metadata", name, value) for name, value in metadata.items()),
        ],
    }
    if extraction is not None:
        text = json.dumps(extraction_payload(extraction), ensure_ascii=False)
        payload["extraction"] = json.loads(storable(text))
    return payload


def read_passage(payload: Mapping[str, Any]) -> Passage:
    """A passage from a payload with ``PASSAGE_FIELDS``."""
    return Passage(
        id=passage_id(payload["document"], payload["orderIndex"]),
        document=payload["document"],
        doc_title=payload["docTitle"],
        section_path=tuple(payload["sectionPath"]),
        order_index=payload["orderIndex"],
        text=payload["text"],
        start=payload["start"],
        end=payload["end"],
        content_hash=payload["contentHash"],
        embedder_version=payload["embedderVersion"],
        url=payload["url"],
        lang=payload["lang"],
        metadata=payload["metadata"],
    )


def read_document(payload: Mapping[str, Any], targets: Sequence[str | None]) -> Document:
    """A document from its payload; ``targets`` are where its links lead, one each."""
    return Document(
        id=payload["id"],
        title=payload["title"],
        text=payload["text"],
        sections=read_sections(payload["sections"]),
        links=tuple(
            Link(href, anchor, start, target, kind)
            for (href, anchor, start, kind), target in zip(
                read_links(payload["links"]), targets, strict=True
            )
        ),
        url=payload["url"],
        lang=payload["lang"],
        metadata=payload["metadata"],
        source_hash=payload["sourceHash"],
    )


def read_vector(vectors: Any, name: str, dim: int) -> NDArray[np.float32]:
    """A named vector of a point, L2-normalised; zeros where there is none."""
    found = vectors.get(name) if isinstance(vectors, dict) else None
    if found is None:
        return np.zeros(dim, dtype=np.float32)
    return normalised(np.asarray(found, dtype=np.float32))


_RUNGS = (1, 2, 4, 8, 16, 32, 64)


def rungs(document_id: str) -> list[str]:
    """Those beginnings of an id that are indexed: short ones, whole folders, and itself."""
    lengths = {length for length in _RUNGS if length < len(document_id)}
    lengths.update(at + 1 for at, letter in enumerate(document_id) if letter == "/")
    lengths.add(len(document_id))
    return [document_id[:length] for length in sorted(lengths) if length]


def conditions(where: Filter) -> list[Any]:
    """A ``Filter`` without its path prefix as conditions on passages."""
    from qdrant_client import models

    from packwise.stores.qdrant.layout import has, has_any

    def equal(field: str, value: str) -> Any:
        return models.FieldCondition(key=field, match=models.MatchValue(value=storable(value)))

    named = {"tenant": where.tenant, "spaceId": where.space, "lang": where.lang}
    found = [equal(field, value) for field, value in named.items() if value]
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
    if where.node_type:
        found += has(tag("metadata", "node_type", storable(where.node_type)))
    if where.documents:
        found.append(has_any(tag("passages of", storable(name)) for name in where.documents))
    found += [
        condition
        for name, value in where.metadata.items()
        for condition in has(tag("metadata", storable(name), storable(value)))
    ]
    return found
