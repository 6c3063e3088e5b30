"""Connections to a PostgreSQL database: its URL, and a pool that threads share.

psycopg comes with the extra ``packwise[postgres]`` and is imported where it is used.
"""

from __future__ import annotations

import logging
import os
import random
import re
import select
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from packwise.errors import StoreBusy, StoreError, UsageError
from packwise.stores.postgres.errors import (
    is_conflict,
    is_lost,
    translate,
    translated_errors,
)
from packwise.stores.postgres.schemas import SchemaPath, find_schema, take_search_path

if TYPE_CHECKING:
    import psycopg
    from psycopg_pool import ConnectionPool

    Connection = psycopg.Connection[tuple[Any, ...]]
    """A connection whose rows are tuples."""
else:
    Connection = Any

T = TypeVar("T")

_PASSWORD = re.compile(r"(\bpassword=)[^&]*")

_CONNECT_SECONDS = 10
_POLL_SECONDS = 0.05
"""How long a caller waits for a connection before it looks for a failure to connect."""
_RETRY_PAUSES = (0.0, 0.2, 0.8, 2.0)
"""Pauses before a read is tried again: as long as a server takes to restart."""
_CONFLICT_PAUSES = (0.01, 0.03, 0.1, 0.3, 1.0)
"""Pauses before a transaction is done again that lost to another one; each is drawn from 0.5 to
1.5 of these, so that two writers do not meet again."""

# A child process must not use, nor even close, the connections of its parent.
_inherited: list[Any] = []

# Failures reach the caller as errors; where logging is not set up, they are not printed too.
logging.getLogger("psycopg.pool").addHandler(logging.NullHandler())


def is_postgres(argument: str) -> bool:
    """Whether a STORE argument names a PostgreSQL database."""
    return argument.startswith(("postgresql://", "postgres://"))


def check_url(url: str) -> str:
    """The URL, if the driver is installed and can read it. Raises ``UsageError``."""
    if find_spec("psycopg") is None or find_spec("psycopg_pool") is None:
        raise UsageError(
            "PostgreSQL needs the drivers psycopg and psycopg_pool",
            fix="pip install 'packwise[postgres]'",
        )
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    fix = "write postgresql://user@host:port/database"
    if not is_postgres(url):
        raise UsageError(f"{hide_password(url)!r} is not a PostgreSQL URL", fix=fix)
    try:
        conninfo_to_dict(url)
        parts = urlsplit(url)
        if "," not in parts.netloc:
            _ = parts.port  # raises ValueError unless it is a number
    except (ProgrammingError, ValueError) as error:
        # The driver quotes what it could not read, which may contain the password.
        reason = f": {error}" if isinstance(error, ValueError) else ""
        raise UsageError(
            f"{hide_password(url)!r} is not a URL that PostgreSQL can read{reason}", fix=fix
        ) from None
    return url


def hide_password(url: str) -> str:
    """The URL without its password."""
    scheme, separator, rest = url.partition("://")
    address, question, options = rest.partition("?")
    account, at, host = address.rpartition("@")
    user, options = account.partition(":")[0], _PASSWORD.sub(r"\1***", options)
    return f"{scheme}{separator}{user}{at}{host}{question}{options}"


def database_identity(url: str) -> tuple[str, ...]:
    """Host, port, user, session options and database of a URL: what decides its tables."""
    from psycopg.conninfo import conninfo_to_dict

    named = conninfo_to_dict(check_url(url))
    defaults = {"host": "", "port": "5432", "user": "", "options": ""}
    values = (str(named.get(name) or default) for name, default in defaults.items())
    return (*values, str(named.get("dbname") or named.get("user") or "postgres"))


