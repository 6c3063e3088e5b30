"""What a confidence is held against: shown beside it wherever it is sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from packwise.serving.store_registry import ServedStore


def calibrated(store: ServedStore) -> bool:
    """Whether the store has a calibration of its own, so that confidence is a probability."""
    return store.library.calibration.source == "pack"


def usual_threshold(store: ServedStore) -> float:
    """The threshold of a question that names none: one that was set, else the calibration's."""
    settings = store.library.settings
    if calibrated(store) and settings.origin("context_confidence_threshold") == "default":
        return store.library.calibration.threshold
    return settings.context_confidence_threshold


def gate_record(
    store: ServedStore,
    confidence: float,
    probability: float | None,
    *,
    found: bool,
    stages: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """The gate of a question, as it is sent.

    ``stages`` are those of an answer's trace, whose gate has looked already; without one it
    is what would happen if the question were asked.
    """
    chance = probability is not None and calibrated(store)
    looked: Mapping[str, Any] = next((s for s in stages or () if s["name"] == "gate"), {})
    # One leg alone gives no probability, and its score is not what the calibration is about.
    own = store.library.settings.context_confidence_threshold
    threshold = looked.get("threshold", usual_threshold(store) if chance else own)
    return {
        "calibrated": chance,
        "threshold": threshold,
        "refuse_below": store.library.calibration.refuse_below if chance else None,
        "passed": looked.get("passed", found and confidence >= threshold),
    }
