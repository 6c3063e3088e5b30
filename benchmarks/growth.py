"""Writes docs/scale.md: how packs, PostgreSQL and Qdrant grow, and what 100 million passages take.

    python benchmarks/growth.py docs/scale.md [--pack 1k,10k,100k] [--servers 1k,10k]

Measures what `packwise bench scale` measures, with synthetic text and vectors, and the same on the
servers of the tests. Draws docs/growth.svg beside the page. Figures are kept in the work folder
and used again, so that sizes can be measured one by one; `--again` measures anew.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from packwise.evaluation.scale import (
    BARE,
    BuildFigures,
    ScaleFigures,
    SearchFigures,
    growth_chart,
    measure,
)
from packwise.evaluation.synthetic import SyntheticDocuments
from packwise.models.embedder import load_embedder
from packwise.settings import Settings, cache_folder

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

TARGET = 100_000_000
REPLICAS = 2
KEPT = "## From the shell"
WORKERS = 100
"""Cores of the cluster in the arithmetic."""

SAMPLE = 64
"""Passages that the embedder is timed with."""

_ROWS: tuple[tuple[str, Callable[[ScaleFigures], str]], ...] = (
    ("build, s (CPU)", lambda one: _seconds(one.build)),
    ("build, CPU ms per passage", lambda one: f"{_per_passage(one.build):.1f}"),
    ("peak memory of the build", lambda one: _mb(one.build.peak_bytes)),
    ("without mapped files", lambda one: _mb(one.build.own_peak_bytes)),
    ("one changed document, s (CPU)", lambda one: _seconds(one.changed)),
    ("written for it", lambda one: _mb(one.changed.written_bytes)),
    ("unchanged rebuild, s (CPU)", lambda one: _seconds(one.unchanged)),
    ("open, ms", lambda one: f"{1000 * one.search.open_seconds:.0f}"),
    ("first search, ms", lambda one: f"{1000 * one.search.first_query_seconds:.0f}"),
    ("search, p50 / p95 ms", lambda one: _pair(one, "all but embed")),
    ("search, CPU ms", lambda one: f"{one.search.cpu_ms:.1f}"),
    ("vector leg, p50 / p95 ms", lambda one: _pair(one, "vector")),
    ("keyword leg, p50 / p95 ms", lambda one: _pair(one, "keyword")),
    ("graph ranking, p50 / p95 ms", lambda one: _pair(one, "graph")),
    ("usearch and tantivy alone, p50 / p95 ms", lambda one: _pair(one, BARE)),
    ("search / usearch and tantivy, p50", lambda one: _ratio(one)),
    ("memory of searching", lambda one: _mb(one.search.memory_bytes)),
    ("without mapped files", lambda one: _mb(one.search.own_memory_bytes)),
)


@dataclass(frozen=True, slots=True)
class OnServer:
    """Figures of a store on a server, and the bytes that the server has on disk and in memory
    for it."""

    figures: ScaleFigures
    disk_bytes: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Server:
    """A running server: a place for a store, and what it has taken so far."""

    place: str
    disk: Callable[[], int]
    memory: Callable[[], int]


def main() -> None:
    """Measure what is missing, and write the page and the chart."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("page", type=Path)
    parser.add_argument("--pack", default="1k,10k,100k", help="sizes of packs")
    parser.add_argument("--servers", default="1k,10k", help="sizes on PostgreSQL and Qdrant")
    parser.add_argument("--queries", type=int, default=60)
    parser.add_argument("--work", type=Path, default=cache_folder() / "growth")
    parser.add_argument("--again", action="store_true")
    given = parser.parse_args()
    known = Known(given.work, again=given.again)
    packs = [known.pack(size, given.queries) for size in sizes(given.pack)]
    servers = {
        name: [known.server(name, size, given.queries) for size in sizes(given.servers)]
        for name in SERVERS
    }
    embedding = known.get("embedder", embedder_seconds)
    before = given.page.read_text(encoding="utf-8") if given.page.exists() else ""
    text = page(given, packs, servers, embedding) + kept_part(before)
    given.page.write_text(text, encoding="utf-8")
    chart = given.page.with_name("growth.svg")
    chart.write_text(growth_chart(packs), encoding="utf-8")


def sizes(text: str) -> list[int]:
    """Sizes such as 1k,10k."""
    return [int(part.replace("m", "000k").replace("k", "000")) for part in text.split(",") if part]


