"""``packwise build``: documents in, a pack out."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from packwise.cli.console import clean, err, out, print_json
from packwise.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packwise.packs.build import BuildReport
    from packwise.packs.extraction import Estimate, ExtractionReport

_SHOWN_PROBLEMS = 20


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.option("--out", "target", required=True, metavar="PACK", help="The pack to make or renew.")
@click.option("--embedder", default=None, metavar="NAME", help="The embedder; see packwise models.")
@click.option("--dry-run", is_flag=True, help="Say what would be done; write nothing.")
@click.option("--force", is_flag=True, help="Read unchanged documents again, too.")
@click.option("--reembed", is_flag=True, help="Embed everything anew, with another embedder.")
@click.option(
    "--extract",
    type=click.Choice(["claude"]),
    default=None,
    help="Have Claude read every passage for entities, facts and relations; sends them all.",
)
@click.option(
    "--engine",
    type=click.Choice(["here", "ray"]),
    default="here",
    show_default=True,
    help="Where to parse, chunk and embed: on this machine, or on a Ray cluster.",
)
@click.option("--yes", is_flag=True, help="Do not ask before what costs money.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
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
    as_json: bool,
) -> None:
    """Make PACK hold what the SOURCEs hold.

    A SOURCE is a file, a folder, a BEIR folder or `python:reference`. Building again
    costs only what has changed; a build that was stopped goes on where it was.
    """
    from packwise.cli.progress import BuildProgress
    from packwise.packs.build import build_pack

    how: dict[str, Any] = {"embedder": embedder, "force": force, "reembed": reembed}
    with ExitStack() as stack:
        if extract:
            from packwise.packs.extraction import load_extractor

            how["extractor"] = stack.enter_context(load_extractor(extract))
            if not dry_run:
                with BuildProgress("reading", quiet=as_json) as progress:
                    plan = build_pack(sources, target, dry_run=True, progress=progress, **how)
                _agree(plan, yes)
        with BuildProgress("reading" if dry_run else "building", quiet=as_json) as progress:
            if engine == "ray" and not dry_run:
                from packwise.packs.ray_build import build_on_ray

                report = build_on_ray(sources, target, progress=progress, **how)
            else:
                report = build_pack(sources, target, dry_run=dry_run, progress=progress, **how)
    if as_json:
        print_json(as_dict(report))
    else:
        show(report)
    if report.problems:
        sys.exit(1)


def _agree(plan: BuildReport, yes: bool) -> None:
    """Say what the extraction will cost, and ask unless that was settled before."""
    estimate = plan.estimate
    if estimate is None or not estimate.calls:
        return
    err().print(_price(estimate), style="yellow")
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
    """A report in the shape that ``build --json`` promises."""
    changes = report.changes
    return {
        "out": report.out,
        "dry_run": report.dry_run,
        "documents": {
            "added": changes.added,
            "changed": changes.changed,
            "removed": changes.removed,
            "unchanged": changes.unchanged,
        },
        "passages": changes.passages,
        "embedded": report.embedded,
        "reused": report.reused,
        "kept_out": dict(report.kept_out),
        "problems": [{"location": p.location, "reason": p.reason} for p in report.problems],
        "warnings": [{"location": p.location, "reason": p.reason} for p in report.warnings],
        "skipped": dict(report.skipped),
        "seconds": round(report.seconds, 3),
        "embedding_seconds": round(report.embedding_seconds, 3),
        "extraction": _extraction(report),
    }


def _extraction(report: BuildReport) -> dict[str, Any] | None:
    done, estimate = report.extraction, report.estimate
    if estimate is not None:
        return {
            "model": estimate.model,
            "passages": estimate.passages,
            "cached": estimate.cached,
            "calls": estimate.calls,
            "input_tokens": estimate.input_tokens,
            "output_tokens": estimate.output_tokens,
            "dollars": round(estimate.dollars, 4),
        }
    if done is None:
        return None
    return {
        "model": done.model,
        "passages": done.passages,
        "cached": done.cached,
        "failed": done.failed,
        "entities": done.entities,
        "facts": done.facts,
        "relations": done.relations,
        **done.usage.as_dict(),
        "dollars": round(done.dollars, 4),
    }


def show(report: BuildReport) -> None:
    """Print a report for people."""
    from rich.table import Table

    changes = report.changes
    table = Table(show_header=False)
    table.add_column("what")
    table.add_column("how many", justify="right")
    for name in ("added", "changed", "removed", "unchanged"):
        table.add_row(f"documents {name}", f"{getattr(changes, name):,}")
    if report.dry_run:
        table.add_row("passages to store", f"{changes.passages:,}")
    else:
        table.add_row("passages", f"{changes.passages:,}")
        table.add_row("embedded", f"{report.embedded:,}")
        if report.embedded and report.embedding_seconds:
            table.add_row("embedded a second", f"{report.embedded / report.embedding_seconds:.1f}")
    for name, value in _extraction_rows(report.extraction):
        table.add_row(name, value)
    for reason, count in sorted(report.kept_out.items()):
        table.add_row(f"kept out: {reason}", f"{count:,}")
    for suffix, count in sorted(report.skipped.items()):
        table.add_row(f"skipped: {clean(suffix) or 'no suffix'}", f"{count:,}")
    table.add_row("seconds", f"{report.seconds:.1f}")
    if report.estimate is not None:
        err().print(_price(report.estimate), style="yellow")
    click.echo(f"{clean(report.out)}{': a dry run, nothing was written' if report.dry_run else ''}")
    out().print(table)
    for warning in report.warnings[:_SHOWN_PROBLEMS]:
        err().print(f"note: {clean(str(warning))}", style="yellow")
    for problem in report.problems[:_SHOWN_PROBLEMS]:
        err().print(f"not read: {clean(str(problem))}", style="red")
    hidden = len(report.problems) - _SHOWN_PROBLEMS
    if hidden > 0:
        err().print(f"... and {hidden} more; --json lists them all", style="red")
    if report.problems:
        err().print(f"packwise: {len(report.problems)} not read, the rest was built", style="red")


def _extraction_rows(done: ExtractionReport | None) -> Iterator[tuple[str, str]]:
    if done is None:
        return
    for name in ("entities", "facts", "relations"):
        yield f"{name} extracted", f"{getattr(done, name):,}"
    usage = done.usage
    yield "calls", f"{usage.api_calls:,}"
    yield "tokens in and out", f"{usage.input_tokens:,} and {usage.output_tokens:,}"
    yield "dollars", f"{done.dollars:.4f}"
