"""Data sets: questions, and which documents are relevant to them.

A folder has the BEIR layout: ``corpus.jsonl``, ``queries.jsonl`` (all splits) or
``queries.SPLIT.jsonl``, and ``qrels/SPLIT.tsv``, each plain or gzipped. Or it has
``questions.jsonl``, where each question gives the spans of its answer in a text of the folder.
"""

from __future__ import annotations

import gzip
import json
import math
import zlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, cast

from packwise.documents import content_hash, no_metadata
from packwise.errors import DataError, UsageError

Half = Literal["tune", "report"]
HALVES: tuple[Half, ...] = ("tune", "report")

_USUAL_SPLITS = ("test", "dev")
_SHAPE = "a folder with corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv"
_SCORE_HEADINGS = {"score", "rel", "relevance", "label", "grade", "judgment", "judgement"}
_COLUMNS = {3: (0, 1, 2), 4: (0, 2, 3)}
"""The columns of query, document and grade: BEIR has three columns, TREC four."""


@dataclass(frozen=True, slots=True)
class GoldSpan:
    """Where a document has an answer, in characters."""

    document: str
    start: int
    end: int

    def overlaps(self, start: int, end: int) -> bool:
        return self.start < end and start < self.end


@dataclass(frozen=True, slots=True)
class Question:
    """One question. ``answers`` are texts that count as right; a question is answerable
    unless its data says otherwise. ``spans``, if any, are the relevant parts of the relevant
    documents. ``verdicts`` say of whole answers, by their ``answer_key``, whether people found
    them right."""

    id: str
    text: str
    answers: tuple[str, ...] = ()
    answerable: bool = True
    spans: tuple[GoldSpan, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=no_metadata)
    verdicts: Mapping[str, bool] = field(default_factory=dict[str, bool])


@dataclass(frozen=True, slots=True)
class DataSet:
    """Questions of one split with their judgements.

    ``relevant`` maps a question's id to the grade of each judged document; a grade above
    zero is relevant. ``documents`` is the size of the corpus, ``absent`` the number of relevant
    documents that it lacks; both are zero without a corpus. ``texts`` has the id and file of
    each document of a data set without a corpus file.
    """

    name: str
    folder: Path
    split: str
    questions: tuple[Question, ...]
    relevant: Mapping[str, Mapping[str, int]]
    corpus: Path | None = None
    documents: int = 0
    absent: int = 0
    half: Half | None = None
    texts: tuple[tuple[str, Path], ...] = ()

    @property
    def judged(self) -> tuple[Question, ...]:
        """The questions that have judgements, in the file's order."""
        return tuple(q for q in self.questions if q.id in self.relevant)

    @property
    def known(self) -> tuple[Question, ...]:
        """The questions with a judgement or an answer, and those marked as unanswerable."""
        return tuple(
            q for q in self.questions if q.id in self.relevant or q.answers or not q.answerable
        )

    def of_half(self, half: Half) -> DataSet:
        """The data set with the questions of one half only."""
        questions = tuple(q for q in self.questions if half_of(q.id) == half)
        relevant = {q.id: self.relevant[q.id] for q in questions if q.id in self.relevant}
        return replace(self, questions=questions, relevant=relevant, half=half)


def half_of(question_id: str) -> Half:
    """The half a question belongs to, by a hash of its id."""
    return HALVES[int(content_hash(question_id)[-1], 16) % 2]


def load_dataset(
    folder: str | Path, *, split: str | None = None, half: Half | None = None
) -> DataSet:
    """Read a BEIR folder, or one with ``questions.jsonl`` and its texts.

    The default split is ``test``, else ``dev``, else the only one. Raises ``DataError`` with
    file and line on malformed data, ``UsageError`` on an unknown split.
    """
    root = Path(folder)
    if not root.is_dir():
        what = "is not a folder" if root.exists() else "does not exist"
        raise DataError(f"{folder} {what}", fix=f"name {_SHAPE}")
    spans = _plain_or_gzipped(root, "questions.jsonl")
    if spans is not None and not (root / "qrels").is_dir():
        data = _load_spans(root, spans, split)
    else:
        data = _load_beir(root, _choose_split(root, split))
    return data.of_half(half) if half else data


