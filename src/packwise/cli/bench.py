"""``packwise bench``: how fast this machine builds and searches."""

from __future__ import annotations

import shutil
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from packwise.cli.console import json_option, print_json, print_table, size
from packwise.errors import UsageError

if TYPE_CHECKING:
    from packwise.library import Library


_BARE_SAMPLE = 1500


@click.group()
def bench() -> None:
    """Measure speed on this machine."""


@bench.command("build")
@click.argument("source")
@click.option("--limit", default=0, metavar="N", help="Only the first N files of a folder.")
@click.option("--out", "keep", metavar="PACK", help="Keep the pack there.")
@json_option
def bench_build(source: str, limit: int, keep: str | None, as_json: bool) -> None:
    """Build SOURCE, compare with the embedder alone, then build it again unchanged.

    The embedder alone gets an even sample of the same texts, in the same run.
    """
    from packwise.cli.progress import ProgressBars
    from packwise.models.embedder import load_embedder
    from packwise.packs.build import build_pack
    from packwise.settings import Settings
    from packwise.stores.pack.store import open_pack

    settings = Settings.load()
    embedder = load_embedder(settings.embedder, settings)
    with tempfile.TemporaryDirectory(prefix="packwise-bench-") as scratch:
        taken = _first_files(Path(source), limit, Path(scratch) / "source") if limit else source
        target = keep or str(Path(scratch) / "pack")
        if Path(target).exists():
            raise UsageError(f"{target} already exists: building it would measure nothing")
        with ProgressBars("building", quiet=as_json) as progress:
            report = build_pack([str(taken)], target, settings=settings, progress=progress)
        peak = _peak_memory()
        with open_pack(Path(target)) as store:
            texts = [
                passage.indexed_text
                for document in store.documents()
                for _, passage in store.document_passages(document.id)
            ]
            info = store.info()
        sample = texts[:: max(1, len(texts) // _BARE_SAMPLE)]
        started = time.perf_counter()
        embedder.embed_passages(sample)
        bare = len(sample) / (time.perf_counter() - started)
        again = build_pack([str(taken)], target, settings=settings)
    figures = {
        "documents": info.documents,
        "passages": info.passages,
        "build_seconds": round(report.seconds, 2),
        "build_passages_per_second": round(info.passages / report.seconds, 2),
        "bare_embedder_passages_per_second": round(bare, 2),
        "ratio": round(info.passages / report.seconds / bare, 4),
        "share_of_build_spent_embedding": round(report.embedding_seconds / report.seconds, 4),
        "unchanged_rebuild_seconds": round(again.seconds, 3),
        "peak_memory_bytes": peak,
        "pack_bytes": info.size_bytes,
    }
    if as_json:
        print_json(figures)
        return
    print_table(
        f"building {source}",
        ("what", ">figure"),
        [
            ("documents, passages", f"{info.documents:,}, {info.passages:,}"),
            ("build", f"{figures['build_passages_per_second']:.1f} passages/s"),
            ("embedder alone", f"{figures['bare_embedder_passages_per_second']:.1f} passages/s"),
            ("build / embedder alone", f"{figures['ratio']:.1%}"),
            (
                "spent embedding",
                f"{figures['share_of_build_spent_embedding']:.1%}",
            ),
            ("unchanged rebuild", f"{figures['unchanged_rebuild_seconds']:.2f} s"),
            ("peak memory", size(peak)),
            ("pack size", size(info.size_bytes)),
        ],
        header=False,
    )


@bench.command("search")
@click.argument("store")
@click.option("--queries", "count", default=300, show_default=True, help="How many searches.")
@click.option("-k", default=10, show_default=True, help="Passages per search.")
@json_option
def bench_search(store: str, count: int, k: int, as_json: bool) -> None:
    """Time searches in STORE, stage by stage, with its own headings as questions."""
    import numpy as np

    from packwise.library import open_library
    from packwise.settings import Settings

    with open_library(store, settings=Settings.load(query_cache=0)) as library:
        questions = _questions(library, count)
        library.search(questions[0], k)
        rows = [library.search(question, k).trace.timings_ms() for question in questions]
        info = library.info()
    stages = list(dict.fromkeys(name for row in rows for name in row))
    series = {name: [row.get(name, 0.0) for row in rows] for name in stages}
    # The keyword leg runs while the question is embedded: it costs time only beyond that.
    series["all"] = [sum(row.values()) - row.get("keyword", 0.0) for row in rows]
    series["all but embed"] = [sum(row.values()) - row.get("embed", 0.0) for row in rows]
    figures = {
        name: {f"p{p}": round(float(np.percentile(values, p)), 3) for p in (50, 95, 99)}
        for name, values in series.items()
    }
    if as_json:
        result = {"passages": info.passages, "searches": len(questions), "latency_ms": figures}
        print_json(result)
        return
    title = f"{len(questions)} searches in {info.passages:,} passages, milliseconds"
    rows = [(name, *(f"{ms:.2f}" for ms in values.values())) for name, values in figures.items()]
    print_table(title, ("stage", ">p50", ">p95", ">p99"), rows)


def _questions(library: Library, count: int) -> list[str]:
    """Headings of the store's sections, spread evenly over its documents."""
    headings: list[str] = []
    for document in islice(library.store.documents(), 5000):
        passages = library.store.document_passages(document.id)
        headings.extend(dict.fromkeys(passage.heading for _, passage in passages))
        if len(headings) > 20 * count:
            break
    if not headings:
        raise UsageError("the store is empty: there is nothing to search")
    step = max(1, len(headings) // count)
    return headings[::step][:count]


def _first_files(folder: Path, limit: int, target: Path) -> Path:
    if not folder.is_dir():
        raise UsageError("--limit takes the first files of a folder", fix="name a folder")
    target.mkdir()
    for path in islice(sorted(p for p in folder.iterdir() if p.is_file()), limit):
        shutil.copy(path, target / path.name)
    return target


def _peak_memory() -> int:
    import resource
    import sys

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
