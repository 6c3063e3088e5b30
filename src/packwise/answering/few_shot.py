"""Step 8: worked examples that show the model what a good answer looks like.

They are files of the pack: ``few_shot_examples.json``, then ``eval/questions.jsonl``. An example
of the same question is left out, so a graded answer never reaches the prompt of its own question.
"""

from __future__ import annotations

import json
import logging
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from packwise.documents import content_hash
from packwise.models.base import Embedder, Vectors
from packwise.settings import cache_folder

SHOWN = 3
SAME_QUESTION = 0.95
MOST_EXAMPLES = 2000
MOST_BYTES = 32 * 1024 * 1024
LONGEST_ANSWER = 4000

CURATED = Path("few_shot_examples.json")
GRADED = Path("eval") / "questions.jsonl"

_ANSWER_NAMES = ("answer", "ground_truth", "expected", "expected_answer")

_log = logging.getLogger("packwise")


@dataclass(frozen=True, slots=True)
class FewShotExample:
    """A question and an answer worth imitating."""

    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class LoadedExamples:
    """The examples of some files; ``problems`` says which lines could not be used, and why."""

    items: tuple[FewShotExample, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def fingerprint(self) -> str:
        """Changes whenever a question does."""
        return content_hash(*(example.question for example in self.items))


def load_examples(
    pack: Path | None = None,
    few_shot_path: Path | None = None,
    *,
    answers: tuple[str, ...] = _ANSWER_NAMES,
) -> LoadedExamples:
    """The examples of a pack folder, or of the one file ``few_shot_path``.

    ``answers`` are the possible fields of an answer; the first that is present counts. A question
    that occurs twice keeps its first answer. Missing files of a pack are ignored.
    """
    if few_shot_path is not None:
        files = [few_shot_path]
    else:
        files = [pack / CURATED, pack / GRADED] if pack is not None else []
    found: dict[str, FewShotExample] = {}
    problems: list[str] = []
    for file in files:
        if file.is_file():
            for where, row in _rows(file, problems):
                example = _example(row, where, answers, problems)
                if example is not None:
                    found.setdefault(_folded(example.question), example)
        elif few_shot_path is not None:
            problems.append(f"{file.name}: no such file")
    if len(found) > MOST_EXAMPLES:
        problems.append(f"only the first {MOST_EXAMPLES} of {len(found)} examples are used")
    return LoadedExamples(tuple(found.values())[:MOST_EXAMPLES], tuple(problems))


class FewShot:
    """Finds the examples nearest to a question. Safe to use from several threads."""

    def __init__(self, examples: LoadedExamples, embedder: Embedder) -> None:
        self._examples = examples.items
        self.problems = examples.problems
        self._fingerprint = examples.fingerprint
        self._embedder = embedder
        self._vectors: Vectors | None = None
        self._lock = threading.Lock()

    def nearest(
        self, question: str, k: int = SHOWN, *, exclude: frozenset[str] = frozenset()
    ) -> list[FewShotExample]:
        """The ``k`` examples whose questions are nearest by cosine, nearest first.

        Examples of the same question, by their words or with a cosine of at least 0.95, are left
        out, and so are the questions in ``exclude`` (an evaluated set, for example).
        """
        if not self._examples or k < 1:
            return []
        barred = {_folded(question), *(_folded(text) for text in exclude)}
        # Both sides are embedded as plain texts: a query prefix would make all questions alike.
        asked = self._embedder.embed_passages([question])[0]
        cosines = self._question_vectors() @ asked
        chosen: list[FewShotExample] = []
        for i in np.argsort(-cosines, kind="stable"):
            example = self._examples[int(i)]
            if cosines[i] < SAME_QUESTION and _folded(example.question) not in barred:
                chosen.append(example)
                if len(chosen) == k:
                    break
        return chosen

    def _question_vectors(self) -> Vectors:
        with self._lock:
            if self._vectors is None:
                self._vectors = self._cached_vectors()
            return self._vectors

    def _cached_vectors(self) -> Vectors:
        name = content_hash(self._fingerprint, self._embedder.version)
        file = cache_folder() / "few-shot" / f"{name}.npy"
        shape = (len(self._examples), self._embedder.dim)
        try:
            stored: Vectors = np.load(file, allow_pickle=False)
            if stored.shape == shape and stored.dtype == np.float32:
                return stored
        except FileNotFoundError:
            pass
        except (OSError, ValueError, EOFError) as error:
            _log.info("few-shot vectors computed again, the cached ones are unreadable: %s", error)
        vectors = self._embedder.embed_passages([e.question for e in self._examples])
        try:
            _write(file, vectors)
        except OSError as error:
            _log.info("few-shot vectors are not cached: %s", error)
        return vectors


class ExampleFiles:
    """The examples of a pack folder or of one file, read again when they change."""

    def __init__(self, location: str, embedder: Callable[[], Embedder]) -> None:
        self._folder = Path(location)
        self._embedder = embedder
        self._read: dict[Path | None, tuple[tuple[int, ...], FewShot]] = {}

    def __call__(self, few_shot_path: Path | None) -> FewShot:
        files = [few_shot_path] if few_shot_path else [self._folder / f for f in (CURATED, GRADED)]
        stamp = tuple(_changed(file) for file in files)
        known = self._read.get(few_shot_path)
        if known is None or known[0] != stamp:
            folder = None if few_shot_path else self._folder
            fresh = FewShot(load_examples(folder, few_shot_path), self._embedder())
            known = self._read[few_shot_path] = (stamp, fresh)
        return known[1]


def _changed(file: Path) -> int:
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return 0


def _rows(file: Path, problems: list[str]) -> Iterator[tuple[str, object]]:
    """Each entry of a JSON list or of JSON lines, with its place."""
    try:
        if file.stat().st_size > MOST_BYTES:
            problems.append(f"{file.name}: larger than {MOST_BYTES // 2**20} MB, not read")
            return
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        problems.append(f"{file.name}: {' '.join(str(error).split())}")
        return
    if file.suffix == ".jsonl":
        for n, line in enumerate(text.splitlines(), start=1):
            if line.strip():
                yield from _parsed(line, f"{file.name} line {n}", problems)
        return
    for where, value in _parsed(text, file.name, problems):
        rows = cast("dict[str, Any]", value).get("examples") if isinstance(value, dict) else value
        if not isinstance(rows, list):
            problems.append(f"{where}: not a list of examples")
            return
        for n, row in enumerate(cast("list[object]", rows), start=1):
            yield f"{file.name} entry {n}", row


def _parsed(text: str, where: str, problems: list[str]) -> Iterator[tuple[str, object]]:
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else type(error).__name__
        problems.append(f"{where}: not JSON ({reason})")
    else:
        yield where, value


def _example(
    row: object, where: str, names: tuple[str, ...], problems: list[str]
) -> FewShotExample | None:
    fields = cast("dict[str, Any]", row) if isinstance(row, dict) else {}
    if fields.get("synthetic") is True:
        # Made for measuring, not as examples.
        return None
    question: object = fields.get("question")
    answers = (fields.get(name) for name in names)
    answer: object = next((a for a in answers if isinstance(a, str) and a.strip()), None)
    if not isinstance(question, str) or not question.strip():
        problems.append(f"{where}: no question")
    elif not isinstance(answer, str):
        problems.append(f"{where}: no answer")
    elif len(answer) > LONGEST_ANSWER:
        problems.append(f"{where}: the answer is longer than {LONGEST_ANSWER} characters")
    else:
        return FewShotExample(question.strip(), answer.strip())
    return None


def _folded(text: str) -> str:
    return " ".join("".join(c if c.isalnum() else " " for c in text.casefold()).split())


def _write(file: Path, vectors: Vectors) -> None:
    """Write the file completely or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=file.parent, suffix=".part")
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as out:
            np.save(out, vectors)
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)
