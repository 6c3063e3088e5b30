"""Packs as Kuzu databases, and back: for who works with the earlier system's tools."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from packwise.errors import NotAStore, UsageError
from packwise.packs.copying import CopyProgress, CopyReport, copy_store
from packwise.settings import Settings
from packwise.stores.kuzu.export import write_database
from packwise.stores.kuzu.store import create_or_open_kuzu
from packwise.stores.locate import open_store

FORMATS = ("kuzu",)


@dataclass(frozen=True, slots=True)
class ExportReport:
    """What was written, and where."""

    target: Path
    documents: int
    passages: int
    seconds: float


def export_pack(store: str, target: Path | None = None, *, replace: bool = False) -> ExportReport:
    """Write a store as a Kuzu database with the tables of the earlier system.

    Without ``target`` it goes beside the pack, under its name with ``.db``. An existing file
    is only replaced when asked to, and never when Packwise did not write it.
    """
    started = time.perf_counter()
    if target is None:
        if "://" in store or store.startswith("kuzu:"):
            raise UsageError("the export needs a file to go to", fix="--out FILE")
        target = Path(f"{store.rstrip('/')}.db")
    target = target.expanduser()
    if target.is_dir():
        raise UsageError(f"{target} is a folder", fix="name the file to write: --out FILE")
    if target.exists():
        _check_replaceable(target, replace)
    with closing(open_store(store)) as source:
        info = source.info()
        write_database(source, target)
    return ExportReport(target, info.documents, info.passages, time.perf_counter() - started)


def import_pack(
    database: str,
    out: str,
    *,
    embedder: str | None = None,
    settings: Settings | None = None,
    progress: CopyProgress | None = None,
) -> CopyReport:
    """Turn a Kuzu database, such as a ``pack.db`` of the earlier system, into a store.

    The vectors are taken as they are; ``embedder`` names the model they came from where the
    database does not say so, and is checked on a few of them.
    """
    source = database if database.startswith("kuzu:") else f"kuzu:{database}"
    return copy_store(source, out, embedder=embedder, settings=settings, progress=progress)


def _check_replaceable(target: Path, replace: bool) -> None:
    with closing(create_or_open_kuzu(target)) as there:
        state = there.state()
    if state is not None and not state.own:
        raise NotAStore(
            f"{target} is a pack of the earlier system, which is only read", fix="name another file"
        )
    if not replace:
        raise UsageError(f"{target} is there already", fix="add --replace, or name another file")
