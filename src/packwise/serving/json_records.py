"""Results as JSON values: the shapes that the command line prints and the server sends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packwise.candidates import Candidate, Scores

if TYPE_CHECKING:
    from packwise.retrieval.pipeline import Ranking

_SCORES = (
    "vector",
    "similarity",
    "bm25",
    "keyword",
    "combined",
    "rrf",
    "cross",
    "graph",
    "final",
)


def ranking_record(ranking: Ranking) -> dict[str, Any]:
    """A ranking in the shape that ``search --json`` promises."""
    return {
        "query": ranking.query.text,
        "hits": [_hit(rank, hit) for rank, hit in enumerate(ranking.hits, start=1)],
        "confidence": round(ranking.confidence, 6),
        "probability": None if ranking.probability is None else round(ranking.probability, 6),
        "timings_ms": ranking.trace.timings_ms(),
    }


def _hit(rank: int, hit: Candidate) -> dict[str, Any]:
    passage = hit.passage
    return {
        "rank": rank,
        "id": passage.id,
        "document": passage.document,
        "title": passage.doc_title,
        "section_path": list(passage.section_path),
        "url": passage.url,
        "text": passage.text,
        "start": passage.start,
        "end": passage.end,
        "scores": scores_record(hit.scores),
    }


def scores_record(scores: Scores) -> dict[str, float | None]:
    """Every score by name, rounded; ``None`` where there is none."""
    values = {name: getattr(scores, name) for name in _SCORES}
    return {name: None if value is None else round(value, 6) for name, value in values.items()}


def moves(candidates: list[tuple[str, str, dict[str, Any]]]) -> list[dict[str, Any]]:
    """Where each candidate (id, title, scores) of a list stood after each stage, counted
    from 1 within the list; ``None`` where the stage did not score it."""
    stages: dict[str, dict[str, int]] = {}
    for stage, name in (("vector", "vector"), ("keyword", "keyword"), ("fusion", "combined")):
        stages[stage] = _places(candidates, name)
    if any(scores["rrf"] is not None for _, _, scores in candidates):
        stages["fusion"] = _places(candidates, "rrf")
    if any(scores["cross"] is not None for _, _, scores in candidates):
        stages["cross_encoder"] = _places(candidates, "cross")
    stages["final"] = {name: at for at, (name, _, _) in enumerate(candidates, start=1)}
    return [
        {
            "id": name,
            "title": title,
            "scores": scores,
            "ranks": {stage: places.get(name) for stage, places in stages.items()},
        }
        for name, title, scores in candidates
    ]


def _places(candidates: list[tuple[str, str, dict[str, Any]]], score: str) -> dict[str, int]:
    scored = [(name, scores[score]) for name, _, scores in candidates if scores[score] is not None]
    scored.sort(key=lambda entry: -entry[1])
    return {name: at for at, (name, _) in enumerate(scored, start=1)}
