"""``packwise update``, ``add`` and ``watch``: packs that follow their sources."""

from __future__ import annotations

import time

import click

from packwise.cli.build import confirm_removal, finish, show
from packwise.cli.console import json_option, note
from packwise.errors import PackwiseError

_yes_option = click.option("--yes", is_flag=True, help="Do not ask before removing most documents.")


@click.command()
@click.argument("pack")
@click.option(
    "--forget",
    multiple=True,
    metavar="SOURCE",
    help="Remove this source and its documents; may be repeated.",
)
@click.option("--force", is_flag=True, help="Also read unchanged documents again.")
@_yes_option
@json_option
def update(pack: str, forget: tuple[str, ...], force: bool, yes: bool, as_json: bool) -> None:
    """Read the sources of PACK again and process what has changed.

    A pack remembers the sources of `packwise build` and `packwise add`. Documents that are gone
    from a source are removed.
    """
    from packwise.cli.progress import ProgressBars
    from packwise.packs.build import build_pack
    from packwise.packs.remembered_sources import sources_to_update, updatable_pack

    folder = updatable_pack(pack)
    sources = sources_to_update(folder, forget)
    with ProgressBars("updating", quiet=as_json) as progress:
        report = build_pack(
            sources,
            folder,
            force=force,
            progress=progress,
            confirm_removal=None if yes or forget else confirm_removal,
        )
    finish(report, as_json)


@click.command()
@click.argument("pack")
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@json_option
def add(pack: str, sources: tuple[str, ...], as_json: bool) -> None:
    """Add the documents of each SOURCE to PACK; what it contains stays.

    PACK remembers the new sources. A file inside a folder that PACK already has is read as part
    of that folder.
    """
    from packwise.cli.progress import ProgressBars
    from packwise.packs.build import build_pack
    from packwise.packs.remembered_sources import updatable_pack

    folder = updatable_pack(pack)
    with ProgressBars("adding", quiet=as_json) as progress:
        report = build_pack(sources, folder, add=True, progress=progress)
    finish(report, as_json)


@click.command()
@click.argument("pack")
@click.option(
    "--every",
    type=click.FloatRange(min=0.1),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="How often to look for changes.",
)
@_yes_option
def watch(pack: str, every: float, yes: bool) -> None:
    """Update PACK whenever a file of its sources changes, until interrupted.

    Web pages are not watched: `packwise update` fetches them. An update that would remove most
    documents is not made unless --yes is given.
    """
    from packwise.packs.build import build_pack
    from packwise.packs.remembered_sources import sources_to_update, updatable_pack
    from packwise.packs.watching import file_states

    folder = updatable_pack(pack)
    sources = sources_to_update(folder)
    watched = "one source" if len(sources) == 1 else f"{len(sources)} sources"
    note(f"watching {watched} of {pack}; stop with Ctrl-C", "dim")
    before: object = None
    while True:
        now = file_states(sources, folder)
        if now != before:
            before = now
            try:
                report = build_pack(
                    sources, folder, confirm_removal=None if yes else lambda removed, stored: False
                )
            except PackwiseError as error:
                # A source that is being written or a disk that is full may be fine next time.
                note(f"packwise: {error}", "red")
            else:
                if report.changes.added or report.changes.changed or report.changes.removed:
                    show(report)
        time.sleep(every)
