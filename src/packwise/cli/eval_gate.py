"""``packwise eval gate``: fail a build that makes retrieval worse."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from packwise.cli.console import clean, out, print_json
from packwise.cli.eval_shared import prepare, questions_bar, which_questions
from packwise.errors import PackwiseError

if TYPE_CHECKING:
    from packwise.evaluation.data import Half
    from packwise.evaluation.regression import Gate


@click.command()
@click.argument("folder")
@which_questions
@click.option(
    "--baseline",
    required=True,
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="What the figures were: made with --write.",
)
@click.option("--write", is_flag=True, help="Measure and make FILE the new baseline.")
@click.option("--variant", default="default", show_default=True, help="What is measured.")
@click.option("--set", "sets", multiple=True, metavar="KNOB=VALUE", help="A knob; may be repeated.")
@click.option("--budget", type=click.IntRange(min=1), metavar="N", help="Tokens of a context.")
@click.option(
    "--slower",
    type=click.FloatRange(min=0),
    metavar="SHARE",
    help="Fail when p95 grew by more than this share (0.2: a fifth).  [default: never]",
)
def gate(
    folder: str,
    store: str | None,
    split: str | None,
    half: Half | None,
    limit: int | None,
    as_json: bool,
    baseline: str,
    write: bool,
    variant: str,
    sets: tuple[str, ...],
    budget: int | None,
    slower: float | None,
) -> None:
    """Exit with 1 when a metric fell by more than its noise.

    Noise is the 95% interval of the paired difference: a metric fell when all of it is below
    zero (for garbage, redundancy and noise: above).
    """
    from packwise.evaluation.experiment import asked, run_trial
    from packwise.evaluation.knobs import setup
    from packwise.evaluation.regression import check, load_baseline, save_baseline
    from packwise.settings import Settings

    settings = Settings.load()
    chosen = setup(variant, settings, sets)
    kept = None if write else load_baseline(Path(baseline))
    if budget is None:
        budget = kept.budget if kept else settings.context_token_budget
    ready = prepare(folder, store, split, half, settings)
    with questions_bar(ready.dataset.name, len(asked(ready.dataset)[:limit])) as progress:
        (arm,) = run_trial(
            ready.dataset, ready.store, [chosen], budget=budget, limit=limit, progress=progress
        )
    if kept is None:
        save_baseline(Path(baseline), arm, ready.dataset.name)
        if not as_json:
            out().print(f"{clean(baseline)} holds {len(arm.answered)} questions' scores")
        else:
            print_json({"baseline": baseline, "questions": len(arm.answered)})
        return
    found = check(arm, kept, slower=slower)
    if as_json:
        print_json(
            {
                "passed": found.passed,
                "p95_change": round(found.slower, 6),
                "too_slow": found.too_slow,
                "metrics": [change.as_dict() for change in found.changes],
            }
        )
    else:
        _show(found, ready.dataset.name)
    if not found.passed:
        fell = [change.metric for change in found.changes if change.fell]
        worse = [f"{', '.join(fell)} fell by more than the noise"] if fell else []
        if found.too_slow:
            worse.append(f"p95 grew by {found.slower:.0%}")
        raise PackwiseError("; ".join(worse))


def _show(found: Gate, name: str) -> None:
    from rich import box
    from rich.table import Table

    table = Table(title=f"{clean(name)} against its baseline", box=box.SIMPLE_HEAD)
    table.add_column("metric")
    for column in ("before", "now", "difference [95%]"):
        table.add_column(column, justify="right")
    table.add_column("")
    for change in found.changes:
        d = change.difference
        table.add_row(
            change.metric,
            f"{change.before:.3f}",
            f"{change.now:.3f}",
            f"{d.mean:+.3f} [{d.low:+.3f}, {d.high:+.3f}]",
            "fell" if change.fell else "",
            style="red" if change.fell else "",
        )
    table.add_row("p95 latency", "", "", f"{found.slower:+.0%}", "slow" if found.too_slow else "")
    console = out()
    console.print(table)
    if found.passed:
        console.print("passed", style="green")
