"""``packwise pack``: show, check, install, export and remove packs."""

from __future__ import annotations

import sys
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import click

from packwise.cli.console import clean, json_option, print_json, print_table, size
from packwise.cli.copy import embedder_option
from packwise.stores.locate import pack_folder


@click.group()
def pack() -> None:
    """Show, check, install and remove packs."""


@pack.command()
@click.argument("pack")
@json_option
def info(pack: str, as_json: bool) -> None:
    """Show what PACK contains and what it was built with."""
    from packwise.stores.locate import open_store

    with closing(open_store(pack)) as store:
        found = store.info()
        top = sorted(store.documents(), key=lambda d: (-d.pagerank, d.id))[:5]
    if as_json:
        print_json({**asdict(found), "details": dict(found.details)})
        return
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
    print_table(found.location, ("what", "value"), rows, header=False)


@pack.command()
@click.argument("pack")
@json_option
def validate(pack: str, as_json: bool) -> None:
    """Check all of PACK; the exit code is 1 when something is wrong."""
    from packwise.stores.pack.store import validate as find_problems

    problems = find_problems(pack_folder(pack))
    if as_json:
        print_json({"pack": pack, "valid": not problems, "problems": problems})
    elif not problems:
        click.echo(f"{pack}: nothing wrong")
    for problem in () if as_json else problems:
        click.echo(f"packwise: {clean(problem)}", err=True)
    if problems:
        sys.exit(1)


@pack.command()
@click.argument("pack")
@click.option("--name", help="The name to install it under; by default its folder's name.")
@click.option("--replace", is_flag=True, help="Replace an installed pack of this name.")
def install(pack: str, name: str | None, replace: bool) -> None:
    """Install PACK, so that its name opens it from any folder."""
    from packwise.packs import installed

    folder = installed.install(Path(pack).expanduser(), name, replace=replace)
    click.echo(f'installed: packwise search {folder.name} "your question"')


@pack.command("list")
@json_option
def list_installed(as_json: bool) -> None:
    """List the installed packs."""
    from packwise.packs.installed import InstalledPack, installed_packs

    found = installed_packs()
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

    def cells(entry: InstalledPack) -> tuple[str, ...]:
        if entry.info is None:
            return entry.name, entry.problem, "", ""
        counts = f"{entry.info.documents:,}", f"{entry.info.passages:,}"
        return entry.name, *counts, size(entry.info.size_bytes)

    columns = ("name", ">documents", ">passages", ">size")
    print_table("installed packs", columns, map(cells, found))


@pack.command("export")
@click.argument("store", metavar="PACK")
@click.option("--to", "kind", type=click.Choice(["kuzu"]), required=True, help="The format.")
@click.option("--out", "target", metavar="FILE", help="The file to write; by default PACK.db.")
@click.option("--replace", is_flag=True, help="Replace a file that an earlier export wrote.")
def export(store: str, kind: str, target: str | None, replace: bool) -> None:
    """Write PACK as a Kuzu database, for Cypher and for the tools of agent-kgpacks."""
    from packwise.packs.exporting import export_pack

    file = Path(target) if target else None
    report = export_pack(store if file else str(pack_folder(store)), file, replace=replace)
    click.echo(
        f"{clean(str(report.target))}: {report.documents:,} documents,"
        f" {report.passages:,} passages; packwise search kuzu:{clean(str(report.target))}"
    )


@pack.command("import")
@click.argument("database", metavar="DATABASE")
@click.option("--out", "target", required=True, metavar="STORE", help="The store to create.")
@embedder_option
def import_(database: str, target: str, embedder: str | None) -> None:
    """Turn a Kuzu DATABASE, such as a pack.db of agent-kgpacks, into a pack."""
    from packwise.cli.progress import ProgressBars
    from packwise.packs.exporting import import_pack

    with ProgressBars("importing") as bars:
        report = import_pack(database, target, embedder=embedder, progress=bars)
    click.echo(
        f"{clean(target)}: {report.documents:,} documents, {report.passages:,} passages,"
        " read back and found the same"
    )


@pack.command()
@click.argument("name")
def remove(name: str) -> None:
    """Remove the installed pack NAME."""
    from packwise.packs import installed

    installed.remove(name)
    click.echo(f"removed {name}")


@pack.command()
@click.argument("pack")
@click.option("--out", default=".", metavar="FOLDER", help="Where to create the skill's folder.")
@click.option("--name", help="The skill's name; by default derived from the pack's.")
@click.option("--with-pack", is_flag=True, help="Copy the pack into the skill's folder.")
@click.option("--replace", is_flag=True, help="Replace a folder of this name.")
@json_option
def skill(
    pack: str, out: str, name: str | None, with_pack: bool, replace: bool, as_json: bool
) -> None:
    """Write a SKILL.md folder that lets an agent use PACK."""
    from packwise.packs.skill import write_skill

    folder = Path(out).expanduser()
    written = write_skill(pack, folder, name=name, with_pack=with_pack, replace=replace)
    if as_json:
        result = {"name": written.name, "folder": str(written.folder)}
        print_json({**result, "description": written.description})
    else:
        click.echo(f"wrote {written.folder / 'SKILL.md'}")
