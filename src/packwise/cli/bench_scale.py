"""``packwise bench scale``: how costs grow with the size of a pack."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import click

from packwise.cli.console import json_option, print_json, print_table, size, write_file
from packwise.errors import UsageError

_FACTORS = {"": 1, "k": 1000, "m": 1_000_000}


@click.command("scale")
@click.option(
    "--passages",
    "given",
    default="1k,10k",
    show_default=True,
    metavar="SIZES",
    help="Sizes to measure, such as 1k,10k,100k.",
)
@click.option("--queries", default=200, show_default=True, help="Searches per size.")
@click.option("--chart", metavar="FILE", help="Write the growth curves as SVG.")
@json_option
def bench_scale(given: str, queries: int, chart: str | None, as_json: bool) -> None:
    """Measure how building and searching grow with the number of passages.

    Documents and vectors are synthetic: no model is loaded. Each size is built, searched, built
    again unchanged, and built again with one document changed. Above 5,000 passages a search is
    also compared with usearch and tantivy called without Packwise. A build takes a few
    milliseconds per passage and about 5 KB of disk.
    """
    from packwise.evaluation.scale import BARE, ScaleFigures, growth_chart, measure

    sizes = [_size(part) for part in given.split(",")]
    if queries < 1:
        raise UsageError("--queries is at least 1")
    found: list[ScaleFigures] = []
    for passages in sizes:
        with tempfile.TemporaryDirectory(prefix="packwise-scale-") as scratch:
            found.append(measure(passages, Path(scratch), queries))
    if chart:
        write_file(chart, growth_chart(found))
    if as_json:
        print_json([asdict(figures) for figures in found])
        return
    rows = [("passages", *(f"{one.build.passages:,}" for one in found))]
    for name, build in (
        ("build", [one.build for one in found]),
        ("unchanged", [one.unchanged for one in found]),
        ("one changed document", [one.changed for one in found]),
    ):
        rows.append((name, *(f"{one.seconds:.2f} s" for one in build)))
        rows.append(("  of the processor", *(f"{one.cpu_seconds:.2f} s" for one in build)))
        rows.append(("  peak memory", *(_bytes(one.peak_bytes) for one in build)))
        rows.append(("  without mapped files", *(_bytes(one.own_peak_bytes) for one in build)))
        rows.append(("  written", *(_bytes(one.written_bytes) for one in build)))
    rows.append(("on disk", *(size(one.search.disk_bytes) for one in found)))
    rows.append(("open", *(f"{one.search.open_seconds:.2f} s" for one in found)))
    rows.append(("first query", *(f"{one.search.first_query_seconds:.2f} s" for one in found)))
    rows.append(("memory of searching", *(_bytes(one.search.memory_bytes) for one in found)))
    own = (_bytes(one.search.own_memory_bytes) for one in found)
    rows.append(("  without mapped files", *own))
    rows.append(("processor time of a search", *(f"{one.search.cpu_ms:.2f} ms" for one in found)))
    for stage in found[-1].search.latency_ms:
        pairs = [one.search.latency_ms.get(stage, (0.0, 0.0)) for one in found]
        rows.append((f"{stage}, p50 / p95", *(f"{p50:.2f} / {p95:.2f} ms" for p50, p95 in pairs)))
    if any(BARE in one.search.latency_ms for one in found):
        ratios = [_ratio(one.search.latency_ms, BARE) for one in found]
        rows.append(("search / usearch and tantivy, p50", *ratios))
    headings = ("what", *(f">{part.strip()}" for part in given.split(",")))
    print_table("growth with the number of passages", headings, rows)


def _ratio(latency: Mapping[str, tuple[float, float]], bare: str) -> str:
    """How many times as long as without Packwise a search takes."""
    return f"{latency['all but embed'][0] / latency[bare][0]:.1f}" if bare in latency else "-"


def _bytes(count: int | None) -> str:
    return "-" if count is None else size(count)


def _size(text: str) -> int:
    match = re.fullmatch(r"([0-9]{1,6})([km]?)", text.strip().lower())
    if match is None or int(match[1]) == 0:
        raise UsageError(f"{text.strip()!r} is not a number of passages", fix="such as 1k,10k,100k")
    return int(match[1]) * _FACTORS[match[2]]
