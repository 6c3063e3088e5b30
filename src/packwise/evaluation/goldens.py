"""A user's own questions (goldens): JSON lines in either of two forms.

A file of goldens has answers and relevant documents::

    {"id": "q1", "question": "...", "answers": ["..."], "relevant": ["document"],
     "answerable": true, "category": "..."}

``eval/questions.jsonl`` of a pack has a model answer and its source::

    {"question": "...", "ground_truth": "...", "source": "title or address"}

Everything but the question is optional. ``relevant`` lists documents by id, title or address,
or maps them to grades.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from packwise.documents import content_hash
from packwise.errors import DataError, UsageError
from packwise.evaluation.data import (
    DataSet,
    Half,
    Question,
    load_dataset,
    make_question,
    read_json_lines,
)
from packwise.stores.base import Store

QUESTIONS = Path("eval") / "questions.jsonl"
_LONGEST_ANSWER = 12
"""Words of the longest text that a passage may contain word for word."""


def load_questions(
    place: str | Path, *, split: str | None = None, half: Half | None = None
) -> DataSet:
    """Read the questions of a BEIR folder, of a file of goldens, or of a pack that has
    ``eval/questions.jsonl``. Raises ``DataError`` with file and line on malformed data."""
    path = Path(place)
    if path.is_file():
        if split is not None:
            raise UsageError(f"{place} has no splits", fix="leave --split out")
        data = _load_goldens(path)
        return data.of_half(half) if half else data
    if (path / QUESTIONS).is_file() and not (path / "qrels").is_dir():
        return load_questions(path / QUESTIONS, split=split, half=half)
    return load_dataset(path, split=split, half=half)


def _load_goldens(path: Path) -> DataSet:
    questions: dict[str, Question] = {}
    relevant: dict[str, dict[str, int]] = {}
    for where, row in read_json_lines(path):
        question, grades = _golden(where, row)
        if question.id in questions:
            raise DataError(f"{where}: question {question.id!r} is a duplicate")
        questions[question.id] = question
        if grades:
            relevant[question.id] = grades
    if not questions:
        raise DataError(f"{path}: has no questions")
    name = path.resolve()
    return DataSet(
        name=name.parent.parent.name if name.parent.name == "eval" else name.stem,
        folder=path,
        split="all",
        questions=tuple(questions.values()),
        relevant=relevant,
    )


def resolve(dataset: DataSet, store: Store) -> DataSet:
    """The data set with its relevant documents by their ids in the store.

    A name is taken as an id, else as an address or a title (of every document that has it).
    An unknown name stays as it is and is counted as absent later.
    """
    if dataset.corpus is not None or dataset.texts or not dataset.relevant:
        return dataset
    ids: set[str] = set()
    others: dict[str, list[str]] = {}
    for document in store.documents():
        ids.add(document.id)
        for name in {document.url, document.title, document.title.casefold()} - {""}:
            others.setdefault(name, []).append(document.id)
    relevant: dict[str, Mapping[str, int]] = {}
    for question, grades in dataset.relevant.items():
        found: dict[str, int] = {}
        for name, grade in grades.items():
            same = [name] if name in ids else others.get(name) or others.get(name.casefold())
            found.update(dict.fromkeys(same or [name], grade))
        relevant[question] = found
    return replace(dataset, relevant=relevant)


def _golden(where: str, row: Mapping[str, Any]) -> tuple[Question, dict[str, int]]:
    text, identity = row.get("question"), row.get("id")
    if not isinstance(text, str) or not text.strip():
        raise DataError(f"{where}: has no question")
    if identity is not None and not isinstance(identity, (str, int)):
        raise DataError(f"{where}: id must be a string, not {identity!r}")
    key = str(identity) if identity not in (None, "") else content_hash(text.strip())
    question = make_question(where, key, text.strip(), row, ("id", "question", "relevant"))
    truth = row.get("ground_truth")
    # No passage contains a long answer word for word.
    if row.get("answers") is None and isinstance(truth, str):
        short = 0 < len(truth.split()) <= _LONGEST_ANSWER
        question = replace(question, answers=(truth,) if short else ())
    return question, _relevant(where, row) if question.answerable else {}


def _relevant(where: str, row: Mapping[str, Any]) -> dict[str, int]:
    given: Any = row.get("relevant", row.get("source"))
    if given is None or given == "":
        return {}
    if isinstance(given, str):
        return {given: 1}
    if isinstance(given, list):
        named = cast("list[Any]", given)
        if all(isinstance(name, str) for name in named):
            return {str(name): 1 for name in named}
    if isinstance(given, dict):
        graded = cast("dict[str, Any]", given)
        if all(type(grade) is int for grade in graded.values()):
            return dict(graded)
    raise DataError(f"{where}: relevant must be a list of documents, or grades by document")
