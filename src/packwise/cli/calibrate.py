"""``packwise calibrate``: fit the confidence of a store to its answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from packwise.cli.console import clean, err, json_option, out, print_json
from packwise.cli.evaluate_selection import progress_bar
from packwise.cli.evaluate_tables import make_table
from packwise.errors import UsageError

if TYPE_CHECKING:
    from packwise.evaluation.calibration import CalibrationExample, Fit
    from packwise.evaluation.data import Half
    from packwise.retrieval.calibration import Calibration
    from packwise.stores.base import StoreInfo


@click.command()
@click.argument("store")
@click.argument("goldens", required=False)
@click.option(
    "--precision",
    type=click.FloatRange(0.5, 1.0, min_open=True, max_open=True),
    help="Answer where this share of contexts has the answer.  [default: answer at 0.5 and above]",
)
@click.option(
    "--other",
    "others",
    multiple=True,
    metavar="GOLDENS",
    help="Questions on other topics, which STORE cannot answer; can be repeated.",
)
@click.option("--feedback", is_flag=True, help="Use the feedback on STORE, alone or with GOLDENS.")
@click.option("--split", help="Which split's questions, if GOLDENS is a folder.")
@click.option("--half", type=click.Choice(("tune", "report")), help="Fit on one half of them.")
@click.option("--limit", type=click.IntRange(min=1), help="Ask only the first N questions.")
@click.option("--dry-run", is_flag=True, help="Measure, but save nothing.")
@click.option("--remove", is_flag=True, help="Go back to the default calibration.")
@json_option
def calibrate(
    store: str,
    goldens: str | None,
    precision: float | None,
    others: tuple[str, ...],
    feedback: bool,
    split: str | None,
    half: Half | None,
    limit: int | None,
    dry_run: bool,
    remove: bool,
    as_json: bool,
) -> None:
    """Learn from GOLDENS how likely a context of STORE contains the answer, and how likely an
    answer without a language model is right.

    The confidence gate then uses that probability instead of the best similarity. GOLDENS is
    a file of questions or a BEIR folder; --feedback uses what people said about answers of STORE
    (`packwise feedback`). Without either, the calibration in use is shown. If too few questions
    are marked as unanswerable, each answered one is used a second time with its answer removed
    from the list. Set PACKWISE_RERANKER=crossencoder to use its score too.
    """
    from packwise.library import open_library
    from packwise.retrieval.calibration import (
        calibration_path,
        default_calibration,
        load_calibration,
        remove_calibration,
    )
    from packwise.settings import Settings

    if remove and (feedback or goldens is not None):
        raise UsageError("--remove takes no GOLDENS and no --feedback")
    settings = Settings.load(query_cache=0)
    with open_library(store, settings=settings) as library:
        info = library.info()
        path = calibration_path(info)
        if remove:
            remove_calibration(info)
        if goldens is None and not feedback:
            _show_current(load_calibration(info), as_json)
            return
        from packwise.evaluation.calibration import (
            data_hash,
            fit,
            fit_answers,
            gather,
            gather_answers,
        )
        from packwise.evaluation.coverage_check import check_coverage
        from packwise.evaluation.goldens import joined, load_questions, resolve

        read = [load_questions(goldens, split=split, half=half)] if goldens else []
        if feedback:
            read.append(load_questions(_feedback_file(info), half=half))
        dataset = joined(*read) if len(read) > 1 else read[0]
        dataset = check_coverage(resolve(dataset, library.store), library.store)
        aside = [q for place in others for q in load_questions(place).questions]
        negatives = len(aside) + sum(not q.answerable for q in dataset.questions[:limit])
        twins = negatives < _FEW
        total = len(dataset.questions[:limit]) + len(aside)
        with progress_bar(dataset.name, total) as progress:
            examples = gather(
                library, dataset, others=aside, limit=limit, twins=twins, progress=progress
            )
            answers = gather_answers(library, dataset, limit=limit)
    fitted = fit(
        examples,
        precision=precision,
        prior=default_calibration().models[-1],
        embedder_version=info.embedder_version,
        facts={
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "data": dataset.name,
            "data_hash": data_hash(examples),
            "store_version": info.version,
            "twins": sum(e.made for e in examples),
        },
    )
    fitted = replace(fitted, calibration=fit_answers(fitted.calibration, answers))
    if not dry_run:
        _save(path, fitted.calibration)
    saved = None if dry_run else path
    if as_json:
        from packwise.evaluation.records import fit_record

        print_json(fit_record(fitted, saved))
    else:
        _show(fitted, examples, saved)


_FEW = 30
"""Unanswerable questions below which twins are added."""


def _feedback_file(info: StoreInfo) -> Path:
    from packwise.evaluation.feedback import feedback_path

    path = feedback_path(info)
    if not path.is_file():
        raise UsageError("there is no feedback on this store yet", fix="packwise serve STORE")
    return path


def _save(path: Path, calibration: Calibration) -> None:
    import json

    from packwise.stores.durable import PreparedFile, writing

    path.parent.mkdir(parents=True, exist_ok=True)
    with writing(path.parent):
        content = json.dumps(calibration.as_dict(), indent=1, ensure_ascii=False) + "\n"
        PreparedFile(path, content.encode()).publish()


def _show(fitted: Fit, examples: list[CalibrationExample], path: Path | None) -> None:
    from packwise.retrieval.calibration import SIGNS

    found, calibration = fitted.assessment, fitted.calibration
    best = max(fitted.raw, key=lambda name: fitted.raw[name])
    console = out()
    title = f"{found.questions} questions, the answer there in {found.right:.0%}"
    table = make_table(("what", "figure"), title=title, show_header=False)
    answered = f"{fitted.answered.coverage:.0%} / {fitted.answered.risk:.0%}"
    for row in (
        ("AUROC", f"{found.auroc:.3f}"),
        (f"AUROC of the best single score, {best}", f"{fitted.raw[best]:.3f}"),
        ("expected calibration error", f"{found.ece:.3f}"),
        ("Brier score", f"{found.brier:.3f}"),
        ("right when answering at 0.5 and above", f"{found.accuracy:.1%}"),
        ("right when always / never answering", f"{found.always:.1%} / {found.never:.1%}"),
        ("answers from a probability of", f"{calibration.threshold:.2f}"),
        ("share answered, and of these wrongly", answered),
        ("surely not there below", f"{calibration.refuse_below:.2f}"),
        *_answer_rows(calibration.facts),
    ):
        table.add_row(*row)
    console.print(table)
    title = "what suggests that the answer is there"
    table = make_table(("weight", "sign", ""), title=title, left=("sign", ""))
    table.columns[0].justify = "right"
    weights = zip(calibration.models[0].signs, calibration.models[0].weights, strict=True)
    for name, weight in sorted(weights, key=lambda pair: -abs(pair[1]))[:8]:
        table.add_row(f"{weight:+.2f}", name, SIGNS.get(name, "the score of the cross-encoder"))
    console.print(table)
    made = sum(e.made for e in examples)
    note = "figures are on questions the fit has not seen (five folds)"
    if made:
        note += f"; {made} questions were used twice, the second time without their answer"
    console.print(note, style="dim")
    if path is None:
        err().print("nothing was saved", style="yellow")
    else:
        console.print(f"saved in {clean(str(path))}", style="dim")


def _answer_rows(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    if "answers" not in facts:
        return []
    errors = f"{facts['answer_ece_before']:.3f} / {facts['answer_ece']:.3f}"
    return [
        ("answers, and right ones", f"{facts['answers']} / {facts['answers_right']}"),
        ("their calibration error before / after", errors),
    ]


def _show_current(calibration: Calibration, as_json: bool) -> None:
    if as_json:
        print_json(calibration.as_dict())
        return
    facts = calibration.facts
    whose = "its own" if calibration.source == "pack" else "the default"
    console = out()
    console.print(f"calibration: {whose}, fitted on {clean(str(facts.get('data', '')))}")
    if calibration.source == "default":
        console.print(
            "the gate uses the best similarity; the probability is only reported",
            style="dim",
        )
        return
    console.print(
        f"{facts.get('date', '')}: {facts.get('questions')} questions, "
        f"AUROC {facts.get('auroc')}, expected calibration error {facts.get('ece')}; "
        f"answers from {calibration.threshold:.2f} on",
        style="dim",
    )
