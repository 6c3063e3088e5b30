"""Connections to one database, shared by the threads of a process.

A connection is made by the caller who needs it, so a wrong password or a server that is
down is told at once and by name. One that broke is dropped, never lent again; a read whose
connection broke under it is asked once more on a new one.
"""

from __future__ import annotations

import os
import select
import threading
import time
import weakref
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from packwise.errors import StoreBusy, StoreError
from packwise.stores.postgres.errors import is_lost, translated
from packwise.stores.postgres.extensions import show_extensions
from packwise.stores.postgres.place import checked, hidden

if TYPE_CHECKING:
    from packwise.stores.postgres.driver import Connection

T = TypeVar("T")

_CONNECT_SECONDS = 10
_PATIENCE = (0.0, 0.2, 0.8, 2.0)
"""Pauses before a read is tried again: as long as a server takes to restart."""

# A child must not use, nor even close, the connections of the process it was forked from.
_inherited: list[Any] = []


class Pool:
    """Lends each caller a connection of its own and takes it back.

    ``prepare`` is called with every new connection, in autocommit.
    """

    def __init__(
        self,
        url: str,
        *,
        size: int = 8,
        wait: float = 30.0,
        prepare: Callable[[Connection], None] | None = None,
    ) -> None:
        self._url = checked(url)
        self.location = hidden(url)
        self._size = size
        self._wait = wait
        self._prepare = prepare
        self._free = threading.BoundedSemaphore(size)
        self._idle: list[Connection] = []
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._closed = False
        weakref.finalize(self, _close_idle, self._idle, self._process)

    def run(
        self,
        work: Callable[[Connection], T],
        *,
        retry: bool = True,
    ) -> T:
        """What ``work`` returns for a connection. With ``retry``, work whose connection broke
        is done again on another: only for what changes nothing."""
        import psycopg

        pauses = iter(_PATIENCE)
        lost = False
        while True:
            try:
                with self._lent() as connection:
                    return work(connection)
            except psycopg.Error as error:
                pause = next(pauses, None)
                # A server that never answered is down; one that broke off may come back.
                lost = lost or is_lost(error)
                again = retry and lost and isinstance(error, psycopg.OperationalError)
                if pause is None or not again:
                    raise translated(error, self.location) from error
                time.sleep(pause)

    @contextmanager
    def lend(self) -> Generator[Connection]:
        """A connection for as long as the block lasts; errors come as Packwise's."""
        import psycopg

        try:
            with self._lent() as connection:
                yield connection
        except psycopg.Error as error:
            raise translated(error, self.location) from error

    def dedicated(self) -> Connection:
        """A connection of the caller's own, in autocommit; the caller closes it."""
        import psycopg

        try:
            return self._connect()
        except psycopg.Error as error:
            raise translated(error, self.location) from error

    def close(self) -> None:
        """Close what is idle now, and the rest as it comes back."""
        with self._lock:
            self._closed = True
        _close_idle(self._idle, self._process)

    @contextmanager
    def _lent(self) -> Generator[Connection]:
        self._check_process()
        if not self._free.acquire(timeout=self._wait):
            raise StoreBusy(
                f"all {self._size} connections to {self.location} were in use for"
                f" {self._wait:g} seconds",
                fix="ask for less at a time, or open it with a larger pool",
            )
        try:
            connection = self._take()
            try:
                yield connection
            finally:
                self._give_back(connection)
        finally:
            self._free.release()

    def _check_process(self) -> None:
        with self._lock:
            if self._process != os.getpid():
                _inherited.extend(self._idle)
                self._idle.clear()
                self._process = os.getpid()
                self._free = threading.BoundedSemaphore(self._size)

    def _take(self) -> Connection:
        while True:
            with self._lock:
                if self._closed:
                    raise StoreError(f"{self.location} is closed", fix="open it again")
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                return self._connect()
            if not _is_stale(connection):
                return connection
            connection.close()

    def _connect(self) -> Connection:
        import psycopg
        from psycopg.conninfo import conninfo_to_dict, make_conninfo

        defaults = {"connect_timeout": _CONNECT_SECONDS, "application_name": "packwise"}
        named = conninfo_to_dict(self._url)
        more = {name: value for name, value in defaults.items() if name not in named}
        connection = psycopg.connect(make_conninfo(self._url, **more), autocommit=True)
        try:
            show_extensions(connection)
            if self._prepare is not None:
                self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _give_back(self, connection: Connection) -> None:
        from psycopg.pq import TransactionStatus

        idle = connection.info.transaction_status == TransactionStatus.IDLE
        with self._lock:
            if idle and not self._closed and not connection.closed:
                self._idle.append(connection)
                return
        connection.close()


def _close_idle(idle: list[Connection], process: int) -> None:
    if process == os.getpid():
        while idle:
            idle.pop().close()


def _is_stale(connection: Connection) -> bool:
    """Whether an idle connection has something to say: the server has ended it."""
    if connection.closed:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN | select.POLLHUP | select.POLLERR)
    return bool(poll.poll(0))
