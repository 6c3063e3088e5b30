"""``packwise eval compare|ablate|gate|questions``."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from packwise.cli import evaluate_tables as tables
from packwise.cli.console import clean, note, out, print_json, write_file
from packwise.cli.evaluate_selection import (
    QuestionChoice,
    check_folder_of,
    progress_bar,
    question_options,
)
from packwise.errors import ModelError, PackwiseError, UsageError

if TYPE_CHECKING:
    from packwise.models.llm import LanguageModel


@click.command()
@click.argument("folder", required=False)
@question_options()
@click.option("--a", "old", default="baseline", show_default=True, help="The variant in use.")
@click.option("--b", "new", default="default", show_default=True, help="The one to replace it.")
@click.option("--budget", type=click.IntRange(min=1), metavar="N", help="Tokens per context.")
@click.option(
    "--traffic",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Judge recorded requests instead: JSON lines, one per request.",
)
@click.option(
    "--share",
    type=click.FloatRange(0.0, 1.0, min_open=True, max_open=True),
    default=0.5,
    show_default=True,
    help="The share of the traffic that B was given: 0.1 first, then 0.5.",
)
def compare(
    selection: QuestionChoice,
    as_json: bool,
    old: str,
    new: str,
    budget: int | None,
    traffic: str | None,
    share: float,
) -> None:
    """Say whether variant B should replace variant A: ship, no difference or rollback.

    A variant is a name, NAME=VALUE (see `packwise settings`), or several joined by commas:
    `--b default,graph_ranking=off`. Names are those of `packwise eval ablate`, baseline, seed
    and default. Every question is put to both variants; differences are by question.
    """
    if traffic is not None:
        if selection.folder:
            raise UsageError("FOLDER and --traffic exclude each other")
        _compare_traffic(traffic, share, as_json)
        return
    if not selection.folder:
        raise UsageError("name a FOLDER with questions, or --traffic FILE")
    from packwise.evaluation.records import comparison_record
    from packwise.evaluation.variants import parse_variant
    from packwise.evaluation.verdict import judge
    from packwise.settings import Settings

    settings = Settings.load()
    variants = [parse_variant(name, settings) for name in (old, new)]
    if variants[0].name == variants[1].name:
        raise UsageError("A and B are the same variant")
    found = selection.prepare(settings).run_variants(
        variants, [budget or settings.context_token_budget]
    )
    verdict = judge(found.results[1], found.results[0])
    if as_json:
        print_json(comparison_record(found, verdict))
    else:
        tables.show_comparison(found, verdict)


def _compare_traffic(path: str, share: float, as_json: bool) -> None:
    from packwise.evaluation.records import traffic_record
    from packwise.evaluation.traffic import judge_traffic, read_traffic

    recorded = read_traffic(path, share)
    verdict = judge_traffic(recorded)
    if as_json:
        print_json(traffic_record(path, recorded, verdict))
    else:
        tables.show_verdict(verdict)


@click.command()
@click.argument("folder")
@question_options()
@click.option("--part", "names", multiple=True, help="Only this part; can be repeated.")
@click.option(
    "--budget",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    metavar="N",
    help="Tokens per context: a tight budget shows the effect of packing.",
)
def ablate(selection: QuestionChoice, as_json: bool, names: tuple[str, ...], budget: int) -> None:
    """Switch each stage off (or on, if it is off) and measure what changes.

    Figures are with the stage minus without it, by question; milliseconds are what it adds.
    The cross-encoder is left out unless named: `--part crossencoder`.
    """
    from packwise.evaluation.ablation import choose_stages, stage_effects
    from packwise.evaluation.records import ablation_record
    from packwise.evaluation.variants import DEFAULT, parse_variant
    from packwise.settings import Settings

    settings = Settings.load()
    stages = choose_stages(names)
    variants = [parse_variant(name, settings) for name in (DEFAULT, *(s.variant for s in stages))]
    found = selection.prepare(settings).run_variants(variants, [budget])
    effects = stage_effects(found, stages)
    if as_json:
        print_json(ablation_record(found, effects))
    else:
        tables.show_ablation(found, effects)


@click.command()
@click.argument("folder")
@question_options()
@click.option(
    "--baseline",
    required=True,
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="The figures to compare with: made with --write.",
)
@click.option("--write", is_flag=True, help="Measure and write FILE as the new baseline.")
@click.option("--variant", default="default", show_default=True, help="What is measured.")
@click.option(
    "--set", "sets", multiple=True, metavar="NAME=VALUE", help="A setting; can be repeated."
)
@click.option("--budget", type=click.IntRange(min=1), metavar="N", help="Tokens per context.")
@click.option(
    "--slower",
    type=click.FloatRange(min=0),
    metavar="SHARE",
    help="Fail if p95 grew by more than this share (0.2: a fifth).  [default: never]",
)
def gate(
    selection: QuestionChoice,
    as_json: bool,
    baseline: str,
    write: bool,
    variant: str,
    sets: tuple[str, ...],
    budget: int | None,
    slower: float | None,
) -> None:
    """Exit with 1 if a metric fell by more than its noise.

    Noise is the 95% interval of the paired difference: a metric fell if the whole interval is
    below zero (for garbage, redundancy and noise: above).
    """
    from packwise.evaluation.records import gate_record
    from packwise.evaluation.regression import check_regression, load_baseline, save_baseline
    from packwise.evaluation.variants import parse_variant
    from packwise.settings import Settings

    settings = Settings.load()
    chosen = parse_variant(variant, settings, sets)
    kept = None if write else load_baseline(Path(baseline))
    budget = budget or (kept.budget if kept else settings.context_token_budget)
    found = selection.prepare(settings).run_variants([chosen], [budget])
    (result,) = found.results
    if kept is None:
        save_baseline(Path(baseline), result, found.dataset.name)
        if as_json:
            print_json({"baseline": baseline, "questions": len(result.questions)})
        else:
            out().print(f"{clean(baseline)} has the scores of {len(result.questions)} questions")
        return
    checked = check_regression(result, kept, slower=slower)
    if as_json:
        print_json(gate_record(checked))
    else:
        tables.show_gate(checked, found.dataset.name)
    if not checked.passed:
        fell = [change.metric for change in checked.changes if change.fell]
        worse = [f"{', '.join(fell)} fell by more than the noise"] if fell else []
        worse += [f"p95 grew by {checked.slower:.0%}"] if checked.too_slow else []
        raise PackwiseError("; ".join(worse))


@click.command()
@click.argument("store")
@click.option("--n", "number", type=click.IntRange(min=1), default=100, show_default=True)
@click.option(
    "--out", "target", type=click.Path(), metavar="FILE", help="Write them there.  [default: print]"
)
@click.option("--seed", type=int, default=0, show_default=True, help="Another draw.")
@click.option("--by-rule", is_flag=True, help="Use no language model, even if one is set.")
def questions(store: str, number: int, target: str | None, seed: int, by_rule: bool) -> None:
    """Make questions from STORE, with the documents that answer them.

    A language model writes them if one is configured; otherwise they are made from definitions,
    link anchors, figures and headings. The output is JSON lines, marked as synthetic: `packwise
    eval FILE --store STORE` measures with them.
    """
    from packwise.evaluation.questions import as_lines, make_goldens
    from packwise.stores.locate import open_store

    check_folder_of(target)
    llm = None if by_rule else _language_model()
    with ExitStack() as stack:
        if llm is not None:
            stack.callback(llm.close)
        opened = stack.enter_context(open_store(store))
        progress = stack.enter_context(progress_bar(store, number))
        made = make_goldens(opened, number, llm=llm, seed=seed, remark=note, progress=progress)
    if target is None:
        click.echo(as_lines(made), nl=False)
    else:
        write_file(target, as_lines(made))
    if len(made) < number:
        note(f"the store gives only {len(made)} questions")


def _language_model() -> LanguageModel | None:
    from packwise.models.llm import load_llm
    from packwise.settings import Settings

    settings = Settings.load()
    try:
        return load_llm(model=settings.llm_model or None, url=settings.llm_url or None)
    except ModelError as error:
        note(f"made by rule: {error}")
        return None
