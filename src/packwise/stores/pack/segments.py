"""What changed since the whole indexes of a pack were written, small enough to be searched
beside them.

A segment holds every passage that came since, the keys of those that went, and the names of all
documents in which a name came or went. Each small commit writes it again from the one before; once
it is no longer small, whole indexes are written again (``index_writer``).
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from packwise.stores.pack.names import NAMES, NameTable, read_changed_names
from packwise.stores.pack.rows import stored_vectors
from packwise.stores.pack.vectors import FLAT_FILE, NO_ROWS, Half, Keys, map_vectors
from packwise.stores.term_table import Terms, TermTable

KEYS = "keys.i64"
REMOVED = "removed.i64"


class IndexChange(NamedTuple):
    """What one commit changes, by key: passages that it removes and adds, and the documents and
    entities whose names may differ; ``None`` where everything was found again."""

    removed: Keys
    added: Keys
    documents: Keys | None = None
    entities: Keys | None = None


@dataclass(frozen=True, slots=True)
class Segment:
    """The passages of ``keys`` (ascending) came, those of ``removed`` (ascending) went."""

    keys: Keys
    removed: Keys
    terms: TermTable
    vectors: Half
    names: NameTable

    @classmethod
    def empty(cls, dim: int) -> Segment:
        """Nothing has changed yet."""
        nothing = np.empty((0, dim), dtype="<f2")
        return cls(NO_ROWS, NO_ROWS, TermTable.of(()), nothing, NameTable.empty())

    @classmethod
    def open(cls, folder: Path, dim: int) -> Segment:
        """Map the files of a folder. Raises ``ValueError`` where they do not fit together."""
        keys = np.fromfile(folder / KEYS, dtype="<i8")
        removed = np.fromfile(folder / REMOVED, dtype="<i8")
        vectors = map_vectors(folder, len(keys), dim)
        return cls(keys, removed, TermTable.open(folder), vectors, NameTable.open(folder / NAMES))

    def passages(self, change: IndexChange) -> IndexChange:
        """The passages that came and went by this segment and one change more."""
        gone = np.setdiff1d(change.removed, self.keys)
        return IndexChange(
            np.union1d(self.removed, gone),
            np.concatenate([np.setdiff1d(self.keys, change.removed), np.sort(change.added)]),
        )

    def extended(
        self, connection: sqlite3.Connection, change: IndexChange, terms: Terms
    ) -> Segment:
        """The segment with one change more; ``terms`` are those of the passages it adds."""
        assert change.documents is not None
        assert change.entities is not None
        sums = self.passages(change)
        kept = ~np.isin(self.keys, change.removed)
        new = stored_vectors(connection, np.sort(change.added), self.vectors.shape[1])
        return replace(
            self,
            keys=sums.added,
            removed=sums.removed,
            terms=self.terms.changed(kept, TermTable.of(terms)),
            vectors=np.concatenate([self.vectors[kept], new]),
            names=read_changed_names(
                connection,
                np.union1d(self.names.documents, change.documents),
                np.union1d(self.names.entities, change.entities),
            ),
        )

    def write(self, folder: Path) -> None:
        """Write everything into a folder."""
        for name, keys in ((KEYS, self.keys), (REMOVED, self.removed)):
            (folder / name).write_bytes(keys.astype("<i8").tobytes())
        self.terms.write(folder)
        (folder / FLAT_FILE).write_bytes(self.vectors.tobytes())
        self.names.write(folder / NAMES)
