"""What PostgreSQL says, as Packwise's errors: one line each, with the way out."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from packwise.errors import (
    EmbedderMismatch,
    NotAStore,
    PackwiseError,
    StoreError,
    StoreFull,
    StoreMissing,
    StoreTimeout,
    StoreUnreachable,
)

if TYPE_CHECKING:
    import psycopg


_DOWN = (
    "connection refused",
    "no such file or directory",
    "could not translate host name",
    "name or service not known",
    "failed to resolve host",
    "network is unreachable",
    "no route to host",
    "timeout expired",
    "connection timeout",
)
_GONE = (
    "server closed the connection",
    "closed unexpectedly",
    "connection is closed",
    "connection is lost",
    "connection reset",
    "terminating connection",
    "broken pipe",
)
_STARTING = ("starting up", "shutting down", "in recovery mode", "not yet accepting connections")


@contextmanager
def speaking(location: str) -> Generator[None]:
    """Turn what the driver raises inside the block into Packwise's errors."""
    import psycopg

    try:
        yield
    except psycopg.Error as error:
        raise translated(error, location) from error


def translated(error: psycopg.Error, location: str) -> PackwiseError:
    """The error to show for one of the driver's; ``location`` must not hold a password."""
    said = first_line(error)
    for found in (_connecting(error, said, location), _by_state(error, said, location)):
        if found is not None:
            return found
    return StoreError(f"{location}: {said}")


def first_line(error: BaseException) -> str:
    """What the server said, without its hints and positions."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = lines[0] if lines else type(error).__name__
    # The last attempt of several is the one that tells why.
    last = said.rpartition("FATAL:")[2] if "FATAL:" in said else said
    return last.strip().removeprefix("connection failed: ")


def is_lost(error: BaseException) -> bool:
    """Whether an error means that the connection broke, rather than the statement."""
    import psycopg
    from psycopg import errors

    if isinstance(error, (errors.AdminShutdown, errors.CrashShutdown, errors.CannotConnectNow)):
        return True
    said = str(error).lower()
    return isinstance(error, psycopg.OperationalError) and (
        error.sqlstate is None and any(sign in said for sign in (*_GONE, *_STARTING))
    )


def _connecting(error: psycopg.Error, said: str, location: str) -> PackwiseError | None:
    import psycopg

    if not isinstance(error, psycopg.OperationalError):
        return None
    text = str(error).lower()
    if "password authentication failed" in text or "no password supplied" in text:
        return StoreUnreachable(
            f"{location} refuses the user or the password",
            fix="check both in the URL; a password's special characters are written %XX",
        )
    if "database" in text and "does not exist" in text:
        return StoreMissing(f"{location}: {said}", fix="create it with createdb, or name another")
    if "role" in text and "does not exist" in text:
        return StoreUnreachable(f"{location}: {said}", fix="name a user of that server in the URL")
    if any(sign in text for sign in _DOWN):
        return StoreUnreachable(
            f"no PostgreSQL server answers at {location}",
            fix="start it, or check host and port in the URL",
        )
    if is_lost(error):
        return StoreUnreachable(f"the connection to {location} broke: {said}", fix="try again")
    return None


def _by_state(error: psycopg.Error, said: str, location: str) -> PackwiseError | None:
    from psycopg import errors

    if isinstance(error, errors.QueryCanceled):
        return StoreTimeout(
            f"{location} took longer than statement_timeout allows",
            fix="ask for less, or raise statement_timeout",
        )
    if isinstance(error, (errors.LockNotAvailable, errors.DeadlockDetected)):
        return StoreTimeout(f"{location} is busy with other writers: {said}", fix="try again")
    if isinstance(error, (errors.UndefinedTable, errors.UndefinedFunction, errors.UndefinedObject)):
        return StoreMissing(
            f"{location} has not what Packwise needs: {said}",
            fix="packwise db init URL for nodes, packwise build SOURCE --out URL for passages",
        )
    if "is not available" in said and "extension" in said:
        return StoreError(
            f"{location}: {said}", fix="install pgvector 0.8 or later on the database server"
        )
    if isinstance(error, errors.DataException) and "dimensions" in said:
        return EmbedderMismatch(
            f"{location}: {said}", fix="use vectors of the dimension the table was made with"
        )
    if isinstance(error, errors.InsufficientPrivilege):
        if "row-level security" in said:
            return StoreError(
                f"{location}: a row belongs to another tenant than the one that is set",
                fix="write each tenant's nodes with that tenant",
            )
        return StoreError(f"{location}: {said}", fix="ask the database's owner for the right")
    if isinstance(error, errors.DiskFull):
        return StoreFull(f"{location}: {said}", fix="make room on the database server")
    if isinstance(error, errors.DuplicateTable):
        return NotAStore(
            f"{location}: {said}, and Packwise did not make it", fix="use another schema"
        )
    return None
