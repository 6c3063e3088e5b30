"""Repairing a damaged pack with what its own database still holds.

Everything that follows from the documents is made again: indexes, links, ranks, names, the
manifest. The text of a passage comes back from its document. A document that is damaged itself
is removed and named, so that the next build reads it again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from packwise.errors import StoreDamaged, StoreMissing
from packwise.stores.durable import writing
from packwise.stores.pack.commit import resolve_links_again, write_filters
from packwise.stores.pack.database import check_pack, connect_reader, finished_state
from packwise.stores.pack.folder import PackFolder
from packwise.stores.pack.rows import expand, read_document, read_metadata
from packwise.stores.pack.schema import CHECKED_COLUMNS, row_checksum
from packwise.stores.pack.writer import PackWriter


@dataclass(frozen=True, slots=True)
class RepairReport:
    """What a repair did: passages whose text came back, and documents that had to go."""

    restored: int
    removed: tuple[str, ...]


def repair(path: str | Path) -> RepairReport:
    """Make a pack whole again. Raises ``StoreDamaged`` if its database cannot be read."""
    folder = PackFolder(Path(path))
    if not folder.path.is_dir():
        raise StoreMissing(f"there is no pack at {folder}", fix="packwise build SOURCE --out PACK")
    reader = connect_reader(folder)
    try:
        check_pack(reader, folder)
        embedder = finished_state(reader, folder).embedder
    except sqlite3.DatabaseError as error:
        raise _lost(folder, str(error)) from error
    finally:
        reader.close()
    with _RepairingWriter(folder, embedder) as writer:
        connection = writer.connection()
        with writing(folder.path):
            connection.create_function("row_checksum", -1, row_checksum, deterministic=True)
            connection.execute("BEGIN IMMEDIATE")
            restored = _restore_passages(connection)
            removed = tuple(sorted(set(_damaged_documents(connection))))
            connection.executemany("DELETE FROM documents WHERE id = ?", [(n,) for n in removed])
            _derive_again(connection)
        writer.rewrite()
    return RepairReport(restored, removed)


class _RepairingWriter(PackWriter):
    """A writer of a pack that may hold what a build cannot read."""

    def _begin(self, connection: sqlite3.Connection) -> None:
        self._about_to_change()
        try:
            connection.execute("REINDEX")
            damage = [row[0] for row in connection.execute("PRAGMA integrity_check(1)")]
        except sqlite3.DatabaseError as error:
            damage = [str(error)]
        if damage != ["ok"]:
            raise _lost(self._folder, damage[0])
        connection.execute("BEGIN IMMEDIATE")
        _replace_undecodable(connection)
        connection.execute("COMMIT")
        super()._begin(connection)


def _replace_undecodable(connection: sqlite3.Connection) -> None:
    """Write text that is not UTF-8 again as text that can be read. Its checksum then differs;
    a document with such a section or link, which have none, gets one that fits nothing."""
    wrong: list[tuple[str, tuple[object, ...]]] = []
    connection.text_factory = bytes
    try:
        for table in ("documents", "passages"):
            names = CHECKED_COLUMNS[table].split(", ")
            for key, *values in connection.execute(f"SELECT key, {', '.join(names)} FROM {table}"):
                wrong += [
                    (f"UPDATE {table} SET {name} = ? WHERE key = ?", (text, key))
                    for name, value in zip(names, values, strict=True)
                    if (text := _replaced(value)) is not None
                ]
        for table, columns in (("sections", "path, blocks"), ("links", "href, page, anchor, kind")):
            for key, *values in connection.execute(f"SELECT document, {columns} FROM {table}"):
                if any(_replaced(value) is not None for value in values):
                    wrong.append((f"DELETE FROM {table} WHERE document = ?", (key,)))
                    wrong.append(("UPDATE documents SET checksum = -1 WHERE key = ?", (key,)))
    finally:
        connection.text_factory = str
    for statement, values in wrong:
        connection.execute(statement, values)


def _replaced(value: object) -> str | None:
    """The value as text, if its bytes are not UTF-8."""
    text = value.decode(errors="replace") if isinstance(value, bytes) else ""
    return text if "\ufffd" in text and text.encode() != value else None


def _lost(folder: PackFolder, reason: str) -> StoreDamaged:
    return StoreDamaged(
        f"{folder.database} cannot be repaired: {' '.join(reason.split())}",
        fix=f"move {folder} away, and put back a copy or build it again",
    )


def _wrong(table: str) -> str:
    return f"{table}.checksum IS NOT row_checksum({CHECKED_COLUMNS[table]})"


def _restore_passages(connection: sqlite3.Connection) -> int:
    """Give damaged passages the text of their document; how many are right again."""
    rows = connection.execute(
        f"SELECT key, document, first, past FROM passages WHERE {_wrong('passages')}"
    ).fetchall()
    for key, document, first, past in rows:
        packed = connection.execute("SELECT text FROM documents WHERE key = ?", (document,))
        try:
            text = expand(packed.fetchone()[0])[first:past]
        except (ValueError, TypeError):
            continue
        connection.execute("UPDATE passages SET text = ? WHERE key = ?", (text, key))
    (left,) = connection.execute(
        f"SELECT count(*) FROM passages WHERE {_wrong('passages')}"
    ).fetchone()
    return len(rows) - left


def _damaged_documents(connection: sqlite3.Connection) -> Iterator[str]:
    for query in (
        f"SELECT id FROM documents WHERE {_wrong('documents')}",
        "SELECT id FROM documents WHERE key IN"
        f" (SELECT document FROM passages WHERE {_wrong('passages')})",
        "SELECT id FROM documents WHERE key IN (SELECT document FROM passages WHERE vector NOT IN"
        f" (SELECT key FROM vectors WHERE NOT ({_wrong('vectors')})))",
    ):
        yield from (str(name) for (name,) in connection.execute(query).fetchall())
    connection.execute(
        f"DELETE FROM vectors WHERE {_wrong('vectors')}"
        " AND key NOT IN (SELECT vector FROM passages)"
    )
    for (name,) in connection.execute("SELECT id FROM documents").fetchall():
        try:
            read_document(connection, name)
        except StoreDamaged:
            yield name


def _derive_again(connection: sqlite3.Connection) -> None:
    for table in ("document_metadata", "document_groups", "knowledge"):
        connection.execute(f"DELETE FROM {table}")
    for key, text in connection.execute("SELECT key, metadata FROM documents").fetchall():
        write_filters(connection, key, read_metadata(text))
    # A vector is found by the hash of its text, which the passages that use it have too.
    connection.execute(
        "UPDATE OR IGNORE vectors SET content_hash ="
        " (SELECT content_hash FROM passages WHERE vector = vectors.key)"
        " WHERE key IN (SELECT v.key FROM passages AS p JOIN vectors AS v ON v.key = p.vector"
        " WHERE p.content_hash <> v.content_hash)"
    )
    resolve_links_again(connection)
