"""Variants: named ways of searching and packing that an experiment compares.

A variant is written ``NAME``, ``NAME=VALUE`` or several of these joined by commas, as in
``seed`` or ``default,graph_ranking=off,k_base=20``. A setting goes by its name in ``packwise
settings`` or by its environment variable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from packwise.candidates import Fusion, Mode
from packwise.errors import UsageError
from packwise.settings import Settings

BASELINE, SEED, DEFAULT = "baseline", "seed", "default"

OVERRIDES: Mapping[str, Mapping[str, Any]] = {
    # What agent-kgpacks did: fixed weights, nothing after fusion, four characters taken for a
    # token, repetitions kept, the last passage cut off.
    BASELINE: {
        "vector_weight": 0.7,
        "keyword_weight": 0.3,
        "fusion": "weighted",
        "query_adaptive_weights": False,
        "graph_ranking": "off",
        "reranker": "off",
        "packing_policy": "baseline",
    },
    SEED: {"packing_policy": "seed"},
    DEFAULT: {},
    "rrf": {"fusion": "rrf"},
    "fixed-weights": {"query_adaptive_weights": False},
    "no-completion": {"completion": False},
    "no-graph": {"graph_ranking": "off"},
    "pagerank": {"graph_ranking": "pagerank"},
    "crossencoder": {"reranker": "crossencoder"},
    "mmr": {"reranker": "mmr"},
    "no-quality-filter": {"packing_quality_threshold": 0.0},
    "no-reunification": {"section_reunification": False},
    "no-answerability": {"packing_answerability_bonus": 0.0},
    "no-novelty": {"packing_novelty_alpha": 0.0},
    "full-budget": {"packing_token_price": 0.0},
}
LEGS: Mapping[str, Mode] = {"keyword": "keyword", "vector": "vector"}


@dataclass(frozen=True, slots=True)
class Variant:
    """A name, the settings it runs with, and the options of its queries."""

    name: str
    settings: Settings
    mode: Mode = "hybrid"
    fusion: Fusion | None = None


def parse_variant(text: str, settings: Settings, sets: Sequence[str] = ()) -> Variant:
    """The variant that a text describes, over the given settings; ``sets`` are further
    ``NAME=VALUE``. The query cache is always off.

    Raises ``UsageError`` on an unknown name, ``SettingError`` on an invalid value.
    """
    parts = [part.strip() for part in (*text.split(","), *sets) if part.strip()]
    mode: Mode = "hybrid"
    overrides = dict[str, Any]()
    # baseline and seed come first, whatever the order, so that the other parts refine them.
    for part in sorted(parts, key=lambda part: part not in (BASELINE, SEED)):
        name, equals, value = part.partition("=")
        if equals:
            overrides[_setting(name.strip())] = value
        elif part in OVERRIDES:
            overrides.update(OVERRIDES[part])
        elif part in LEGS:
            mode = LEGS[part]
        else:
            raise UsageError(
                f"no such variant: {part!r}",
                fix=f"use NAME=VALUE or one of {', '.join((*OVERRIDES, *LEGS))}",
            )
    chosen = settings.override(**{"query_cache": 0, **overrides})
    return Variant(",".join(dict.fromkeys(parts)) or DEFAULT, chosen, mode)


def search_variants(
    modes: Sequence[Mode], fusions: Sequence[Fusion], settings: Settings
) -> tuple[Variant, ...]:
    """Every mode with every fusion that applies to it, each once, in the given order.

    Without modes it is hybrid; without fusions, the one of the settings.
    """
    found: dict[str, Variant] = {}
    default: Fusion = "rrf" if settings.fusion == "rrf" else "weighted"
    for mode in modes or ("hybrid",):
        for fusion in fusions or (default,):
            hybrid = mode == "hybrid"
            name = f"{mode}-{fusion}" if hybrid else mode
            found[name] = Variant(name, settings, mode, fusion if hybrid else None)
    return tuple(found.values())


def _setting(name: str) -> str:
    for known in fields(Settings):
        if name in (known.name, known.metadata["env"], known.metadata["alias"]):
            return known.name
    raise UsageError(f"no such setting: {name!r}", fix="packwise settings")