class PostgresPool:
    """Lends each caller a connection and takes it back; safe to use from several threads.

    ``configure`` is called with every new connection, in autocommit. Neither it nor the work may
    leave anything behind in a session: a pooler lends the same session to others. A wrong
    password or a server that is down is an error at once, and a broken connection is never lent
    again.
    """

    def __init__(
        self,
        url: str,
        *,
        size: int = 8,
        wait: float = 30.0,
        configure: Callable[[Connection], None] | None = None,
    ) -> None:
        self.location = hide_password(url)
        self._connector = _Connector(check_url(url), configure)
        self._size = size
        self._wait = wait
        self._lock = threading.Lock()
        self._pool: ConnectionPool[Connection] | None = None
        self._process = os.getpid()
        self._closed = False
        self._path: SchemaPath | None = None

    def schema_path(self, connection: Connection) -> SchemaPath:
        """The schema of this URL's tables, whether or not it exists."""
        path = self._path or find_schema(connection, self._connector.schemas)
        if path.exists and path.extensions:
            self._path = path
        return path

    def run(self, work: Callable[[Connection], T], *, retry: bool = True) -> T:
        """What ``work`` returns for a connection.

        Work that the server rolled back because of other writers is done again. With ``retry``,
        so is work whose connection broke: only for work that changes nothing.
        """
        import psycopg

        pauses, conflicts = iter(_RETRY_PAUSES), iter(_CONFLICT_PAUSES)
        lost = False
        while True:
            try:
                with self.lend() as connection:
                    return work(connection)
            except psycopg.Error as error:
                # A server that never answered is down; one that broke off may come back.
                lost = lost or is_lost(error)
                again = retry and lost and isinstance(error, psycopg.OperationalError)
                pause = next(pauses, None) if again else None
                if is_conflict(error):
                    pause = next(conflicts, None)
                    pause = None if pause is None else pause * random.uniform(0.5, 1.5)
                if pause is None:
                    raise translate(error, self.location) from error
                time.sleep(pause)

    def dedicated(self) -> Connection:
        """A connection outside the pool, in autocommit; the caller closes it."""
        with translated_errors(self.location):
            return self._connector.connect()

    def shares_session(self, connection: Connection) -> bool:
        """Whether a pooler lends the session of a connection to others too, as in transaction
        mode. Then the connection can hold neither a lock nor a search path."""
        if not is_pooled(connection):
            return False
        with closing(self.dedicated()) as other:
            return any(_session(connection) == _session(other) for _ in range(5))

    def close(self) -> None:
        """Close the idle connections now, and the others when they are returned."""
        with self._lock:
            self._closed = True
            pool, own = self._pool, self._process == os.getpid()
        if pool is not None and own:
            pool.close(timeout=1.0)

    @contextmanager
    def lend(self) -> Generator[Connection]:
        """A connection for the length of a ``with`` block; raises the driver's errors."""
        pool = self._opened()
        connection = self._take(pool)
        try:
            yield connection
        finally:
            pool.putconn(connection)

    def _opened(self) -> ConnectionPool[Connection]:
        from psycopg_pool import ConnectionPool

        with self._lock:
            if self._closed:
                raise StoreError(f"{self.location} is closed", fix="open it again")
            if self._pool is not None and self._process != os.getpid():
                _inherited.append(self._pool)
                self._pool = None
            if self._pool is None:
                self._process = os.getpid()
                self._pool = ConnectionPool(
                    connection_class=self._connector.connection_class(),
                    min_size=0,
                    max_size=self._size,
                    num_workers=1,
                    reconnect_timeout=0,
                    open=True,
                )
            return self._pool

    def _take(self, pool: ConnectionPool[Connection]) -> Connection:
        """Wait for a connection, or until connecting fails: the pool connects in the background
        and does not report errors."""
        from psycopg_pool import PoolClosed, PoolTimeout

        failures = self._connector.failures
        deadline = time.monotonic() + self._wait
        while True:
            try:
                connection = pool.getconn(_POLL_SECONDS)
            except PoolClosed:
                raise StoreError(f"{self.location} is closed", fix="open it again") from None
            except PoolTimeout:
                if self._connector.failures != failures:
                    raise self._connector.last_error from None
                if time.monotonic() < deadline:
                    continue
                raise StoreBusy(
                    f"all {self._size} connections to {self.location} were in use for"
                    f" {self._wait:g} seconds",
                    fix="send fewer requests at a time, or open it with a larger pool",
                ) from None
            if not _is_stale(connection):
                return connection
            connection.close()
            pool.putconn(connection)


class _Connector:
    """Opens connections, and keeps the last failure for callers who wait for one."""

    def __init__(self, url: str, configure: Callable[[Connection], None] | None) -> None:
        from psycopg.conninfo import conninfo_to_dict, make_conninfo

        defaults = {"connect_timeout": _CONNECT_SECONDS, "application_name": "packwise"}
        named: dict[str, Any] = {**defaults, **conninfo_to_dict(url)}
        self.schemas = take_search_path(named)
        self._conninfo = make_conninfo("", **named)
        self._configure = configure
        self.failures = 0
        self.last_error: Exception = StoreError("no connection was tried")

    def connect(self) -> Connection:
        """A new connection, configured."""
        import psycopg

        connection: Connection | None = None
        try:
            connection = psycopg.connect(self._conninfo, autocommit=True)
            if is_pooled(connection):
                # A prepared statement may be in another session than its next use.
                # A pipeline may never be answered: see ``can_pipeline``.
                connection.prepare_threshold = None
            if self._configure is not None:
                self._configure(connection)
        except Exception as error:
            if connection is not None:
                connection.close()
            self.last_error = error
            self.failures += 1
            raise
        return connection

    def connection_class(self) -> type[Connection]:
        """What psycopg's pool calls ``connect`` on."""
        import psycopg

        connector = self

        class PooledConnection(psycopg.Connection[tuple[Any, ...]]):
            @classmethod
            def connect(cls, conninfo: str = "", **options: Any) -> Any:
                return connector.connect()

        return PooledConnection


def is_pooled(connection: Connection) -> bool:
    """Whether a pooler is in between: it does not pass on the process id of the session."""
    return _session(connection) != connection.info.backend_pid


def _session(connection: Connection) -> int:
    """The process id of the session that answers."""
    (process,) = connection.execute("SELECT pg_backend_pid()", prepare=False).fetchone() or (0,)
    return process


def can_pipeline(connection: Connection) -> bool:
    """Whether several statements may be sent before the first is answered.

    Not through a pooler: PgBouncer before 1.21 loses count of the answers and keeps the session
    for ever. A pool's connection through a pooler prepares nothing, which is how it is known.
    """
    return connection.prepare_threshold is not None


def _is_stale(connection: Connection) -> bool:
    """Whether the server has ended an idle connection: then there is something to read."""
    if connection.closed:
        return True
    if sys.platform == "win32":
        return bool(select.select([connection.fileno()], [], [], 0)[0])
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN | select.POLLHUP | select.POLLERR)
    return bool(poll.poll(0))
