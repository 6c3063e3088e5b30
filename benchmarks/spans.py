"""Fits answering/span_weights.json: which few words of a sentence answer a question.

python benchmarks/spans.py DATA OUT [--store PACK] [--every N]

DATA is the folder of SQuAD 2.0 in BEIR's layout, with paragraphs as rows. The weights are
those of a conditional logit over all runs of words in the best sentences, fitted on the
answerable questions at even places in the file: once with the paragraph that holds the
answer, once with the five best that search finds. There are two sets: ``marks`` for sentences that
the cross-encoder has marked, ``words`` without. A question that is fitted on is marked by heads
that have not seen it (``span_heads.py``). The odd questions are only reported, here and by
answers.py: this parting is older than the halves ``tune`` and ``report``. Needs scipy.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sparse
from numpy.typing import NDArray
from scipy.optimize import minimize
from span_heads import HELD_BACK, read, tuning_questions
from span_heads import fit as fit_heads

from packwise.answering.block_ranking import RankedBlocks, rank_blocks, weighted_question
from packwise.answering.blocks import SourcePassage, blocks_of
from packwise.answering.short_answers import best_sentences
from packwise.answering.spans import candidates
from packwise.evaluation.cache import cached_store
from packwise.evaluation.data import DataSet, Question, load_dataset
from packwise.evaluation.metrics import normalised
from packwise.language.analyzer import terms
from packwise.library import Library, open_library
from packwise.machine import core_count
from packwise.models.base import CrossEncoder
from packwise.models.cross_encoder import OnnxCrossEncoder, load_cross_encoder
from packwise.models.locate import obtain
from packwise.models.table import DEFAULT_CROSS_ENCODER, find_model
from packwise.settings import Settings

HITS = 5
GOLD_SCORE = 0.6
LEAST_QUESTIONS = 15
PENALTY = 1.0
STEPS = 150
SMALLEST = 0.03

Numbers = NDArray[np.float64]
Judged = tuple[Question, RankedBlocks]


@dataclass
class Rows:
    """Candidates of many questions: features, F1 with the gold answers, exactness, and where
    each question's candidates begin."""

    features: Any
    f1: Numbers
    exact: Numbers
    starts: NDArray[np.int64]

    @property
    def owner(self) -> NDArray[np.int64]:
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))


def main() -> None:
    """Fit, report and write."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("data")
    options.add_argument("out")
    options.add_argument("--store", default=None, help="a pack of the paragraphs, built before")
    options.add_argument("--every", type=int, default=1, help="every n-th question of each half")
    given = options.parse_args()
    dataset = load_dataset(given.data)
    store = given.store or str(cached_store(dataset, Settings.load()))
    even, odd = (
        [q for q in dataset.questions[parity::2] if q.answerable and q.answers][:: given.every]
        for parity in (0, 1)
    )
    encoders = unseeing_encoders(dataset, store)
    with open_library(store) as library:
        judged = [
            list(ranked(evidence(library, questions), questions, library, encoders))
            for evidence, questions in (
                (gold_evidence, even),
                (found_evidence, even),
                (found_evidence, odd),
            )
        ]
    stored = {kind: fitted(*judged, marked=kind == "marks") for kind in ("words", "marks")}
    text = json.dumps(stored, indent=1, ensure_ascii=False, sort_keys=True)
    Path(given.out).write_text(f"{text}\n", encoding="utf-8")


def fitted(
    gold: Sequence[Judged], found: Sequence[Judged], unseen: Sequence[Judged], *, marked: bool
) -> dict[str, float]:
    """Weights with or without the marks, with a report."""
    names: dict[str, int] = {}
    gold_rows = rows(gold, names, marked=marked, grow=True)
    found_rows = rows(found, names, marked=marked, grow=True)
    unseen_rows = rows(unseen, names, marked=marked, grow=False)
    kept = common(found_rows, len(names))
    weights = fit([narrowed(one, kept, len(names)) for one in (gold_rows, found_rows)])
    labels = sorted(names, key=names.__getitem__)
    stored = {
        labels[column]: round(float(weight), 2)
        for column, weight in zip(kept, weights, strict=True)
        if abs(weight) >= SMALLEST
    }
    values = np.array([stored.get(label, 0.0) for label in labels])
    for name, half in (("even, fitted", found_rows), ("odd, reported", unseen_rows)):
        exact, f1 = evaluated(narrowed(half, range(len(names)), len(names)), values)
        figures = f"EM {100 * exact:.1f}  F1 {100 * f1:.1f}  ({len(half.starts) - 1} questions)"
        sys.stdout.write(f"{'with' if marked else 'without'} marks, {name}: {figures}\n")
    return stored


def unseeing_encoders(dataset: DataSet, store: str) -> dict[str, CrossEncoder]:
    """For each question that heads are fitted on, a cross-encoder whose heads have not seen it."""
    model = obtain(find_model(DEFAULT_CROSS_ENCODER, "cross_encoder"), Settings.load())
    held_back = [tuning_questions(dataset, part)[1] for part in range(HELD_BACK)]
    parts = list(read(store, [question for part in held_back for question in part]))
    encoders: dict[str, CrossEncoder] = {}
    for unseen in ({question.id for question in part} for part in held_back):
        heads = fit_heads([part for part in parts if part.question.id not in unseen])
        encoders |= dict.fromkeys(unseen, OnnxCrossEncoder(model, core_count(), heads))
    return encoders


def gold_evidence(library: Library, questions: Sequence[Question]) -> Iterator[list[SourcePassage]]:
    """The paragraph that holds each question's answer."""
    for question in questions:
        passages = library.store.document_passages(question.metadata["paragraph"])
        yield [
            SourcePassage(rank + 1, passage, GOLD_SCORE, rank)
            for rank, (_, passage) in enumerate(passages)
        ]


