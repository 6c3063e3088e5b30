"""Compares the stores: the same passages and vectors in each, asked the same questions.

    python benchmarks/stores.py PACK... --data DATA [--out docs/stores.md]

Each PACK is copied into every store with `packwise copy`, so nothing is embedded twice. For a
pack with the name of a data set in DATA its judged questions are asked, for any other its own
headings. Servers are those of the tests: a real Qdrant and a real PostgreSQL, on this machine.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from packwise.evaluation.data import load_dataset
from packwise.evaluation.metrics import HEADLINE, fold_to_documents, mean
from packwise.library import Library, open_library
from packwise.models.embedder import load_embedder
from packwise.packs.copying import copy_store
from packwise.settings import Settings
from packwise.stores.locate import open_store

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

QUESTIONS = 300
K = 10
_GRPC = ", gRPC"


@dataclass(frozen=True, slots=True)
class Row:
    """What was measured of one store on one pack."""

    store: str
    build_seconds: float
    p50: float
    p95: float
    recall: float
    overlap: float
    ndcg: float | None
    bytes: int


class Remembered:
    """An embedder whose questions were embedded before: searches are timed without it."""

    def __init__(self, embedder: Any, questions: Sequence[str]) -> None:
        self._embedder = embedder
        self._vectors = {question: embedder.embed_query(question) for question in questions}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._embedder, name)

    def embed_query(self, text: str) -> Any:
        return self._vectors[text]


def main() -> None:
    """Measure and print, or write, the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packs", nargs="+", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", default="kuzu,qdrant,postgresql", help="beside the pack")
    given = parser.parse_args()
    only = given.only.split(",")
    tables = [measure(pack, given.data / pack.name, only) for pack in given.packs]
    text = "\n".join(tables)
    if given.out:
        given.out.write_text(text, encoding="utf-8")
    sys.stdout.write(text)


def measure(pack: Path, data: Path, only: Sequence[str]) -> str:
    """The table of one pack."""
    settings = Settings.load()
    with open_library(str(pack)) as library:
        info = library.info()
        questions, relevant = _questions(library, data)
        exact = _exact(library)
    embedder = Remembered(load_embedder(info.embedder, settings), list(questions.values()))
    rows: list[Row] = []
    reference: dict[str, list[str]] = {}
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for name, place, size in _places(stack, scratch, only):
            started = time.perf_counter()
            copy_store(str(pack), place, verify=False)
            seconds = time.perf_counter() - started
            if name.endswith(_GRPC):
                seconds = rows[-1].build_seconds
            rows.append(
                _measured(name, place, seconds, embedder, questions, relevant, exact, reference)
            )
            rows[-1] = _sized(rows[-1], size)
    head = f"### {pack.name}: {info.documents:,} documents, {info.passages:,} passages\n"
    return f"{head}\n{_table(rows)}"


def _measured(
    name: str,
    place: str,
    seconds: float,
    embedder: Remembered,
    questions: Mapping[str, str],
    relevant: Mapping[str, Mapping[str, int]],
    exact: Callable[[Any, int], set[str]],
    reference: dict[str, list[str]],
) -> Row:
    settings = Settings.load()
    times: list[float] = []
    found: dict[str, list[str]] = {}
    recalls: list[float] = []
    with Library(open_store(place), settings=settings, embedder=embedder) as library:  # type: ignore[arg-type]
        first = next(iter(questions.values()))
        library.search(first, K)
        for key, question in questions.items():
            started = time.perf_counter()
            hits = library.search(question, K).hits
            times.append((time.perf_counter() - started) * 1000.0)
            found[key] = [hit.passage.id for hit in hits]
        for question in list(questions.values())[:100]:
            vector = embedder.embed_query(question)
            near = library.store.passages(
                [match.key for match in library.store.vector_search(vector, K)]
            )
            best = exact(vector, K)
            recalls.append(len(best & {p.id for p in near if p}) / max(len(best), 1))
        deep = {}
        if relevant:
            deep = {
                key: fold_to_documents(
                    [hit.passage.document for hit in library.search(question, 30).hits]
                )
                for key, question in questions.items()
            }
        size = library.info().size_bytes
    if not reference:
        reference.update(found)
    overlap = [
        len(set(reference[key]) & set(ids)) / max(len(reference[key]), 1)
        for key, ids in found.items()
    ]
    ndcg = None
    if relevant:
        ndcg = mean(HEADLINE.score(deep.get(q, ()), grades) for q, grades in relevant.items())
    p50, p95 = np.percentile(times, (50, 95))
    return Row(name, seconds, float(p50), float(p95), mean(recalls), mean(overlap), ndcg, size)


