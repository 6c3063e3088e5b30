"""What a person reads: for each question, whether the answer shown is right, and its label.

Questions are lines of JSON with ``question`` and what a right answer holds: ``holds``, a list of
alternatives, each a list of texts that must all be in it, or ``answers``, a list of texts of
which one must be. A question without either has no answer in the documents: it should be refused
or at least not be called likely. A file of feedback is read too: a right answer holds what people
found right, and questions without a right answer are left out. ``kind`` groups the questions of
the report; ``document`` restricts one to a document.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from packwise.answering.answer import Answer
from packwise.candidates import Filter
from packwise.errors import DataError
from packwise.evaluation.calibration_metrics import Assessment, assess
from packwise.evaluation.data import read_json_lines
from packwise.evaluation.feedback import judged_questions, load_feedback, without_markers
from packwise.library import Library

Outcome = Literal["right", "unsure", "wrong", "refused"]
OUTCOMES: tuple[Outcome, ...] = ("right", "unsure", "wrong", "refused")

_MARKS = re.compile(r"[`*\"'“”‘’]+")


@dataclass(frozen=True, slots=True)
class AnswerQuestion:
    """A question, and what a right answer to it holds; nothing if it has no answer."""

    id: str
    question: str
    kind: str = ""
    holds: tuple[tuple[str, ...], ...] = ()
    document: str = ""

    def held_by(self, text: str) -> bool:
        """Whether a text has all parts of one alternative, ignoring case, quotes and spacing."""
        shown = _folded(text)
        return any(all(_folded(part) in shown for part in parts) for parts in self.holds)


@dataclass(frozen=True, slots=True)
class AnswerResult:
    """The outcome of a question.

    An answer is ``unsure`` if it is not right, says so, and the passage with the right one is
    shown as its source. ``found`` says whether the three best passages held the answer.
    """

    question: AnswerQuestion
    outcome: Outcome
    certainty: str
    probability: float
    found: bool
    text: str

    @property
    def answerable(self) -> bool:
        return bool(self.question.holds)

    def as_dict(self) -> dict[str, Any]:
        return {
            **{k: v for k, v in asdict(self).items() if k != "question"},
            **{"id": self.question.id, "kind": self.question.kind},
            "question": self.question.question,
        }


@dataclass(frozen=True, slots=True)
class AnswerReport:
    """All results, with counts per kind of question and the figures of the probability."""

    results: tuple[AnswerResult, ...]

    def counts(self) -> dict[str, dict[str, int]]:
        """For each kind, and for all answerable ones: how many questions had which outcome."""
        groups: dict[str, list[AnswerResult]] = defaultdict(list)
        for result in self.results:
            groups[result.question.kind or "questions"].append(result)
        # A kind of that name would hold these questions twice.
        groups["answerable"] = [result for result in self.results if result.answerable]
        if not groups["answerable"]:
            del groups["answerable"]
        ordered = sorted(
            groups, key=lambda kind: (kind == "answerable", not groups[kind][0].answerable)
        )
        return {kind: _count(groups[kind]) for kind in ordered}

    def reliability(self) -> Assessment | None:
        """How good the probability is; ``None`` unless some answers are right and some wrong."""
        shown = [result for result in self.results if result.outcome != "refused"]
        right = [result.outcome == "right" for result in shown]
        if not any(right) or all(right):
            return None
        return assess([result.probability for result in shown], right)

    def as_dict(self) -> dict[str, Any]:
        found = self.reliability()
        return {
            "counts": self.counts(),
            "reliability": asdict(found) if found else None,
            "results": [result.as_dict() for result in self.results],
        }


def _count(results: Sequence[AnswerResult]) -> dict[str, int]:
    counted = {"questions": len(results)}
    counted |= {name: sum(r.outcome == name for r in results) for name in OUTCOMES}
    wrong = [r for r in results if r.outcome not in ("right", "refused")]
    counted["wrong, likely"] = sum(r.certainty == "likely" for r in wrong)
    counted["in the top three"] = sum(r.found for r in results)
    return counted


def read_questions(path: str | Path) -> list[AnswerQuestion]:
    """The questions of a file. Raises ``DataError`` with the line that is wrong."""
    rows = list(read_json_lines(Path(path)))
    if rows and "verdict" in rows[0][1]:
        found = [
            AnswerQuestion(
                str(number), judged.question, "feedback", tuple((a,) for a in judged.right)
            )
            for number, judged in enumerate(judged_questions(load_feedback(Path(path))), start=1)
            if judged.right
        ]
    else:
        found = [_question(where, row) for where, row in rows]
    if not found:
        raise DataError(f"{path} holds no questions", fix="write one JSON object per line")
    return found


def _question(where: str, row: Mapping[str, Any]) -> AnswerQuestion:
    try:
        holds = [[str(part) for part in parts] for parts in row.get("holds", ())]
        holds += [[str(answer)] for answer in row.get("answers", ())]
        return AnswerQuestion(
            id=str(row.get("id", where.rpartition(":")[2])),
            question=str(row["question"]),
            kind=str(row.get("kind", "")),
            holds=tuple(tuple(parts) for parts in holds if parts),
            document=str(row.get("document", "")),
        )
    except (TypeError, KeyError) as error:
        raise DataError(
            f"{where}: not a question with what its answer holds: {error!r}",
            fix='write lines such as {"question": "...", "holds": [["..."]]}',
        ) from error


def evaluate_answers(
    library: Library,
    questions: Iterable[AnswerQuestion],
    *,
    synthesis: bool | None = None,
    seen: Callable[[AnswerResult], None] | None = None,
) -> AnswerReport:
    """Ask every question and judge its answer; ``seen`` is called after each."""
    results: list[AnswerResult] = []
    for question in questions:
        where = Filter(documents=(question.document,)) if question.document else Filter()
        answer = library.ask(question.question, synthesis=synthesis, where=where)
        hits = library.search(question.question, 3, where=where).hits
        best = "\n".join(f"{hit.passage.lead}\n{hit.passage.text}" for hit in hits)
        results.append(
            AnswerResult(
                question=question,
                outcome=outcome_of(question, answer),
                certainty=answer.certainty,
                probability=answer.probability,
                found=question.held_by(best),
                text=answer.text,
            )
        )
        if seen is not None:
            seen(results[-1])
    return AnswerReport(tuple(results))


def outcome_of(question: AnswerQuestion, answer: Answer) -> Outcome:
    """The outcome of a question, by its answer."""
    if answer.certainty == "not covered":
        return "refused"
    if question.held_by(without_markers(answer.text)):
        return "right"
    shown = "\n".join(citation.text for citation in answer.citations)
    unsure = answer.certainty == "unsure" and (not question.holds or question.held_by(shown))
    return "unsure" if unsure else "wrong"


def _folded(text: str) -> str:
    """A text to compare: lower case, without code marks and quotes, single spaces."""
    return " ".join(_MARKS.sub("", text).lower().split())
