"""``packwise pack``: look at packs, check them, and keep them on the shelf."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from packwise.cli.console import clean, out, print_json, size
from packwise.stores.locate import pack_folder


@click.group()
def pack() -> None:
    """Look at, check, install and remove packs."""


@pack.command()
@click.argument("pack")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def info(pack: str, as_json: bool) -> None:
    """Say what PACK holds and what it was built with."""
    from dataclasses import asdict

    from packwise.stores.locate import open_store

    store = open_store(pack)
    try:
        found = store.info()
        top = sorted(store.documents(), key=lambda d: (-d.pagerank, d.id))[:5]
    finally:
        store.close()
    if as_json:
        print_json({**asdict(found), "details": dict(found.details)})
        return
    from rich.table import Table

    table = Table(title=clean(found.location), show_header=False)
    table.add_column("what")
    table.add_column("value", overflow="fold")
    rows = [
        ("kind", found.kind),
        ("version", found.version),
        ("documents", f"{found.documents:,}"),
        ("passages", f"{found.passages:,}"),
        ("links", f"{found.links:,}"),
        ("embedder", f"{found.embedder or 'not recorded'} ({found.dim} dimensions)"),
        ("embedder version", found.embedder_version or "not recorded"),
        ("size", size(found.size_bytes)),
        *found.details.items(),
    ]
    if found.links:
        rows.append(("most linked to", ", ".join(document.title for document in top)))
    for name, value in rows:
        table.add_row(name, clean(value))
    out().print(table)


@pack.command()
@click.argument("pack")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def validate(pack: str, as_json: bool) -> None:
    """Check PACK from end to end; exit 1 when something is wrong."""
    from packwise.stores.pack.store import validate as find_problems

    problems = find_problems(pack_folder(pack))
    if as_json:
        print_json({"pack": pack, "valid": not problems, "problems": problems})
    elif problems:
        for problem in problems:
            click.echo(f"packwise: {clean(problem)}", err=True)
    else:
        click.echo(f"{pack}: nothing wrong")
    if problems:
        sys.exit(1)


@pack.command()
@click.argument("pack")
@click.option("--name", default=None, help="The name to install it under; else its folder's.")
@click.option("--replace", is_flag=True, help="Replace an installed pack of that name.")
def install(pack: str, name: str | None, replace: bool) -> None:
    """Copy PACK onto the shelf, so that its name opens it from anywhere."""
    from packwise.packs import installed

    folder = installed.install(Path(pack).expanduser(), name, replace=replace)
    click.echo(f'installed: packwise search {folder.name} "your question"')


@pack.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def list_installed(as_json: bool) -> None:
    """List the installed packs."""
    from packwise.packs import installed

    found = installed.installed_packs()
    if as_json:
        print_json(
            [
                {
                    "name": entry.name,
                    "folder": str(entry.folder),
                    "documents": entry.info.documents if entry.info else None,
                    "passages": entry.info.passages if entry.info else None,
                    "problem": entry.problem,
                }
                for entry in found
            ]
        )
        return
    if not found:
        click.echo("no pack is installed: packwise pack install PACK")
        return
    from rich.table import Table

    table = Table(title="installed packs")
    for column in ("name", "documents", "passages", "size"):
        table.add_column(column, justify="left" if column == "name" else "right")
    for entry in found:
        info = entry.info
        if info is None:
            table.add_row(entry.name, clean(entry.problem), "", "")
        else:
            counts = (f"{info.documents:,}", f"{info.passages:,}", size(info.size_bytes))
            table.add_row(entry.name, *counts)
    out().print(table)


@pack.command("export")
@click.argument("store", metavar="PACK")
@click.option(
    "--to", "kind", type=click.Choice(["kuzu"]), required=True, help="What to write it as."
)
@click.option("--out", "target", default=None, metavar="FILE", help="Where; else PACK.db.")
@click.option("--replace", is_flag=True, help="Replace a file that an export wrote before.")
def export(store: str, kind: str, target: str | None, replace: bool) -> None:
    """Write PACK as a Kuzu database, for Cypher and for the earlier system's tools."""
    from packwise.packs.exporting import export_pack

    file = Path(target) if target else None
    report = export_pack(store if file else str(pack_folder(store)), file, replace=replace)
    click.echo(
        f"{clean(str(report.target))}: {report.documents:,} documents,"
        f" {report.passages:,} passages; packwise search kuzu:{clean(str(report.target))}"
    )


@pack.command("import")
@click.argument("database", metavar="DATABASE")
@click.option("--out", "target", required=True, metavar="STORE", help="The store to make.")
@click.option(
    "--embedder",
    default=None,
    metavar="NAME",
    help="The model behind its vectors, where DATABASE does not say so itself.",
)
def import_(database: str, target: str, embedder: str | None) -> None:
    """Turn a Kuzu DATABASE, such as a pack.db of the earlier system, into a pack."""
    from packwise.cli.copy import CopyBars
    from packwise.packs.exporting import import_pack

    with CopyBars() as bars:
        report = import_pack(database, target, embedder=embedder, progress=bars)
    click.echo(
        f"{clean(target)}: {report.documents:,} documents, {report.passages:,} passages,"
        " read back and found the same"
    )


@pack.command()
@click.argument("name")
def remove(name: str) -> None:
    """Take the installed pack NAME off the shelf."""
    from packwise.packs import installed

    installed.remove(name)
    click.echo(f"removed {name}")


@pack.command()
@click.argument("pack")
@click.option("--out", default=".", metavar="FOLDER", help="Where the skill's folder is made.")
@click.option("--name", default=None, help="The skill's name; else one made of the pack's.")
@click.option("--with-pack", is_flag=True, help="Copy the pack into the skill's folder.")
@click.option("--replace", is_flag=True, help="Replace a folder of that name.")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def skill(
    pack: str, out: str, name: str | None, with_pack: bool, replace: bool, as_json: bool
) -> None:
    """Write a SKILL.md folder with which an agent can use PACK."""
    from packwise.packs.skill import write_skill

    written = write_skill(
        pack, Path(out).expanduser(), name=name, with_pack=with_pack, replace=replace
    )
    if as_json:
        print_json(
            {
                "name": written.name,
                "folder": str(written.folder),
                "description": written.description,
            }
        )
        return
    click.echo(f"wrote {written.folder / 'SKILL.md'}")