def _sized(row: Row, size: Callable[[], int] | None) -> Row:
    if size is None:
        return row
    fields = {name: getattr(row, name) for name in Row.__dataclass_fields__}
    return Row(**{**fields, "bytes": size()})


def _questions(
    library: Library, data: Path
) -> tuple[dict[str, str], Mapping[str, Mapping[str, int]]]:
    if data.is_dir():
        dataset = load_dataset(data)
        judged = dataset.judged[:QUESTIONS]
        return {q.id: q.text for q in judged}, {q.id: dataset.relevant[q.id] for q in judged}
    headings: dict[str, None] = {}
    for summary in library.store.documents():
        for _, passage in library.store.document_passages(summary.id):
            headings[passage.heading] = None
    every = list(headings)
    chosen = every[:: max(1, len(every) // QUESTIONS)][:QUESTIONS]
    return {str(at): heading for at, heading in enumerate(chosen)}, {}


def _exact(library: Library) -> Callable[[Any, int], set[str]]:
    """The true nearest passages, by looking at every vector."""
    pairs = [
        pair
        for summary in library.store.documents()
        for pair in library.store.document_passages(summary.id)
    ]
    names = [passage.id for _, passage in pairs]
    vectors = library.store.vectors([key for key, _ in pairs])

    def nearest(vector: Any, k: int) -> set[str]:
        order = np.argsort(-(vectors @ vector), kind="stable")[:k]
        return {names[at] for at in order.tolist()}

    return nearest


def _places(
    stack: ExitStack, scratch: Path, only: Sequence[str]
) -> Iterator[tuple[str, str, Callable[[], int] | None]]:
    """Every store that can be had here, with how to tell its size where it does not."""
    yield "pack", str(scratch / "copy"), None
    if "kuzu" in only:
        yield "kuzu", f"kuzu:{scratch / 'copy.db'}", None
    if "qdrant" in only:
        yield from _qdrant(stack)
    if "postgresql" in only:
        yield from _postgresql(stack)


def _qdrant(stack: ExitStack) -> Iterator[tuple[str, str, Callable[[], int]]]:
    from qdrant_server import Qdrant, Unavailable

    try:
        server = Qdrant()
    except Unavailable as reason:
        sys.stderr.write(f"Qdrant is left out: {reason}\n")
        return
    stack.callback(server.stop)
    place = f"qdrant+{server.url}/bench"
    yield "qdrant", place, lambda: _folder_bytes(server.folder / "storage")
    # The same collection, spoken to in another way.
    yield (
        f"qdrant{_GRPC}",
        f"{place}?grpc={server.grpc_port}",
        lambda: _folder_bytes(server.folder / "storage"),
    )


def _postgresql(stack: ExitStack) -> Iterator[tuple[str, str, None]]:
    from postgres_servers import Schema

    schema = Schema()
    stack.callback(schema.drop)
    yield "postgresql", schema.url, None


def _folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


def _table(rows: Sequence[Row]) -> str:
    judged = rows[0].ndcg is not None
    lines = [
        "| store | build s | p50 ms | p95 ms | recall@10 | overlap@10 |"
        f"{' nDCG@10 |' * judged} MB |",
        f"| --- | ---: | ---: | ---: | ---: | ---: |{' ---: |' * judged} ---: |",
    ]
    for row in rows:
        ndcg = f" {row.ndcg:.4f} |" if row.ndcg is not None else ""
        lines.append(
            f"| {row.store} | {row.build_seconds:.1f} | {row.p50:.1f} | {row.p95:.1f} |"
            f" {row.recall:.3f} | {row.overlap:.3f} |{ndcg} {row.bytes / 1e6:.0f} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
