"""What the commands of ``packwise eval`` measure, with a bar while they do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from packwise.cli.eval_shared import Asked, questions_bar

if TYPE_CHECKING:
    from packwise.evaluation.contexts import ContextResults
    from packwise.evaluation.experiment import Arm
    from packwise.evaluation.knobs import Setup
    from packwise.evaluation.report import Results
    from packwise.evaluation.variants import Variant
    from packwise.settings import Settings


def measure_rankings(
    ready: Asked,
    variants: Sequence[Variant],
    settings: Settings,
    limit: int | None,
) -> Results:
    """Run each way of searching on one store."""
    from packwise.evaluation.compare import contrasts
    from packwise.evaluation.metrics import STANDARD
    from packwise.evaluation.report import Results
    from packwise.evaluation.runner import run
    from packwise.evaluation.variants import default_variant, library_ranker
    from packwise.library import open_library

    dataset = ready.dataset
    with open_library(ready.store, settings=settings) as library:
        total = len(dataset.judged[:limit]) * len(variants)
        with questions_bar(dataset.name, total) as progress:
            evaluations = tuple(
                run(
                    dataset,
                    library_ranker(library, variant),
                    variant=variant.name,
                    limit=limit,
                    progress=progress,
                )
                for variant in variants
            )
    default = default_variant(settings)
    reference = default if default in variants else variants[-1]
    return Results(evaluations, contrasts(evaluations, reference.name, STANDARD))


def measure_contexts(
    ready: Asked,
    variants: Sequence[str],
    budgets: Sequence[int],
    settings: Settings,
    limit: int | None,
) -> ContextResults:
    """Pack contexts of each budget in each way."""
    from packwise.evaluation.contexts import compare_contexts

    dataset = ready.dataset
    answerable = sum(q.answerable for q in dataset.judged)
    total = len(budgets) * min(answerable, limit or answerable)
    with questions_bar(dataset.name, total) as progress:
        return compare_contexts(
            dataset, ready.store, variants, budgets, settings, limit=limit, progress=progress
        )


def measure_trial(
    ready: Asked,
    setups: Sequence[Setup],
    budgets: Sequence[int],
    limit: int | None,
    *,
    keep: bool = False,
) -> tuple[Arm, ...]:
    """Run each setup, rankings and contexts; the first budget is the one it is judged by."""
    from packwise.evaluation.experiment import asked, run_trial

    total = len(setups) * len(asked(ready.dataset)[:limit])
    with questions_bar(ready.dataset.name, total) as progress:
        return run_trial(
            ready.dataset,
            ready.store,
            setups,
            budget=budgets[0],
            curve=budgets[1:],
            limit=limit,
            keep=keep,
            progress=progress,
        )


def store_size(store: str) -> dict[str, int]:
    """How large a store is, and what a passage takes of it."""
    from packwise.stores.locate import open_store

    opened = open_store(store)
    try:
        info = opened.info()
    finally:
        opened.close()
    return {
        "bytes": info.size_bytes,
        "documents": info.documents,
        "passages": info.passages,
        "bytes_per_passage": round(info.size_bytes / max(1, info.passages)),
    }
