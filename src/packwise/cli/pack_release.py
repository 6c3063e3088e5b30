"""Packs as files: export, install, update, compare, sign, and where every passage comes from."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from packwise.cli.console import clean, counted, json_option, print_json, size
from packwise.documents import located
from packwise.errors import PackwiseError, UsageError
from packwise.stores.locate import pack_folder

if TYPE_CHECKING:
    from packwise.stores.base import Store


@click.command()
@click.argument("pack", metavar="PACK|FILE|URL")
@click.option("--name", help="The name to install it under; by default its own.")
@click.option("--replace", is_flag=True, help="Replace an installed pack of this name.")
@click.option("--key", metavar="PUBLIC", help="Refuse it unless this public key signed it.")
def install(pack: str, name: str | None, replace: bool, key: str | None) -> None:
    """Install a pack from its folder, a file of `pack export` or an https address.

    Its name then opens it from any folder. A file is checked completely before it takes its place:
    its record, its signature if it has one, and its content.
    """
    from packwise.packs import installed

    folder = installed.install(pack, name, replace=replace, key=key)
    click.echo(f'installed: packwise search {folder.name} "your question"')


@click.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
def update(names: tuple[str, ...]) -> None:
    """Install newer versions of packs; by default, of all that have one.

    A pack is read again from the file or address it was installed from, so publish it under a name
    without a version. A signed pack is replaced only by one signed with the same key.
    """
    from packwise.packs import installed

    wanted = names or tuple(p.name for p in installed.installed_packs() if p.origin and p.release)
    if not wanted:
        click.echo("no pack was installed from a file or address: packwise pack install FILE")
    failed: PackwiseError | None = None
    for name in wanted:
        try:
            before, after = installed.update(name)
        except PackwiseError as error:
            # The others may come from somewhere else.
            failed = error
            click.echo(f"{name}: {clean(str(error))}", err=True)
            continue
        changed = f"{before} -> {after}"
        click.echo(f"{name}: {changed if before != after else f'{after}, nothing newer there'}")
    if failed is not None:
        raise click.exceptions.Exit(failed.exit_code)


@click.command()
@click.argument("store", metavar="PACK")
@click.option(
    "--to", "kind", type=click.Choice(["pack", "kuzu"]), default="pack", help="The format."
)
@click.option("--out", "target", metavar="FILE", help="The file to write.")
@click.option("--replace", is_flag=True, help="Replace the file.")
@click.option("--version", help="The version of the release: MAJOR.MINOR.PATCH.")
@click.option("--license", help="The licence of the content, such as CC-BY-4.0.")
@click.option("--description", default="", help="One line about the content.")
@click.option("--name", help="The name to install it under; by default its folder's name.")
@click.option("--sign", "key", metavar="KEYFILE", type=Path, help="Sign it with this key.")
def export(
    store: str,
    kind: str,
    target: str | None,
    replace: bool,
    version: str | None,
    license: str | None,
    description: str,
    name: str | None,
    key: Path | None,
) -> None:
    """Write PACK as one file to give away, or as a Kuzu database.

    The file is named NAME-VERSION.pack by default; the same state of a pack always gives the same
    bytes. --to kuzu writes PACK.db, for Cypher and for the tools of agent-kgpacks.
    """
    file = Path(target).expanduser() if target else None
    if kind == "kuzu":
        _export_kuzu(store, file, replace)
        return
    from packwise.packs.pack_file import write_pack_file

    if version is None or license is None:
        raise UsageError(
            "a release needs a version and a licence", fix="--version 1.0.0 --license CC-BY-4.0"
        )
    written, release = write_pack_file(
        pack_folder(store),
        file,
        version=version,
        license=license,
        description=description,
        name=name,
        key=key,
        replace=replace,
    )
    click.echo(
        f"{clean(str(written))}: {counted(release.documents, 'document')},"
        f" {counted(release.passages, 'passage')}, {size(written.stat().st_size)};"
        f" content {release.content[:16]}"
    )


def _export_kuzu(store: str, file: Path | None, replace: bool) -> None:
    from packwise.packs.exporting import export_pack

    report = export_pack(store if file else str(pack_folder(store)), file, replace=replace)
    click.echo(
        f"{clean(str(report.target))}: {report.documents:,} documents,"
        f" {report.passages:,} passages; packwise search kuzu:{clean(str(report.target))}"
    )


@click.command()
@click.argument("one", metavar="A")
@click.argument("other", metavar="B")
@json_option
def diff(one: str, other: str, as_json: bool) -> None:
    """Show which documents were added, removed or changed from A to B, and where they changed.

    A and B are stores, or files of `pack export`. The exit code is 1 if they differ.
    """
    from packwise.packs.release import content_hash, difference

    with _opened(one) as before, _opened(other) as after:
        found = difference(before, after)
        hashes = content_hash(before), content_hash(after)
    if as_json:
        print_json({"a": hashes[0], "b": hashes[1], **asdict(found)})
    else:
        changed = tuple(located(name, found.places[name]) for name in found.changed)
        for mark, names in (("+", found.added), ("-", found.removed), ("~", changed)):
            for name in names:
                click.echo(f"{mark} {clean(name)}")
        click.echo(
            f"{len(found.added)} added, {len(found.removed)} removed, {len(found.changed)} changed,"
            f" {found.unchanged} unchanged; content {hashes[0][:16]} and {hashes[1][:16]}"
        )
    if hashes[0] != hashes[1]:
        raise click.exceptions.Exit(1)


@contextmanager
def _opened(argument: str) -> Generator[Store]:
    from packwise.packs.pack_file import SUFFIX, opened
    from packwise.stores.locate import open_store

    path = Path(argument).expanduser()
    if not (path.is_file() and path.suffix == SUFFIX):
        with open_store(argument) as store:
            yield store
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "pack"
        with opened(path) as file:
            file.unpack(folder)
        with open_store(str(folder)) as store:
            yield store


@click.command()
@click.argument("store", metavar="STORE")
@click.argument("document", required=False)
def provenance(store: str, document: str | None) -> None:
    """Print where each passage of STORE comes from, one line of JSON per passage.

    Each has its source with the lines, pages or rows it comes from ("notes/keys.md:12-19"), its
    document, address, the hash of its source, and its offsets in the text of the document.
    """
    from packwise.stores.locate import open_store

    with open_store(store) as opened:
        known = {found.id: found for found in opened.documents()}
        if document is not None and document not in known:
            raise UsageError(
                f"{store} has no document {document!r}", fix=f"packwise pack documents {store}"
            )
        for name in [document] if document else sorted(known):
            for _, passage in opened.document_passages(name):
                record = {
                    "passage": passage.id,
                    "source": located(passage.url or known[name].url or name, passage.place),
                    "document": name,
                    "title": known[name].title,
                    "url": passage.url or known[name].url,
                    "source_hash": known[name].source_hash,
                    "place": passage.place,
                    "start": passage.start,
                    "end": passage.end,
                    "content_hash": passage.content_hash,
                }
                click.echo(json.dumps(record))


@click.command()
@click.argument("file", metavar="KEYFILE", type=Path)
def key(file: Path) -> None:
    """Print the public key of KEYFILE; create it with a new key if it does not exist."""
    from packwise.packs import signing

    click.echo(signing.public_key(file) if file.exists() else signing.make_key(file))
