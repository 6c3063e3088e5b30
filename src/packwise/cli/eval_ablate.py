"""``packwise eval ablate``: what each stage is worth and what it costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from packwise.cli.console import clean, out, print_json
from packwise.cli.eval_shared import prepare, questions_bar, which_questions

if TYPE_CHECKING:
    from packwise.evaluation.ablation import Ablation
    from packwise.evaluation.data import Half

_SHOWN = ("ndcg@10", "recall@5", "answer_recall", "gold_recall", "garbage_fraction")


@click.command()
@click.argument("folder")
@which_questions
@click.option("--part", "names", multiple=True, help="Only this part; may be repeated.")
@click.option(
    "--budget",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    metavar="N",
    help="Tokens of a context: a tight one shows what packing is worth.",
)
def ablate(
    folder: str,
    store: str | None,
    split: str | None,
    half: Half | None,
    limit: int | None,
    as_json: bool,
    names: tuple[str, ...],
    budget: int,
) -> None:
    """Switch each stage off (or on, where it is off) and measure what changes.

    Figures are with the stage minus without it, by question; milliseconds are what it adds.
    The cross-encoder is left out unless asked for: `--part crossencoder`.
    """
    from packwise.evaluation.ablation import ablate as measure
    from packwise.evaluation.ablation import ablation_record, parts
    from packwise.evaluation.experiment import asked
    from packwise.settings import Settings

    settings = Settings.load()
    chosen = parts(names)
    ready = prepare(folder, store, split, half, settings)
    total = (len(chosen) + 1) * len(asked(ready.dataset)[:limit])
    with questions_bar(ready.dataset.name, total) as progress:
        found = measure(
            ready.dataset,
            ready.store,
            settings,
            chosen,
            budget=budget,
            limit=limit,
            progress=progress,
        )
    if as_json:
        print_json(ablation_record(found))
    else:
        _show(found)


def _show(found: Ablation) -> None:
    from rich import box
    from rich.table import Table

    metrics = [
        name for name in found.default.metrics if name in _SHOWN or name.partition("@")[0] in _SHOWN
    ]
    title = f"{clean(found.dataset)}, {found.questions} questions, {found.budget:,} tokens"
    table = Table(title=title, box=box.SIMPLE_HEAD, collapse_padding=True)
    table.add_column("what having it changes", no_wrap=True)
    for metric in metrics:
        name, _, depth = metric.partition("@")
        table.add_column(f"{name.partition('_')[0]}\n@{depth}", justify="right", no_wrap=True)
    table.add_column("ms", justify="right", no_wrap=True)
    values = [f"{found.default.value(metric):.3f}" for metric in metrics]
    table.add_row("the default", *values, f"{found.default.latency.p50:.1f}", style="bold")
    table.add_section()
    for worth in found.worths:
        cells: list[str] = []
        for metric in metrics:
            change = worth.changes.get(metric)
            mark = "*" if change is not None and change.clear else " "
            cells.append("" if change is None else f"{change.mean:+.3f}{mark}")
        name = f"{worth.part.name}{' (is off)' if worth.part.optional else ''}"
        table.add_row(name, *cells, f"{worth.median_ms:+.1f}")
    console = out()
    console.print(table)
    console.print("* the 95% interval of the paired difference leaves zero out", style="dim")
