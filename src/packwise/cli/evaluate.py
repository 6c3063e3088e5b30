"""``packwise eval``: what retrieval is worth on judged questions."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, get_args

import click

from packwise.candidates import FUSIONS, Fusion, Mode
from packwise.cli.console import clean, out, print_json
from packwise.cli.eval_shared import Asked, prepare, questions_bar
from packwise.errors import PackwiseError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from packwise.evaluation.contexts import ContextResults
    from packwise.evaluation.data import DataSet, Half
    from packwise.evaluation.knobs import Setup
    from packwise.evaluation.report import Results
    from packwise.evaluation.trial import Arm
    from packwise.evaluation.variants import Variant
    from packwise.settings import Settings

# The legs first, so that what joins them stands last and next to its gain.
_MODES: tuple[Mode, ...] = ("keyword", "vector", "hybrid")
_HALVES = ("tune", "report")


class DefaultGroup(click.Group):
    """A group that runs one of its commands when the first argument names none."""

    default = "run"
    # Name and place: a command's module is imported when it is used.
    more: ClassVar[dict[str, str]] = {
        "compare": "packwise.cli.eval_compare:compare",
        "ablate": "packwise.cli.eval_ablate:ablate",
        "questions": "packwise.cli.eval_questions:questions",
        "gate": "packwise.cli.eval_gate:gate",
    }

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.commands, *self.more]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.more:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = self.more[cmd_name].partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the default command's name in front where it was left out."""
        known = (*self.commands, *self.more, *ctx.help_option_names)
        if args and args[0] not in known:
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
    gzipped), or it is a file of goldens, or a pack with eval/questions.jsonl. `packwise eval
    FOLDER` is short for `packwise eval run FOLDER`.
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
@click.option(
    "--budget",
    "budgets",
    multiple=True,
    type=click.IntRange(min=1),
    metavar="N",
    help="Contexts of N tokens; may be repeated.  [default: as set]",
)
@click.option(
    "--variant",
    "variants",
    multiple=True,
    metavar="VARIANT",
    help="A name or KNOB=VALUE,...; several are compared.  [default: baseline and default]",
)
@click.option(
    "--set", "sets", multiple=True, metavar="KNOB=VALUE", help="For all variants; may be repeated."
)
@click.option(
    "--report",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Write a page with curves and every question's trace.",
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
    budgets: tuple[int, ...],
    variants: tuple[str, ...],
    sets: tuple[str, ...],
    report: str | None,
) -> None:
    """Ask the questions of FOLDER and score what is found.

    Rankings and contexts are measured: whether the right documents come first, whether the
    context holds the answer, and what else it holds. Several modes or fusions are run on the
    same store and compared by their rankings. With --budget or --variant contexts are compared:
    baseline is the plain search cut at the end, seed the specification's packing, default what
    `packwise context` does; other names are those of `packwise eval ablate`.
    """
    from packwise.evaluation.contexts import CONTEXT_VARIANTS
    from packwise.settings import Settings

    if (budgets or variants or sets or report) and (modes or fusions):
        raise UsageError("--mode and --fusion compare rankings, the other options contexts")
    settings = Settings.load(query_cache=0)
    if report and not Path(report).absolute().parent.is_dir():
        raise UsageError(f"there is no folder to write {report} to")
    if report or sets or set(variants) - set(CONTEXT_VARIANTS):
        line = _command_line(folder, split, half, limit, budgets, variants, sets, report)
        setups = _setups(variants or (("default",) if sets else ("baseline", "default")), sets)
        ready = prepare(folder, store, split, half, settings)
        _run_trial(ready, setups, limit, as_json, budgets, report, line, settings)
        return
    ready = prepare(folder, store, split, half, settings)
    if budgets or variants:
        _run_contexts(ready, limit, as_json, budgets, variants, settings)
    elif modes or fusions:
        _run_rankings(ready, limit, as_json, modes, fusions, settings)
    else:
        _run_whole(ready, limit, as_json, settings)


def _setups(variants: Sequence[str], sets: tuple[str, ...] = ()) -> list[Setup]:
    from packwise.evaluation.knobs import setup
    from packwise.settings import Settings

    return [setup(name, Settings.load(), sets) for name in dict.fromkeys(variants)]