def _load_beir(root: Path, split: str) -> DataSet:
    qrels = _plain_or_gzipped(root / "qrels", f"{split}.tsv")
    assert qrels is not None
    relevant, first_lines = _read_qrels(qrels)
    own = _plain_or_gzipped(root, f"queries.{split}.jsonl")
    queries = own or _plain_or_gzipped(root, "queries.jsonl")
    if queries is None:
        raise DataError(f"{root} has no queries.{split}.jsonl or queries.jsonl")
    questions = _read_questions(queries, only=None if own else relevant.keys())
    asked = {q.id for q in questions}
    for query_id, where in first_lines.items():
        if query_id not in asked:
            raise DataError(f"{where}: judges query {query_id!r}, which {queries.name} lacks")
    corpus = _plain_or_gzipped(root, "corpus.jsonl")
    documents, absent = 0, 0
    if corpus is not None:
        stored = [_identity(where, record) for where, record in read_json_lines(corpus)]
        if not stored:
            raise DataError(f"{corpus}: has no documents")
        wanted = {doc for grades in relevant.values() for doc, grade in grades.items() if grade > 0}
        documents, absent = len(stored), len(wanted.difference(stored))
    return DataSet(root.resolve().name, root, split, questions, relevant, corpus, documents, absent)


def _load_spans(root: Path, path: Path, split: str | None) -> DataSet:
    """Each line is ``{"id", "corpus", "question", "spans": [{"text", "start", "end"}]}``, where
    ``corpus`` names a text file of the folder."""
    if split is not None:
        raise UsageError(f"{root} has no splits", fix="leave --split out")
    texts: dict[str, Path] = {}
    questions: dict[str, Question] = {}
    for where, record in read_json_lines(path):
        identity, document = str(record.get("id", "")), str(record.get("corpus", ""))
        text, found = record.get("question"), record.get("spans")
        if not identity or identity in questions:
            raise DataError(f"{where}: the id {identity!r} is missing or a duplicate")
        if not isinstance(text, str) or not text.strip() or not isinstance(found, list):
            raise DataError(f"{where}: question {identity!r} lacks its text or its spans")
        if document not in texts:
            texts[document] = _text_file(root, document, where)
        rows = cast("list[Any]", found)
        try:
            answers = tuple(str(row["text"]) for row in rows)
            spans = tuple(GoldSpan(document, int(r["start"]), int(r["end"])) for r in rows)
        except (TypeError, KeyError, ValueError) as error:
            raise DataError(f"{where}: a span needs text, start and end") from error
        questions[identity] = Question(identity, text, answers, bool(spans), spans)
    if not questions:
        raise DataError(f"{path}: has no questions")
    return DataSet(
        name=root.resolve().name,
        folder=root,
        split="all",
        questions=tuple(questions.values()),
        relevant={q.id: {s.document: 1 for s in q.spans} for q in questions.values() if q.spans},
        documents=len(texts),
        texts=tuple(sorted(texts.items())),
    )


def _text_file(root: Path, document: str, where: str) -> Path:
    for ending in (".md", ".txt"):
        # The name comes from a file: it must not point outside the folder.
        found = root / f"{Path(document).name}{ending}"
        if document and found.is_file():
            return found
    raise DataError(f"{where}: names {document!r}, which is not in {root}")


def _plain_or_gzipped(folder: Path, name: str) -> Path | None:
    paths = (folder / name, folder / f"{name}.gz")
    return next((path for path in paths if path.is_file()), None)


def _choose_split(root: Path, wanted: str | None) -> str:
    files = [*(root / "qrels").glob("*.tsv"), *(root / "qrels").glob("*.tsv.gz")]
    splits = sorted({path.name.partition(".tsv")[0] for path in files})
    if not splits:
        raise DataError(f"{root} has no qrels/SPLIT.tsv", fix=f"name {_SHAPE}")
    fix = f"--split {' or '.join(splits)}"
    if wanted is not None and wanted not in splits:
        raise UsageError(f"{root} has no split {wanted!r}", fix=fix)
    chosen = wanted or next((usual for usual in _USUAL_SPLITS if usual in splits), None)
    if chosen is None and len(splits) > 1:
        raise UsageError(f"{root} has the splits {', '.join(splits)}", fix=fix)
    return chosen or splits[0]


