"""``pack.sqlite``: opening it, its schema version, its state, and connections for readers.

A schema version is a row of ``migrations``. A reader accepts older packs, a build brings them
up to date, and a newer one needs an upgrade of packwise. A database may come from someone else:
its tables are compared with ours before anything is read from them.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from packwise.errors import NotAStore, StoreDamaged, StoreError, StoreMissing
from packwise.stores.checks import EmbedderIdentity
from packwise.stores.lifecycle import utc_now
from packwise.stores.pack import schema
from packwise.stores.pack.folder import DATABASE, PackFolder
from packwise.stores.pack.handles import Connection

APPLICATION_ID = 0x506B5773
_WAIT_SECONDS = 30.0
_CACHE_KB = 64 << 10
_LONGEST_VALUE = 512 << 20
_MOST_DIMENSIONS = 1 << 16

# SQLite forbids even closing a connection in a child of the process that opened it.
_inherited: list[list[_Lent]] = []


class Generation(NamedTuple):
    """One state of a pack; ``token`` differs between states with the same number."""

    number: int
    token: str
    dim: int
    passages: int

    @property
    def version(self) -> str:
        return f"{self.number}-{self.token}"


@dataclass(frozen=True, slots=True)
class PackState:
    """What the last finished build left; ``generation`` 0 when there was none."""

    generation: int
    token: str
    embedder: EmbedderIdentity
    documents: int
    passages: int
    links: int
    created_at: str
    updated_at: str

    @property
    def index(self) -> Generation:
        return Generation(self.generation, self.token, self.embedder.dim, self.passages)


def read_state(connection: sqlite3.Connection) -> PackState | None:
    """The state of a pack; ``None`` before its first build wrote anything."""
    row = connection.execute(
        "SELECT p.generation, p.token, e.name, e.version, e.dim, p.documents, p.passages,"
        " p.links, p.created_at, p.updated_at"
        " FROM pack AS p LEFT JOIN embedders AS e ON e.key = p.embedder"
    ).fetchone()
    if row is None:
        return None
    generation, token, name, version, dim, documents, passages, links, created, updated = row
    counts = documents, passages, links
    numbers, texts = [generation, *counts], [token, created, updated]
    if name is not None:
        numbers.append(dim)
        texts += [name, version]
    # SQLite keeps any value in any column.
    if not all(type(number) is int and 0 <= number < 1 << 60 for number in numbers) or not all(
        type(text) is str for text in texts
    ):
        raise StoreDamaged(
            "the table pack does not hold the state of a pack", fix="packwise pack verify PACK"
        )
    if name is None:
        return PackState(generation, token, EmbedderIdentity(), *counts, created, updated)
    if not 0 < dim <= _MOST_DIMENSIONS:
        raise StoreDamaged(f"the table embedders holds vectors of {dim} dimensions")
    embedder = EmbedderIdentity(name, version, dim)
    return PackState(generation, token, embedder, *counts, created, updated)


def finished_state(connection: sqlite3.Connection, folder: PackFolder) -> PackState:
    """The state after a finished build. Raises ``StoreMissing`` where none has finished."""
    state = read_state(connection)
    if state is None or state.generation == 0:
        raise _unfinished(folder)
    return state


def connect_reader(folder: PackFolder) -> sqlite3.Connection:
    """A connection that cannot write. Raises ``NotAStore`` on a file that is not a database,
    ``StoreError`` on a damaged one."""
    folder.check()
    database = folder.database
    if not database.exists():
        raise StoreMissing(
            f"there is no pack at {folder}", fix=f"packwise build SOURCE --out {folder}"
        )
    try:
        connection = _open(database, "mode=ro")
    except sqlite3.OperationalError as error:
        # WAL needs its two side files. Where they are missing and cannot be made, no one can
        # be writing either, so the file may be opened as immutable.
        log = database.with_name(f"{DATABASE}-wal")
        if log.exists() and log.stat().st_size > 0:
            raise StoreError(
                f"cannot read {database}: {error}", fix="make the folder readable and writable"
            ) from error
        try:
            connection = _open(database, "mode=ro&immutable=1")
        except sqlite3.OperationalError:
            raise StoreError(
                f"cannot read {database}: {_cannot_open(database, error)}",
                fix="check who may read it, and how many files are open",
            ) from error
        except sqlite3.DatabaseError as error:
            raise _unreadable(folder, error) from error
    except sqlite3.DatabaseError as error:
        raise _unreadable(folder, error) from error
    connection.execute("PRAGMA query_only = ON")
    return connection


def _cannot_open(database: Path, error: sqlite3.Error) -> str:
    """Why a file cannot be opened, which SQLite does not say. The file itself is left alone:
    see ``handles``."""
    try:
        os.close(os.open(database.parent, os.O_RDONLY))
    except OSError as reason:
        return reason.strerror or str(reason)
    return str(error) if os.access(database, os.R_OK) else os.strerror(errno.EACCES)


def connect_writer(folder: PackFolder) -> sqlite3.Connection:
    """A connection that writes durably; makes the database when there is none.

    A database that is not a pack's is left as it is: raises ``NotAStore``.
    """
    folder.check()
    try:
        connection = _open(folder.database, "mode=rwc")
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError as error:
        raise _unreadable(folder, error) from error
    try:
        if is_blank(connection):
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        else:
            check_schema(connection, folder)
        for setting in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
            connection.execute(f"PRAGMA {setting}")
        connection.execute("PRAGMA temp_store = MEMORY")
        # SQLite's 2 MB are too few for the index of names: 750,000 mentions take 1.8 times as long.
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KB}")
        # The writer empties the log itself, once it has seen which pages are in it.
        connection.execute("PRAGMA wal_autocheckpoint = 0")
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
        factory=Connection,
    )
    try:
        # SQLite opens lazily: it has locked nothing yet, and only a read shows what the file is.
        connection.count(database)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
        connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def deadline(connection: sqlite3.Connection, seconds: float) -> Generator[None]:
    """Interrupt what the connection does once the time is up.

    A progress handler would not do: SQLite counts the rows of a table in one step.
    """
    ended = threading.Event()

    def interrupt() -> None:
        waited = ended.wait(seconds)
        while not waited:
            connection.interrupt()
            waited = ended.wait(0.2)

    watching = threading.Thread(target=interrupt, daemon=True)
    watching.start()
    try:
        yield
    finally:
        ended.set()
        watching.join()


def tables(connection: sqlite3.Connection) -> frozenset[str]:
    """The names of the tables that are there."""
    rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    return frozenset(name for (name,) in rows)


def is_blank(connection: sqlite3.Connection) -> bool:
    """Whether the database was made but nothing was ever put into it."""
    return not schema.objects(connection)


def schema_version(connection: sqlite3.Connection) -> int:
    """The version of the tables; 0 for a database without any."""
    if "migrations" not in tables(connection):
        return 0
    return connection.execute("SELECT coalesce(max(version), 0) FROM migrations").fetchone()[0]


def check_pack(connection: sqlite3.Connection, folder: PackFolder) -> int:
    """The schema version of a pack that can be read here, else an error that says what to do."""
    if is_blank(connection):
        raise _unfinished(folder)
    return check_schema(connection, folder)


def check_schema(connection: sqlite3.Connection, folder: PackFolder) -> int:
    """The same for a database that is not blank. Tables, columns and indexes are those of its
    version, and there are no views and no triggers; nothing else is read before."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    found = schema.objects(connection)
    migrations = ("table", "migrations")
    if application != APPLICATION_ID or found.get(migrations) != schema.expected(0)[migrations]:
        raise _foreign(folder)
    version: Any = schema_version(connection)
    if type(version) is not int or version < 1:
        raise _foreign(folder)
    newest = schema.MIGRATIONS[-1].version
    if version > newest:
        raise StoreError(
            f"{folder} has schema version {version}, this packwise knows up to {newest}",
            fix="upgrade packwise",
        )
    expected = schema.expected(version)
    wrong = [key for key in {**expected, **found} if expected.get(key) != found.get(key)]
    if wrong:
        kind, name = min(wrong)
        raise NotAStore(
            f"{folder.database} does not have the tables of a pack: see its {kind} {name}",
            fix="do not use it, or move that file away",
        )
    return version


