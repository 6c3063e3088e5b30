"""``packwise build``: documents in, a pack out."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from packwise.cli.console import clean, err, out, print_json

if TYPE_CHECKING:
    from packwise.packs.build import BuildReport

_SHOWN_PROBLEMS = 20


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.option("--out", "target", required=True, metavar="PACK", help="The pack to make or renew.")
@click.option("--embedder", default=None, metavar="NAME", help="The embedder; see packwise models.")
@click.option("--dry-run", is_flag=True, help="Say what would be done; write nothing.")
@click.option("--force", is_flag=True, help="Read unchanged documents again, too.")
@click.option("--reembed", is_flag=True, help="Embed everything anew, with another embedder.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def build(
    sources: tuple[str, ...],
    target: str,
    embedder: str | None,
    dry_run: bool,
    force: bool,
    reembed: bool,
    as_json: bool,
) -> None:
    """Make PACK hold what the SOURCEs hold.

    A SOURCE is a file, a folder, a BEIR folder or `python:reference`. Building again
    costs only what has changed; a build that was stopped goes on where it was.
    """
    from packwise.cli.progress import BuildProgress
    from packwise.packs.build import build_pack

    with BuildProgress("reading" if dry_run else "building", quiet=as_json) as progress:
        report = build_pack(
            sources,
            target,
            embedder=embedder,
            force=force,
            reembed=reembed,
            dry_run=dry_run,
            progress=progress,
        )
    if as_json:
        print_json(as_dict(report))
    else:
        show(report)
    if report.problems:
        sys.exit(1)


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
    for reason, count in sorted(report.kept_out.items()):
        table.add_row(f"kept out: {reason}", f"{count:,}")
    for suffix, count in sorted(report.skipped.items()):
        table.add_row(f"skipped: {clean(suffix) or 'no suffix'}", f"{count:,}")
    table.add_row("seconds", f"{report.seconds:.1f}")
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
