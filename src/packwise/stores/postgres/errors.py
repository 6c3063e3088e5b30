"""PostgreSQL's errors as Packwise's: one line each, with what to do about it."""

from __future__ import annotations

import re
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

_DOWN = re.compile(
    "connection refused|no such file or directory|could not translate host name"
    "|name or service not known|failed to resolve host|network is unreachable|no route to host"
    "|timeout expired|connection timeout"
)
_LOST = re.compile(
    "server closed the connection|closed unexpectedly|connection is closed|connection is lost"
    "|connection reset|terminating connection|broken pipe|starting up|shutting down"
    "|in recovery mode|not yet accepting connections"
)


@contextmanager
def translated_errors(location: str) -> Generator[None]:
    """Turn the driver's errors inside the block into Packwise's."""
    import psycopg

    try:
        yield
    except psycopg.Error as error:
        raise translate(error, location) from error


def translate(error: psycopg.Error, location: str) -> PackwiseError:
    """The error to show for one of the driver's; ``location`` must not contain a password."""
    message = _first_line(error)
    return (
        _connection_error(error, message, location)
        or _statement_error(error, message, location)
        or StoreError(f"{location}: {message}")
    )


def is_lost(error: BaseException) -> bool:
    """Whether an error means that the connection broke, rather than the statement."""
    import psycopg
    from psycopg import errors

    if isinstance(error, (errors.AdminShutdown, errors.CrashShutdown, errors.CannotConnectNow)):
        return True
    unknown = isinstance(error, psycopg.OperationalError) and error.sqlstate is None
    return unknown and _LOST.search(str(error).lower()) is not None


def is_conflict(error: BaseException) -> bool:
    """Whether the server rolled a transaction back because of another one: it can be done again."""
    from psycopg import errors

    return isinstance(error, (errors.DeadlockDetected, errors.SerializationFailure))


def _first_line(error: BaseException) -> str:
    """The server's message, without hints and positions."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    message = lines[0] if lines else type(error).__name__
    # Of several attempts to connect, the last one says why.
    return message.rpartition("FATAL:")[2].strip().removeprefix("connection failed: ")


def _connection_error(error: psycopg.Error, message: str, location: str) -> PackwiseError | None:
    import psycopg

    if not isinstance(error, psycopg.OperationalError):
        return None
    text = str(error).lower()
    if "password authentication failed" in text or "no password supplied" in text:
        return StoreUnreachable(
            f"{location} refuses the user or the password",
            fix="check both in the URL; write special characters of a password as %XX",
        )
    if "database" in text and "does not exist" in text:
        return StoreMissing(
            f"{location}: {message}", fix="create it with createdb, or name another"
        )
    if "role" in text and "does not exist" in text:
        return StoreUnreachable(
            f"{location}: {message}", fix="name a user of that server in the URL"
        )
    if _DOWN.search(text):
        return StoreUnreachable(
            f"no PostgreSQL server answers at {location}",
            fix="start it, or check host and port in the URL",
        )
    if is_lost(error):
        return StoreUnreachable(f"the connection to {location} broke: {message}", fix="try again")
    return None


def _statement_error(error: psycopg.Error, message: str, location: str) -> PackwiseError | None:
    from psycopg import errors

    shown = f"{location}: {message}"
    match error:
        case errors.QueryCanceled():
            return StoreTimeout(
                f"{location} took longer than statement_timeout allows",
                fix="ask for less, or raise statement_timeout",
            )
        case errors.LockNotAvailable() | errors.DeadlockDetected() | errors.SerializationFailure():
            return StoreTimeout(
                f"{location} is busy with other writers: {message}", fix="try again"
            )
        case errors.UndefinedTable() | errors.UndefinedFunction() | errors.UndefinedObject():
            return StoreMissing(
                f"{location} lacks something that Packwise needs: {message}",
                fix="packwise db init URL for nodes, packwise build SOURCE --out URL for passages",
            )
        case _ if "is not available" in message and "extension" in message:
            return StoreError(shown, fix="install pgvector 0.8 or later on the database server")
        case errors.DataException() if "dimensions" in message:
            return EmbedderMismatch(
                shown, fix="use vectors of the dimension that the table was created with"
            )
        case errors.InsufficientPrivilege() if "row-level security" in message:
            return StoreError(
                f"{location}: a row belongs to another tenant than the one that is set",
                fix="write each tenant's nodes as that tenant",
            )
        case errors.InsufficientPrivilege():
            return StoreError(shown, fix="ask the database's owner for the privilege")
        case errors.DependentObjectsStillExist():
            detail = (error.diag.message_detail or message).splitlines()[0]
            return StoreError(f"{location}: {detail}; nothing was removed", fix="remove that first")
        case errors.DiskFull():
            return StoreFull(shown, fix="free disk space on the database server")
        case errors.DuplicateTable():
            return NotAStore(f"{shown}, and Packwise did not create it", fix="use another schema")
        case _:
            return None