def found_evidence(
    library: Library, questions: Sequence[Question]
) -> Iterator[list[SourcePassage]]:
    """The best passages that search finds for each question."""
    for question in questions:
        hits = library.search(question.text, HITS, graph=False).hits
        yield [
            SourcePassage(rank + 1, hit.passage, hit.scores.combined, rank)
            for rank, hit in enumerate(hits)
        ]


def ranked(
    evidence: Iterable[list[SourcePassage]],
    questions: Sequence[Question],
    library: Library,
    encoders: Mapping[str, CrossEncoder],
) -> Iterator[Judged]:
    """The blocks of each question's evidence, judged by its cross-encoder or else the default."""
    default = load_cross_encoder(library.settings)
    for question, passages in zip(questions, evidence, strict=True):
        known = library.store.term_statistics(list(dict.fromkeys(terms(question.text))))
        blocks = blocks_of(passages)
        asked = weighted_question(question.text, blocks, known)
        yield question, rank_blocks(asked, blocks, encoders.get(question.id, default))


def rows(judged: Iterable[Judged], names: dict[str, int], *, marked: bool, grow: bool) -> Rows:
    """The candidates of all questions; ``grow`` lets new features in."""
    at: list[int] = []
    columns: list[int] = []
    values: list[float] = []
    f1: list[float] = []
    exact: list[float] = []
    starts = [0]
    for question, blocks in judged:
        golds = [normalised(answer).split() for answer in question.answers]
        for sentence, _ in best_sentences(blocks):
            seen = sentence if marked else replace(sentence, marks=None)
            for *_, start, end, features in candidates(blocks.question, seen):
                said = normalised(sentence.text[start:end]).split()
                f1.append(max(overlap(said, gold) for gold in golds))
                exact.append(float(said in golds))
                for name, value in features:
                    if grow:
                        names.setdefault(name, len(names))
                    if value and name in names:
                        at.append(len(f1) - 1)
                        columns.append(names[name])
                        values.append(value)
        if len(f1) > starts[-1]:
            starts.append(len(f1))
    shape = (len(f1), len(names))
    matrix = sparse.csr_matrix((values, (at, columns)), shape=shape)
    return Rows(matrix, np.array(f1), np.array(exact), np.array(starts))


def overlap(said: Sequence[str], gold: Sequence[str]) -> float:
    """Token F1 of two normalised answers."""
    same = sum((Counter(said) & Counter(gold)).values())
    return 2 * same / (len(said) + len(gold)) if same else 0.0


def common(found: Rows, features: int) -> list[int]:
    """The features that occur in enough questions to be believed."""
    seen = np.zeros(features, dtype=np.int64)
    for first, past in zip(found.starts[:-1], found.starts[1:], strict=True):
        inside = found.features.indices[found.features.indptr[first] : found.features.indptr[past]]
        seen[np.unique(inside)] += 1
    return [int(column) for column in np.flatnonzero(seen >= LEAST_QUESTIONS)]


def narrowed(found: Rows, kept: Sequence[int], features: int) -> Rows:
    """The same candidates with the kept features only."""
    matrix = sparse.csr_matrix(found.features)
    matrix.resize((matrix.shape[0], features))
    return Rows(matrix[:, list(kept)], found.f1, found.exact, found.starts)


def fit(sets: Sequence[Rows]) -> Numbers:
    """The weights under which right candidates are most probable, near misses counting a
    little; a penalty on their squares keeps them small."""
    features = sparse.vstack([one.features for one in sets]).tocsr()
    f1 = np.concatenate([one.f1 for one in sets])
    offsets = np.cumsum([0, *(len(one.f1) for one in sets[:-1])])
    starts = np.concatenate(
        [one.starts[:-1] + offset for one, offset in zip(sets, offsets, strict=True)]
    )
    owner = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(f1))))
    right = np.where(f1 >= 0.999, 1.0, np.where(f1 > 0.6, 0.5 * f1**3, 0.0))
    answerable = np.bincount(owner, right, len(starts)) > 0

    def loss(weights: Numbers) -> tuple[float, Numbers]:
        scores = features @ weights
        top = np.maximum.reduceat(scores, starts)
        mass = np.exp(scores - top[owner])
        chance = mass / np.bincount(owner, mass, len(starts))[owner]
        hit = np.maximum(np.bincount(owner, chance * right, len(starts)), 1e-12)
        pull = np.where(answerable[owner], chance - chance * right / hit[owner], 0.0)
        value = -np.log(hit[answerable]).sum() + PENALTY * weights @ weights / 2
        return float(value), features.T @ pull + PENALTY * weights

    start = np.zeros(features.shape[1])
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": STEPS})
    return np.asarray(found.x)


def evaluated(found: Rows, weights: Numbers) -> tuple[float, float]:
    """Exact match and F1 of the best candidate of each question."""
    scores = found.features @ weights
    pairs = zip(found.starts[:-1], found.starts[1:], strict=True)
    best = [int(first) + int(np.argmax(scores[first:past])) for first, past in pairs]
    return float(found.exact[best].mean()), float(found.f1[best].mean())


if __name__ == "__main__":
    main()
