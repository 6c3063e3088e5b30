"""How a store's costs grow with its size, measured on synthetic documents.

Every step runs in a process of its own, so that its memory is its own too.
"""

from __future__ import annotations

import json
import math
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from xml.sax.saxutils import escape

from packwise.evaluation.synthetic import (
    PASSAGES_PER_DOCUMENT,
    SyntheticDocuments,
    SyntheticEmbedder,
    questions,
)
from packwise.language.analyzer import terms
from packwise.machine import memory_bytes, peak_memory_bytes
from packwise.settings import Settings
from packwise.stores.pack.folder import KEYWORDS
from packwise.stores.pack.vectors import EXPANSION_SEARCH, GRAPH_FILE

if TYPE_CHECKING:
    from packwise.library import Library

BARE = "usearch and tantivy alone"
_WARM_UP = 10
_RUNS = 3
_WATCH_SECONDS = 0.1
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class BuildFigures:
    """What one build cost; bytes are ``None`` where the system does not say.

    ``own_peak_bytes`` leaves out pages of mapped files, which the system can take back.
    """

    passages: int
    seconds: float
    cpu_seconds: float
    peak_bytes: int | None
    written_bytes: int | None
    own_peak_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class SearchFigures:
    """What opening a pack and searching it cost. ``latency_ms`` has the 50th and the 95th
    percentile of each stage, and where the pack has a graph those of usearch and tantivy called
    without Packwise, as ``BARE``; ``memory_bytes`` is what the process grew by at most,
    ``own_memory_bytes`` what of it is left at the end and not pages of the pack's files."""

    open_seconds: float
    first_query_seconds: float
    cpu_ms: float
    latency_ms: dict[str, tuple[float, float]]
    memory_bytes: int | None
    disk_bytes: int
    own_memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class ScaleFigures:
    """All that is measured at one size."""

    build: BuildFigures
    search: SearchFigures
    unchanged: BuildFigures
    changed: BuildFigures


