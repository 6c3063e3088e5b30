"""``packwise copy``: copy a store to another place, including embeddings."""

from __future__ import annotations

from dataclasses import asdict

import click

from packwise.cli.console import clean, counted, json_option, print_json

embedder_option = click.option(
    "--embedder",
    default=None,
    metavar="NAME",
    help="The model of the vectors, if the store does not record it.",
)


@click.command()
@click.argument("source", metavar="STORE")
@click.argument("target", metavar="TARGET")
@click.option("--merge", is_flag=True, help="Keep the other documents of TARGET.")
@click.option("--force", is_flag=True, help="Also write documents that TARGET already has.")
@click.option("--no-verify", is_flag=True, help="Do not read the copy back and compare it.")
@click.option("--reembed", is_flag=True, help="Embed the passages again, with --embedder.")
@embedder_option
@json_option
def copy(
    source: str,
    target: str,
    merge: bool,
    force: bool,
    no_verify: bool,
    reembed: bool,
    embedder: str | None,
    as_json: bool,
) -> None:
    """Make TARGET contain what STORE contains.

    The two may be stores of any kind. Embeddings are copied, not computed again, unless
    --reembed asks for it: use it for packs whose embedder is not available. An interrupted
    copy continues where it stopped. The result is read back and compared.
    """
    from packwise.cli.progress import ProgressBars
    from packwise.packs.copying import copy_store

    with ProgressBars("copying", quiet=as_json) as bars:
        report = copy_store(
            source,
            target,
            merge=merge,
            force=force,
            verify=not no_verify,
            embedder=embedder,
            reembed=reembed,
            progress=bars,
        )
    if as_json:
        changes = asdict(report.changes)
        del changes["passages"]
        print_json(
            {
                "source": report.source,
                "target": report.target,
                "documents": changes,
                "passages": report.passages,
                "links": report.links,
                "reused": report.reused,
                "verified": report.verified,
                "seconds": round(report.seconds, 3),
            }
        )
        return
    checked = "read back and found the same" if report.verified else "not verified"
    click.echo(
        f"{clean(report.target)}: {counted(report.documents, 'document')},"
        f" {counted(report.passages, 'passage')}, {checked} ({report.seconds:.1f} s)"
    )
