"""``packwise copy``: move a store to another place, embeddings and all."""

from __future__ import annotations

from types import TracebackType
from typing import Self

import click

from packwise.cli.console import clean, err, out, print_json


class CopyBars:
    """Shows a copy: documents written, then documents read back."""

    def __init__(self, *, quiet: bool = False) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
        from rich.progress import TimeElapsedColumn as Elapsed

        console = err()
        self._bars = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            Elapsed(),
            console=console,
            disable=quiet or not console.is_terminal,
        )
        self._copied = self._bars.add_task("copying", total=None)
        self._verified = self._bars.add_task("verifying", total=None, visible=False)

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self._bars.stop()

    def counted(self, documents: int) -> None:
        self._bars.update(self._copied, total=documents)
        self._bars.update(self._verified, total=documents)

    def document(self) -> None:
        self._bars.advance(self._copied)

    def committing(self) -> None:
        self._bars.update(self._copied, description="writing the indexes")

    def verified(self) -> None:
        self._bars.update(self._verified, visible=True)
        self._bars.advance(self._verified)


@click.command()
@click.argument("source", metavar="STORE")
@click.argument("target", metavar="TARGET")
@click.option("--merge", is_flag=True, help="Keep what else TARGET holds.")
@click.option("--force", is_flag=True, help="Write documents again that TARGET has already.")
@click.option("--no-verify", is_flag=True, help="Do not read the copy back and compare it.")
@click.option(
    "--embedder",
    default=None,
    metavar="NAME",
    help="The model behind STORE's vectors, where it does not say so itself.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def copy(
    source: str,
    target: str,
    merge: bool,
    force: bool,
    no_verify: bool,
    embedder: str | None,
    as_json: bool,
) -> None:
    """Make TARGET hold what STORE holds.

    Any two kinds of store will do. Embeddings are carried over, never made again; a copy
    that was stopped goes on where it was; the result is read back and compared.
    """
    from packwise.packs.copying import copy_store

    with CopyBars(quiet=as_json) as bars:
        report = copy_store(
            source,
            target,
            merge=merge,
            force=force,
            verify=not no_verify,
            embedder=embedder,
            progress=bars,
        )
    changes = report.changes
    if as_json:
        print_json(
            {
                "source": report.source,
                "target": report.target,
                "documents": {
                    "added": changes.added,
                    "changed": changes.changed,
                    "removed": changes.removed,
                    "unchanged": changes.unchanged,
                },
                "passages": report.passages,
                "links": report.links,
                "reused": report.reused,
                "verified": report.verified,
                "seconds": round(report.seconds, 3),
            }
        )
        return
    checked = "read back and found the same" if report.verified else "not verified"
    out().print(
        f"{clean(report.target)}: {report.documents:,} documents, {report.passages:,} passages,"
        f" {checked} ({report.seconds:.1f} s)"
    )
