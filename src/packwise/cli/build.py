"""``packwise build``: documents in, a pack out."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from packwise.cli.console import clean, embedder_option, json_option, note, print_json, print_table
from packwise.errors import UsageError

if TYPE_CHECKING:
    from packwise.packs.build import BuildReport
    from packwise.packs.extraction import Estimate

_SHOWN_PROBLEMS = 20


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.option("--out", "target", required=True, metavar="PACK", help="The pack to build or update.")
@embedder_option
@click.option("--dry-run", is_flag=True, help="Show what would be done; write nothing.")
@click.option("--force", is_flag=True, help="Also read unchanged documents again.")
@click.option("--reembed", is_flag=True, help="Embed everything again, with another embedder.")
@click.option(
    "--extract",
    type=click.Choice(["claude"]),
    default=None,
    help="Let Claude extract entities, facts and relations; sends every passage.",
)
@click.option(
    "--engine",
    type=click.Choice(["here", "ray"]),
    default="here",
    show_default=True,
    help="Where to parse, chunk and embed: on this machine, or on a Ray cluster.",
)
@click.option(
    "--yes", is_flag=True, help="Do not ask before spending money or removing most documents."
)
@click.option(
    "--allow-secrets", is_flag=True, help="Also read documents that hold private keys or tokens."
)
@json_option
def build(
    sources: tuple[str, ...],
    target: str,
    embedder: str | None,
    dry_run: bool,
    force: bool,
    reembed: bool,
    extract: str | None,
    engine: str,
    yes: bool,
    allow_secrets: bool,
    as_json: bool,
) -> None:
    """Make PACK contain what the SOURCEs contain.

    A SOURCE is a file, a folder, a URL, a BEIR folder or `python:reference`. A URL that ends in
    / stands for every page below it; a sitemap for the pages it lists. Building again
    processes only what has changed; an interrupted build continues where it stopped. The pack
    remembers its sources: `packwise update PACK` reads them again, `packwise add PACK SOURCE`
    adds to them.
    """
    from packwise.cli.progress import ProgressBars
    from packwise.packs.build import build_pack
    from packwise.settings import Settings

    how: dict[str, Any] = {"embedder": embedder, "force": force, "reembed": reembed}
    if allow_secrets:
        how["settings"] = Settings.load(allow_secrets=True)
    if not yes:
        how["confirm_removal"] = confirm_removal
    with ExitStack() as stack:
        if extract:
            from packwise.packs.extraction import load_extractor

            how["extractor"] = stack.enter_context(load_extractor(extract))
            if not dry_run:
                with ProgressBars("reading", quiet=as_json) as progress:
                    plan = build_pack(sources, target, dry_run=True, progress=progress, **how)
                _confirm(plan.estimate, yes)
        with ProgressBars("reading" if dry_run else "building", quiet=as_json) as progress:
            if engine == "ray" and not dry_run:
                from packwise.packs.ray_build import build_on_ray

                report = build_on_ray(sources, target, progress=progress, **how)
            else:
                report = build_pack(sources, target, dry_run=dry_run, progress=progress, **how)
    finish(report, as_json)


def finish(report: BuildReport, as_json: bool) -> None:
    """Print a report; exit with 1 if something could not be read."""
    if as_json:
        print_json(as_dict(report))
    else:
        show(report)
    if report.problems:
        sys.exit(1)


def confirm_removal(removed: int, stored: int) -> bool:
    """Ask before a build removes most documents; without a terminal the answer is no."""
    question = f"This removes {removed:,} of {stored:,} documents. Go on?"
    return sys.stdin.isatty() and click.confirm(question, err=True)


def _confirm(estimate: Estimate | None, yes: bool) -> None:
    """Show what the extraction will cost, and ask unless ``yes``."""
    if estimate is None or not estimate.calls:
        return
    note(_price(estimate))
    if not yes and not click.confirm("Send them?", err=True):
        raise UsageError("nothing was sent and nothing was built", fix="--yes, or no --extract")


def _price(estimate: Estimate) -> str:
    new = estimate.passages - estimate.cached
    return (
        f"{new:,} passages go to {estimate.model} in {estimate.calls:,} calls: about "
        f"{estimate.input_tokens:,} tokens in and {estimate.output_tokens:,} out, "
        f"about ${estimate.dollars:.2f}"
    )


def as_dict(report: BuildReport) -> dict[str, Any]:
    """A report as ``build --json`` prints it."""
    from packwise.sources.readers import left_out

    changes = asdict(report.changes)
    passages = changes.pop("passages")
    extraction: dict[str, Any] | None = None
    if (cost := report.estimate or report.extraction) is not None:
        extraction = asdict(cost)
        extraction |= {**extraction.pop("usage", {}), "dollars": round(cost.dollars, 4)}
    return {
        "out": report.out,
        "dry_run": report.dry_run,
        "documents": changes,
        "passages": passages,
        "embedded": report.embedded,
        "reused": report.reused,
        "kept_out": dict(report.kept_out),
        "problems": [asdict(problem) for problem in report.problems],
        "warnings": [asdict(warning) for warning in report.warnings],
        "skipped": dict(report.skipped),
        "left_out": left_out(report.skipped),
        "seconds": round(report.seconds, 3),
        "embedding_seconds": round(report.embedding_seconds, 3),
        "extraction": extraction,
    }


def show(report: BuildReport) -> None:
    """Print a report for people."""
    from packwise.sources.readers import left_out

    changes, done = report.changes, report.extraction
    rows = [
        (f"documents {name}", f"{getattr(changes, name):,}")
        for name in ("added", "changed", "removed", "unchanged")
    ]
    rows.append(("passages to store" if report.dry_run else "passages", f"{changes.passages:,}"))
    if not report.dry_run:
        rows.append(("embedded", f"{report.embedded:,}"))
        if report.embedded and report.embedding_seconds:
            rate = report.embedded / report.embedding_seconds
            rows.append(("embedded per second", f"{rate:.1f}"))
    if done is not None:
        usage = done.usage
        rows += [
            ("entities extracted", f"{done.entities:,}"),
            ("facts extracted", f"{done.facts:,}"),
            ("relations extracted", f"{done.relations:,}"),
            ("calls", f"{usage.api_calls:,}"),
            ("tokens in and out", f"{usage.input_tokens:,} and {usage.output_tokens:,}"),
            ("dollars", f"{done.dollars:.4f}"),
        ]
    rows += [(f"kept out: {why}", f"{n:,}") for why, n in sorted(report.kept_out.items())]
    rows.append(("seconds", f"{report.seconds:.1f}"))
    if report.estimate is not None:
        note(_price(report.estimate))
    click.echo(f"{clean(report.out)}{': a dry run, nothing was written' if report.dry_run else ''}")
    print_table("", ("what", ">how many"), rows, header=False)
    for kind in left_out(report.skipped):
        note(f"left out: {kind}")
    for warning in report.warnings[:_SHOWN_PROBLEMS]:
        note(f"note: {warning}")
    for problem in report.problems[:_SHOWN_PROBLEMS]:
        note(f"not read: {problem}", "red")
    hidden = len(report.problems) - _SHOWN_PROBLEMS
    if hidden > 0:
        note(f"... and {hidden} more; --json lists them all", "red")
    if report.problems:
        note(f"packwise: {len(report.problems)} not read, the rest was built", "red")
