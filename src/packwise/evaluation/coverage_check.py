"""Checks before measuring: is the store the right one, and are its few-shot examples clean?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from packwise.answering.few_shot import load_examples
from packwise.errors import DataError
from packwise.evaluation.data import DataSet, Question
from packwise.stores.base import Store


def check_coverage(dataset: DataSet, store: Store) -> DataSet:
    """The data set with ``absent`` counted in this store: relevant documents of its questions
    that have no passage there.

    Raises ``DataError`` if the store has none of them: it holds another corpus, and every
    score would be zero.
    """
    relevant = {
        document
        for grades in dataset.relevant.values()
        for document, grade in grades.items()
        if grade > 0
    }
    stored = {summary.id for summary in store.documents() if summary.passages}
    if relevant and relevant.isdisjoint(stored):
        raise DataError(
            f"{store.info().location} holds none of the {len(relevant)} relevant documents "
            f"of {dataset.name}",
            fix=f"leave --store out, or name a store built from {dataset.folder}",
        )
    return replace(dataset, absent=len(relevant - stored))


def leaked_questions(questions: Sequence[Question], pack: Path) -> list[Question]:
    """The questions that are also few-shot examples of a pack, word for word.

    Both often come from the same file. Answering leaves such an example out of the prompt;
    this says beforehand which questions are affected.
    """
    examples = {_words(example.question) for example in load_examples(pack).items}
    return [question for question in questions if _words(question.text) in examples]


def _words(text: str) -> str:
    return " ".join("".join(c if c.isalnum() else " " for c in text.casefold()).split())