def migrations_missing(connection: sqlite3.Connection) -> bool:
    """Whether ``migrate`` has something to do."""
    return schema_version(connection) < schema.MIGRATIONS[-1].version


def migrate(connection: sqlite3.Connection) -> list[int]:
    """Bring the tables up to date in one transaction; the versions that were applied."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        done = schema_version(connection)
        missing = [migration for migration in schema.MIGRATIONS if migration.version > done]
        if done == 0:
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        schema.apply(connection, done, schema.MIGRATIONS[-1].version)
        for migration in missing:
            connection.execute(
                "INSERT INTO migrations (version, applied_at) VALUES (?, ?)",
                (migration.version, utc_now()),
            )
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return [migration.version for migration in missing]


def _unfinished(folder: PackFolder) -> StoreMissing:
    return StoreMissing(
        f"{folder} holds an unfinished build and no pack yet",
        fix=f"packwise build SOURCE --out {folder} goes on where it stopped",
    )


def _unreadable(folder: PackFolder, error: sqlite3.DatabaseError) -> StoreError:
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
    if code == sqlite3.SQLITE_NOTADB:
        return _foreign(folder)
    return StoreError(
        f"{folder.database} is damaged: {error}",
        fix=f"move {folder} away, and put back a copy or build it again",
    )


def _foreign(folder: PackFolder) -> NotAStore:
    return NotAStore(
        f"{folder.database} is not the database of a pack",
        fix="name another folder, or move that file away",
    )


class _Lent(NamedTuple):
    connection: sqlite3.Connection
    file: tuple[int, int] | None


class Connections:
    """Lends each caller a connection of its own and takes it back."""

    def __init__(self, folder: PackFolder) -> None:
        self._folder = folder
        self._idle: list[_Lent] = []
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._closed = False

    @contextmanager
    def snapshot(self) -> Generator[sqlite3.Connection]:
        """A connection that sees one state of the pack as long as it is held."""
        lent = self._take()
        try:
            lent.connection.execute("BEGIN")
            try:
                yield lent.connection
            finally:
                lent.connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            raise StoreError(
                f"cannot read {self._folder}: {error}",
                fix=f"packwise pack validate {self._folder}",
            ) from error
        finally:
            self._give_back(lent)

    def close(self) -> None:
        """Close what is idle now, and the rest as it comes back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for entry in idle:
            entry.connection.close()

    def _take(self) -> _Lent:
        file = self._file()
        with self._lock:
            if self._closed:
                raise StoreError(f"{self._folder} is closed", fix="open it again")
            if self._process != os.getpid():
                _inherited.append(self._idle)
                self._idle, self._process = [], os.getpid()
            while self._idle:
                entry = self._idle.pop()
                # Where the pack was replaced by another, the old file is still open here.
                if file is None or entry.file == file:
                    return entry
                entry.connection.close()
        connection = connect_reader(self._folder)
        try:
            check_pack(connection, self._folder)
        except sqlite3.DatabaseError as error:
            connection.close()
            raise _unreadable(self._folder, error) from error
        except BaseException:
            connection.close()
            raise
        return _Lent(connection, file)

    def _file(self) -> tuple[int, int] | None:
        try:
            status = self._folder.database.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def _give_back(self, entry: _Lent) -> None:
        with self._lock:
            if not self._closed:
                self._idle.append(entry)
                return
        entry.connection.close()
