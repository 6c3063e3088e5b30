"""``packwise bench``: how fast this machine builds and searches."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Mapping
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from packwise.cli.bench_scale import bench_scale
from packwise.cli.console import embedder_option, json_option, print_json, print_table, size
from packwise.errors import UsageError
from packwise.machine import peak_memory_bytes

if TYPE_CHECKING:
    from packwise.library import Library


_BARE_SAMPLE = 1500


@click.group()
def bench() -> None:
    """Measure speed on this machine."""


bench.add_command(bench_scale)


@bench.command("build")
@click.argument("source")
@click.option("--limit", default=0, metavar="N", help="Only the first N files of a folder.")
@click.option("--out", "keep", metavar="PACK", help="Keep the pack there.")
@embedder_option
@json_option
def bench_build(
    source: str, limit: int, keep: str | None, embedder: str | None, as_json: bool
) -> None:
    """Build SOURCE, compare with the embedder alone, then build it again unchanged.

    The embedder alone gets an even sample of the same texts, in the same run.
    """
    from packwise.cli.progress import ProgressBars
    from packwise.models.embedder import load_embedder
    from packwise.packs.build import build_pack
    from packwise.settings import Settings
    from packwise.stores.pack.store import open_pack

    settings = Settings.load(embedder=embedder)
    model = load_embedder(settings.embedder, settings)
    with tempfile.TemporaryDirectory(prefix="packwise-bench-") as scratch:
        taken = _first_files(Path(source), limit, Path(scratch) / "source") if limit else source
        target = keep or str(Path(scratch) / "pack")
        if Path(target).exists():
            raise UsageError(f"{target} already exists: building it would measure nothing")
        with ProgressBars("building", quiet=as_json) as progress:
            report = build_pack([str(taken)], target, settings=settings, progress=progress)
        peak = peak_memory_bytes()
        with open_pack(Path(target)) as store:
            texts = [
                passage.indexed_text
                for document in store.documents()
                for _, passage in store.document_passages(document.id)
            ]
            info = store.info()
        sample = texts[:: max(1, len(texts) // _BARE_SAMPLE)]
        started = time.perf_counter()
        model.embed_passages(sample)
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
            ("spent embedding", f"{figures['share_of_build_spent_embedding']:.1%}"),
            ("unchanged rebuild", f"{figures['unchanged_rebuild_seconds']:.2f} s"),
            ("peak memory", size(peak) if peak else "not known"),
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
    """Time searches in STORE, stage by stage, with its own headings as questions.

    Processor time includes the embedding. Other work on the machine counts less in it than in
    the stages, which are timed by the clock.
    """
    from packwise.library import open_library
    from packwise.settings import Settings

    with open_library(store, settings=Settings.load(query_cache=0)) as library:
        questions = _questions(library, count)
        library.search(questions[0], k)
        rows: list[dict[str, float]] = []
        spent: list[float] = []
        for question in questions:
            started = time.process_time()
            rows.append(library.search(question, k).trace.timings_ms())
            spent.append(1000.0 * (time.process_time() - started))
        info = library.info()
    stages = list(dict.fromkeys(name for row in rows for name in row))
    series = {name: [row.get(name, 0.0) for row in rows] for name in stages}
    # The keyword leg runs while the question is embedded: it costs time only beyond that.
    series["all"] = [sum(row.values()) - row.get("keyword", 0.0) for row in rows]
    series["all but embed"] = [sum(row.values()) - row.get("embed", 0.0) for row in rows]
    series["processor time"] = spent
    figures = _percentiles(series)
    if as_json:
        result = {"passages": info.passages, "searches": len(questions), "latency_ms": figures}
        print_json(result)
        return
    title = f"{len(questions)} searches in {info.passages:,} passages, milliseconds"
    print_table(title, ("stage", ">p50", ">p95", ">p99"), _rows(figures))


@bench.command("context")
@click.argument("store")
@click.option("--questions", "count", default=100, show_default=True, help="How many contexts.")
@click.option("--budget", default=1000, show_default=True, help="Tokens per context.")
@json_option
def bench_context(store: str, count: int, budget: int, as_json: bool) -> None:
    """Time contexts from STORE with its own headings as questions.

    Each question is asked with every cache of Packwise empty (cold), packed again right after
    that (warm), and packed with the policy baseline, also cold. Times are processor times, so that
    other work on the machine counts for less.
    """
    import numpy as np

    from packwise.context.packer import pack
    from packwise.library import open_library
    from packwise.settings import Settings

    settings = Settings.load(query_cache=0)
    k, depth = settings.context_candidates, settings.context_depth
    spent: dict[str, list[float]] = {name: [] for name in ("search", "cold", "warm", "baseline")}
    with open_library(store, settings=settings) as library:
        run = partial(pack, store=library.store, settings=settings, budget=budget)
        questions = _questions(library, count)
        for question in (questions[0], *questions):
            for policy in (settings.packing_policy, "baseline"):
                _empty_caches()
                times = [time.process_time()]
                hits = library.search(question, k, depth=depth).hits
                times.append(time.process_time())
                for _ in ("cold", "warm"):
                    run(question, hits, policy=policy)
                    times.append(time.process_time())
                search, cold, warm = (1000.0 * (end - start) for start, end in pairwise(times))
                if policy == "baseline":
                    spent["baseline"].append(cold)
                else:
                    spent["search"].append(search)
                    spent["cold"].append(cold)
                    spent["warm"].append(warm)
    # The first question loads what every later one uses.
    search, cold, warm, baseline = (np.array(taken[1:]) for taken in spent.values())
    series = {
        "search": search,
        "packing, cold": cold,
        "packing, warm": warm,
        "packing, baseline": baseline,
        "context": search + cold,
        "context, baseline": search + baseline,
    }
    figures = _percentiles(series)
    slower = figures["context"]["p95"] / figures["context, baseline"]["p95"] - 1.0
    result = {
        "contexts": len(questions),
        "budget": budget,
        "cpu_ms": figures,
        "cold_over_warm": round(float(np.median(cold) / np.median(warm)), 3),
        "p95_over_baseline": round(slower, 4),
    }
    if as_json:
        print_json(result)
        return
    title = f"{len(questions)} contexts of {budget:,} tokens, milliseconds of processor time"
    rows = _rows(figures)
    rows.append(("cold / warm", f"{result['cold_over_warm']:.2f}", "", ""))
    rows.append(("context over baseline", "", f"{slower:+.1%}", ""))
    print_table(title, ("what", ">p50", ">p95", ">p99"), rows)


def _percentiles(series: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    import numpy as np

    return {
        name: {f"p{p}": round(float(np.percentile(values, p)), 3) for p in (50, 95, 99)}
        for name, values in series.items()
    }


def _rows(figures: Mapping[str, Mapping[str, float]]) -> list[tuple[str, ...]]:
    return [(name, *(f"{ms:.2f}" for ms in values.values())) for name, values in figures.items()]


def _empty_caches() -> None:
    """Empty the caches of results in Packwise's modules, not the models they have loaded."""
    import gc
    import sys

    for name, module in list(sys.modules.items()):
        for value in list(vars(module).values()) if name.startswith("packwise.") else ():
            parameters = getattr(value, "cache_parameters", None)
            if parameters is not None and parameters()["maxsize"] is not None:
                value.cache_clear()
    gc.collect()


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
