"""``packwise eval``: what retrieval is worth on judged questions."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, get_args

import click

from packwise.candidates import FUSIONS, Fusion, Mode
from packwise.cli.console import print_json
from packwise.cli.eval_lines import run_line, table_line
from packwise.cli.eval_measure import (
    measure_contexts,
    measure_rankings,
    measure_trial,
    store_size,
)
from packwise.cli.eval_shared import HALVES, Asked, prepare
from packwise.cli.eval_show import show_arms, show_contexts, show_rankings, show_table
from packwise.errors import PackwiseError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from packwise.evaluation.data import Half
    from packwise.evaluation.knobs import Setup
    from packwise.settings import Settings

# The legs first, so that what joins them stands last and next to its gain.
_MODES: tuple[Mode, ...] = ("keyword", "vector", "hybrid")


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
            type=click.Choice(HALVES),
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
        line = run_line(folder, split, half, limit, budgets, variants, sets, report)
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
    (arm,) = measure_trial(ready, _setups(("default",)), (budget,), limit)
    packed = arm_record(dataset, arm)
    packed["details"]["store"] = store_size(ready.store)
    if not dataset.judged:
        # Answers alone: nothing is known of documents, so there is no ranking to judge.
        if as_json:
            print_json(packed)
        else:
            show_arms(dataset.name, [arm])
        return
    results = measure_rankings(ready, [default_variant(settings)], settings, limit)
    if not as_json:
        show_rankings(results)
        show_arms(dataset.name, [arm], only="_")
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
    results = measure_rankings(ready, searches, settings, limit)
    if as_json:
        print_json(results_record(results))
    else:
        show_rankings(results)


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
    arms = measure_trial(ready, setups, (*sizes, *curve), limit, keep=bool(report))
    if report:
        page = render(Report(ready.dataset, arms, line, store_size(ready.store)["bytes"]))
        _write(Path(report), page)
    if as_json:
        print_json(trial_record(ready.dataset, arms))
    else:
        show_arms(ready.dataset.name, arms)


def _run_contexts(
    ready: Asked,
    limit: int | None,
    as_json: bool,
    budgets: tuple[int, ...],
    variants: tuple[str, ...],
    settings: Settings,
) -> None:
    from packwise.evaluation.report import contexts_record

    chosen = tuple(dict.fromkeys(variants or ("baseline", "default")))
    asked = tuple(sorted(set(budgets))) or (settings.context_token_budget,)
    results = measure_contexts(ready, chosen, asked, settings, limit)
    if as_json:
        print_json(contexts_record(results))
    else:
        show_contexts(results)


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
    measured = [measure_rankings(one, EVERY_VARIANT, settings, limit) for one in ready]
    if markdown is not None:
        _write(Path(markdown), as_markdown(measured, table_line(folders, split, half, limit)))
    if as_json:
        print_json({"datasets": [results_record(results) for results in measured]})
    else:
        show_table(measured)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise PackwiseError(f"cannot write {path}: {error.strerror}") from error
