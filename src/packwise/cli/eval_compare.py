"""``packwise eval compare``: two variants on the same questions, and a verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from packwise.cli.console import clean, out, print_json
from packwise.cli.eval_shared import prepare, questions_bar, which_questions
from packwise.errors import UsageError

if TYPE_CHECKING:
    from packwise.evaluation.data import Half
    from packwise.evaluation.experiment import Arm
    from packwise.evaluation.verdict import Verdict

_COLOURS = {"ship": "green", "no difference": "yellow", "rollback": "red"}


@click.command()
@click.argument("folder", required=False)
@which_questions
@click.option("--a", "old", default="baseline", show_default=True, help="The variant in use.")
@click.option("--b", "new", default="default", show_default=True, help="The one to replace it.")
@click.option("--budget", type=click.IntRange(min=1), metavar="N", help="Tokens of a context.")
@click.option(
    "--traffic",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Judge recorded requests instead: JSON lines, one a request.",
)
@click.option(
    "--share",
    type=click.FloatRange(0.0, 1.0, min_open=True, max_open=True),
    default=0.5,
    show_default=True,
    help="The share of the traffic that B was given: 0.1 first, then 0.5.",
)
def compare(
    folder: str | None,
    store: str | None,
    split: str | None,
    half: Half | None,
    limit: int | None,
    as_json: bool,
    old: str,
    new: str,
    budget: int | None,
    traffic: str | None,
    share: float,
) -> None:
    """Say whether variant B should replace variant A: ship, no difference or rollback.

    A variant is a name, KNOB=VALUE (see `packwise settings`), or several joined by commas:
    `--b default,graph_ranking=off`. Names are those of `packwise eval ablate`, baseline, seed
    and default. Every question is put to both; differences are by question.
    """
    if traffic is not None:
        if folder is not None:
            raise UsageError("FOLDER is for measuring, --traffic for what was recorded")
        _traffic(traffic, share, as_json)
        return
    if folder is None:
        raise UsageError("name a FOLDER with questions, or --traffic FILE")
    from packwise.evaluation.experiment import asked, run_trial
    from packwise.evaluation.knobs import setup
    from packwise.evaluation.verdict import judge
    from packwise.settings import Settings

    settings = Settings.load()
    setups = (setup(old, settings), setup(new, settings))
    if setups[0].name == setups[1].name:
        raise UsageError("A and B are the same variant")
    ready = prepare(folder, store, split, half, settings)
    total = 2 * len(asked(ready.dataset)[:limit])
    with questions_bar(ready.dataset.name, total) as progress:
        a, b = run_trial(
            ready.dataset,
            ready.store,
            setups,
            budget=budget or settings.context_token_budget,
            limit=limit,
            progress=progress,
        )
    verdict = judge(b, a)
    if as_json:
        print_json(_record(ready.dataset.name, a, b, verdict))
    else:
        _show(ready.dataset.name, a, b, verdict)


def _traffic(path: str, share: float, as_json: bool) -> None:
    from packwise.evaluation.traffic import SIDES, judge_traffic, read_traffic

    recorded = read_traffic(path, share)
    verdict = judge_traffic(recorded)
    if as_json:
        print_json(
            {
                "traffic": path,
                "share": share,
                "requests": {side: len(recorded.arm(side)) for side in SIDES},
                "cache_hit_rate": {side: recorded.cache_hits(side) for side in SIDES},
                **verdict.as_dict(),
            }
        )
    else:
        _show_verdict(verdict)


def _record(name: str, a: Arm, b: Arm, verdict: Verdict) -> dict[str, Any]:
    from packwise.evaluation.records import difference_record, latency_record
    from packwise.evaluation.verdict import differences

    return {
        "dataset": name,
        "a": a.variant,
        "b": b.variant,
        "questions": len(a.answered),
        "budget": a.budget,
        "metrics": {
            metric: {"a": round(a.value(metric), 6), "b": round(b.value(metric), 6)}
            for metric in a.metrics
        },
        "latency_ms": {"a": latency_record(a.latency), "b": latency_record(b.latency)},
        "differences": {metric: difference_record(d) for metric, d in differences(b, a).items()},
        **verdict.as_dict(),
    }


def _show(name: str, a: Arm, b: Arm, verdict: Verdict) -> None:
    from rich import box
    from rich.table import Table

    from packwise.evaluation.verdict import differences

    title = (
        f"{clean(name)}, {len(a.answered)} questions, {a.budget:,} tokens\n"
        f"a: {clean(a.variant)}, b: {clean(b.variant)}"
    )
    table = Table(title=title, box=box.SIMPLE_HEAD, collapse_padding=True, pad_edge=False)
    table.add_column("metric", no_wrap=True)
    for column in ("a", "b", "b - a [95%]", "p", "+ / = / -"):
        table.add_column(column, justify="right", no_wrap=True)
    for metric, d in differences(b, a).items():
        p = f"{d.p_value:.3f}" if d.p_value >= 0.001 else "< 0.001"
        digits = 0 if metric.startswith("context_tokens") else 3
        table.add_row(
            metric.removesuffix(f"@{a.budget}"),
            f"{a.value(metric):.{digits}f}",
            f"{b.value(metric):.{digits}f}",
            f"{d.mean:+.{digits}f} [{d.low:+.{digits}f}, {d.high:+.{digits}f}]",
            p,
            f"{d.wins}/{d.ties}/{d.losses}",
            style="" if d.clear else "dim",
        )
    table.add_section()
    for percentile in ("p50", "p95", "p99"):
        values = [getattr(arm.latency, percentile) for arm in (a, b)]
        table.add_row(
            f"{percentile} ms", *(f"{v:.1f}" for v in values), f"{values[1] / values[0] - 1:+.0%}"
        )
    out().print(table)
    _show_verdict(verdict)


def _show_verdict(verdict: Verdict) -> None:
    from rich.text import Text

    console = out()
    console.print(Text(verdict.outcome, style=f"bold {_COLOURS[verdict.outcome]}"))
    for rule in verdict.rules:
        mark, style = ("-", "dim") if rule.met is None else ("✓", "green")
        if rule.met is False:
            mark, style = "✗", "red" if rule.rollback else "yellow"
        line = Text(f"  {mark} ", style=style)
        line.append(f"{rule.name}: {rule.found or 'not measured'} ")
        line.append(f"(needs: {rule.needs})", style="dim")
        console.print(line)
    if verdict.difference is not None and verdict.detectable:
        console.print(Text(f"  {power_line(verdict)}", style="dim"))


def power_line(verdict: Verdict) -> str:
    """What the number of questions can and cannot show."""
    assert verdict.difference is not None
    found = (verdict.detectable or 0.0) * 100
    line = f"{verdict.difference.questions:,} questions can show a difference of {found:.1f} points"
    if verdict.needed:
        line += (
            f"; {verdict.needed:,} would be needed for one of "
            f"{abs(verdict.difference.mean) * 100:.1f}"
        )
    return f"{line} (four times in five)"
