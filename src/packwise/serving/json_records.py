"""Rankings as JSON values, as the command line prints them and the server sends them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from packwise.retrieval.ranking import Ranking


def ranking_record(ranking: Ranking) -> dict[str, Any]:
    """A ranking in the format of ``search --json``."""
    return {
        "query": ranking.query.text,
        "hits": ranking.to_dicts(),
        "confidence": round(ranking.confidence, 6),
        "probability": None if ranking.probability is None else round(ranking.probability, 6),
        "timings_ms": ranking.trace.timings_ms(),
    }


def candidate_ranks(candidates: list[tuple[str, str, dict[str, Any]]]) -> list[dict[str, Any]]:
    """The rank of each candidate (id, title, scores) after each stage, counted from 1 within
    the list; ``None`` where the stage did not score it."""
    stages = {"vector": "vector", "keyword": "keyword", "fusion": "combined"}
    if any(scores["rrf"] is not None for _, _, scores in candidates):
        stages["fusion"] = "rrf"
    if any(scores["cross"] is not None for _, _, scores in candidates):
        stages["cross_encoder"] = "cross"
    ranks = {stage: _ranks(candidates, score) for stage, score in stages.items()}
    ranks["final"] = {name: rank for rank, (name, _, _) in enumerate(candidates, start=1)}
    return [
        {
            "id": name,
            "title": title,
            "scores": scores,
            "ranks": {stage: of_stage.get(name) for stage, of_stage in ranks.items()},
        }
        for name, title, scores in candidates
    ]


def _ranks(candidates: list[tuple[str, str, dict[str, Any]]], score: str) -> dict[str, int]:
    scored = [(name, scores[score]) for name, _, scores in candidates if scores[score] is not None]
    scored.sort(key=lambda entry: -entry[1])
    return {name: rank for rank, (name, _) in enumerate(scored, start=1)}
