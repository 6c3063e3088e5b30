"""What answers without a language model are worth on public data: right, unsure, wrong, refused,
and how true their probability is.

    python benchmarks/answer_reliability.py DATA FOLDER [--every N]

DATA holds the folders tatqa and squad2; FOLDER keeps the pack of TAT-QA. Questions of TAT-QA are
asked within their own document; those at odd places are the report, as ``answer_model.py`` fits
on the even ones. Of SQuAD 2.0 the half ``report`` at odd places is asked, with its unanswerable
questions (kind ``near``), over the paragraphs of all articles.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from answer_model import tatqa_pack

import packwise
from packwise.cli.evaluate_tables import show_answers
from packwise.evaluation.answers import AnswerQuestion, evaluate_answers
from packwise.evaluation.cache import cached_store
from packwise.evaluation.calibration_metrics import risk_coverage
from packwise.evaluation.data import half_of, load_dataset
from packwise.settings import Settings

COVERAGES = (0.25, 0.5, 0.75, 1.0)


def main() -> None:
    """Ask both sets and print a table for each."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("data", type=Path)
    options.add_argument("folder", type=Path)
    options.add_argument("--every", type=int, default=1, help="every n-th question")
    given = options.parse_args()
    os.environ["PACKWISE_DATA"] = str(given.data)
    lines = (given.data / "tatqa" / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    tatqa = [
        AnswerQuestion(
            row["id"],
            row["question"],
            row["from"],
            (tuple(row["answers"]),),
            f"{row['document']}.md",
        )
        for row in map(json.loads, lines[1::2])
    ]
    measure("tatqa", tatqa_pack(given.folder), tatqa[:: given.every])
    dataset = load_dataset(str(given.data / "squad2"))
    squad = [
        AnswerQuestion(
            question.id,
            question.text,
            "question" if question.answerable else "near",
            tuple((answer,) for answer in question.answers if question.answerable),
        )
        for question in dataset.questions[1::2]
        if half_of(question.id) == "report"
    ]
    store = str(cached_store(dataset, Settings.load()))
    measure("squad2", store, squad[:: given.every])


def measure(name: str, store: str, questions: list[AnswerQuestion]) -> None:
    """Ask, and print the outcomes and the risk at some coverages."""
    with packwise.open(store) as library:
        report = evaluate_answers(library, questions, synthesis=False)
    sys.stdout.write(f"{name}\n")
    show_answers(report, wrong=False)
    shown = [result for result in report.results if result.outcome != "refused"]
    curve = risk_coverage([r.probability for r in shown], [r.outcome == "right" for r in shown])
    for share in COVERAGES:
        point = next(point for point in curve if point.coverage >= share - 1e-9)
        sys.stdout.write(
            f"the surest {point.coverage:.0%} of the answers: {point.risk:.1%} wrong,"
            f" from a probability of {point.threshold:.2f}\n"
        )


if __name__ == "__main__":
    main()
