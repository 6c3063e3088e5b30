"""The tables of ``packwise eval``, on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from packwise.cli.console import clean, out

if TYPE_CHECKING:
    from packwise.evaluation.contexts import ContextResults
    from packwise.evaluation.experiment import Arm
    from packwise.evaluation.report import Results


def show_arms(name: str, arms: Sequence[Arm], only: str = "") -> None:
    """One column a variant; ``only`` keeps the metrics whose name holds it."""
    from rich import box
    from rich.table import Table

    from packwise.evaluation.records import gate_record

    title = f"{clean(name)}, {len(arms[0].answered)} questions, {arms[0].budget:,} tokens"
    table = Table(title=title, box=box.SIMPLE_HEAD)
    table.add_column("metric")
    for arm in arms:
        table.add_column(clean(arm.variant), justify="right")
    for metric in (m for m in arms[0].metrics if only in m):
        digits = 0 if metric.startswith("context_tokens") else 3
        table.add_row(metric, *(f"{arm.value(metric):.{digits}f}" for arm in arms))
    gates = [gate_record(arm) for arm in arms]
    for kind in ("confidence", "probability"):
        for figure in ("auroc", "ece"):
            values = [f"{g[kind][figure]:.3f}" if g and kind in g else "" for g in gates]
            if any(values):
                table.add_row(f"{figure.upper()} of the {kind}", *values)
    table.add_section()
    for percentile in ("p50", "p95", "p99"):
        table.add_row(
            f"{percentile} ms, with packing",
            *(f"{getattr(arm.latency, percentile):.1f}" for arm in arms),
        )
    out().print(table)


def show_contexts(results: ContextResults) -> None:
    """One row a variant and budget, and how the default differs from the baseline."""
    from rich import box
    from rich.table import Table

    from packwise.evaluation.report import (
        CONTEXT_COLUMNS,
        DIFFERENCE_COLUMNS,
        context_differences,
        context_rows,
    )

    first = results.evaluations[0]
    half = f", {first.half} half" if first.half else ""
    title = f"{clean(first.dataset)}, {first.split}{half}, {first.questions} questions"
    table = Table(title=title, box=box.SIMPLE_HEAD)
    for column in CONTEXT_COLUMNS:
        table.add_column(
            column.replace(" ", "\n"), justify="left" if column == "variant" else "right"
        )
    for number, row in enumerate(context_rows(results), start=1):
        table.add_row(*row, end_section=number % len(results.evaluations) == 0)
    out().print(table)
    rows = context_differences(results)
    if rows:
        differences = Table(title="default minus baseline, by question", box=box.SIMPLE_HEAD)
        for column in DIFFERENCE_COLUMNS:
            differences.add_column(column, justify="right")
        for row in rows:
            differences.add_row(*row)
        out().print(differences)


def show_rankings(results: Results) -> None:
    """One column a variant, so that any number of metrics fits a narrow terminal."""
    from rich import box
    from rich.table import Table

    first = results.evaluations[0]
    table = Table(title=_title(results), box=box.SIMPLE_HEAD)
    table.add_column("metric")
    for evaluation in results.evaluations:
        table.add_column(evaluation.variant, justify="right")
    for metric in first.scores:
        table.add_row(str(metric), *(f"{e.value(metric):.3f}" for e in results.evaluations))
    table.add_section()
    for label, chosen in (("", "latency"), (" without embedding", "latency_without_embedding")):
        for percentile in ("p50", "p95", "p99"):
            table.add_row(
                f"{percentile} ms{label}",
                *(f"{getattr(getattr(e, chosen), percentile):.1f}" for e in results.evaluations),
            )
    console = out()
    console.print(table)
    if first.unjudged:
        console.print(f"{first.unjudged} questions without judgements were left out", style="dim")
    console.print(f"latency is that of a search for {first.depth} passages", style="dim")
    _show_differences([results])


def show_table(measured: Sequence[Results]) -> None:
    """One row a variant and data set."""
    from rich import box
    from rich.table import Table

    from packwise.evaluation.report import TABLE_METRICS

    table = Table(collapse_padding=True, box=box.SIMPLE_HEAD)
    table.add_column("data set", no_wrap=True)
    table.add_column("queries", justify="right", no_wrap=True)
    table.add_column("variant", no_wrap=True)
    for metric in TABLE_METRICS:
        table.add_column(f"{metric.formula}\n@{metric.k}", justify="right", no_wrap=True)
    for results in measured:
        for evaluation in results.evaluations:
            table.add_row(
                clean(evaluation.dataset),
                str(evaluation.questions),
                evaluation.variant,
                *(f"{evaluation.value(metric):.3f}" for metric in TABLE_METRICS),
            )
        table.add_section()
    out().print(table)
    _show_differences(measured)


def _show_differences(measured: Sequence[Results]) -> None:
    """Differences of the leading metrics; the JSON holds those of every metric."""
    from rich import box
    from rich.table import Table

    from packwise.evaluation.report import interval_text, leading, p_text, tally_text

    rows = [(r.evaluations[0].dataset, c) for r in measured for c in leading(r.contrasts)]
    if not rows:
        return
    several = len(measured) > 1
    table = Table(title=f"{rows[0][1].a} minus the others, by question", box=box.SIMPLE_HEAD)
    if several:
        table.add_column("data set")
    table.add_column("minus", no_wrap=True)
    table.add_column("metric", no_wrap=True)
    table.add_column("difference [95%]", justify="right", no_wrap=True)
    table.add_column("p", justify="right", no_wrap=True)
    if not several:
        table.add_column("won/tied/lost", justify="right", no_wrap=True)
    for dataset, contrast in rows:
        row = [contrast.b, str(contrast.metric), interval_text(contrast), p_text(contrast)]
        row = [clean(dataset), *row] if several else [*row, tally_text(contrast)]
        table.add_row(*row, style="" if contrast.difference.clear else "dim")
    out().print(table)


def _title(results: Results) -> str:
    first = results.evaluations[0]
    half = f", {first.half} half" if first.half else ""
    return f"{clean(first.dataset)}, {first.split}{half}, {first.questions} questions"
