"""The tables of ``packwise eval`` on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from packwise.cli.console import clean, out

if TYPE_CHECKING:
    from rich.table import Table

    from packwise.evaluation.ablation import StageEffect
    from packwise.evaluation.answers import AnswerReport
    from packwise.evaluation.experiment import Experiment
    from packwise.evaluation.regression import RegressionResult
    from packwise.evaluation.verdict import Verdict

_PERCENTILES = ("p50", "p95", "p99")
_COLOURS = {"ship": "green", "no difference": "yellow", "rollback": "red"}
_ABLATED = ("ndcg@10", "recall@5", "answer_recall", "gold_recall", "garbage_fraction")


def make_table(
    columns: Iterable[str],
    *,
    title: str = "",
    left: Sequence[str] = (),
    no_wrap: bool = False,
    **style: Any,
) -> Table:
    """A table whose columns are right-aligned, but for the first and those in ``left``."""
    from rich import box
    from rich.table import Table

    table = Table(title=title or None, box=box.SIMPLE_HEAD, **style)
    for number, column in enumerate(columns):
        justify = "right" if number and column not in left else "left"
        table.add_column(column, justify=justify, no_wrap=no_wrap)
    return table


def _metrics(found: Experiment, title: str, only: str = "") -> Table:
    """One column per variant, so that all metrics fit a narrow terminal."""
    results = found.results
    table = make_table(["metric", *(clean(result.variant) for result in results)], title=title)
    for metric in (name for name in results[0].metrics if only in name):
        digits = 0 if metric.startswith("context_tokens") else 3
        table.add_row(metric, *(f"{result.value(metric):.{digits}f}" for result in results))
    return table


def _size(found: Experiment) -> str:
    first = found.results[0]
    number = len(first.questions)
    return f"{clean(found.dataset.name)}, {number} questions, {first.budget:,} tokens"


def show_answers(report: AnswerReport, wrong: bool) -> None:
    """What became of the questions, per kind; with ``wrong``, also what was shown instead."""
    counts = report.counts()
    columns = list(next(iter(counts.values())))
    short = {"wrong, likely": "wrong but likely", "in the top three": "top 3"}
    table = make_table(["kind", *(short.get(name, name) for name in columns)])
    table.columns[0].no_wrap = True
    for kind, found in counts.items():
        table.add_row(clean(kind), *(str(found[name]) for name in columns))
    out().print(table)
    good = report.reliability()
    if good is not None:
        out().print(
            f"probability of {good.questions} answers: ECE {good.ece:.3f}, AUROC {good.auroc:.3f},"
            f" area under risk-coverage {good.aurc:.3f}"
        )
    for result in report.results if wrong else ():
        if result.answerable and result.outcome != "right":
            shown = f"{result.outcome}, {result.certainty} {result.probability:.2f}"
            out().print(f"\n{clean(result.question.question)}  ({shown})", markup=False)
            out().print(clean(result.text), markup=False, style="dim")


def show_variants(found: Experiment, only: str = "") -> None:
    """Rankings, contexts and the gate; ``only`` keeps the metrics whose name contains it."""
    from packwise.evaluation.records import confidence_record

    table = _metrics(found, _size(found), only)
    gates = [confidence_record(result) for result in found.results]
    for kind in ("confidence", "probability"):
        for figure in ("auroc", "ece"):
            values = [f"{g[kind][figure]:.3f}" if g and kind in g else "" for g in gates]
            if any(values):
                table.add_row(f"{figure.upper()} of the {kind}", *values)
    table.add_section()
    for percentile in _PERCENTILES:
        values = [f"{getattr(result.latency, percentile):.1f}" for result in found.results]
        table.add_row(f"{percentile} ms, with packing", *values)
    out().print(table)


def show_contexts(found: Experiment) -> None:
    """One row per variant and budget, and how the default differs from the baseline."""
    from packwise.evaluation import tables

    columns = [column.replace(" ", "\n") for column in tables.CONTEXT_COLUMNS]
    table = make_table(columns, title=clean(found.title), left=("variant",))
    table.columns[0].justify = "right"
    for number, row in enumerate(tables.context_rows(found), start=1):
        table.add_row(*row, end_section=number % len(found.results) == 0)
    out().print(table)
    rows = tables.context_difference_rows(found)
    if rows:
        table = make_table(
            tables.CONTEXT_DIFFERENCE_COLUMNS, title="default minus baseline, by question"
        )
        table.columns[0].justify = "right"
        for row in rows:
            table.add_row(*row)
        out().print(table)


def show_rankings(found: Experiment) -> None:
    """Rankings alone, and their differences."""
    table = _metrics(found, clean(found.title))
    table.add_section()
    for label, chosen in (("", "latency"), (" without embedding", "latency_without_embedding")):
        for percentile in _PERCENTILES:
            values = [getattr(getattr(result, chosen), percentile) for result in found.results]
            table.add_row(f"{percentile} ms{label}", *(f"{value:.1f}" for value in values))
    console = out()
    console.print(table)
    unjudged = len(found.dataset.questions) - len(found.dataset.judged)
    if unjudged:
        console.print(f"{unjudged} questions without judgements were left out", style="dim")
    console.print(f"latency is that of a search for {found.depth} passages", style="dim")
    _show_differences([found])


def show_table(experiments: Sequence[Experiment]) -> None:
    """One row per variant and data set."""
    from packwise.evaluation.tables import RANKING_METRICS, ranking_rows

    metrics = [metric.replace("@", "\n@") for metric in RANKING_METRICS]
    table = make_table(
        ["data set", "queries", "variant", *metrics],
        left=("variant",),
        no_wrap=True,
        collapse_padding=True,
    )
    for found in experiments:
        for row in ranking_rows(found):
            table.add_row(*map(clean, row))
        table.add_section()
    out().print(table)
    _show_differences(experiments)


def _show_differences(experiments: Sequence[Experiment]) -> None:
    """Differences of the leading metrics; the JSON has those of every metric."""
    from packwise.evaluation.tables import difference_rows

    rows = [(one.dataset.name, *row) for one in experiments for row in difference_rows(one)]
    if not rows:
        return
    several = len(experiments) > 1
    columns = ["minus", "metric", "difference [95%]", "p"]
    columns = ["data set", *columns] if several else [*columns, "won/tied/lost"]
    table = make_table(
        columns,
        title=f"{experiments[0].reference} minus the others, by question",
        left=("minus", "metric"),
        no_wrap=True,
    )
    table.columns[0].no_wrap = not several
    for dataset, row, clear in rows:
        cells = [clean(dataset), *row[:-1]] if several else row
        table.add_row(*cells, style="" if clear else "dim")
    out().print(table)


def show_comparison(found: Experiment, verdict: Verdict) -> None:
    """Two variants, their differences and the verdict."""
    from packwise.evaluation.experiment import differences

    a, b = found.results
    table = make_table(
        ["metric", "a", "b", "b - a [95%]", "p", "+ / = / -"],
        title=f"{_size(found)}\na: {clean(a.variant)}, b: {clean(b.variant)}",
        no_wrap=True,
        collapse_padding=True,
        pad_edge=False,
    )
    for metric, d in differences(b, a).items():
        digits = 0 if metric.startswith("context_tokens") else 3
        table.add_row(
            metric.removesuffix(f"@{a.budget}"),
            f"{a.value(metric):.{digits}f}",
            f"{b.value(metric):.{digits}f}",
            d.interval_text(digits),
            d.p_text(),
            f"{d.wins}/{d.ties}/{d.losses}",
            style="" if d.clear else "dim",
        )
    table.add_section()
    for percentile in _PERCENTILES:
        old, new = (getattr(result.latency, percentile) for result in (a, b))
        table.add_row(f"{percentile} ms", f"{old:.1f}", f"{new:.1f}", f"{new / old - 1:+.0%}")
    out().print(table)
    show_verdict(verdict)


def show_verdict(verdict: Verdict) -> None:
    """The outcome, every rule, and what the number of questions can show."""
    from rich.text import Text

    console = out()
    console.print(Text(verdict.outcome, style=f"bold {_COLOURS[verdict.outcome]}"))
    for rule in verdict.rules:
        mark, style = ("-", "dim") if rule.met is None else ("✓", "green")
        if rule.met is False:
            mark, style = "✗", "red" if rule.rollback else "yellow"
        line = Text(f"  {mark} ", style=style)
        line.append(f"{rule.rule}: {rule.found or 'not measured'} ")
        line.append(f"(needs: {rule.needs})", style="dim")
        console.print(line)
    d = verdict.difference
    if d is not None and verdict.detectable:
        power = (
            f"  {d.questions:,} questions can show a difference of "
            f"{verdict.detectable * 100:.1f} points"
        )
        if verdict.needed:
            power += f"; {verdict.needed:,} would be needed for one of {abs(d.mean) * 100:.1f}"
        console.print(Text(f"{power} (four times in five)", style="dim"))


def show_ablation(found: Experiment, effects: Sequence[StageEffect]) -> None:
    """The default, and what each stage changes."""
    default = found.results[0]
    metrics = [
        name for name in default.metrics if name in _ABLATED or name.partition("@")[0] in _ABLATED
    ]
    parts = [name.partition("@") for name in metrics]
    short = [f"{name.partition('_')[0]}\n@{depth}" for name, _, depth in parts]
    columns = ["what having it changes", *short, "ms"]
    table = make_table(columns, title=_size(found), no_wrap=True, collapse_padding=True)
    values = [f"{default.value(metric):.3f}" for metric in metrics]
    table.add_row("the default", *values, f"{default.latency.p50:.1f}", style="bold")
    table.add_section()
    for effect in effects:
        changes = [effect.changes.get(metric) for metric in metrics]
        cells = ["" if d is None else f"{d.mean:+.3f}{'*' if d.clear else ' '}" for d in changes]
        name = f"{effect.stage.name}{' (is off)' if effect.stage.optional else ''}"
        table.add_row(name, *cells, f"{effect.median_ms:+.1f}")
    console = out()
    console.print(table)
    console.print("* beyond chance: the 95% interval excludes zero, and p < 0.05", style="dim")


def show_gate(found: RegressionResult, name: str) -> None:
    """Every metric against its baseline."""
    title = f"{clean(name)} against its baseline"
    columns = ["metric", "before", "now", "difference [95%]", ""]
    table = make_table(columns, title=title, left=("",))
    for change in found.changes:
        table.add_row(
            change.metric,
            f"{change.before:.3f}",
            f"{change.now:.3f}",
            change.difference.interval_text(),
            "fell" if change.fell else "",
            style="red" if change.fell else "",
        )
    table.add_row("p95 latency", "", "", f"{found.slower:+.0%}", "slow" if found.too_slow else "")
    console = out()
    console.print(table)
    if found.passed:
        console.print("passed", style="green")
