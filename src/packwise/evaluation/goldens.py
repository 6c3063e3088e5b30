"""A user's own questions (goldens): JSON lines in one of four forms.

A file of goldens has answers and relevant documents::

    {"id": "q1", "question": "...", "answers": ["..."], "relevant": ["document"],
     "answerable": true, "category": "..."}

``eval/questions.jsonl`` of a pack has a model answer and its source::

    {"question": "...", "ground_truth": "...", "source": "title or address"}

The questions of ``packwise eval answers`` say what a right answer holds; those without it have
no answer in the documents::

    {"question": "...", "holds": [["..."]]}

``eval/feedback.jsonl`` of a pack has what people said about answers (``feedback.py``)::

    {"question": "...", "answer": "...", "verdict": "wrong", "right_answer": "..."}

In the first three, everything but the question is optional. ``relevant`` lists documents by id,
title or address, or maps them to grades.
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
from packwise.evaluation.feedback import answer_key, judged_questions, load_feedback
from packwise.stores.base import Store
from packwise.stores.pack.folder import FEEDBACK

QUESTIONS = Path("eval") / "questions.jsonl"
_LONGEST_ANSWER = 12
"""Words of the longest text that a passage may contain word for word."""


def load_questions(
    place: str | Path, *, split: str | None = None, half: Half | None = None
) -> DataSet:
    """Read the questions of a BEIR folder, of a file of goldens, or of a pack that has
    ``eval/questions.jsonl``, ``eval/feedback.jsonl`` or both. Raises ``DataError`` with file and
    line on malformed data."""
    path = Path(place)
    if path.is_file():
        if split is not None:
            raise UsageError(f"{place} has no splits", fix="leave --split out")
        data = _load_goldens(path)
        return data.of_half(half) if half else data
    if has_questions(path):
        files = [path / name for name in (QUESTIONS, FEEDBACK) if (path / name).is_file()]
        first, *others = [load_questions(file, split=split, half=half) for file in files]
        return joined(first, others[0]) if others else first
    return load_dataset(path, split=split, half=half)


def has_questions(folder: str | Path) -> bool:
    """Whether a folder is a pack with judged questions of its own."""
    path = Path(folder)
    own = any((path / name).is_file() for name in (QUESTIONS, FEEDBACK))
    return own and not (path / "qrels").is_dir()


def joined(dataset: DataSet, other: DataSet) -> DataSet:
    """A data set with the questions of another one. Of a question that both have, the first one
    says what is relevant and right, and the other one adds its verdicts."""
    own = {_spelling(question.text): question for question in dataset.questions}
    more: list[Question] = []
    relevant = dict(dataset.relevant)
    for question in other.questions:
        known = own.get(_spelling(question.text))
        if known is None:
            more.append(question)
            if question.id in other.relevant:
                relevant[question.id] = other.relevant[question.id]
        else:
            own[_spelling(known.text)] = replace(known, verdicts=question.verdicts)
    return replace(dataset, questions=(*own.values(), *more), relevant=relevant)


def _spelling(text: str) -> str:
    return " ".join(text.split()).casefold()


def _load_goldens(path: Path) -> DataSet:
    questions: dict[str, Question] = {}
    relevant: dict[str, dict[str, int]] = {}
    rows = list(read_json_lines(path))
    if rows and all("verdict" in row for _, row in rows):
        return _load_feedback(path)
    by_text = any("holds" in row for _, row in rows)
    for where, row in rows:
        question, grades = _golden(where, _with_answers(where, row) if by_text else row)
        if question.id in questions:
            raise DataError(f"{where}: question {question.id!r} is a duplicate")
        questions[question.id] = question
        if grades:
            relevant[question.id] = grades
    return _dataset(path, questions, relevant)


def _dataset(
    path: Path, questions: Mapping[str, Question], relevant: Mapping[str, Mapping[str, int]]
) -> DataSet:
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


def _load_feedback(path: Path) -> DataSet:
    """The questions that people judged answers to. What a right answer cited is relevant; of a
    wrong answer without the right one, only the verdict is known."""
    questions: dict[str, Question] = {}
    relevant: dict[str, dict[str, int]] = {}
    for judged in judged_questions(load_feedback(path)):
        key = content_hash(judged.question)
        verdicts = dict.fromkeys(map(answer_key, judged.wrong), False)
        verdicts |= dict.fromkeys(map(answer_key, judged.right), True)
        answers = tuple(text for text in judged.right if _is_short(text))
        questions[key] = Question(key, judged.question, answers, verdicts=verdicts)
        if judged.documents:
            relevant[key] = dict.fromkeys(judged.documents, 1)
    return _dataset(path, questions, relevant)


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


def _with_answers(where: str, row: Mapping[str, Any]) -> Mapping[str, Any]:
    """A row of ``eval answers`` with the longest text of each alternative as its answer."""
    given: Any = row.get("holds", [])
    try:
        answers = [max(map(str, parts), key=len) for parts in given if parts]
    except TypeError:
        raise DataError(f"{where}: holds must be a list of lists of texts") from None
    kept = {name: value for name, value in row.items() if name not in ("holds", "kind")}
    return {**kept, "answers": answers, "answerable": bool(answers)}


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
        question = replace(question, answers=(truth,) if _is_short(truth) else ())
    return question, _relevant(where, row) if question.answerable else {}


def _is_short(answer: str) -> bool:
    return 0 < len(answer.split()) <= _LONGEST_ANSWER


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
