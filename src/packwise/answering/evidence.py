"""The numbered passages an answer is made from and cites."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from packwise.candidates import Candidate
from packwise.context.packer import Context


@dataclass(frozen=True, slots=True)
class Evidence:
    """One passage of the context. ``marker`` is its number in the answer, from 1.

    ``score`` is how well the passage fits the question, 0..1.
    """

    marker: int
    id: str
    title: str
    heading: str
    text: str
    score: float = 0.0


def number(candidates: Iterable[Candidate]) -> tuple[Evidence, ...]:
    """Candidates as evidence, marked 1, 2, 3 in the order given."""
    return tuple(
        Evidence(
            marker=marker,
            id=candidate.passage.id,
            title=candidate.passage.doc_title or candidate.passage.document,
            heading=candidate.passage.heading or candidate.passage.document,
            text=candidate.passage.text,
            score=candidate.scores.combined,
        )
        for marker, candidate in enumerate(candidates, start=1)
    )


def from_context(context: Context, scores: Mapping[str, float]) -> tuple[Evidence, ...]:
    """The passages of a context under the markers they have there.

    ``scores`` says how well a passage, by id, fits the question.
    """
    return tuple(
        Evidence(
            marker=passage.marker,
            id=passage.id,
            title=passage.title or passage.document,
            heading=_heading(passage.title or passage.document, passage.section_path),
            text=passage.text,
            # A stretch fits as well as the best passage in it; what was attached has no score.
            score=max((scores[i] for i in passage.ids if i in scores), default=passage.score),
        )
        for passage in context.passages
    )


def _heading(title: str, section_path: Sequence[str]) -> str:
    return " > ".join(dict.fromkeys(part for part in (title, *section_path) if part))


def titles(evidence: Sequence[Evidence], markers: Iterable[int]) -> tuple[str, ...]:
    """The documents behind these markers, each once, in the order of the markers."""
    by_marker = {item.marker: item.title for item in evidence}
    return tuple(dict.fromkeys(by_marker[m] for m in markers if m in by_marker))
