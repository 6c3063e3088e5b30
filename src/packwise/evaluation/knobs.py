"""Variants: the settings a comparison runs with, by name or knob by knob.

A variant is written ``NAME``, ``KNOB=VALUE`` or several of these joined by commas, as in
``seed`` or ``default,graph_ranking=off,k_base=20``. A knob is named as in ``packwise
settings``, by its field or by its environment variable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from packwise.candidates import Mode
from packwise.errors import UsageError
from packwise.evaluation.contexts import BASELINE, CONTEXT_VARIANTS, settings_of
from packwise.settings import Settings

SWITCHES: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    "rrf": {"fusion": "rrf"},
    "fixed-weights": {"query_adaptive_weights": False},
    "no-completion": {"completion": False},
    "no-graph": {"graph_ranking": "off"},
    "walk": {"graph_ranking": "walk"},
    "pagerank": {"graph_ranking": "pagerank"},
    "crossencoder": {"reranker": "crossencoder"},
    "mmr": {"reranker": "mmr"},
    "no-quality-filter": {"packing_quality_threshold": 0.0},
    "no-reunification": {"section_reunification": False},
    "no-answerability": {"packing_answerability_bonus": 0.0},
    "no-novelty": {"packing_novelty_alpha": 0.0},
    "full-budget": {"packing_token_price": 0.0},
}
"""Variants that differ from the default in one thing."""

LEGS: Mapping[str, Mode] = {"keyword": "keyword", "vector": "vector"}
NAMES = (*CONTEXT_VARIANTS[:2], *SWITCHES, *LEGS)


@dataclass(frozen=True, slots=True)
class Setup:
    """A variant: what it is called, the settings it runs with, and which legs search."""

    name: str
    settings: Settings
    mode: Mode = "hybrid"


def setup(text: str, settings: Settings, sets: Sequence[str] = ()) -> Setup:
    """The variant a text stands for, over the given settings; ``sets`` are more
    ``KNOB=VALUE``. Raises ``UsageError`` on a name that is unknown, ``SettingError`` on a
    value that its knob does not take. Searches are never remembered while measuring."""
    mode: Mode = "hybrid"
    base, overrides = settings, dict[str, Any]()
    parts = [part.strip() for part in (*text.split(","), *sets) if part.strip()]
    for part in parts:
        knob, equals, value = part.partition("=")
        if equals:
            overrides[_knob(knob)] = value
        elif part in SWITCHES:
            overrides.update(SWITCHES[part])
        elif part in LEGS:
            mode = LEGS[part]
        elif part in CONTEXT_VARIANTS:
            base = settings_of(part, settings)
        else:
            raise UsageError(
                f"no such variant: {part!r}", fix=f"use KNOB=VALUE or one of {', '.join(NAMES)}"
            )
    chosen = base.override(**{"query_cache": 0, **overrides})
    return Setup(",".join(dict.fromkeys(parts)) or "default", chosen, mode)


def _knob(text: str) -> str:
    name = text.strip()
    for known in fields(Settings):
        if name in (known.name, known.metadata["env"], known.metadata["alias"]):
            return known.name
    raise UsageError(f"no such knob: {name!r}", fix="packwise settings")


__all__ = ["BASELINE", "LEGS", "NAMES", "SWITCHES", "Setup", "setup"]
