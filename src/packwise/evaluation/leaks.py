"""Whether a graded answer could reach the prompt of its own question.

The worked examples of a pack (``few_shot_examples.json``, ``eval/questions.jsonl``) and the
questions it is evaluated on often come from the same file. Retrieval never sees them; a
prompt does. Answering leaves out an example that asks what is asked; this is the check that
says, before anything is measured, which questions have one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from packwise.answering.few_shot import SAME_QUESTION, FewShotExample, load_examples
from packwise.evaluation.data import Question

if TYPE_CHECKING:
    from packwise.models.base import Embedder


@dataclass(frozen=True, slots=True)
class Leak:
    """A question that is evaluated, and the worked example that asks the same."""

    question: Question
    example: FewShotExample
    cosine: float


def leaks(
    questions: Sequence[Question],
    examples: Sequence[FewShotExample],
    embedder: Embedder | None = None,
) -> tuple[Leak, ...]:
    """The questions that stand among the examples: word for word, or, with an embedder, with
    a cosine of 0.95 and more (as answering leaves them out)."""
    by_words = {_folded(example.question): example for example in examples}
    found: list[Leak] = []
    rest: list[Question] = []
    for question in questions:
        same = by_words.get(_folded(question.text))
        if same is not None:
            found.append(Leak(question, same, 1.0))
        else:
            rest.append(question)
    if embedder is not None and rest and examples:
        shown = embedder.embed_passages([example.question for example in examples])
        asked = embedder.embed_passages([question.text for question in rest])
        for row, question in zip(asked @ shown.T, rest, strict=True):
            best = int(row.argmax())
            if row[best] >= SAME_QUESTION:
                found.append(Leak(question, examples[best], float(row[best])))
    return tuple(found)


def pack_leaks(questions: Sequence[Question], folder: Path) -> tuple[Leak, ...]:
    """The questions that stand word for word among a pack's own examples."""
    return leaks(questions, load_examples(folder).items)


def _folded(text: str) -> str:
    return " ".join("".join(c if c.isalnum() else " " for c in text.casefold()).split())