def measure(passages: int, folder: Path, searches: int, place: str = "") -> ScaleFigures:
    """Build a pack of about this many passages in an empty folder, search it, build it again
    unchanged, and once more with one document changed. ``place`` is an empty store to measure
    instead of a pack; what its server takes is not counted, except for the time on the clock."""
    count = max(2, round(passages / PASSAGES_PER_DOCUMENT))
    source, store = folder / "articles.jsonl", place or str(folder / "pack")
    _write(source, SyntheticDocuments(count))
    build = _apart(_build, source, store)
    search = _apart(_search, store, questions(searches + _WARM_UP, count))
    unchanged = _apart(_build, source, store)
    _write(source, SyntheticDocuments(count, edited=frozenset({count // 2})))
    changed = _apart(_build, source, store)
    return ScaleFigures(build, search, unchanged, changed)


def _write(path: Path, documents: SyntheticDocuments) -> None:
    with path.open("w", encoding="utf-8") as file:
        for document in documents:
            file.write(json.dumps(document) + "\n")


def _apart(step: Callable[..., _T], *given: Any) -> _T:
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as pool:
        return pool.submit(step, *given).result()


def _build(source: Path, place: str) -> BuildFigures:
    from packwise.packs.build import build_pack
    from packwise.stores.locate import open_store

    embedder, before = SyntheticEmbedder(), _written()
    started, cpu = time.perf_counter(), time.process_time()
    with _OwnPeak() as own:
        build_pack([str(source)], place, embedder=embedder)
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    after = _written()
    peak = peak_memory_bytes()
    with open_store(place) as store:
        passages = store.info().passages
    written = _grown(before, after)
    return BuildFigures(passages, round(seconds, 3), round(cpu, 3), peak, written, own.bytes)


class _OwnPeak:
    """The most memory in use inside a ``with`` block, without the pages of mapped files."""

    def __init__(self) -> None:
        self.bytes = memory_bytes(files=False)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> _OwnPeak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while self.bytes is not None and not self._ended.wait(_WATCH_SECONDS):
            self.bytes = max(self.bytes, memory_bytes(files=False) or 0)


def _search(place: str, asked: Sequence[str]) -> SearchFigures:
    import numpy as np

    from packwise.library import Library
    from packwise.stores.locate import open_store

    settings, embedder = Settings.load(query_cache=0), SyntheticEmbedder()
    before, own = peak_memory_bytes(), memory_bytes(files=False)
    started = time.perf_counter()
    with Library(open_store(place), settings=settings, embedder=embedder) as library:
        opened = time.perf_counter()
        library.search(asked[0], 10)
        first = time.perf_counter()
        for question in asked[1:_WARM_UP]:
            library.search(question, 10)
        cpu = time.process_time()
        rows = [_timings(library, question) for question in asked[_WARM_UP:]]
        cpu = 1000.0 * (time.process_time() - cpu) / len(rows) / _RUNS
        size = library.info().size_bytes
        own = _grown(own, memory_bytes(files=False))
    series = {name: [row.get(name, 0.0) for row in rows] for name in rows[0]}
    series["all but embed"] = [sum(row.values()) - row.get("embed", 0.0) for row in rows]
    memory = _grown(before, peak_memory_bytes())
    graphs = sorted(Path(place).glob(f"index/*/{GRAPH_FILE}"))
    if graphs:
        series[BARE] = _bare(graphs[-1].parent, asked[_WARM_UP:], embedder)
    latency = {
        name: (
            round(float(np.percentile(values, 50)), 3),
            round(float(np.percentile(values, 95)), 3),
        )
        for name, values in series.items()
    }
    return SearchFigures(
        round(opened - started, 3),
        round(first - opened, 3),
        round(cpu, 3),
        latency,
        memory,
        size,
        own,
    )


def _bare(folder: Path, asked: Sequence[str], embedder: SyntheticEmbedder) -> list[float]:
    """The milliseconds that usearch and tantivy take for ten passages each, question by question,
    the best of some runs."""
    import tantivy
    from usearch.index import Index

    graph = Index.restore(str(folder / GRAPH_FILE), view=True)
    assert graph is not None
    graph.expansion_search = EXPANSION_SEARCH
    best: list[float] = []
    with tempfile.TemporaryDirectory(prefix="packwise-scale-") as scratch:
        # tantivy writes a lock file into the folder that it opens.
        for path in (folder / KEYWORDS).iterdir():
            shutil.copy(path, scratch)
        index = tantivy.Index.open(scratch)
        searcher = index.searcher()
        for question in asked:
            vector, words = embedder.embed_query(question), terms(question, "en")
            times: list[float] = []
            for _ in range(_RUNS):
                started = time.perf_counter()
                graph.search(vector, 10, threads=1)
                queries = (
                    tantivy.Query.term_query(index.schema, "terms", word, "freq") for word in words
                )
                either = [(tantivy.Occur.Should, query) for query in queries]
                searcher.search(tantivy.Query.boolean_query(either), 10, count=False)
                times.append(1000.0 * (time.perf_counter() - started))
            best.append(min(times))
    return best


def _timings(library: Library, question: str) -> dict[str, float]:
    """The milliseconds of each stage, the best of some runs: other work on the machine should
    not count."""
    runs = [library.search(question, 10).trace.timings_ms() for _ in range(_RUNS)]
    return {name: min(run.get(name, 0.0) for run in runs) for name in runs[0]}


def _grown(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else after - before


def _written() -> int | None:
    """Bytes that this process has sent to the disk; only Linux counts them."""
    try:
        lines = Path("/proc/self/io").read_text().splitlines()
    except OSError:
        return None
    return int(dict(line.split(": ") for line in lines)["wchar"])


_WIDTH, _HEIGHT = 360, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 348, 34, 190
_COLOURS = ("#2a6f97", "#c8553d", "#588157", "#6d597a")
Line = tuple[str, Sequence[float]]


def growth_chart(figures: Sequence[ScaleFigures]) -> str:
    """The growth curves as an SVG of two panels with logarithmic axes."""
    sizes = [one.build.passages for one in figures]
    seconds: list[Line] = [
        ("build", [one.build.cpu_seconds for one in figures]),
        ("one changed document", [one.changed.cpu_seconds for one in figures]),
        ("unchanged", [one.unchanged.cpu_seconds for one in figures]),
    ]
    latency = [one.search.latency_ms["all but embed"] for one in figures]
    search: list[Line] = [
        ("median", [median for median, _ in latency]),
        ("95th percentile", [high for _, high in latency]),
        ("graph ranking, median", [one.search.latency_ms["graph"][0] for one in figures]),
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * _WIDTH} {_HEIGHT}"'
            ' font-family="system-ui, sans-serif" font-size="11" fill="#333">',
            f'<rect width="{2 * _WIDTH}" height="{_HEIGHT}" fill="#fff"/>',
            *_panel(0, "seconds of processor time", sizes, seconds),
            *_panel(_WIDTH, "milliseconds per search, without embedding", sizes, search),
            "</svg>\n",
        ]
    )


def _panel(offset: int, title: str, sizes: Sequence[int], lines: Sequence[Line]) -> list[str]:
    values = [max(value, 1e-3) for _, series in lines for value in series]
    low_x, high_x = _decades(sizes)
    low_y, high_y = _decades(values)

    def at(size: float, value: float) -> str:
        x = _LEFT + (math.log10(size) - low_x) / (high_x - low_x) * (_RIGHT - _LEFT)
        y = _BOTTOM - (math.log10(max(value, 1e-3)) - low_y) / (high_y - low_y) * (_BOTTOM - _TOP)
        return f"{x:.1f},{y:.1f}"

    parts = [f'<g transform="translate({offset} 0)">', f'<text x="{_LEFT}" y="20">{title}</text>']
    for power in range(low_y, high_y + 1):
        y = at(10**low_x, 10.0**power).split(",")[1]
        parts.append(f'<path d="M{_LEFT} {y}H{_RIGHT}" stroke="#ddd"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y}" text-anchor="end">{10.0**power:g}</text>')
    for power in range(low_x, high_x + 1):
        x = at(10.0**power, 10.0**low_y).split(",")[0]
        label = f"{10**power // 1000}k" if power >= 3 else str(10**power)
        parts.append(f'<text x="{x}" y="{_BOTTOM + 16}" text-anchor="middle">{label}</text>')
    for number, (name, series) in enumerate(lines):
        colour = _COLOURS[number]
        points = " ".join(at(size, value) for size, value in zip(sizes, series, strict=True))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}"/>')
        for point in points.split():
            x, y = point.split(",")
            parts.append(f'<circle cx="{x}" cy="{y}" r="2.5" fill="{colour}"/>')
        x, y = _LEFT + number % 2 * 150, _BOTTOM + 38 + number // 2 * 16
        parts.append(f'<text x="{x}" y="{y}" fill="{colour}">{escape(name)}</text>')
    return [*parts, "</g>"]


def _decades(values: Sequence[float]) -> tuple[int, int]:
    """The powers of ten around some values."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)