class Known:
    """Figures in a folder, measured when they are missing."""

    def __init__(self, folder: Path, *, again: bool) -> None:
        self._folder = folder
        self._again = again

    def pack(self, size: int, queries: int) -> ScaleFigures:
        """A pack of about so many passages."""

        def measured() -> Any:
            with tempfile.TemporaryDirectory(prefix="packwise-growth-") as scratch:
                return asdict(measure(size, Path(scratch), queries))

        return _figures(self.get(f"pack-{size}", measured))

    def server(self, name: str, size: int, queries: int) -> OnServer:
        """A store of about so many passages on a server of its own."""

        def measured() -> Any:
            with (
                tempfile.TemporaryDirectory(prefix="packwise-growth-") as scratch,
                SERVERS[name]() as server,
            ):
                disk, memory = server.disk(), server.memory()
                figures = measure(size, Path(scratch), queries, server.place)
                taken = server.disk() - disk, server.memory() - memory
                return asdict(OnServer(figures, *taken))

        found = self.get(f"{name}-{size}", measured)
        return OnServer(**{**found, "figures": _figures(found["figures"])})

    def get(self, name: str, measure_it: Callable[[], Any]) -> Any:
        """What is known under a name, or else measured now."""
        kept = self._folder / f"{name}.json"
        if self._again or not kept.exists():
            sys.stderr.write(f"measuring {name}\n")
            found = measure_it()
            self._folder.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(found), encoding="utf-8")
        return json.loads(kept.read_text(encoding="utf-8"))


def embedder_seconds() -> float:
    """CPU seconds that the default embedder takes per passage of the synthetic text."""
    embedder = load_embedder(Settings.load().embedder, Settings.load(threads=1))
    text = SyntheticDocuments(2)[0]["text"]
    spans = embedder.token_spans(text)
    length = spans[min(len(spans) - 1, Settings.load().passage_tokens)][1]
    texts = [text[at : at + length] for at in range(0, SAMPLE)]
    embedder.embed_passages(texts[:2])
    cpu = time.process_time()
    embedder.embed_passages(texts)
    return (time.process_time() - cpu) / len(texts)


@contextmanager
def qdrant() -> Iterator[Server]:
    """A Qdrant server with nothing in it."""
    from qdrant_server import Qdrant

    server = Qdrant()
    try:
        yield Server(
            f"qdrant+{server.url}/growth",
            lambda: _folder_bytes(server.folder / "storage"),
            lambda: _memory(server.process.pid),
        )
    finally:
        server.stop()


@contextmanager
def postgresql() -> Iterator[Server]:
    """A schema of a PostgreSQL server."""
    from postgres_servers import Schema, server

    schema, running = Schema(), server("plain")
    try:
        yield Server(
            schema.url,
            lambda: _folder_bytes(Path(running.data)),
            lambda: _memory(running.process.pid),
        )
    finally:
        schema.drop()


SERVERS = {"PostgreSQL": postgresql, "Qdrant": qdrant}


def kept_part(before: str) -> str:
    """What another benchmark prints about a start from the shell, at the end of the page."""
    at = before.find(KEPT)
    return f"\n{before[at:]}" if at >= 0 else ""


def page(
    given: argparse.Namespace,
    packs: Sequence[ScaleFigures],
    servers: Mapping[str, Sequence[OnServer]],
    embedding: float,
) -> str:
    """The page as Markdown."""
    parts = [
        OPENING.format(pack=given.pack, servers=given.servers),
        _table(packs, "on disk", [one.search.disk_bytes for one in packs]),
        READING,
    ]
    for name, found in servers.items():
        figures = [one.figures for one in found]
        disk = [one.disk_bytes for one in found]
        parts += [f"## {name}\n", _table(figures, "on the server's disk", disk)]
    parts.append(hundred_million(servers["Qdrant"][-1], embedding))
    return "\n".join(parts)


def hundred_million(largest: OnServer, embedding: float) -> str:
    """What a hundred million passages take, from what was measured at the largest size."""
    build, search = largest.figures.build, largest.figures.search
    passages = build.passages
    writing = build.cpu_seconds / passages
    disk, memory = largest.disk_bytes / passages, largest.memory_bytes / passages
    rows = [
        ("embedding, processor time per passage", f"{1000 * embedding:.0f} ms"),
        ("everything else in a build into Qdrant, per passage", f"{1000 * writing:.1f} ms"),
        (f"disk of one replica, per passage, at {passages:,}", f"{disk / 1000:.1f} kB"),
        (f"memory of one replica, per passage, at {passages:,}", f"{memory / 1000:.1f} kB"),
        ("search on one node, p50", f"{search.latency_ms['all but embed'][0]:.0f} ms"),
    ]
    cores = embedding * TARGET / 3600
    total = disk * REPLICAS * TARGET / 1e12
    ram = memory * REPLICAS * TARGET / 1e9
    lines = [HUNDRED_MILLION, "| measured here | |", "| --- | ---: |"]
    lines += [f"| {name} | {value} |" for name, value in rows]
    lines += [
        "",
        "| 100,000,000 passages | arithmetic | |",
        "| --- | --- | ---: |",
        f"| embedding, core-hours | {embedding:.3f} s x 100M / 3600 | {cores:,.0f} |",
        f"| on {WORKERS} cores of Ray | {cores:,.0f} / {WORKERS} | {cores / WORKERS:.0f} h |",
        f"| the one process that writes | {writing:.4f} s x 100M / 3600 |"
        f" {writing * TARGET / 3600:.0f} h |",
        f"| disk, {REPLICAS} replicas | {disk / 1000:.1f} kB x {REPLICAS} x 100M |"
        f" {total:.1f} TB |",
        f"| memory, {REPLICAS} replicas | {memory / 1000:.1f} kB x {REPLICAS} x 100M |"
        f" {ram:,.0f} GB |",
        "",
        LIMITS,
    ]
    return "\n".join(lines)


