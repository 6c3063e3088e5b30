"""``packwise eval``: measure retrieval on judged questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, get_args

import click

from packwise.candidates import FUSIONS, Fusion, Mode
from packwise.cli import evaluate_tables as tables
from packwise.cli.console import (
    DefaultGroup,
    embedder_option,
    emit,
    json_option,
    print_json,
    write_file,
)
from packwise.cli.evaluate_compare import ablate, compare, gate, questions
from packwise.cli.evaluate_selection import (
    EvaluationRun,
    QuestionChoice,
    check_folder_of,
    progress_bar,
    question_options,
)
from packwise.errors import UsageError

if TYPE_CHECKING:
    from packwise.evaluation.experiment import Experiment
    from packwise.evaluation.variants import Variant
    from packwise.settings import Settings

# The single legs come first, so that each fusion is next to its gain.
_MODES: tuple[Mode, ...] = ("keyword", "vector", "hybrid")


@click.group(
    cls=DefaultGroup, options_metavar="", subcommand_metavar="FOLDER [OPTIONS] | COMMAND [ARGS]..."
)
def evaluate() -> None:
    """Measure retrieval on judged questions.

    FOLDER has corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv (the BEIR layout, plain or
    gzipped). It can also be a file of goldens, or a pack with eval/questions.jsonl or with
    feedback (`packwise feedback`). `packwise eval FOLDER` is short for `packwise eval run FOLDER`.
    """


@evaluate.command("run")
@click.argument("folder")
@question_options()
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
    help="How the legs are fused; several are compared.  [default: as set]",
)
@click.option(
    "--budget",
    "budgets",
    multiple=True,
    type=click.IntRange(min=1),
    metavar="N",
    help="Contexts of N tokens; can be repeated.  [default: as set]",
)
@click.option(
    "--variant",
    "variants",
    multiple=True,
    metavar="VARIANT",
    help="A name or NAME=VALUE,...; several are compared.  [default: baseline and default]",
)
@click.option(
    "--set", "sets", multiple=True, metavar="NAME=VALUE", help="For all variants; can be repeated."
)
@click.option(
    "--report",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Write a page with charts and every question's trace.",
)
@embedder_option
def run_command(
    selection: QuestionChoice,
    as_json: bool,
    modes: tuple[str, ...],
    fusions: tuple[str, ...],
    budgets: tuple[int, ...],
    variants: tuple[str, ...],
    sets: tuple[str, ...],
    report: str | None,
    embedder: str | None,
) -> None:
    """Ask the questions of FOLDER and score the results.

    Measures rankings and contexts: whether the right documents come first, whether the context
    contains the answer, and what else it contains. Several modes or fusions run on the same
    store and are compared by their rankings. --budget and --variant compare contexts: baseline
    is the plain search cut off at the budget, seed the packing of the specification, default
    what `packwise context` does; other names are those of `packwise eval ablate`.
    """
    from packwise.evaluation import records
    from packwise.evaluation.variants import BASELINE, DEFAULT, SEED, parse_variant
    from packwise.settings import Settings

    if (budgets or variants or sets or report) and (modes or fusions):
        raise UsageError("--mode and --fusion compare rankings, the other options contexts")
    settings = Settings.load(query_cache=0, embedder=embedder)
    check_folder_of(report)
    sizes = budgets or (settings.context_token_budget,)
    names = tuple(dict.fromkeys(variants or ((DEFAULT,) if sets else (BASELINE, DEFAULT))))
    if modes or fusions:
        chosen: tuple[Any, ...] = _MODES if "all" in modes else modes
        fused: tuple[Any, ...] = FUSIONS if "all" in fusions else fusions
        found = _compare_searches(selection.prepare(settings), chosen, fused, settings)
        emit(as_json, lambda: records.rankings_record(found), lambda: tables.show_rankings(found))
        return
    line = selection.command_line(budget=budgets, variant=variants, set=sets, report=[report])
    compared = [parse_variant(name, settings, sets) for name in names]
    prepared = selection.prepare(settings)
    if report or sets or set(variants) - {BASELINE, SEED, DEFAULT}:
        _run_variants(prepared, compared, sizes, as_json, report, line)
    elif budgets or variants:
        _run_contexts(prepared, compared, sizes, as_json)
    else:
        _run_whole(prepared, compared[-1], sizes, as_json)


def _run_whole(
    prepared: EvaluationRun, default: Variant, budgets: Sequence[int], as_json: bool
) -> None:
    """The default search: its rankings and its contexts."""
    from packwise.evaluation.records import whole_record
    from packwise.evaluation.variants import search_variants

    contexts = prepared.run_variants([default], budgets)
    rankings = None
    # Answers alone say nothing about documents, so there is no ranking to judge.
    if prepared.dataset.judged:
        rankings = prepared.run_rankings(search_variants((), (), default.settings))
    if as_json:
        print_json(whole_record(rankings, contexts, _store_size(prepared.store)))
        return
    if rankings is not None:
        tables.show_rankings(rankings)
    tables.show_variants(contexts, only="_" if rankings else "")


def _compare_searches(
    prepared: EvaluationRun,
    modes: Sequence[Mode],
    fusions: Sequence[Fusion],
    settings: Settings,
) -> Experiment:
    """Rankings of each mode and fusion; the default is the reference if it is among them."""
    from packwise.evaluation.variants import search_variants

    variants = search_variants(modes, fusions, settings)
    (default,) = search_variants((), (), settings)
    return prepared.run_rankings(variants, default.name if default in variants else "")


def _run_variants(
    prepared: EvaluationRun,
    variants: Sequence[Variant],
    budgets: Sequence[int],
    as_json: bool,
    report: str | None,
    line: str,
) -> None:
    """Any variants side by side, rankings and contexts; and the page if asked for."""
    from packwise.evaluation.records import variants_record

    if report is None:
        found = prepared.run_variants(variants, budgets)
    else:
        from packwise.evaluation.page import BUDGETS, render

        found = prepared.run_variants(variants, (*budgets, *BUDGETS), keep_traces=True)
        write_file(report, render(found, line, _store_size(prepared.store)["bytes"]))
    emit(as_json, lambda: variants_record(found), lambda: tables.show_variants(found))


def _run_contexts(
    prepared: EvaluationRun, variants: Sequence[Variant], budgets: Sequence[int], as_json: bool
) -> None:
    """Contexts of the answerable questions; the default is compared with each other variant."""
    from packwise.evaluation.records import contexts_record

    names = [variant.name for variant in variants]
    found = prepared.run(
        variants,
        [q for q in prepared.dataset.judged if q.answerable],
        budgets=sorted(budgets),
        reference="default" if "default" in names else "",
    )
    emit(as_json, lambda: contexts_record(found), lambda: tables.show_contexts(found))


def _store_size(store: str) -> dict[str, int]:
    from packwise.stores.locate import open_store

    with open_store(store) as opened:
        info = opened.info()
    return {
        "bytes": info.size_bytes,
        "documents": info.documents,
        "passages": info.passages,
        "bytes_per_passage": round(info.size_bytes / max(1, info.passages)),
    }


@evaluate.command("table")
@click.argument("folders", metavar="FOLDER...", nargs=-1, required=True)
@question_options(with_store=False)
@click.option(
    "--markdown", type=click.Path(dir_okay=False), metavar="FILE", help="Write the tables there."
)
@embedder_option
def table_command(
    selection: QuestionChoice,
    folders: tuple[str, ...],
    as_json: bool,
    markdown: str | None,
    embedder: str | None,
) -> None:
    """Compare keyword, vector and hybrid search on each FOLDER."""
    from packwise.evaluation.data import load_dataset
    from packwise.evaluation.records import rankings_record
    from packwise.evaluation.tables import rankings_markdown
    from packwise.settings import Settings

    settings = Settings.load(query_cache=0, embedder=embedder)
    check_folder_of(markdown)
    # Read all before measuring the first, so that a mistake in the last one shows at once.
    for folder in folders:
        load_dataset(folder, split=selection.split, half=selection.half)
    prepared = [replace(selection, folder=folder).prepare(settings) for folder in folders]
    found = [_compare_searches(one, _MODES, FUSIONS, settings) for one in prepared]
    if markdown is not None:
        line = selection.command_line("table", folders=folders)
        write_file(markdown, rankings_markdown(found, line))
    emit(
        as_json,
        lambda: {"datasets": [rankings_record(one) for one in found]},
        lambda: tables.show_table(found),
    )


@evaluate.command("answers")
@click.argument("store")
@click.argument("questions_file", metavar="QUESTIONS")
@click.option("--wrong", is_flag=True, help="Print the answers that are not right.")
@click.option("--model", "synthesis", is_flag=True, help="Let the language model answer.")
@json_option
def answers_command(
    store: str, questions_file: str, wrong: bool, synthesis: bool, as_json: bool
) -> None:
    """Ask STORE every question and count right, unsure, wrong and refused answers.

    QUESTIONS has one JSON object per line: {"question": "Which port?", "holds": [["9999"]]}.
    "holds" is a list of alternatives; a right answer contains all texts of one of them. Without
    "holds" the question has no answer in the documents. "kind" groups questions, "document" asks
    within one document. A file of feedback works too.
    """
    from packwise.evaluation.answers import evaluate_answers, read_questions
    from packwise.library import open_library

    asked = read_questions(questions_file)
    with open_library(store) as library, progress_bar(store, len(asked)) as advance:
        report = evaluate_answers(
            library, asked, synthesis=None if synthesis else False, seen=lambda _: advance(1)
        )
    emit(as_json, report.as_dict, lambda: tables.show_answers(report, wrong))


for _command in (compare, ablate, questions, gate):
    evaluate.add_command(_command)
