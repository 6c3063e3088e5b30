"""A ``postgresql://`` URL: checked, and without its password for people to see."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from packwise.errors import UsageError
from packwise.stores.postgres.driver import require_driver

SCHEMES = ("postgresql://", "postgres://")
_PARAMETER = re.compile(r"(\bpassword=)[^&]*")


def is_postgres(argument: str) -> bool:
    """Whether a STORE argument names a PostgreSQL database."""
    return argument.startswith(SCHEMES)


def checked(url: str) -> str:
    """The URL, if the driver is there and can read it. Raises ``UsageError``."""
    require_driver()
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    try:
        if not is_postgres(url):
            raise UsageError(
                f"{hidden(url)!r} is not a PostgreSQL URL",
                fix="write postgresql://user@host:port/database",
            )
        conninfo_to_dict(url)
        parts = urlsplit(url)
        if "," not in parts.netloc:
            _ = parts.port  # raises on one that is no number
    except (ProgrammingError, ValueError) as error:
        # The driver quotes what it could not read, which may hold the password.
        reason = f": {error}" if isinstance(error, ValueError) else ""
        raise UsageError(
            f"{hidden(url)!r} is not a URL that PostgreSQL can read{reason}",
            fix="write postgresql://user@host:port/database",
        ) from None
    return url


def hidden(url: str) -> str:
    """The URL with any password left out."""
    scheme, there, rest = url.partition("://")
    place, asked, options = rest.partition("?")
    account, at, host = place.rpartition("@")
    place = f"{account.partition(':')[0]}{at}{host}"
    options = _PARAMETER.sub(r"\1***", options)
    return f"{scheme}{there}{place}{asked}{options}"


def database_name(url: str) -> str:
    """The database a URL names."""
    from psycopg.conninfo import conninfo_to_dict

    named = conninfo_to_dict(checked(url))
    return str(named.get("dbname") or named.get("user") or "postgres")


def database_of(url: str) -> tuple[str, ...]:
    """Server, database, user and session options of a URL: what decides which tables it means."""
    from psycopg.conninfo import conninfo_to_dict

    named = conninfo_to_dict(checked(url))
    defaults = {"host": "", "port": "5432", "user": "", "options": ""}
    values = (str(named.get(name) or default) for name, default in defaults.items())
    return (*values, database_name(url))
