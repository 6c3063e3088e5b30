"""The record of one packing: what was taken, what was not, and why, as versioned JSON.

Identical input gives identical bytes: nothing here depends on time, on the machine or on
the order of a set.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, NamedTuple

from packwise.candidates import Scores

PACKING_TRACE_VERSION = 1
"""Raised when a field changes its meaning or goes away; new fields do not raise it."""

_DIGITS = 6
_SCORE_NAMES = tuple(field.name for field in fields(Scores))


class Reason(StrEnum):
    """Why a candidate is not in the context; each has exactly one."""

    BELOW_QUALITY = "below_quality"
    """a stub: too short and off the question's words"""
    DUPLICATE_OF = "duplicate_of"
    """repeats a better candidate, named by ``of``"""
    MERGED_INTO = "merged_into"
    """all its text is there already, as part of the passage named by ``of``"""
    PER_DOCUMENT_CAP = "per_document_cap"
    """its document has given as many passages as it may"""
    PER_SECTION_CAP = "per_section_cap"
    """its section has given as many passages as it may"""
    LOW_NOVELTY = "low_novelty"
    """too much like something that is in (``of``)"""
    LOW_VALUE = "low_value"
    """brings too little for its tokens"""
    OVER_BUDGET = "over_budget"
    """would be in, had the budget room for it"""


class Dropped(NamedTuple):
    """A candidate that is not in the context."""

    id: str
    document: str
    reason: Reason
    of: str | None
    rank: int
    scores: Scores
    quality: float | None
    bonus: float
    novelty: float | None = None
    mass: float | None = None
    tokens: int | None = None

    def as_dict(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "reason": self.reason.value,
            "of": self.of,
            "document": self.document,
            "rank": self.rank,
            "scores": _scores(self.scores),
            "quality": _number(self.quality),
            "bonus": _number(self.bonus),
            "novelty": _number(self.novelty),
            "mass": _number(self.mass),
            "tokens": self.tokens,
        }


@dataclass(frozen=True, slots=True)
class Selected:
    """A passage that is in the context, whole or in part.

    ``tokens`` counts the text it brought, without headers; of two overlapping passages the
    earlier one brings what both hold. ``mass`` is the share of the expected answer it was
    thought to hold, ``value`` the part of that which its chosen units carry. ``span`` is
    where the whole passage stands in its document.
    """

    id: str
    document: str
    marker: int
    tokens: int
    rank: int
    scores: Scores
    quality: float | None
    spared: str | None
    bonus: float
    features: tuple[str, ...]
    novelty: float
    mass: float
    value: float
    units: int
    of_units: int
    attached_to: str | None
    span: tuple[int, int]

    @property
    def reduced(self) -> bool:
        """Whether only some of its sentences are in."""
        return self.units < self.of_units

    def as_dict(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "marker": self.marker,
            "document": self.document,
            "tokens": self.tokens,
            "rank": self.rank,
            "scores": _scores(self.scores),
            "quality": _number(self.quality),
            "spared": self.spared,
            "bonus": _number(self.bonus),
            "features": list(self.features),
            "novelty": _number(self.novelty),
            "mass": _number(self.mass),
            "value": _number(self.value),
            "sentences": [self.units, self.of_units],
            "reduced": self.reduced,
            "attached_to": self.attached_to,
            "span": list(self.span),
        }


@dataclass(frozen=True, slots=True)
class Cap:
    """A cap that held a candidate back, or that it was let through because the answer spans
    its passage and the neighbour."""

    cap: str
    id: str
    limit: int
    lifted: bool

    def as_dict(self) -> dict[str, Any]:
        return {"cap": self.cap, "id": self.id, "limit": self.limit, "lifted": self.lifted}


@dataclass(frozen=True, slots=True)
class Knobs:
    """The settings that shaped the packing."""

    per_document_cap: int
    per_section_cap: int
    novelty_alpha: float
    answerability_bonus: float
    reunification: bool
    token_price: float
    quality_threshold: float

    def as_dict(self) -> dict[str, Any]:
        return {
            "per_document_cap": self.per_document_cap,
            "per_section_cap": self.per_section_cap,
            "novelty_alpha": self.novelty_alpha,
            "answerability_bonus": self.answerability_bonus,
            "reunification": self.reunification,
            "token_price": self.token_price,
            "quality_threshold": self.quality_threshold,
        }


@dataclass(frozen=True, slots=True)
class PackingTrace:
    """Everything that was decided about one context.

    ``coverage`` is the share of the expected answer that the context holds by the policy's
    own reckoning. ``header_tokens`` is what titles, section paths and markers cost.
    """

    question: str
    kind: str
    policy: str
    method: str
    tokenizer: str
    exact: bool
    budget: int
    tokens: int
    header_tokens: int
    coverage: float
    unfiltered: bool
    knobs: Knobs
    selected: tuple[Selected, ...]
    dropped: tuple[Dropped, ...]
    caps: tuple[Cap, ...]

    @property
    def candidates(self) -> int:
        """How many candidates came in."""
        return len(self.dropped) + sum(s.attached_to is None for s in self.selected)

    def as_dict(self) -> dict[str, Any]:
        """The record in the documented shape; plain JSON values only."""
        merged: dict[int, list[str]] = {}
        for selected in self.selected:
            merged.setdefault(selected.marker, []).append(selected.id)
        return {
            "version": PACKING_TRACE_VERSION,
            "question": self.question,
            "question_kind": self.kind,
            "policy": self.policy,
            "method": self.method,
            "tokenizer": self.tokenizer,
            "exact": self.exact,
            "budget": self.budget,
            "tokens": self.tokens,
            "header_tokens": self.header_tokens,
            "candidates": self.candidates,
            "coverage": _number(self.coverage),
            "unfiltered": self.unfiltered,
            "settings": self.knobs.as_dict(),
            "selected": [selected.as_dict() for selected in self.selected],
            "dropped": [dropped.as_dict() for dropped in self.dropped],
            "caps": [cap.as_dict() for cap in self.caps],
            "merges": [
                {"marker": marker, "ids": ids} for marker, ids in merged.items() if len(ids) > 1
            ],
            "reunions": [
                {"id": s.id, "to": s.attached_to, "tokens": s.tokens}
                for s in self.selected
                if s.attached_to is not None
            ],
        }

    def as_json(self) -> str:
        """The record as one line of ASCII JSON."""
        return json.dumps(self.as_dict(), separators=(",", ":"))


def _number(value: float | None) -> float | None:
    if value is None or not math.isfinite(value):
        return None
    return round(float(value), _DIGITS) + 0.0


def _scores(scores: Scores) -> dict[str, float | None]:
    return {name: _number(getattr(scores, name)) for name in _SCORE_NAMES}
