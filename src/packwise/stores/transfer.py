"""Moving content between stores without parsing, chunking or embedding it again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np

from packwise.documents import Document, Passage, content_hash
from packwise.language.names import Extraction
from packwise.stores.base import Store, Vectors, Writer

_TOGETHER = 64


@dataclass(frozen=True, slots=True)
class Content:
    """One document with everything that belongs to it; its links are unresolved."""

    document: Document
    passages: tuple[Passage, ...]
    vectors: Vectors
    extractions: tuple[Extraction, ...] = ()


def content_of(store: Store, document_id: str) -> Content | None:
    """A document of a store, ready to be staged in another; ``None`` when it is missing."""
    document = store.document(document_id)
    if document is None:
        return None
    pairs = store.document_passages(document_id)
    keys = [key for key, _ in pairs]
    read = store.extractions(keys)
    return Content(
        replace(document, links=tuple(replace(link, target=None) for link in document.links)),
        tuple(passage for _, passage in pairs),
        store.vectors(keys),
        tuple(read[key] for key in keys if key in read),
    )


@runtime_checkable
class ReadsInBulk(Protocol):
    """A store that reads many documents at once faster than one by one."""

    def contents(self, document_ids: Sequence[str]) -> Mapping[str, Content]:
        """``content_of`` for each of these documents; missing ones are left out."""
        ...


def contents(store: Store, document_ids: Sequence[str]) -> Iterator[Content]:
    """Those of these documents that exist, in the order asked."""
    for at in range(0, len(document_ids), _TOGETHER):
        names = document_ids[at : at + _TOGETHER]
        if isinstance(store, ReadsInBulk):
            found = store.contents(names)
            yield from (found[name] for name in names if name in found)
            continue
        for name in names:
            content = content_of(store, name)
            if content is not None:
                yield content


def stage_all(store: Store, document_ids: Sequence[str], writer: Writer) -> None:
    """Stage these documents of a store in a build of another."""
    for content in contents(store, document_ids):
        writer.stage(content.document, content.passages, content.vectors, content.extractions)


def checksum(content: Content) -> str:
    """A hash of a document's text, structure, links and passages: equal in every store that
    holds the same. Vectors are compared by ``same_vectors``, since stores round them."""
    document = content.document
    parts = [
        document.id,
        document.title,
        document.text,
        document.url,
        document.lang,
        document.source_hash,
        repr(sorted(document.metadata.items())),
        repr([(s.path, s.level, s.start, s.end, s.blocks) for s in document.sections]),
        repr([(k.href, k.anchor, k.start, k.kind) for k in document.links]),
    ]
    for p in content.passages:
        parts.append(repr((p.order_index, p.section_path, p.start, p.end, p.content_hash, p.url)))
    parts.extend(repr(extraction) for extraction in content.extractions)
    return content_hash(*parts)


def same_vectors(one: Vectors, other: Vectors) -> bool:
    """Whether two stores hold the same vectors, up to rounding to half precision."""
    if one.shape != other.shape:
        return False
    return bool(np.allclose(one, other, rtol=0.0, atol=2e-3))
