"""Whether 0.5 on the confidence scale parts a corpus's own questions from others'.

    python benchmarks/gate.py DATA [--models bge-small-en-v1.5,potion-base-8M]

DATA holds the data sets, one BEIR-style folder each. Of each set up to 60 questions of the half
``report`` are asked over 300 of its documents, those that answer them among them, and so are the
questions of every other set. Prints Markdown: the share of own questions whose best document
is at 0.5 or above, and of others' that are below. The maps from cosine to that scale
(``models/table.py``) were fitted on three of the sets; the other three are new to them.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from packwise.evaluation.data import DataSet, Question, load_dataset
from packwise.evaluation.metrics import mean
from packwise.models.base import Embedder, Vectors
from packwise.models.embedder import load_embedder
from packwise.settings import Settings

MODELS = ("bge-small-en-v1.5", "potion-base-8M", "all-MiniLM-L6-v2")
FITTED = ("squad2", "hotpotqa-100", "stackfaq")
NEW = ("musique-100", "scifact", "cisi")
QUESTIONS = 60
DOCUMENTS = 300
THRESHOLD = 0.5


@dataclass(frozen=True)
class Corpus:
    """Some questions of a set and the documents they are asked over."""

    questions: tuple[Question, ...]
    texts: tuple[str, ...]


def main() -> None:
    """Measure each model on each set and print one table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--models", default=",".join(MODELS))
    given = parser.parse_args()
    names = (*FITTED, *NEW)
    corpora = {name: corpus(load_dataset(given.data / name, half="report")) for name in names}
    write = sys.stdout.write
    write(f"| model | {' | '.join(names)} | mean, fitted | mean, new |\n")
    write(f"| --- |{' ---: |' * (len(names) + 2)}\n")
    settings = Settings.load()
    for model in given.models.split(","):
        found = measured(load_embedder(model, settings), corpora)
        cells = [shown([found[name]]) for name in names]
        cells += [shown([found[name] for name in part]) for part in (FITTED, NEW)]
        write(f"| {model} | {' | '.join(cells)} |\n")
        sys.stdout.flush()


def corpus(dataset: DataSet) -> Corpus:
    """Questions at even steps; the documents that answer them, and the first others."""
    judged = [q for q in dataset.judged if q.answerable]
    asked = tuple(judged[:: max(1, len(judged) // QUESTIONS)][:QUESTIONS])
    wanted = {d for q in asked for d, grade in dataset.relevant[q.id].items() if grade > 0}
    rows = [(row["_id"], f"{row.get('title', '')}\n{row['text']}".strip()) for row in read(dataset)]
    rows.sort(key=lambda row: row[0] not in wanted)
    return Corpus(asked, tuple(text for _, text in rows[:DOCUMENTS]))


def read(dataset: DataSet) -> Iterator[dict[str, Any]]:
    """The rows of a set's corpus."""
    assert dataset.corpus is not None
    opened: Any = gzip.open if dataset.corpus.suffix == ".gz" else open
    with opened(dataset.corpus, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def measured(embedder: Embedder, corpora: dict[str, Corpus]) -> dict[str, tuple[float, float]]:
    """Of each set the share of own questions admitted, and of others' refused."""
    asked = {
        name: np.array([embedder.embed_query(q.text) for q in one.questions])
        for name, one in corpora.items()
    }
    shares: dict[str, tuple[float, float]] = {}
    for name, one in corpora.items():
        documents = embedder.embed_passages(one.texts)
        admitted = {
            other: mean(
                float(similar >= THRESHOLD) for similar in best(embedder, questions, documents)
            )
            for other, questions in asked.items()
        }
        refused = mean(1.0 - share for other, share in admitted.items() if other != name)
        shares[name] = admitted[name], refused
    return shares


def best(embedder: Embedder, questions: Vectors, documents: Vectors) -> list[float]:
    """The similarity of each question's best document."""
    return [embedder.similarity(float(cosine)) for cosine in (questions @ documents.T).max(axis=1)]


def shown(shares: list[tuple[float, float]]) -> str:
    """Own questions admitted / others' refused."""
    return " / ".join(f"{mean(values):.3f}" for values in zip(*shares, strict=True))


if __name__ == "__main__":
    main()
