"""What people said about answers: right or wrong, and what the right answer is.

A pack keeps it in ``eval/feedback.jsonl``, any other store in the home folder, one line of JSON
per verdict. ``packwise eval`` and ``packwise calibrate`` read it. It is never shown to a language
model as an example: anyone who may ask may write to it.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, cast

from packwise.documents import content_hash
from packwise.errors import DataError, StoreError
from packwise.evaluation.metrics import normalised
from packwise.settings import data_folder
from packwise.stores.base import StoreInfo
from packwise.stores.durable import open_regular, sync_file, writing
from packwise.stores.pack.folder import FEEDBACK

if sys.platform != "win32":
    import fcntl

RightOrWrong = Literal["right", "wrong"]

_MOST_BYTES = 64 << 20
_MARKERS = re.compile(r"\s+(?:\[\d+\])+")


@dataclass(frozen=True, slots=True)
class Feedback:
    """One verdict on an answer. ``passages`` are the ids of those that the answer cited,
    ``tenant`` that of the API key, ``at`` the time in UTC."""

    question: str
    answer: str
    verdict: RightOrWrong
    right_answer: str = ""
    passages: tuple[str, ...] = ()
    tenant: str = ""
    at: str = ""


@dataclass(frozen=True, slots=True)
class JudgedQuestion:
    """All that is known about a question: answers that are right, those that are wrong, and the
    documents that right answers cited."""

    question: str
    right: tuple[str, ...]
    wrong: tuple[str, ...]
    documents: tuple[str, ...]


def feedback_path(info: StoreInfo) -> Path:
    """The file of a store's feedback: in a pack's folder, else in the home folder."""
    if info.kind == "pack":
        return Path(info.location) / FEEDBACK
    return data_folder() / "feedback" / f"{content_hash(info.location)}.jsonl"


def save_feedback(info: StoreInfo, feedback: Feedback) -> Feedback:
    """Append a verdict with the current time. It is on the disk when this returns, whole or not
    at all; several processes may write at once. Raises ``StoreError`` if it cannot be written."""
    if sys.platform == "win32":
        raise StoreError("feedback cannot be kept on Windows yet")
    stamped = {**asdict(feedback), "at": datetime.now(UTC).isoformat(timespec="seconds")}
    line = json.dumps({name: value for name, value in stamped.items() if value}) + "\n"
    path = feedback_path(info)
    with writing(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        # A pack may come from someone else: no link in it is followed.
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            handle = os.open(path.name, flags, 0o644, dir_fd=folder)
        finally:
            os.close(folder)
        with os.fdopen(handle, "r+b", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            end = _end_of_lines(file.fileno())
            if end + len(line) > _MOST_BYTES:
                raise StoreError(
                    f"{path} has reached {_MOST_BYTES >> 20} MB", fix="move it to another place"
                )
            try:
                os.ftruncate(handle, end)
                _write_all(handle, line.encode(), end)
                os.fsync(handle)
            except BaseException:
                os.ftruncate(handle, end)
                raise
        sync_file(path.parent)
    return _feedback(stamped)


def _end_of_lines(handle: int) -> int:
    """Where the next line starts. What a killed writer left of its line is not counted; a last
    line that lacks only its end is given one."""
    assert sys.platform != "win32"
    size = os.fstat(handle).st_size
    tail = os.pread(handle, 1 << 20, max(0, size - (1 << 20)))
    last = tail.rpartition(b"\n")[2]
    if not last:
        return size
    try:
        json.loads(last)
    except ValueError:
        return size - len(last)
    _write_all(handle, b"\n", size)
    return size + 1


def _write_all(handle: int, content: bytes, at: int) -> None:
    assert sys.platform != "win32"
    while content:
        written = os.pwrite(handle, content, at)
        content, at = content[written:], at + written


def load_feedback(path: Path) -> list[Feedback]:
    """The verdicts of a file, oldest first; none if it does not exist. Raises ``DataError``
    with the line that is not one."""
    try:
        with open_regular(path) as file:
            if sys.platform != "win32":
                fcntl.flock(file, fcntl.LOCK_SH)
            content = file.read(_MOST_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error
    found: list[Feedback] = []
    for number, line in enumerate(content.splitlines(), start=1):
        if line.strip():
            try:
                found.append(_feedback(json.loads(line)))
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
                raise DataError(
                    f"{path}:{number}: is not a verdict on an answer", fix="correct the line"
                ) from error
    return found


def _feedback(row: Any) -> Feedback:
    values = cast("dict[str, Any]", row)
    verdict = values["verdict"]
    if verdict not in ("right", "wrong"):
        raise ValueError(f"a verdict is right or wrong, not {verdict!r}")
    return Feedback(
        question=str(values["question"]),
        answer=str(values["answer"]),
        verdict=verdict,
        right_answer=str(values.get("right_answer", "")),
        passages=tuple(str(passage) for passage in values.get("passages", ())),
        tenant=str(values.get("tenant", "")),
        at=str(values.get("at", "")),
    )


def judged_questions(feedback: Iterable[Feedback]) -> list[JudgedQuestion]:
    """The questions with what their verdicts say together. The latest verdict on an answer
    counts; answers that differ only in citation marks are the same."""
    latest: dict[str, dict[str, Feedback]] = {}
    for entry in feedback:
        answers = latest.setdefault(" ".join(entry.question.split()), {})
        # Taken out first, so that the order is that of the latest verdicts.
        answers.pop(answer_key(entry.answer), None)
        answers[answer_key(entry.answer)] = entry
    return [_judged(question, answers.values()) for question, answers in latest.items()]


def _judged(question: str, entries: Iterable[Feedback]) -> JudgedQuestion:
    right: list[str] = []
    wrong: list[str] = []
    documents: list[str] = []
    for entry in entries:
        if entry.verdict == "right":
            right.append(without_markers(entry.answer))
            documents += [passage.rpartition("#")[0] for passage in entry.passages]
        else:
            wrong.append(without_markers(entry.answer))
            right += [entry.right_answer] if entry.right_answer else []
    return JudgedQuestion(
        question, tuple(dict.fromkeys(right)), tuple(wrong), tuple(dict.fromkeys(documents))
    )


def without_markers(answer: str) -> str:
    """An answer without its citation marks."""
    return _MARKERS.sub("", answer).strip()


def answer_key(answer: str) -> str:
    """Equal for answers that say the same words."""
    return normalised(without_markers(answer))
