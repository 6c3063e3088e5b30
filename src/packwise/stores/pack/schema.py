"""The tables of ``pack.sqlite``, their version, and how a connection is opened.

A schema version is a row of ``migrations``. A build brings an older pack up to date; a
reader takes any version from ``OLDEST_READABLE`` on; a newer one asks for an upgrade.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from packwise.errors import NotAStore, StoreError, StoreMissing

DATABASE = "pack.sqlite"
APPLICATION_ID = 0x506B5773
OLDEST_READABLE = 1
_WAIT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Migration:
    """The statements that lead from the version before to this one."""

    version: int
    statements: tuple[str, ...]


_FIRST = (
    """CREATE TABLE embedders (
        key INTEGER PRIMARY KEY,
        name TEXT NOT NULL,
        version TEXT NOT NULL,
        dim INTEGER NOT NULL,
        UNIQUE (name, version, dim)
    )""",
    # One row; generation 0 means that no build has been finished yet.
    """CREATE TABLE pack (
        only INTEGER PRIMARY KEY CHECK (only = 1),
        generation INTEGER NOT NULL,
        token TEXT NOT NULL,
        embedder INTEGER REFERENCES embedders (key),
        documents INTEGER NOT NULL,
        passages INTEGER NOT NULL,
        links INTEGER NOT NULL,
        created_at TEXT NOT NULL,
        updated_at TEXT NOT NULL
    )""",
    # text is zlib-compressed UTF-8: it is read rarely, a passage's own text often.
    """CREATE TABLE documents (
        key INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        title TEXT NOT NULL,
        url TEXT NOT NULL,
        lang TEXT NOT NULL,
        source_hash TEXT NOT NULL,
        metadata TEXT NOT NULL,
        text BLOB NOT NULL
    )""",
    # Apart from the documents: all ranks change with every build, the texts do not.
    """CREATE TABLE ranks (
        document INTEGER PRIMARY KEY REFERENCES documents (key) ON DELETE CASCADE,
        pagerank REAL NOT NULL
    )""",
    "CREATE INDEX documents_url ON documents (url) WHERE url <> ''",
    """CREATE TABLE document_metadata (
        document INTEGER NOT NULL REFERENCES documents (key) ON DELETE CASCADE,
        name TEXT NOT NULL,
        value TEXT NOT NULL,
        PRIMARY KEY (document, name)
    ) WITHOUT ROWID""",
    "CREATE INDEX document_metadata_value ON document_metadata (name, value, document)",
    """CREATE TABLE document_groups (
        document INTEGER NOT NULL REFERENCES documents (key) ON DELETE CASCADE,
        name TEXT NOT NULL,
        PRIMARY KEY (document, name)
    ) WITHOUT ROWID""",
    """CREATE TABLE sections (
        document INTEGER NOT NULL REFERENCES documents (key) ON DELETE CASCADE,
        position INTEGER NOT NULL,
        path TEXT NOT NULL,
        level INTEGER NOT NULL,
        first INTEGER NOT NULL,
        past INTEGER NOT NULL,
        blocks TEXT NOT NULL,
        PRIMARY KEY (document, position)
    ) WITHOUT ROWID""",
    # page is href without its fragment; target stays NULL while no document answers to it.
    """CREATE TABLE links (
        document INTEGER NOT NULL REFERENCES documents (key) ON DELETE CASCADE,
        position INTEGER NOT NULL,
        href TEXT NOT NULL,
        page TEXT NOT NULL,
        anchor TEXT NOT NULL,
        first INTEGER NOT NULL,
        kind TEXT NOT NULL,
        target INTEGER REFERENCES documents (key) ON DELETE SET NULL,
        PRIMARY KEY (document, position)
    ) WITHOUT ROWID""",
    "CREATE INDEX links_href ON links (href)",
    "CREATE INDEX links_page ON links (page)",
    "CREATE INDEX links_target ON links (target)",
    # vector is little-endian float16, L2-normalised before rounding.
    """CREATE TABLE vectors (
        key INTEGER PRIMARY KEY,
        content_hash TEXT NOT NULL,
        embedder INTEGER NOT NULL REFERENCES embedders (key),
        vector BLOB NOT NULL,
        UNIQUE (content_hash, embedder)
    )""",
    # AUTOINCREMENT: a key that was handed out never comes to mean another passage.
    """CREATE TABLE passages (
        key INTEGER PRIMARY KEY AUTOINCREMENT,
        document INTEGER NOT NULL REFERENCES documents (key) ON DELETE CASCADE,
        position INTEGER NOT NULL,
        section_path TEXT NOT NULL,
        first INTEGER NOT NULL,
        past INTEGER NOT NULL,
        content_hash TEXT NOT NULL,
        url TEXT,
        vector INTEGER NOT NULL REFERENCES vectors (key),
        text TEXT NOT NULL,
        UNIQUE (document, position)
    )""",
    "CREATE INDEX passages_vector ON passages (vector)",
    # payload is the document with its passages as compressed JSON.
    """CREATE TABLE staged (
        id TEXT PRIMARY KEY,
        source_hash TEXT NOT NULL,
        embedder INTEGER NOT NULL REFERENCES embedders (key),
        payload BLOB NOT NULL
    )""",
)

# What passages name. All of it follows from the texts, the titles, the links and the
# extractions by the rules named here; another name means that it has to be found anew.
_KNOWLEDGE = (
    """CREATE TABLE knowledge (
        only INTEGER PRIMARY KEY CHECK (only = 1),
        rules TEXT NOT NULL
    )""",
    # known: a passage surely names it, or a document, a fact or a relation is about it.
    """CREATE TABLE entities (
        key INTEGER PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        label TEXT NOT NULL,
        kind TEXT NOT NULL,
        description TEXT NOT NULL DEFAULT '',
        passages INTEGER NOT NULL DEFAULT 0,
        known INTEGER NOT NULL DEFAULT 0
    )""",
    # linked: only a link of the author's says so, no word of the text.
    """CREATE TABLE mentions (
        passage INTEGER NOT NULL REFERENCES passages (key) ON DELETE CASCADE,
        entity INTEGER NOT NULL REFERENCES entities (key) ON DELETE CASCADE,
        sure INTEGER NOT NULL,
        linked INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (passage, entity)
    ) WITHOUT ROWID""",
    "CREATE INDEX mentions_entity ON mentions (entity, passage)",
    # position 0 is the whole title.
    """CREATE TABLE aliases (
        entity INTEGER NOT NULL REFERENCES entities (key) ON DELETE CASCADE,
        document INTEGER NOT NULL REFERENCES documents (key) ON DELETE CASCADE,
        position INTEGER NOT NULL,
        PRIMARY KEY (entity, document)
    ) WITHOUT ROWID""",
    "CREATE INDEX aliases_document ON aliases (document, position)",
    """CREATE TABLE facts (
        passage INTEGER NOT NULL REFERENCES passages (key) ON DELETE CASCADE,
        position INTEGER NOT NULL,
        entity INTEGER NOT NULL REFERENCES entities (key) ON DELETE CASCADE,
        text TEXT NOT NULL,
        PRIMARY KEY (passage, position)
    ) WITHOUT ROWID""",
    "CREATE INDEX facts_entity ON facts (entity)",
    """CREATE TABLE relations (
        passage INTEGER NOT NULL REFERENCES passages (key) ON DELETE CASCADE,
        position INTEGER NOT NULL,
        source INTEGER NOT NULL REFERENCES entities (key) ON DELETE CASCADE,
        relation TEXT NOT NULL,
        target INTEGER NOT NULL REFERENCES entities (key) ON DELETE CASCADE,
        context TEXT NOT NULL,
        PRIMARY KEY (passage, position)
    ) WITHOUT ROWID""",
    "CREATE INDEX relations_source ON relations (source)",
    "CREATE INDEX relations_target ON relations (target)",
    # What a language model read in a passage, as JSON.
    """CREATE TABLE extractions (
        passage INTEGER PRIMARY KEY REFERENCES passages (key) ON DELETE CASCADE,
        payload TEXT NOT NULL
    )""",
)

KNOWLEDGE_SCHEMA = 2
MIGRATIONS: tuple[Migration, ...] = (
    Migration(1, _FIRST),
    Migration(KNOWLEDGE_SCHEMA, _KNOWLEDGE),
)


def now() -> str:
    """The time as stored: UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def connect_reader(folder: Path) -> sqlite3.Connection:
    """A connection that cannot write. Raises ``NotAStore`` on a file that is no database, and
    ``StoreError`` on a damaged one."""
    database = folder / DATABASE
    if not database.is_file():
        raise StoreMissing(
            f"there is no pack at {folder}", fix=f"packwise build SOURCE --out {folder}"
        )
    try:
        connection = _open(database, "mode=ro")
    except sqlite3.OperationalError as error:
        # WAL needs its two side files; where they are missing and cannot be made, nobody
        # can be writing either, and SQLite may be told so.
        log = database.with_name(f"{DATABASE}-wal")
        if log.exists() and log.stat().st_size > 0:
            raise StoreError(
                f"cannot read {database}: {error}", fix="make the folder readable and writable"
            ) from error
        connection = _open(database, "mode=ro&immutable=1")
    except sqlite3.DatabaseError as error:
        raise _unreadable(folder, error) from error
    connection.execute("PRAGMA query_only = ON")
    return connection