def _run_whole(ready: Asked, limit: int | None, as_json: bool, settings: Settings) -> None:
    """The default search, its rankings and its contexts."""
    from packwise.evaluation.records import arm_record
    from packwise.evaluation.report import evaluation_record
    from packwise.evaluation.variants import default_variant

    dataset, budget = ready.dataset, settings.context_token_budget
    (arm,) = _trial(ready, _setups(("default",)), (budget,), limit)
    packed = arm_record(dataset, arm)
    packed["details"]["store"] = _size(ready.store)
    if not dataset.judged:
        # Answers alone: nothing is known of documents, so there is no ranking to judge.
        if as_json:
            print_json(packed)
        else:
            _show_arms(dataset.name, [arm])
        return
    results = _measure(dataset, ready.store, [default_variant(settings)], settings, limit)
    if not as_json:
        _show(results)
        _show_arms(dataset.name, [arm], only="_")
        return
    record = evaluation_record(results.evaluations[0])
    for name, value in packed["metrics"].items():
        record["metrics"].setdefault(name, value)
    record["details"].update(
        {name: packed["details"][name] for name in ("budget", "gate", "store")},
        context_latency_ms={str(budget): packed["latency_ms"]},
    )
    print_json(record)


def _run_rankings(
    ready: Asked,
    limit: int | None,
    as_json: bool,
    modes: tuple[str, ...],
    fusions: tuple[str, ...],
    settings: Settings,
) -> None:
    from packwise.evaluation.report import results_record
    from packwise.evaluation.variants import combinations

    chosen: tuple[Any, ...] = _MODES if "all" in modes else modes
    joined: tuple[Any, ...] = FUSIONS if "all" in fusions else fusions
    searches = combinations(chosen, joined, settings)
    results = _measure(ready.dataset, ready.store, searches, settings, limit)
    if as_json:
        print_json(results_record(results))
    else:
        _show(results)


def _run_trial(
    ready: Asked,
    setups: Sequence[Setup],
    limit: int | None,
    as_json: bool,
    budgets: tuple[int, ...],
    report: str | None,
    line: str,
    settings: Settings,
) -> None:
    """Any variants side by side, rankings and contexts; and the page where it is asked for."""
    from packwise.evaluation.page import BUDGETS, Report, render
    from packwise.evaluation.records import trial_record

    sizes = budgets or (settings.context_token_budget,)
    curve = BUDGETS if report else ()
    arms = _trial(ready, setups, (*sizes, *curve), limit, keep=bool(report))
    if report:
        page = render(Report(ready.dataset, arms, line, _size(ready.store)["bytes"]))
        _write(Path(report), page)
    if as_json:
        print_json(trial_record(ready.dataset, arms))
    else:
        _show_arms(ready.dataset.name, arms)


def _trial(
    ready: Asked,
    setups: Sequence[Setup],
    budgets: Sequence[int],
    limit: int | None,
    *,
    keep: bool = False,
) -> tuple[Arm, ...]:
    from packwise.evaluation.trial import asked, run_trial

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


def _size(store: str) -> dict[str, int]:
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


def _show_arms(name: str, arms: Sequence[Arm], only: str = "") -> None:
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


def _command_line(
    folder: str,
    split: str | None,
    half: str | None,
    limit: int | None,
    budgets: Sequence[int],
    variants: Sequence[str],
    sets: Sequence[str],
    report: str | None,
) -> str:
    words = ["packwise", "eval", _by_variable(folder)]
    for option, values in (
        ("--split", (split,)),
        ("--half", (half,)),
        ("--limit", (limit,)),
        ("--budget", budgets),
        ("--variant", variants),
        ("--set", sets),
        ("--report", (report,)),
    ):
        for value in values:
            if value is not None:
                words += [option, shlex.quote(str(value))]
    return " ".join(words)


def _run_contexts(
    ready: Asked,
    limit: int | None,
    as_json: bool,
    budgets: tuple[int, ...],
    variants: tuple[str, ...],
    settings: Settings,
) -> None:
    from packwise.evaluation.contexts import compare_contexts
    from packwise.evaluation.report import contexts_record

    chosen = tuple(dict.fromkeys(variants or ("baseline", "default")))
    asked = tuple(sorted(set(budgets))) or (settings.context_token_budget,)
    dataset = ready.dataset
    answerable = sum(q.answerable for q in dataset.judged)
    total = len(asked) * min(answerable, limit or answerable)
    with questions_bar(dataset.name, total) as progress:
        results = compare_contexts(
            dataset, ready.store, chosen, asked, settings, limit=limit, progress=progress
        )
    if as_json:
        print_json(contexts_record(results))
    else:
        _show_contexts(results)


def _show_contexts(results: ContextResults) -> None:
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

    settings = Settings.load(query_cache=0)
    if markdown is not None and not Path(markdown).absolute().parent.is_dir():
        raise UsageError(f"there is no folder to write {markdown} to")
    # All are read before the first is measured: a mistake in the last one shows at once.
    for folder in folders:
        load_dataset(folder, split=split, half=half)
    ready = [prepare(folder, None, split, half, settings) for folder in folders]
    measured = [_measure(r.dataset, r.store, EVERY_VARIANT, settings, limit) for r in ready]
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
    store: str,
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

    with open_library(store, settings=settings) as library:
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
