"""Packs as Kuzu databases and back, for use with the tools of agent-kgpacks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from packwise.errors import NotAStore, UsageError
from packwise.packs.copying import CopyReport, copy_store
from packwise.packs.progress import Progress
from packwise.stores.kuzu.export import write_database
from packwise.stores.kuzu.store import create_or_open_kuzu
from packwise.stores.locate import open_store


@dataclass(frozen=True, slots=True)
class ExportReport:
    """What was written, and where."""

    target: Path
    documents: int
    passages: int


def export_pack(store: str, target: Path | None = None, *, replace: bool = False) -> ExportReport:
    """Write a store as a Kuzu database with the tables of agent-kgpacks.

    By default the file is the pack's name with ``.db``, beside the pack. ``replace`` replaces
    an existing file, but never one that Packwise did not write.
    """
    if target is None:
        if "://" in store or store.startswith("kuzu:"):
            raise UsageError("the export needs a target file", fix="--out FILE")
        target = Path(f"{store.rstrip('/')}.db")
    target = target.expanduser()
    if target.is_dir():
        raise UsageError(f"{target} is a folder", fix="name the file to write: --out FILE")
    if target.exists():
        _check_replaceable(target, replace)
    with open_store(store) as source:
        info = source.info()
        write_database(source, target)
    return ExportReport(target, info.documents, info.passages)


def import_pack(
    database: str, out: str, *, embedder: str | None = None, progress: Progress | None = None
) -> CopyReport:
    """Turn a Kuzu database, such as a ``pack.db`` of agent-kgpacks, into a store.

    The vectors are copied as they are. ``embedder`` names their model when the database does
    not record it; it is checked on a few of them.
    """
    source = database if database.startswith("kuzu:") else f"kuzu:{database}"
    return copy_store(source, out, embedder=embedder, progress=progress)


def _check_replaceable(target: Path, replace: bool) -> None:
    with create_or_open_kuzu(target) as there:
        state = there.state()
    if state is not None and not state.own:
        raise NotAStore(
            f"{target} is an agent-kgpacks pack, which Packwise only reads", fix="name another file"
        )
    if not replace:
        raise UsageError(f"{target} already exists", fix="add --replace, or name another file")
