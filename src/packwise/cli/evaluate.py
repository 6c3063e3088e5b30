"""``packwise eval``: what retrieval is worth on judged questions."""

from __future__ import annotations

import os
import shlex
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from packwise.candidates import FUSIONS, Fusion, Mode
from packwise.cli.console import clean, err, out, print_json
from packwise.errors import PackwiseError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from packwise.evaluation.data import DataSet, Half
    from packwise.evaluation.report import Results
    from packwise.evaluation.variants import Variant
    from packwise.settings import Settings

# The legs first, so that what joins them stands last and next to its gain.
_MODES: tuple[Mode, ...] = ("keyword", "vector", "hybrid")
_HALVES = ("tune", "report")


class DefaultGroup(click.Group):
    """A group that runs one of its commands when the first argument names none."""

    default = "run"

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the default command's name in front where it was left out."""
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = [self.default, *args]
        return super().parse_args(ctx, args)


def _shared(command: Callable[..., None]) -> Callable[..., None]:
    """The options that say which questions are asked."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print the result as JSON."),
        click.option("--limit", type=click.IntRange(min=1), help="Ask only the first N questions."),
        click.option(
            "--half",
            type=click.Choice(_HALVES),
            help="Ask one half of the questions: choose settings on one, report the other.",
        ),
        click.option(
            "--split", help="Which split's questions.  [default: test, else dev, else the only one]"
        ),
    ):
        command = option(command)
    return command


@click.group(
    cls=DefaultGroup, options_metavar="", subcommand_metavar="FOLDER [OPTIONS] | COMMAND [ARGS]..."
)
def evaluate() -> None:
    """Measure retrieval on judged questions.

    FOLDER holds corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv (the BEIR shape, plain or
    gzipped). `packwise eval FOLDER` is short for `packwise eval run FOLDER`.
    """


@evaluate.command("run")
@click.argument("folder")
@click.option(
    "--store", help="Search this store.  [default: one built from FOLDER, kept in the cache]"
)
@_shared
@click.option(
    "--mode",
    "modes",
    multiple=True,
    type=click.Choice((*get_args(Mode), "all")),
    help="Which legs search; several are compared.  [default: hybrid]",
)
@click.option(
    "--fusion",
    "fusions",
    multiple=True,
    type=click.Choice((*get_args(Fusion), "all")),
    help="How the legs are joined; several are compared.  [default: as set]",
)
def run_command(
    folder: str,
    store: str | None,
    split: str | None,
    half: Half | None,
    limit: int | None,
    as_json: bool,
    modes: tuple[str, ...],
    fusions: tuple[str, ...],
) -> None:
    """Ask the questions of FOLDER and score what is found.

    Several modes or fusions are run on the same store and compared question by question.
    """
    from packwise.evaluation.data import load_dataset
    from packwise.evaluation.report import results_record
    from packwise.evaluation.variants import combinations
    from packwise.settings import Settings

    settings = Settings.load()
    chosen: tuple[Any, ...] = _MODES if "all" in modes else modes
    joined: tuple[Any, ...] = FUSIONS if "all" in fusions else fusions
    variants = combinations(chosen, joined, settings)
    dataset = load_dataset(folder, split=split, half=half)
    results = _measure(dataset, store, variants, settings, limit)
    if as_json:
        print_json(results_record(results))
    else:
        _show(results)


@evaluate.command("table")
@click.argument("folders", metavar="FOLDER...", nargs=-1, required=True)
@_shared
@click.option(
    "--markdown", type=click.Path(dir_okay=False), metavar="FILE", help="Write the tables there."
)
def table_command(
    folders: tuple[str, ...],
    split: str | None,
    half: Half | None,
    limit: int | None,
    as_json: bool,
    markdown: str | None,
) -> None:
    """Compare every way of searching on each FOLDER: one table."""
    from packwise.evaluation.data import load_dataset
    from packwise.evaluation.report import markdown as as_markdown
    from packwise.evaluation.report import results_record
    from packwise.evaluation.variants import EVERY_VARIANT
    from packwise.settings import Settings

    settings = Settings.load()
    if markdown is not None and not Path(markdown).absolute().parent.is_dir():
        raise UsageError(f"there is no folder to write {markdown} to")
    # All are read before the first is measured: a mistake in the last one shows at once.
    datasets = [load_dataset(folder, split=split, half=half) for folder in folders]
    measured = [_measure(dataset, None, EVERY_VARIANT, settings, limit) for dataset in datasets]
    if markdown is not None:
        _write(Path(markdown), as_markdown(measured, _table_line(folders, split, half, limit)))
    if as_json:
        print_json({"datasets": [results_record(results) for results in measured]})
    else:
        _show_table(measured)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise PackwiseError(f"cannot write {path}: {error.strerror}") from error


def _measure(
    dataset: DataSet,
    store: str | None,
    variants: Sequence[Variant],
    settings: Settings,
    limit: int | None,
) -> Results:
    """Run each variant on one store, which is built first where none is given."""
    from packwise.cli.progress import BuildProgress
    from packwise.evaluation.cache import cached_store
    from packwise.evaluation.compare import contrasts
    from packwise.evaluation.metrics import STANDARD
    from packwise.evaluation.reach import within_reach
    from packwise.evaluation.report import Results
    from packwise.evaluation.runner import run
    from packwise.evaluation.variants import default_variant, library_ranker
    from packwise.library import open_library

    if store is None:
        store = str(
            cached_store(dataset, settings, BuildProgress(f"building {clean(dataset.name)}"))
        )
    with open_library(store, settings=settings) as library:
        dataset = within_reach(dataset, library.store)
        _remark(dataset, library.info().documents)
        total = len(dataset.judged[:limit]) * len(variants)
        with _questions_bar(dataset.name, total) as progress:
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


def _remark(dataset: DataSet, documents: int) -> None:
    """Say on standard error what makes the figures differ from those of the whole corpus."""
    remarks: list[str] = []
    if dataset.absent:
        remarks.append(f"relevant documents that no search can find: {dataset.absent} not stored")
    if documents < dataset.documents:
        remarks.append(f"the store holds {documents} of the corpus's {dataset.documents} documents")
    for remark in remarks:
        err().print(f"{clean(dataset.name)}: {remark}", style="yellow", soft_wrap=True)


@contextmanager
def _questions_bar(name: str, total: int) -> Generator[Callable[[int], None]]:
    """A bar on standard error, gone when it is done; none where nobody watches."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    console = err()
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as shown:
        task = shown.add_task(f"asking {clean(name)}", total=total)
        yield lambda done: shown.advance(task, done)


def _show(results: Results) -> None:
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


def _show_table(measured: Sequence[Results]) -> None:
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


def _table_line(
    folders: Sequence[str], split: str | None, half: str | None, limit: int | None
) -> str:
    """The command that makes the same tables, with the data folder by its variable."""
    words = ["packwise", "eval", "table", *(_by_variable(folder) for folder in folders)]
    for option, value in (("--split", split), ("--half", half), ("--limit", limit)):
        if value is not None:
            words += [option, shlex.quote(str(value))]
    return " ".join(words)


def _by_variable(folder: str) -> str:
    data = os.environ.get("PACKWISE_DATA")
    if data and Path(folder).resolve().is_relative_to(Path(data).resolve()):
        inside = Path(folder).resolve().relative_to(Path(data).resolve())
        return f'"$PACKWISE_DATA"/{shlex.quote(inside.as_posix())}'
    return shlex.quote(folder)
