"""A user's own questions: JSON lines, in either of two shapes.

Goldens say what is right::

    {"id": "q1", "question": "...", "answers": ["..."], "relevant": ["document"],
     "answerable": true, "category": "..."}

``eval/questions.jsonl`` of a pack says what a good answer is, and where it stands::

    {"question": "...", "ground_truth": "...", "source": "title or address"}

Everything but the question may be left out. ``relevant`` names documents by id, title or
address, or maps them to grades.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from packwise.documents import content_hash
from packwise.errors import DataError, UsageError
from packwise.evaluation.data import DataSet, Half, Question, load_dataset
from packwise.stores.base import Store

QUESTIONS = Path("eval") / "questions.jsonl"
LONGEST_ANSWER = 12
"""Words a text may have to count as an answer that a passage can hold word for word."""

SYNTHETIC = "synthetic"


def load_questions(
    place: str | Path, *, split: str | None = None, half: Half | None = None
) -> DataSet:
    """The questions of a folder in BEIR's shape, of a file of goldens, or of a pack that has
    ``eval/questions.jsonl``. Raises ``DataError`` with file and line on malformed data."""
    path = Path(place)
    if path.is_file():
        if split is not None:
            raise UsageError(f"{place} has no splits", fix="leave --split out")
        data = load_goldens(path)
        return data.of_half(half) if half else data
    if (path / QUESTIONS).is_file() and not (path / "qrels").is_dir():
        return load_questions(path / QUESTIONS, split=split, half=half)
    return load_dataset(path, split=split, half=half)


def load_goldens(path: Path) -> DataSet:
    """The questions of a file. Their ``relevant`` documents are as written: see ``resolve``."""
    questions: dict[str, Question] = {}
    relevant: dict[str, dict[str, int]] = {}
    for where, row in _rows(path):
        question, grades = _golden(where, row)
        if question.id in questions:
            raise DataError(f"{where}: question {question.id!r} stands twice")
        questions[question.id] = question
        if grades:
            relevant[question.id] = grades
    if not questions:
        raise DataError(f"{path}: holds no questions")
    name = path.resolve()
    return DataSet(
        name=name.parent.parent.name if name.parent.name == "eval" else name.stem,
        folder=path,
        split="all",
        questions=tuple(questions.values()),
        relevant=relevant,
    )


def resolve(dataset: DataSet, store: Store) -> DataSet:
    """The data set with its relevant documents named as the store names them.

    A name counts as an id, else as an address, else as a title (of every document that has
    it). What is none of these stays as it is, and is counted as absent later.
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
    text = row.get("question")
    if not isinstance(text, str) or not text.strip():
        raise DataError(f"{where}: has no question")
    answerable = row.get("answerable", True)
    if not isinstance(answerable, bool):
        raise DataError(f"{where}: answerable is true or false, not {answerable!r}")
    identity = row.get("id")
    if identity is not None and not isinstance(identity, (str, int)):
        raise DataError(f"{where}: id is a text, not {identity!r}")
    kept = {
        key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for key, value in row.items()
        if key not in ("id", "question", "answers", "relevant", "answerable")
    }
    question = Question(
        id=str(identity) if identity not in (None, "") else content_hash(text.strip()),
        text=text.strip(),
        answers=_answers(where, row),
        answerable=answerable,
        metadata=kept,
    )
    return question, _relevant(where, row) if answerable else {}


def _answers(where: str, row: Mapping[str, Any]) -> tuple[str, ...]:
    answers: Any = row.get("answers")
    if answers is None:
        # A whole sentence of a good answer stands in no passage as it is.
        told = row.get("ground_truth")
        short = isinstance(told, str) and 0 < len(told.split()) <= LONGEST_ANSWER
        return (told,) if short and isinstance(told, str) else ()
    if not isinstance(answers, list) or not all(
        isinstance(a, str) for a in cast("list[Any]", answers)
    ):
        raise DataError(f"{where}: answers is a list of texts")
    return tuple(cast("list[str]", answers))


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
    raise DataError(f"{where}: relevant is a list of documents, or grades by document")


def _rows(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read ({error})") from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            row: Any = json.loads(line)
        except ValueError as error:
            raise DataError(f"{where}: is not JSON ({error})") from error
        if not isinstance(row, dict):
            raise DataError(f"{where}: is not a JSON object")
        yield where, cast("dict[str, Any]", row)
