"""What comparison.py gives to every library: passages, their vectors, and questions with theirs.

A corpus is a folder with `passages.jsonl`, `vectors.npy`, `questions.json` (text, and the relevant
documents with their grades), `questions.npy`, and in `pack.txt` the pack that all of it comes from.
"""

from __future__ import annotations

import json
import re
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from packwise.evaluation.cache import cached_store
from packwise.evaluation.data import load_dataset
from packwise.evaluation.synthetic import (
    PASSAGES_PER_DOCUMENT,
    SyntheticDocuments,
    SyntheticEmbedder,
    judged_questions,
)
from packwise.language.sentences import sentence_spans
from packwise.models.base import Embedder
from packwise.models.embedder import load_embedder
from packwise.packs.build import build_pack
from packwise.settings import Settings
from packwise.stores.base import Store
from packwise.stores.locate import open_store

HALF = "report"
QUESTIONS = 60
"""Of a set without questions of its own."""

ARTICLES = "wikispeedia"
SYNTHETIC = "synthetic-"
_WORD = re.compile(r"\w+")
_FEWEST_WORDS = 8


@dataclass(frozen=True, slots=True)
class Asked:
    """One question and the documents that are relevant to it."""

    id: str
    text: str
    relevant: dict[str, int]


def corpus(name: str, data: Path, work: Path, articles: int, settings: Settings) -> Path:
    """The folder of a corpus, made unless it exists: a data set of ``data``, the first articles of
    wikispeedia, or ``synthetic-N``."""
    shown = f"{name}-{articles}" if name == ARTICLES else name
    folder = work / "corpora" / f"{shown}.{embedder_of(name, settings)}"
    if (folder / "pack.txt").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    if name.startswith(SYNTHETIC):
        documents = max(2, size_of(name) // PASSAGES_PER_DOCUMENT)
        pack, embedder = folder / "pack", SyntheticEmbedder()
        build_pack(SyntheticDocuments(documents), pack, embedder=embedder)
        found = judged_questions(QUESTIONS, documents)
        questions = [Asked(str(nth), text, {one: 1}) for nth, (text, one) in enumerate(found)]
    elif name == ARTICLES:
        pack, embedder = folder / "pack", load_embedder(settings.embedder, settings)
        _build_articles(data / f"{ARTICLES}.tar.gz", articles, pack, settings)
        with open_store(str(pack)) as store:
            questions = known_items(store)
    else:
        dataset = load_dataset(data / name, half=HALF)
        pack, embedder = cached_store(dataset, settings), load_embedder(settings.embedder, settings)
        questions = [Asked(q.id, q.text, dict(dataset.relevant[q.id])) for q in dataset.judged]
    _write(folder, pack, embedder, questions)
    return folder


def embedder_of(name: str, settings: Settings) -> str:
    """The embedder of a corpus."""
    return SyntheticEmbedder.name if name.startswith(SYNTHETIC) else settings.embedder


def size_of(name: str) -> int:
    """The number of passages of a synthetic set, such as ``synthetic-20k``."""
    return int(name.removeprefix(SYNTHETIC).replace("k", "000"))


def known_items(store: Store) -> list[Asked]:
    """Every second word of a sentence, from passages spread over the store: the document that
    has the sentence is the one to find."""
    passages = [
        passage
        for summary in store.documents()
        for _, passage in store.document_passages(summary.id)
    ]
    found: list[Asked] = []
    for nth in range(0, len(passages), max(1, len(passages) // QUESTIONS)):
        passage = passages[nth]
        sentences = [passage.text[start:end] for start, end in sentence_spans(passage.text)]
        words = max((_WORD.findall(sentence) for sentence in sentences), key=len, default=[])
        if len(words) >= _FEWEST_WORDS:
            found.append(Asked(str(nth), " ".join(words[::2]), {passage.document: 1}))
    return found[:QUESTIONS]


def _build_articles(archive: Path, count: int, pack: Path, settings: Settings) -> None:
    with tempfile.TemporaryDirectory() as scratch, tarfile.open(archive) as tar:
        names = sorted(member.name for member in tar if member.isfile())[:count]
        tar.extractall(scratch, names, filter="data")
        build_pack([scratch], pack, settings=settings)


def _write(folder: Path, pack: Path, embedder: Embedder, questions: Sequence[Asked]) -> None:
    with open_store(str(pack)) as store, (folder / "passages.jsonl").open("w") as file:
        keys: list[int] = []
        for summary in store.documents():
            for key, passage in store.document_passages(summary.id):
                keys.append(key)
                row = {"document": passage.document, "text": passage.indexed_text}
                file.write(json.dumps(row) + "\n")
        np.save(folder / "vectors.npy", store.vectors(keys))
    np.save(folder / "questions.npy", np.stack([embedder.embed_query(q.text) for q in questions]))
    (folder / "questions.json").write_text(json.dumps([asdict(one) for one in questions]))
    (folder / "pack.txt").write_text(str(pack))


def read_questions(folder: Path) -> list[Asked]:
    """The questions of a corpus."""
    return [Asked(**one) for one in json.loads((folder / "questions.json").read_text())]


def passage_count(folder: Path) -> int:
    """The number of passages of a corpus."""
    return int(np.load(folder / "vectors.npy", mmap_mode="r").shape[0])
