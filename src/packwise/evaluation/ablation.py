"""The effect and the cost of each stage: the default against the default without it.

A stage that is off by default is measured by switching it on. Either way the figures say what
having the stage changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from packwise.errors import UsageError
from packwise.evaluation.compare import Difference
from packwise.evaluation.experiment import Experiment, VariantResult, differences


@dataclass(frozen=True, slots=True)
class AblationStage:
    """A stage and the variant that switches it off or, if it is off by default, on."""

    name: str
    variant: str
    optional: bool = False


STAGES: tuple[AblationStage, ...] = (
    AblationStage("vector leg", "keyword"),
    AblationStage("keyword leg", "vector"),
    AblationStage("completion", "no-completion"),
    AblationStage("weights by question", "fixed-weights"),
    AblationStage("absolute scores", "rrf"),
    AblationStage("graph ranking", "no-graph"),
    AblationStage("quality filter", "no-quality-filter"),
    AblationStage("reunification", "no-reunification"),
    AblationStage("novelty", "no-novelty"),
    AblationStage("answerability bonus", "no-answerability"),
    AblationStage("price of a token", "full-budget"),
    AblationStage("coverage packing", "seed"),
    AblationStage("everything above", "baseline"),
    AblationStage("PageRank blend", "pagerank", optional=True),
    AblationStage("MMR", "mmr", optional=True),
    AblationStage("cross-encoder", "crossencoder", optional=True),
)
_SLOW = "cross-encoder"
"""Measured only if it is named."""


@dataclass(frozen=True, slots=True)
class StageEffect:
    """What having a stage changes, by metric, and the milliseconds it adds: the median over
    the questions and the change of p95."""

    stage: AblationStage
    changes: Mapping[str, Difference]
    median_ms: float
    p95_ms: float


def choose_stages(names: Sequence[str] = ()) -> tuple[AblationStage, ...]:
    """The stages with these names (or variants); without names, all but the slow one."""
    if not names:
        return tuple(stage for stage in STAGES if stage.name != _SLOW)
    known = {name: stage for stage in STAGES for name in (stage.name, stage.variant)}
    for name in names:
        if name not in known:
            listed = ", ".join(stage.variant for stage in STAGES)
            raise UsageError(f"no such part: {name!r}", fix=f"use one of {listed}")
    return tuple(dict.fromkeys(known[name] for name in names))


def stage_effects(found: Experiment, stages: Sequence[AblationStage]) -> tuple[StageEffect, ...]:
    """The effect of each stage, from an experiment with the default and then a variant per
    stage."""
    default, *others = found.results
    return tuple(
        _effect(stage, default, other) for stage, other in zip(stages, others, strict=True)
    )


def _effect(stage: AblationStage, default: VariantResult, other: VariantResult) -> StageEffect:
    having, lacking = (other, default) if stage.optional else (default, other)
    a, b = np.array(having.times()), np.array(lacking.times())
    return StageEffect(
        stage=stage,
        changes=differences(having, lacking),
        median_ms=float(np.median(a - b)),
        p95_ms=float(np.percentile(a, 95) - np.percentile(b, 95)),
    )
