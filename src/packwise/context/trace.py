"""The trace of one packing: what is in the context, what is not, and why, as versioned JSON.

Identical input gives identical bytes: nothing here depends on time, on the machine or on
the order of a set.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from packwise.candidates import Scores
from packwise.documents import content_hash
from packwise.settings import Settings, cache_folder
from packwise.trace import Trace

_log = logging.getLogger(__name__)

PACKING_TRACE_VERSION = 1
"""Raised when a field changes its meaning or is removed; new fields do not raise it."""


class DropReason(StrEnum):
    """Why a candidate is not in the context; each has exactly one reason."""

    BELOW_QUALITY = "below_quality"
    """a stub: too short, and without the question's words"""
    DUPLICATE_OF = "duplicate_of"
    """repeats a better candidate, named by ``of``"""
    MERGED_INTO = "merged_into"
    """all its text is shown already, as part of the passage named by ``of``"""
    PER_DOCUMENT_CAP = "per_document_cap"
    """its document has reached its number of passages"""
    PER_SECTION_CAP = "per_section_cap"
    """its section has reached its number of passages"""
    LOW_NOVELTY = "low_novelty"
    """too similar to a passage in the context (``of``)"""
    LOW_VALUE = "low_value"
    """adds too little for its tokens"""
    OVER_BUDGET = "over_budget"
    """the budget has no room left for it"""


class Dropped(NamedTuple):
    """A candidate that is not in the context."""

    id: str
    """the passage"""
    reason: DropReason
    """why it is not in the context"""
    of: str | None
    """the passage it gives way to"""
    document: str
    """the document of the passage"""
    rank: int
    """its rank in the search, from 1"""
    scores: Scores
    """its scores in the search"""
    quality: float | None
    """how much it says, 0 to 1"""
    bonus: float
    """what it gained for answering the kind of question"""
    novelty: float | None = None
    """the share of it that the context does not say yet, if that was computed"""
    mass: float | None = None
    """the share of the expected answer it was estimated to hold, if that was computed"""
    tokens: int | None = None
    """what it would cost, if that was computed"""


@dataclass(frozen=True, slots=True)
class Selected:
    """A passage that is in the context, whole or in part."""

    id: str
    """the passage"""
    marker: int
    """the number of the piece of the context it is in"""
    document: str
    """the document of the passage"""
    tokens: int
    """what its text added, without headers; text that two passages share counts for the first"""
    rank: int
    """its rank in the search, from 1"""
    scores: Scores
    """its scores in the search"""
    quality: float | None
    """how much it says, 0 to 1"""
    spared: str | None
    """why it was kept although it is below the quality threshold"""
    bonus: float
    """what it gained for answering the kind of question"""
    features: tuple[str, ...]
    """what the bonus is for"""
    novelty: float
    """the share of it that the context did not say yet"""
    mass: float
    """the share of the expected answer it was estimated to hold"""
    value: float
    """the part of ``mass`` in its selected sentences"""
    sentences: tuple[int, int]
    """how many of its sentences are shown, of how many"""
    reduced: bool
    """whether only a part of it is shown"""
    attached_to: str | None
    """the passage that it continues, if that is why it is in"""
    span: tuple[int, int]
    """where the whole passage begins and ends in the text of its document"""


@dataclass(frozen=True, slots=True)
class Cap:
    """A cap that a candidate exceeded."""

    cap: str
    """which one"""
    id: str
    """the candidate"""
    limit: int
    """the number of passages it allows"""
    lifted: bool
    """whether the candidate was let in all the same, because it continues a selected passage"""


@dataclass(frozen=True, slots=True)
class PackingTrace:
    """Everything that was decided about one context."""

    question: str
    """the question"""
    question_kind: str
    """the kind of answer it asks for"""
    policy: str
    """how passages were chosen: ``coverage``, ``seed`` or ``baseline``"""
    method: str
    """the method that the policy used"""
    tokenizer: str
    """whose tokens were counted"""
    exact: bool
    """whether that is the model's own count; otherwise it has a safety margin"""
    budget: int
    """the most tokens that the context may have"""
    tokens: int
    """the tokens that it has"""
    header_tokens: int
    """those of titles, section paths and markers"""
    coverage: float
    """the share of the expected answer that the context holds, as the policy estimates it"""
    unfiltered: bool
    """whether every candidate was below the quality threshold, so that none was dropped for it"""
    settings: Mapping[str, Any]
    """the settings that shaped it"""
    selected: tuple[Selected, ...]
    """the passages that are in"""
    dropped: tuple[Dropped, ...]
    """every other candidate, best first"""
    caps: tuple[Cap, ...]
    """the caps that candidates exceeded"""
    warnings: tuple[str, ...] = ()
    """what a reader of the context should know, one line each"""

    @property
    def candidates(self) -> int:
        """the number of candidates to choose from"""
        return len(self.dropped) + sum(s.attached_to is None for s in self.selected)

    def as_dict(self) -> dict[str, Any]:
        """The trace in its documented form; plain JSON values only."""
        merged: dict[int, list[str]] = {}
        for selected in self.selected:
            merged.setdefault(selected.marker, []).append(selected.id)
        return {
            "version": PACKING_TRACE_VERSION,
            **{name: json_value(getattr(self, name)) for name in _TRACE_KEYS},
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
        """The trace as one line of ASCII JSON."""
        return json.dumps(self.as_dict(), separators=(",", ":"))

    def save(self, settings: Settings, search: Trace | None = None) -> Path | None:
        """Write the trace into ``settings.trace_folder`` and return its path.

        ``search`` is the trace of what came before, with the question's intent, the weights
        of the legs and the time of each stage. The file is named after the packing alone, so
        that the same one is stored once. If the folder cannot be written, that is logged.
        """
        given = settings.trace_folder
        folder = Path(given).expanduser() if given else cache_folder() / "traces"
        path = folder / f"{content_hash(self.as_json())}.json"
        record = {**self.as_dict(), "search": search.as_dict() if search is not None else None}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            # A search that the cache answered knows less than the first one did.
            if not path.exists():
                text = json.dumps(record, separators=(",", ":"))
                path.write_text(f"{text}\n", encoding="ascii")
        except OSError as error:
            _log.warning("the trace was not saved in %s: %s", folder, error.strerror or error)
            return None
        return path


_TRACE_KEYS = list(PackingTrace.__slots__)
_TRACE_KEYS.insert(_TRACE_KEYS.index("coverage"), "candidates")


def json_value(value: Any) -> Any:
    """A value as traces show it: records as objects, tuples as arrays, numbers to six digits
    and ``None`` for one that is not finite."""
    if isinstance(value, (Selected, Scores, Cap)):
        return {name: json_value(getattr(value, name)) for name in value.__slots__}
    if isinstance(value, Dropped):
        return {name: json_value(found) for name, found in value._asdict().items()}
    if isinstance(value, tuple):
        return [json_value(one) for one in value]
    if isinstance(value, float):
        return round(float(value), 6) + 0.0 if math.isfinite(value) else None
    return value.value if isinstance(value, DropReason) else value