def connect_writer(folder: Path) -> sqlite3.Connection:
    """A connection that writes durably; makes the database when there is none.

    A database that is not a pack's is left as it is: raises ``NotAStore``.
    """
    try:
        connection = _open(folder / DATABASE, "mode=rwc")
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError as error:
        raise _unreadable(folder, error) from error
    try:
        if is_blank(connection):
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        else:
            check_schema(connection, folder)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA temp_store = MEMORY")
    except BaseException:
        connection.close()
        raise
    return connection


def _open(database: Path, options: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"file:{quote(str(database.absolute()))}?{options}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        timeout=_WAIT_SECONDS,
    )
    try:
        # SQLite opens lazily: only a read shows what the file is.
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def tables(connection: sqlite3.Connection) -> frozenset[str]:
    """The names of the tables that are there."""
    rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    return frozenset(name for (name,) in rows)


def is_blank(connection: sqlite3.Connection) -> bool:
    """Whether the database was made but nothing was ever put into it."""
    return not tables(connection)


def schema_version(connection: sqlite3.Connection) -> int:
    """The version of the tables; 0 for a database without any."""
    if "migrations" not in tables(connection):
        return 0
    return connection.execute("SELECT coalesce(max(version), 0) FROM migrations").fetchone()[0]


def check_schema(
    connection: sqlite3.Connection,
    folder: Path,
    migrations: Sequence[Migration] | None = None,
) -> int:
    """The schema version of a pack this program can read, else an error saying what to do."""
    migrations = MIGRATIONS if migrations is None else migrations
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    version = schema_version(connection)
    if application != APPLICATION_ID or version == 0:
        raise _foreign(folder)
    newest = migrations[-1].version
    if version > newest:
        raise StoreError(
            f"{folder} has schema version {version}, this packwise knows up to {newest}",
            fix="upgrade packwise",
        )
    if version < OLDEST_READABLE:
        raise StoreError(
            f"{folder} has schema version {version}, too old to read",
            fix=f"packwise build SOURCE --out {folder}",
        )
    return version


