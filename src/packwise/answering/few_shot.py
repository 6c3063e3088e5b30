"""Step 8: worked examples that show the model what a good answer looks like.

They are files of the pack: ``few_shot_examples.json``, then ``eval/questions.jsonl``. An example
of the same question is left out, so a graded answer never reaches the prompt of its own question.
A file that the caller names must exist and hold examples; what is wrong with a file of the pack is
reported in ``problems``.
"""

from __future__ import annotations

import json
import logging
import os
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from packwise.documents import content_hash
from packwise.errors import UsageError
from packwise.models.base import Embedder, Vectors
from packwise.settings import cache_folder
from packwise.stores.durable import open_regular

SHOWN = 3
SAME_QUESTION = 0.95
MOST_EXAMPLES = 2000
MOST_BYTES = 32 * 1024 * 1024
LONGEST_ANSWER = 4000

CURATED = Path("few_shot_examples.json")
GRADED = Path("eval") / "questions.jsonl"

_ANSWER_NAMES = ("answer", "ground_truth", "expected", "expected_answer")
_QUESTION_NAMES = ("question", "query")

_NO_ANSWER = "has no answer"
_EXPECTED = 'a JSON list of {"question": ..., "answer": ...}'

_log = logging.getLogger("packwise")


@dataclass(frozen=True, slots=True)
class FewShotExample:
    """A question and an answer worth imitating."""

    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class LoadedExamples:
    """The examples of some files; ``problems`` says in one line per file what is wrong with it."""

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
    that occurs twice keeps its first answer. Missing files of a pack are ignored; raises
    ``UsageError`` if ``few_shot_path`` is missing, malformed or without an example.
    """
    if few_shot_path is not None:
        if not few_shot_path.is_file():
            raise UsageError(f"there is no file of examples at {str(few_shot_path)!r}")
        files = [few_shot_path.resolve()]
    else:
        files = [pack / CURATED, pack / GRADED] if pack is not None else []
    found: dict[str, FewShotExample] = {}
    problems: list[str] = []
    # A pack may come from someone else: its links are not followed.
    for file in (file for file in files if file.is_file() and not file.is_symlink()):
        try:
            rows = _rows(file)
        except _Malformed as error:
            if few_shot_path is not None:
                raise UsageError(
                    f"{file} is not a file of examples: {error}", fix=_EXPECTED
                ) from error
            problems.append(f"{file.name}: {error}")
            continue
        unusable: list[str] = []
        for at, row in enumerate(rows, start=1):
            example = _example(row, answers)
            if isinstance(example, FewShotExample):
                found.setdefault(_folded(example.question), example)
            # A graded question may be one that has no answer.
            elif example and not (example == _NO_ANSWER and file.name == GRADED.name):
                unusable.append(f"example {at} {example}")
        if unusable:
            more = f" and {len(unusable) - 1} more" if len(unusable) > 1 else ""
            problems.append(f"{file.name}: {unusable[0]}{more}")
    if few_shot_path is not None and not found:
        raise UsageError(f"{few_shot_path} holds no example that can be used", fix=_EXPECTED)
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
        self,
        question: str,
        k: int = SHOWN,
        *,
        exclude: frozenset[str] = frozenset(),
        same: bool = False,
    ) -> list[FewShotExample]:
        """The ``k`` examples whose questions are nearest by cosine, nearest first.

        Unless ``same`` is given, examples of the same question, by their words or with a cosine
        of at least 0.95, are left out. So are the questions in ``exclude`` (an evaluated set, for
        example).
        """
        if not self._examples or k < 1:
            return []
        barred = {_folded(text) for text in exclude} | (set() if same else {_folded(question)})
        # Both sides are embedded as plain texts: a query prefix would make all questions alike.
        asked = self._embedder.embed_passages([question])[0]
        cosines = self._question_vectors() @ asked
        chosen: list[FewShotExample] = []
        for i in np.argsort(-cosines, kind="stable"):
            example = self._examples[int(i)]
            other = same or cosines[i] < SAME_QUESTION
            if other and _folded(example.question) not in barred:
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
    """The examples of a store's folder or of one file, read again when they change."""

    def __init__(self, location: str, embedder: Callable[[], Embedder]) -> None:
        self._folder = folder_of(location)
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


class _Malformed(Exception):
    """A file of examples cannot be read."""


def _rows(file: Path) -> list[object]:
    """The entries of a JSON list, of the ``examples`` of an object, or of JSON lines."""
    try:
        with open_regular(file) as opened:
            content = opened.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise _Malformed(f"larger than {MOST_BYTES // 2**20} MB")
        text = content.decode("utf-8-sig").strip()
        try:
            value: object = json.loads(text)
        except json.JSONDecodeError:
            if text.startswith("["):
                raise
            # Whatever the file is called, it may hold one object per line.
            lines = [_parsed(line) for line in text.splitlines() if line.strip()]
            if not any(lines):
                raise
            return lines
    except (OSError, ValueError, RecursionError) as error:
        raise _Malformed(f"not JSON ({' '.join(str(error).split())[:100]})") from error
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        value = fields.get("examples", [fields] if "\n" not in text else None)
    if not isinstance(value, list):
        raise _Malformed("not a list of examples")
    return cast("list[object]", value)


def _parsed(line: str) -> object:
    """The value of a line; ``None``, which is no example, if it is not JSON."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _example(row: object, names: tuple[str, ...]) -> FewShotExample | str:
    """The example in an entry, or what is wrong with it."""
    fields = cast("dict[str, Any]", row) if isinstance(row, dict) else {}
    if not fields:
        return "is not a JSON object"
    if fields.get("synthetic") is True:
        # Made for measuring, not as examples.
        return ""
    asked = next((name for name in _QUESTION_NAMES if name in fields), "")
    question: object = fields.get(asked)
    answers = (fields.get(name) for name in names if name != asked)
    answer: object = next((a for a in answers if isinstance(a, str) and a.strip()), None)
    if not isinstance(question, str) or not question.strip():
        return "has no question"
    if not isinstance(answer, str):
        return _NO_ANSWER
    if len(answer) > LONGEST_ANSWER:
        return f"has an answer of more than {LONGEST_ANSWER} characters"
    return FewShotExample(question.strip(), answer.strip())


def folder_of(location: str) -> Path:
    """The folder with the files of a store: a pack's own, or the one a Kuzu file is in."""
    file = location.removeprefix("kuzu:")
    return Path(file) if file == location else Path(file).parent


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
