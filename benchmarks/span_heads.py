"""Fits models/span_heads.json: where the cross-encoder's hidden states say that an answer is.

    python benchmarks/span_heads.py DATA [--every N] [--write]

DATA is the folder of SQuAD 2.0 in BEIR's layout. The cross-encoder reads each question with the
parts of its paragraph. Two linear heads on the states of its tokens are fitted, one for the first
token of the answer and one for the last; in a part without the answer both should point to the
first token of the pair. Seen are the questions at even places in the file, of the unanswerable
ones those of the half ``tune``. Every fourth of them is not fitted on, but reported.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from answers import overlap
from numpy.typing import NDArray
from scipy.optimize import minimize

import packwise
from packwise.answering.block_ranking import judged_text
from packwise.answering.blocks import SourcePassage, answer_blocks
from packwise.evaluation.cache import cached_store
from packwise.evaluation.data import DataSet, Question, half_of, load_dataset
from packwise.models import cross_encoder
from packwise.models.locate import obtain
from packwise.models.onnx import OnnxSession, encode, load_tokenizer, span_logits
from packwise.models.table import DEFAULT_CROSS_ENCODER, find_model
from packwise.settings import Settings

HEADS = Path(cross_encoder.__file__).with_name("span_heads.json")
PENALTY = 450.0
STEPS = 80
WITHOUT = 0.5
"""What a part without the answer counts."""
HELD_BACK = 4

Numbers = NDArray[np.float32]


@dataclass
class Part:
    """A part of a paragraph as it was read: the states of its tokens, and the places among them
    where an answer begins and ends; both are 0, the first token of the pair, if it has none."""

    question: Question
    text: str
    pair: Any
    states: Numbers
    first: list[int] = field(default_factory=lambda: [0])
    last: list[int] = field(default_factory=lambda: [0])


def main() -> None:
    """Read, fit, report and write."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("data")
    options.add_argument("--every", type=int, default=1, help="every n-th question")
    options.add_argument("--write", action="store_true")
    given = options.parse_args()
    dataset = load_dataset(given.data)
    store = str(cached_store(dataset, Settings.load()))
    fitted, held_back = tuning_questions(dataset)
    heads = fit(list(read(store, fitted[:: given.every])))
    scores = list(reported(read(store, held_back[:: given.every]), heads))
    sys.stdout.write(
        f"F1 in the paragraph of the answer: {np.mean(scores):.3f} ({len(scores)} questions)\n"
    )
    if given.write:
        rounded = [[round(float(w), 4) for w in column] for column in heads.T]
        stored = dict(zip(("start", "end"), rounded, strict=True))
        HEADS.write_text(json.dumps(stored) + "\n", encoding="utf-8")


def tuning_questions(
    dataset: DataSet, part: int = HELD_BACK - 1
) -> tuple[list[Question], list[Question]]:
    """The questions to fit on, and those that are held back: one of ``HELD_BACK`` parts."""
    seen = [q for q in dataset.questions[::2] if q.answerable or half_of(q.id) == "tune"]
    return [q for i, q in enumerate(seen) if i % HELD_BACK != part], seen[part::HELD_BACK]


def read(store: str, questions: Sequence[Question]) -> Iterator[Part]:
    """Each question with each part of its paragraph."""
    found = obtain(find_model(DEFAULT_CROSS_ENCODER), Settings.load())
    session = OnnxSession(found.weights, found.build.token_states)
    tokenizer = load_tokenizer(found.tokenizer)
    with packwise.open(store) as library:
        for question in questions:
            for _, passage in library.store.document_passages(question.metadata["paragraph"]):
                for block in answer_blocks(SourcePassage(1, passage)):
                    text, begin = judged_text(block)
                    first, second = (
                        encode(tokenizer, one, len(one), special=False)
                        for one in (question.text, text)
                    )
                    pair = tokenizer.post_process(first, second)
                    states = np.hstack(session.outputs(pair.ids, pair.type_ids)[1:])
                    part = Part(question, text, pair, states.astype(np.float32))
                    label(part, begin)
                    yield part


def label(part: Part, begin: int) -> None:
    """Find the gold answers among the tokens of a part."""
    places = [
        (place, *part.pair.offsets[place])
        for place, which in enumerate(part.pair.sequence_ids)
        if which == 1
    ]
    found: list[tuple[int, int]] = []
    for answer in part.question.answers:
        for match in re.finditer(rf"(?<!\w){re.escape(answer)}(?!\w)", part.text):
            inside = [p for p, a, b in places if match.start() < b and a < match.end()]
            if match.start() >= begin and inside:
                found.append((inside[0], inside[-1]))
    if found:
        part.first, part.last = (sorted(set(ends)) for ends in zip(*found, strict=True))


def fit(parts: Sequence[Part]) -> Numbers:
    """The weights of both heads on the states, a column each."""
    rows = [
        [0, *(i for i, which in enumerate(part.pair.sequence_ids) if which == 1)] for part in parts
    ]
    states = np.concatenate([part.states[row] for part, row in zip(parts, rows, strict=True)])
    spread = states.std(axis=0) + 1e-3
    states = (states - states.mean(axis=0)) / spread
    starts = np.cumsum([0, *(len(row) for row in rows[:-1])])
    owner = np.repeat(np.arange(len(parts)), [len(row) for row in rows])
    gold = np.zeros((len(states), 2), dtype=bool)
    for part, row, at in zip(parts, rows, starts, strict=True):
        gold[[at + row.index(i) for i in part.first], 0] = True
        gold[[at + row.index(i) for i in part.last], 1] = True
    by = np.array([WITHOUT if part.first == [0] else 1.0 for part in parts])

    def loss(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        logits = states @ flat.reshape(-1, 2).astype(np.float32)
        total, pull = 0.5 * PENALTY * float(flat @ flat), np.zeros_like(logits)
        for head in (0, 1):
            top = np.maximum.reduceat(logits[:, head], starts)
            mass = np.exp(logits[:, head] - top[owner])
            chance = mass / np.add.reduceat(mass, starts)[owner]
            right = chance * gold[:, head]
            hit = np.add.reduceat(right, starts) + 1e-9
            total -= float(by @ np.log(hit))
            pull[:, head] = (chance - right / hit[owner]) * by[owner]
        return total, (states.T @ pull).ravel().astype(float) + PENALTY * flat

    start = np.zeros(states.shape[1] * 2)
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": STEPS})
    return (found.x.reshape(-1, 2) / spread[:, None]).astype(np.float32)


def reported(parts: Iterable[Part], heads: Numbers) -> Iterator[float]:
    """For each answerable question, the F1 of the best span of its paragraph."""
    best: dict[str, tuple[float, Part, str]] = {}
    for part in parts:
        logits = span_logits(part.pair, part.states @ heads)
        span = logits.best()
        if span is None:
            continue
        score, start, end = span
        found = (score - logits.null, part, part.text[start:end])
        known = best.get(part.question.id)
        if known is None or known[0] < found[0]:
            best[part.question.id] = found
    for _, part, said in best.values():
        if part.question.answers:
            yield max(overlap(said, gold) for gold in part.question.answers)


if __name__ == "__main__":
    main()
