"""What a search found: a ranking that can be read like a list and shown as a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from packwise.candidates import Candidate, Query, Results, Scores
from packwise.language.untrusted import suspicions
from packwise.models.base import Vectors
from packwise.trace import Trace

_SCORES = "vector similarity bm25 keyword combined rrf cross graph final".split()


@dataclass(frozen=True, slots=True)
class Ranking(Results[Candidate]):
    """What a search found, best first, with its trace. It is a sequence of its hits.

    ``confidence`` is what the gate compares with ``threshold``: the ``probability`` that the
    list holds the answer if the store has its own calibration, else the best similarity.
    ``refused`` is set if a gated query failed; the hits are then those of fusion. ``signs`` are
    the inputs of the probability; they are empty unless both legs ran. ``vector`` is that of the
    question, if it was embedded.
    """

    query: Query
    hits: tuple[Candidate, ...]
    confidence: float
    threshold: float
    trace: Trace
    refused: bool = False
    probability: float | None = None
    signs: Mapping[str, float] = field(default_factory=dict[str, float])
    vector: Vectors | None = field(default=None, repr=False, compare=False)

    def results(self) -> tuple[Candidate, ...]:
        """The hits."""
        return self.hits

    def to_dicts(self) -> list[dict[str, Any]]:
        """The hits as ``packwise search --json`` prints them."""
        return [hit_record(hit, rank) for rank, hit in enumerate(self.hits, start=1)]

    def caption(self) -> str:
        """The question, for the HTML view."""
        return f"{self.query.text} (confidence {self.confidence:.2f})"


def hit_record(hit: Candidate, rank: int) -> dict[str, Any]:
    """One hit in the format of ``search --json``."""
    return {
        "rank": rank,
        "id": hit.passage.id,
        "document": hit.passage.document,
        "title": hit.passage.doc_title,
        "section_path": list(hit.passage.section_path),
        "url": hit.passage.url,
        "place": hit.passage.place,
        "suspicious": list(suspicions(hit.passage.indexed_text)),
        "text": hit.passage.text,
        "start": hit.passage.start,
        "end": hit.passage.end,
        "scores": _scores(hit.scores),
    }


def _scores(scores: Scores) -> dict[str, float | None]:
    values = {name: getattr(scores, name) for name in _SCORES}
    return {name: None if value is None else round(value, 6) for name, value in values.items()}