OPENING = """\
# Growth

`python benchmarks/growth.py docs/scale.md --pack {pack} --servers {servers}` measures how costs
grow with the number of passages and writes this page. `packwise bench scale` measures packs alone,
on your machine:

<!-- not run: a benchmark -->
```bash
packwise bench scale --passages 1k,10k --queries 60 --chart growth.svg
```

Documents and vectors are synthetic, so no model is needed and any size can be measured. Every size
is built, searched, built again without a change, and built again with one document changed, each in
a process of its own. A stage of a search counts with the best of three runs of each question. Above
5,000 passages, the same process also asks usearch and tantivy for ten passages each, without
Packwise. The machine had other work to do, so compare the columns, and processor time (CPU) rather
than the time on the clock.

![Processor time of a build, of one changed document and of an unchanged rebuild, and \
milliseconds per search, by number of passages](growth.svg)

## A pack
"""

READING = """\
- The processor time of a build per passage grows slowly: the tables of names outgrow SQLite's
  cache. Most of its memory is pages of the pack's files, which the system can take back; the rest
  grows by the vocabulary, the names and the vectors' graph.
- A search looks at a part of the pack that hardly grows with it. Graph ranking reads arrays that
  are mapped from a file (`names.bin`), not tables. Nearly all the memory of searching is pages of
  the pack's files, which processes share. The first search also checks the files of the index.
- Above 5,000 passages one changed document writes a segment beside the indexes instead of the
  indexes, see [the pack format](pack-format.md#segments). Most of its time is reading the one file
  that holds all documents.
"""

HUNDRED_MILLION = """\
## 100 million passages

Not measured: this is arithmetic on a Qdrant cluster with Ray, from what was measured above at the
largest size. It assumes that costs per passage stay as they are, which the tables support only up
to the sizes they show.
"""

LIMITS = """\
Ray's workers parse, chunk and embed, but one process stages and commits, so the longer of the two
times counts. The row of the writing process is an upper bound: it includes the parsing and
chunking that Ray takes over. Several stores, one per part of the corpus, can be written at once.
"""


def _table(figures: Sequence[ScaleFigures], disk_title: str, disk: Sequence[int]) -> str:
    heads = " | ".join(f"{one.build.passages:,}" for one in figures)
    lines = [f"| passages | {heads} |", f"| --- |{' ---: |' * len(figures)}"]
    lines += [f"| {name} | {' | '.join(map(show, figures))} |" for name, show in _ROWS]
    lines.append(f"| {disk_title} | {' | '.join(map(_mb, disk))} |\n")
    return "\n".join(lines)


def _seconds(build: BuildFigures) -> str:
    return f"{build.seconds:.1f} ({build.cpu_seconds:.1f})"


def _per_passage(build: BuildFigures) -> float:
    return 1000.0 * build.cpu_seconds / build.passages


def _pair(one: ScaleFigures, stage: str) -> str:
    if stage not in one.search.latency_ms:
        return "-"
    p50, p95 = one.search.latency_ms[stage]
    return f"{p50:.1f} / {p95:.1f}"


def _ratio(one: ScaleFigures) -> str:
    latency = one.search.latency_ms
    return f"{latency['all but embed'][0] / latency[BARE][0]:.1f}" if BARE in latency else "-"


def _mb(count: int | None) -> str:
    return "-" if count is None else f"{count / 1e6:.1f} MB"


def _figures(found: Mapping[str, Any]) -> ScaleFigures:
    builds = {name: BuildFigures(**found[name]) for name in ("build", "unchanged", "changed")}
    return ScaleFigures(search=SearchFigures(**found["search"]), **builds)


def _folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


def _memory(process: int) -> int:
    """What a process holds in memory; pages mapped from files, which can be dropped, are not
    counted."""
    lines = Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines()
    (value,) = (line.split()[1] for line in lines if line.startswith("RssAnon:"))
    return 1024 * int(value)


if __name__ == "__main__":
    main()
