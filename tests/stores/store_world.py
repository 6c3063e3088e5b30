"""Documents, passages and vectors made up for the tests of stores; no model is needed."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from packwise.documents import (
    Block,
    BlockKind,
    Document,
    Link,
    Passage,
    Section,
    content_hash,
    passage_id,
)
from packwise.language.analyzer import terms

DIM = 16
EMBEDDER = {"embedder": "made-up", "embedder_version": "made-up-1", "dim": DIM}


def vector_of(text: str, dim: int = DIM) -> np.ndarray:
    """A unit vector that depends on the text alone."""
    seed = int.from_bytes(hashlib.blake2b(text.encode("utf-8", "replace")).digest()[:8], "little")
    vector = np.random.default_rng(seed).normal(size=dim).astype(np.float32)
    return vector / np.linalg.norm(vector)


def make(
    document_id: str,
    *texts: str,
    title: str | None = None,
    links: Sequence[str] = (),
    url: str = "",
    lang: str = "en",
    metadata: dict[str, str] | None = None,
) -> tuple[Document, list[Passage]]:
    """A document with one section and one passage a text."""
    title = f"About {document_id}" if title is None else title
    text, spans = "", []
    for part in texts:
        spans.append((len(text), len(text) + len(part)))
        text += f"{part}\n\n"
    document = Document(
        id=document_id,
        title=title,
        text=text,
        sections=tuple(
            Section((f"Part {i}",), 1, (Block(BlockKind.TEXT, start, end),), start, end)
            for i, (start, end) in enumerate(spans)
        ),
        links=tuple(Link(href=href, anchor=f"see {href}") for href in links),
        url=url,
        lang=lang,
        metadata=metadata or {},
        source_hash=content_hash(title, text, url, lang, repr(metadata), repr(links)),
    )
    passages = [
        Passage(
            id=passage_id(document_id, i),
            document=document_id,
            doc_title=title,
            section_path=(f"Part {i}",),
            order_index=i,
            text=text[start:end],
            start=start,
            end=end,
            content_hash="",
            embedder_version=EMBEDDER["embedder_version"],
            url=url,
            lang=lang,
            metadata=metadata or {},
            lead=f"announced:\u0000{i}" if i else "",
            blocks=(Block(BlockKind.LIST if i else BlockKind.TEXT, start, end),) if end else (),
            place=f"page {i}" if i else "",
        )
        for i, (start, end) in enumerate(spans)
    ]
    return document, [replace(p, content_hash=content_hash(p.indexed_text)) for p in passages]


def vectors_of(passages: Sequence[Passage], dim: int = DIM) -> np.ndarray:
    return np.array([vector_of(p.indexed_text, dim) for p in passages], np.float32).reshape(-1, dim)


def fill(store, documents: Iterable[tuple[Document, list[Passage]]], *, prune=True, **embedder):
    """Make a store hold these documents; what it holds already is kept."""
    identity = {**EMBEDDER, **embedder}
    with store.writer(**identity) as writer:
        known = writer.source_hashes()
        for document, passages in documents:
            if known.get(document.id) == document.source_hash:
                writer.keep(document.id)
                continue
            passages = [replace(p, embedder_version="") for p in passages]
            writer.stage(document, passages, vectors_of(passages, identity["dim"]))
        return writer.commit(prune=prune)


def found(store, matches) -> list[str]:
    """The passage ids of what a search found, best first."""
    return [passage.id for passage in store.passages([m.key for m in matches]) if passage]


def keyword(store, text: str, k: int = 10, **limits) -> list[str]:
    return found(store, store.keyword_search(terms(text), k, **limits))


def near(store, passage: Passage, k: int = 10, **limits) -> list[str]:
    return found(store, store.vector_search(vector_of(passage.indexed_text), k, **limits))


def snapshot(store) -> dict[str, tuple]:
    """All that a reader can see of a store's content, except the keys."""
    return {
        summary.id: (
            summary,
            store.document(summary.id),
            [passage for _, passage in store.document_passages(summary.id)],
            store.vectors([key for key, _ in store.document_passages(summary.id)]).tolist(),
        )
        for summary in store.documents()
    }
