"""A store in memory with what packing asks of one, and short ways to fill it."""

import zlib

import numpy as np

from packwise.candidates import Candidate, Scores
from packwise.documents import Passage, content_hash, passage_id
from packwise.language.analyzer import terms
from packwise.stores.base import TermStatistics

DIM = 32


def vector_of(text: str) -> np.ndarray:
    """A vector by the words of a text: texts that share words are alike."""
    vector = np.full(DIM, 1e-6, dtype=np.float32)
    for word in text.lower().split():
        vector[zlib.crc32(word.encode("utf-8", "surrogatepass")) % DIM] += 1.0
    return vector / np.linalg.norm(vector)


class MemoryStore:
    """Passages by key, in reading order within each document."""

    def __init__(self, passages=(), vectors=None):
        self.held = list(passages)
        self.asked = 0
        self._vectors = (
            np.array(vectors, dtype=np.float32)
            if vectors is not None
            else np.array([vector_of(p.text) for p in self.held]).reshape(len(self.held), DIM)
        )
        self._terms = [set(terms(p.indexed_text)) for p in self.held]

    def vectors(self, keys):
        return self._vectors[list(keys)]

    def languages(self):
        return {"": len(self.held)}

    def term_statistics(self, wanted):
        frequency = {term: sum(term in held for held in self._terms) for term in wanted}
        return TermStatistics(len(self.held), 50.0, frequency)

    def neighbours(self, key, before=1, after=1):
        self.asked += 1
        mates = [k for k, p in enumerate(self.held) if p.document == self.held[key].document]
        mates.sort(key=lambda k: self.held[k].order_index)
        at = mates.index(key)
        around = mates[max(0, at - before) : at] + mates[at + 1 : at + 1 + after]
        return [(k, self.held[k]) for k in around]

    def candidates(self, *scores):
        """The passages as candidates, with these final scores or falling ones."""
        given = scores or [0.9 - 0.01 * i for i in range(len(self.held))]
        return [
            candidate(key, passage, score)
            for key, (passage, score) in enumerate(zip(self.held, given, strict=False))
        ]


def candidate(key, passage, score):
    return Candidate(key, passage, Scores(vector=score, combined=score, final=score))


def passage(document, text, *, order=0, start=0, title=None, path=()):
    return Passage(
        id=passage_id(document, order),
        document=document,
        doc_title=document.title() if title is None else title,
        section_path=tuple(path),
        order_index=order,
        text=text,
        start=start,
        end=start + len(text),
        content_hash=content_hash(document, text),
    )


def cut(document, text, *spans, path=(), title=None):
    """Passages of one document's text, so that the law of offsets holds."""
    return [
        passage(document, text[a:b], order=i, start=a, path=path, title=title)
        for i, (a, b) in enumerate(spans)
    ]


def prose(topic, sentences=6):
    """Some sentences about a topic, no two alike, none short."""
    verbs = "grows moves turns shines falls rests waits sings breaks opens".split()
    places = "river garden tower market valley harbour forest island bridge meadow".split()
    return " ".join(
        f"The {topic} {verbs[i % 10]} near the {places[(i * 3 + len(topic)) % 10]} when season "
        f"{topic}{i} begins and nobody there remembers it."
        for i in range(sentences)
    )
