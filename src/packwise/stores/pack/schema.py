"""The tables of ``pack.sqlite``: one SQL file per version, with the steps from the one before."""

from __future__ import annotations

import re
import sqlite3
import zlib
from collections.abc import Mapping
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from packwise.lazy_pattern import lazy_pattern

KNOWLEDGE_SCHEMA = 2
LAYOUT_SCHEMA = 3
CHECKSUM_SCHEMA = 4

CHECKED_COLUMNS = {
    "documents": "id, title, url, lang, source_hash, metadata",
    "passages": "document, position, section_path, first, past, content_hash, url, text, layout",
    "vectors": "vector",
}
"""What the checksum of a row covers, for each table that has them."""


class SchemaMigration(NamedTuple):
    """The statements that lead from the previous version to this one."""

    version: int
    statements: tuple[str, ...]


def _migration(version: int) -> SchemaMigration:
    text = Path(__file__).with_name("sql").joinpath(f"{version}.sql").read_text("utf-8")
    parts = re.sub(r"(?m)^--.*\n", "", text).split(";\n")
    return SchemaMigration(version, tuple(part.strip() for part in parts if part.strip()))


MIGRATIONS = tuple(_migration(version) for version in (1, 2, 3, 4, 5))


_AROUND_SIGNS = lazy_pattern(r" ?([(),]) ?")
_VERSIONS = "CREATE TABLE migrations (version INTEGER PRIMARY KEY, applied_at TEXT NOT NULL)"

Objects = Mapping[tuple[str, str], str]
"""The SQL of each table, index, view and trigger by its kind and name."""


def apply(connection: sqlite3.Connection, done: int, wanted: int) -> None:
    """Run the statements that lead from one version to another; 0 is an empty database."""
    connection.create_function("row_checksum", -1, row_checksum, deterministic=True)
    if done == 0:
        connection.execute(_VERSIONS)
    for migration in MIGRATIONS:
        if done < migration.version <= wanted:
            for statement in migration.statements:
                connection.execute(statement)


def objects(connection: sqlite3.Connection) -> Objects:
    """What a database has, however its statements are spaced. Indexes that SQLite makes itself
    have no SQL."""
    rows = connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
    return {
        (str(kind), str(name)): _AROUND_SIGNS.sub(r"\1", " ".join(str(sql).split()))
        for kind, name, sql in rows
    }


def expected(version: int) -> Objects:
    """What a pack of this version has."""
    return _expected(MIGRATIONS, version)


@lru_cache(maxsize=16)
def _expected(migrations: tuple[SchemaMigration, ...], version: int) -> Objects:
    with closing(sqlite3.connect(":memory:")) as connection:
        apply(connection, 0, version)
        return objects(connection)


def row_checksum(*values: Any) -> int:
    """CRC-32 of the values of a row. SQL has it under the same name."""
    parts: list[bytes] = []
    for value in values:
        kind = type(value)
        if kind is str:
            content = value.encode()
        else:
            content = value if kind is bytes else repr(value).encode()
        parts += (b"%s%d:" % (_kind_name(kind), len(content)), content)
    return zlib.crc32(b"".join(parts))


@lru_cache(maxsize=16)
def _kind_name(kind: type) -> bytes:
    return kind.__name__.encode()
