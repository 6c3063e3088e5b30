"""A few passages to put into a store."""

import numpy as np
from nodes_world import DIM

from packwise.documents import Document, Passage, Section, content_hash, passage_id


def _document(name: str, text: str) -> tuple[Document, list[Passage]]:
    document = Document(
        id=name,
        title=name.title(),
        text=text,
        sections=(Section((), 0, (), 0, len(text)),),
        source_hash=content_hash(text),
    )
    passage = Passage(
        id=passage_id(name, 0),
        document=name,
        doc_title=document.title,
        section_path=(),
        order_index=0,
        text=text,
        start=0,
        end=len(text),
        content_hash=content_hash(name, text),
    )
    return document, [passage]


PASSAGES = [_document("apple", "Apples are red."), _document("pear", "Pears are green.")]


def stage(writer, documents) -> None:
    for i, (document, passages) in enumerate(documents):
        vectors = np.zeros((len(passages), DIM), np.float32)
        vectors[:, i] = 1
        writer.stage(document, passages, vectors)