def _read_qrels(path: Path) -> tuple[dict[str, dict[str, int]], dict[str, str]]:
    """The grades by query and document, and where each query is first judged."""
    grades: dict[str, dict[str, int]] = {}
    first_lines: dict[str, str] = {}
    width = 0
    for where, line in _lines(path):
        columns = line.split("\t") if "\t" in line else line.split()
        columns = [column.strip() for column in columns]
        if not width:
            if len(columns) not in _COLUMNS:
                raise DataError(f"{where}: has {len(columns)} columns, not 3 or 4")
            width = len(columns)
            if columns[-1].lower() in _SCORE_HEADINGS:
                continue
        if len(columns) != width:
            raise DataError(f"{where}: has {len(columns)} columns, the first line {width}")
        query, document, score = (columns[i] for i in _COLUMNS[width])
        if not query or not document:
            raise DataError(f"{where}: lacks a query or a document")
        try:
            grade = float(score)
        except ValueError:
            grade = math.nan
        if not grade.is_integer():
            raise DataError(f"{where}: the grade must be an integer, not {score!r}")
        if grades.setdefault(query, {}).setdefault(document, int(grade)) != grade:
            raise DataError(f"{where}: judges {document!r} for {query!r} twice, differently")
        first_lines.setdefault(query, where)
    if not grades:
        raise DataError(f"{path}: has no judgements")
    return grades, first_lines


def _read_questions(path: Path, only: Collection[str] | None) -> tuple[Question, ...]:
    """The questions of a file, or those with the ids in ``only``."""
    questions: dict[str, Question] = {}
    for where, record in read_json_lines(path):
        identity, text = _identity(where, record), record.get("text")
        if not isinstance(text, str) or not text.strip():
            raise DataError(f"{where}: query {identity!r} has no text")
        if identity in questions:
            raise DataError(f"{where}: query {identity!r} is a duplicate")
        if only is None or identity in only:
            metadata = record.get("metadata") or {}
            if not isinstance(metadata, dict):
                raise DataError(f"{where}: metadata of query {identity!r} is not an object")
            questions[identity] = make_question(
                where, identity, text, cast("dict[str, Any]", metadata)
            )
    return tuple(questions.values())


def make_question(
    where: str, identity: str, text: str, row: Mapping[str, Any], others: Collection[str] = ()
) -> Question:
    """A question with the ``answers`` and ``answerable`` of a row; the other fields become its
    metadata, except those in ``others``."""
    answers, answerable = row.get("answers"), row.get("answerable", True)
    answers = [] if answers is None else answers
    if not isinstance(answers, list) or any(
        not isinstance(answer, str) for answer in cast("list[Any]", answers)
    ):
        raise DataError(f"{where}: answers must be a list of strings")
    if not isinstance(answerable, bool):
        raise DataError(f"{where}: answerable must be true or false, not {answerable!r}")
    metadata = {
        key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for key, value in row.items()
        if key not in ("answers", "answerable", *others)
    }
    return Question(
        identity, text, tuple(cast("list[str]", answers)), answerable, metadata=metadata
    )


def _identity(where: str, record: Mapping[str, Any]) -> str:
    identity = record.get("_id")
    if isinstance(identity, int) and not isinstance(identity, bool):
        return str(identity)
    if not isinstance(identity, str) or not identity:
        raise DataError(f"{where}: has no _id")
    return identity


def read_json_lines(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The objects of a file of JSON lines, each with its place (``FILE:LINE``)."""
    for where, line in _lines(path):
        try:
            record: Any = json.loads(line)
        except ValueError as error:
            raise DataError(f"{where}: is not JSON ({error})") from error
        if not isinstance(record, dict):
            raise DataError(f"{where}: is not a JSON object")
        yield where, cast("dict[str, Any]", record)


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    """The lines that are not blank, each with its place."""
    number = 0
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            for number, raw in enumerate(file, start=1):
                where = f"{path}:{number}"
                try:
                    line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError as error:
                    raise DataError(f"{where}: is not UTF-8") from error
                if line.strip():
                    yield where, line.rstrip("\r\n")
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read after line {number} ({error})") from error
