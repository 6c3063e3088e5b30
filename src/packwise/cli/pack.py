"""``packwise pack``: show, check, install, export and remove packs."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from packwise.cli.console import clean, counted, json_option, print_json, print_table, size
from packwise.cli.copy import embedder_option
from packwise.cli.pack_release import diff, export, install, key, provenance, update
from packwise.stores.locate import pack_folder

if TYPE_CHECKING:
    from packwise.stores.base import StoreInfo


@click.group()
def pack() -> None:
    """Show, check, install and remove packs."""


@pack.command()
@click.argument("pack")
@click.option("--content-hash", "hashed", is_flag=True, help="Also compute the content hash.")
@json_option
def info(pack: str, hashed: bool, as_json: bool) -> None:
    """Show what PACK contains, what it was built with, and which release it is."""
    from packwise.packs.release import content_hash
    from packwise.stores.locate import open_store

    with open_store(pack) as store:
        found, spoken = store.info(), store.languages()
        content = content_hash(store) if hashed else ""
        top = sorted(store.documents(), key=lambda d: (-d.pagerank, d.id))[:5]
    if as_json:
        more = {"details": dict(found.details), "languages": dict(spoken)}
        record = {key: str(value) for key, value in _release_rows(pack, found, content)}
        print_json({**asdict(found), **more, "release": record})
        return
    rows = [
        *_release_rows(pack, found, content),
        ("kind", found.kind),
        ("content version", found.version),
        ("documents", f"{found.documents:,}"),
        ("passages", f"{found.passages:,}"),
        ("languages", _language_list(spoken)),
        ("links", f"{found.links:,}"),
        ("embedder", f"{found.embedder or 'not recorded'} ({found.dim} dimensions)"),
        ("embedder version", found.embedder_version or "not recorded"),
        ("size", size(found.size_bytes)),
        *(_labelled(name, value) for name, value in found.details.items()),
    ]
    if found.links:
        rows.append(("most linked to", ", ".join(document.title for document in top)))
    print_table(found.location, ("what", "value"), rows, header=False)


def _labelled(name: str, value: str) -> tuple[str, str]:
    """A detail of a store, which `--json` gives under its own name, as a row for a person."""
    if name.endswith("_bytes"):
        return f"{name.removesuffix('_bytes')} size", size(int(value))
    if name.endswith("_at"):
        return name.removesuffix("_at"), value.replace("T", " ").replace("+00:00", " UTC")
    return name.replace("_", " "), value


def _release_rows(pack: str, info: StoreInfo, content: str) -> list[tuple[str, str]]:
    """What a pack was released as; nothing for other stores and for packs that never were."""
    from packwise.packs.installed import signer
    from packwise.packs.release import release_of

    release = release_of(pack_folder(pack), info) if info.kind == "pack" else None
    shown = content or (release.content if release else "")
    rows = [("content", shown)] if shown else []
    if release is None:
        return rows
    signed = signer(pack_folder(pack), release)
    return [
        ("release", f"{release.name} {release.version}"),
        ("licence", release.license),
        *([("description", release.description)] if release.description else []),
        ("signed by", signed or "no one"),
        *rows,
    ]


@pack.command("documents")
@click.argument("pack")
@json_option
def list_documents(pack: str, as_json: bool) -> None:
    """List the documents of PACK."""
    from packwise.stores.locate import open_store

    with open_store(pack) as store:
        found = list(store.documents())
    if as_json:
        print_json(
            [{**asdict(document), "metadata": dict(document.metadata)} for document in found]
        )
        return
    rows = ((d.id, d.title, d.lang, f"{d.passages:,}") for d in found)
    print_table(pack, ("document", "title", "language", ">passages"), rows)


def _language_list(documents: Mapping[str, int]) -> str:
    """The languages of a store with their documents: "German 12, English 3"."""
    from packwise.language.languages import language_name

    named = (f"{language_name(code) or 'unknown'} {count:,}" for code, count in documents.items())
    return ", ".join(named) or "none"


@pack.command()
@click.argument("pack")
@json_option
def validate(pack: str, as_json: bool) -> None:
    """Check all of PACK; the exit code is 1 when something is wrong."""
    from packwise.packs.installed import release_problems
    from packwise.stores.pack.validation import validate as find_problems

    problems = find_problems(pack_folder(pack)) or release_problems(pack_folder(pack))
    if as_json:
        print_json({"pack": pack, "valid": not problems, "problems": problems})
    elif not problems:
        click.echo(f"{pack}: nothing wrong")
    for problem in () if as_json else problems:
        click.echo(f"packwise: {clean(problem)}", err=True)
    if problems:
        sys.exit(1)


pack.add_command(validate, "verify")
for command in (install, update, export, diff, provenance, key):
    pack.add_command(command)


@pack.command()
@click.argument("pack")
@json_option
def repair(pack: str, as_json: bool) -> None:
    """Repair PACK from what its database still holds, and name the documents that are lost."""
    from packwise.stores.pack.repair import repair as repair_pack

    report = repair_pack(pack_folder(pack))
    if as_json:
        print_json({"pack": pack, **asdict(report)})
        return
    click.echo(f"{clean(pack)}: repaired; {counted(report.restored, 'passage')} restored")
    for name in report.removed:
        click.echo(f"packwise: removed {clean(name)}, which is damaged: build it again", err=True)


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
                    "version": entry.release.version if entry.release else None,
                    "license": entry.release.license if entry.release else None,
                    "from": entry.origin or None,
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
            return entry.name, entry.problem, "", "", "", ""
        release = entry.release
        named = (release.version, release.license) if release else ("", "")
        counts = f"{entry.info.documents:,}", f"{entry.info.passages:,}"
        return entry.name, *named, *counts, size(entry.info.size_bytes)

    columns = ("name", "version", "licence", ">documents", ">passages", ">size")
    print_table("installed packs", columns, map(cells, found))


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
        f"{clean(target)}: {counted(report.documents, 'document')},"
        f" {counted(report.passages, 'passage')}, read back and found the same"
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
@click.option("--description", help="What the pack is about; by default made from its documents.")
@click.option("--with-pack", is_flag=True, help="Copy the pack into the skill's folder.")
@click.option("--replace", is_flag=True, help="Replace a folder of this name.")
@json_option
def skill(
    pack: str,
    out: str,
    name: str | None,
    description: str | None,
    with_pack: bool,
    replace: bool,
    as_json: bool,
) -> None:
    """Write a SKILL.md folder that lets an agent use PACK."""
    from packwise.packs.skill import write_skill

    folder = Path(out).expanduser()
    written = write_skill(
        pack, folder, name=name, description=description, with_pack=with_pack, replace=replace
    )
    if as_json:
        result = {"name": written.name, "folder": str(written.folder)}
        print_json({**result, "description": written.description})
    else:
        click.echo(f"wrote {written.folder / 'SKILL.md'}")
