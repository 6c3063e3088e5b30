"""A second pack with the same content: only what belongs to a pack, as of one moment."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from packwise.stores.durable import raise_if_full, sync_file
from packwise.stores.pack.checksums import write_checksums
from packwise.stores.pack.folder import PackFolder
from packwise.stores.pack.manifest import Manifest, prepare_manifest
from packwise.stores.pack.seal import SEAL
from packwise.stores.pack.store import open_pack


def copy_pack(source: Path, target: Path) -> None:
    """Copy a pack into a new folder. Links are left behind, and an index that this installation
    did not write is made again."""
    copy = PackFolder(target)
    target.mkdir(parents=True)
    with open_pack(source) as store, store.snapshot() as (connection, state):
        with closing(sqlite3.connect(copy.database)) as database:
            try:
                connection.backup(database)
            except sqlite3.Error as error:
                raise_if_full(target, error)
                raise
        sync_file(copy.database)
        PackFolder(source).copy_files(target)
        for folder, seal in store.sealed_parts(state.index):
            names = [*seal.files, SEAL]
            PackFolder(source).copy_index(int(folder.name), names, copy.indexes.path)
    prepare_manifest(copy, Manifest.of(state)).publish()
    with open_pack(target) as made:
        made.load_index()
    write_checksums(copy)
