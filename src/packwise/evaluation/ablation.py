"""What each stage is worth and what it costs: the default against the default without it.

A stage that is off by default is measured the other way round, by switching it on; either way
the figures say what having the stage changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from packwise.errors import UsageError
from packwise.evaluation.compare import Difference
from packwise.evaluation.contexts import BASELINE, DEFAULT, settings_of
from packwise.evaluation.data import DataSet
from packwise.evaluation.experiment import Arm, run_trial
from packwise.evaluation.knobs import Setup, setup
from packwise.evaluation.verdict import differences
from packwise.settings import Settings


@dataclass(frozen=True, slots=True)
class Part:
    """A stage: the variant that leaves it out, or, if it is off by default, puts it in."""

    name: str
    variant: str
    optional: bool = False


PARTS: tuple[Part, ...] = (
    Part("vector leg", "keyword"),
    Part("keyword leg", "vector"),
    Part("completion", "no-completion"),
    Part("weights by question", "fixed-weights"),
    Part("absolute scores", "rrf"),
    Part("graph ranking", "no-graph"),
    Part("quality filter", "no-quality-filter"),
    Part("reunification", "no-reunification"),
    Part("novelty", "no-novelty"),
    Part("answerability bonus", "no-answerability"),
    Part("price of a token", "full-budget"),
    Part("coverage packing", "seed"),
    Part("everything above", BASELINE),
    Part("PageRank blend", "pagerank", optional=True),
    Part("MMR", "mmr", optional=True),
    Part("cross-encoder", "crossencoder", optional=True),
)
SLOW = frozenset({"cross-encoder"})
"""Parts that are left out unless they are asked for by name."""


@dataclass(frozen=True, slots=True)
class Worth:
    """What having a part changes, metric by metric, and the milliseconds it adds: the median
    over the questions and the change of p95."""

    part: Part
    changes: Mapping[str, Difference]
    median_ms: float
    p95_ms: float


@dataclass(frozen=True, slots=True)
class Ablation:
    """The default, and what each part is worth in it."""

    dataset: str
    questions: int
    budget: int
    default: Arm
    worths: tuple[Worth, ...]


def parts(names: Sequence[str] = ()) -> tuple[Part, ...]:
    """The parts of these names (or variants); without names all but the slow ones."""
    if not names:
        return tuple(part for part in PARTS if part.name not in SLOW)
    known = {name: part for part in PARTS for name in (part.name, part.variant)}
    for name in names:
        if name not in known:
            listed = ", ".join(part.variant for part in PARTS)
            raise UsageError(f"no such part: {name!r}", fix=f"use one of {listed}")
    return tuple(dict.fromkeys(known[name] for name in names))


def ablate(
    dataset: DataSet,
    store: str,
    settings: Settings,
    chosen: Sequence[Part],
    *,
    budget: int,
    limit: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Ablation:
    """Measure each part against the default, question by question."""
    base = Setup(DEFAULT, settings_of(DEFAULT, settings))
    setups = [base, *(setup(part.variant, settings) for part in chosen)]
    arms = run_trial(dataset, store, setups, budget=budget, limit=limit, progress=progress)
    default, *others = arms
    return Ablation(
        dataset=dataset.name,
        questions=len(default.answered),
        budget=budget,
        default=default,
        worths=tuple(
            _worth(part, default, other) for part, other in zip(chosen, others, strict=True)
        ),
    )


def _worth(part: Part, default: Arm, other: Arm) -> Worth:
    having, lacking = (other, default) if part.optional else (default, other)
    a = np.array([x.ms for x in having.answered])
    b = np.array([x.ms for x in lacking.answered])
    return Worth(
        part=part,
        changes=differences(having, lacking),
        median_ms=float(np.median(a - b)),
        p95_ms=float(np.percentile(a, 95) - np.percentile(b, 95)),
    )


def ablation_record(found: Ablation) -> dict[str, Any]:
    """An ablation as JSON values."""
    return {
        "dataset": found.dataset,
        "questions": found.questions,
        "budget": found.budget,
        "default": {name: round(found.default.value(name), 6) for name in found.default.metrics},
        "parts": [
            {
                "part": worth.part.name,
                "variant": worth.part.variant,
                "on_by_default": not worth.part.optional,
                "ms": {"median": round(worth.median_ms, 3), "p95": round(worth.p95_ms, 3)},
                "changes": {
                    metric: {
                        "difference": round(d.mean, 6),
                        "interval": [round(d.low, 6), round(d.high, 6)],
                        "p_value": round(d.p_value, 6),
                        "clear": d.clear,
                    }
                    for metric, d in worth.changes.items()
                },
            }
            for worth in found.worths
        ],
    }