def migrate(
    connection: sqlite3.Connection, migrations: Sequence[Migration] | None = None
) -> list[int]:
    """Bring the tables up to date in one transaction; the versions that were applied."""
    migrations = MIGRATIONS if migrations is None else migrations
    connection.execute("BEGIN IMMEDIATE")
    try:
        done = schema_version(connection)
        todo = [migration for migration in migrations if migration.version > done]
        if done == 0:
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(
                "CREATE TABLE migrations (version INTEGER PRIMARY KEY, applied_at TEXT NOT NULL)"
            )
        for migration in todo:
            for statement in migration.statements:
                connection.execute(statement)
            connection.execute(
                "INSERT INTO migrations (version, applied_at) VALUES (?, ?)",
                (migration.version, now()),
            )
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return [migration.version for migration in todo]


def check_pack(connection: sqlite3.Connection, folder: Path) -> None:
    """Raise where a database is not that of a pack this program can read."""
    if is_blank(connection):
        raise unfinished(folder)
    check_schema(connection, folder)


def unfinished(folder: Path) -> StoreMissing:
    """What to say of a pack whose first build never came to its end."""
    return StoreMissing(
        f"{folder} holds an unfinished build and no pack yet",
        fix=f"packwise build SOURCE --out {folder} goes on where it stopped",
    )


def _unreadable(folder: Path, error: sqlite3.DatabaseError) -> StoreError:
    if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_CORRUPT:
        return _foreign(folder)
    return StoreError(
        f"{folder / DATABASE} is damaged: {error}",
        fix=f"move {folder} away, and put back a copy or build it again",
    )


def _foreign(folder: Path) -> NotAStore:
    return NotAStore(
        f"{folder / DATABASE} is not the database of a pack",
        fix="name another folder, or move that file away",
    )
