"""What a caller is told when a request cannot be answered: a status, a code, one line.

Nothing of the machine is in it: no path, no traceback, no text of an exception that was
not written for the caller. The log has the rest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from packwise.errors import PackwiseError, StoreBusy, UsageError

_PATH = re.compile(r"(?<![\w/])(?:~|[A-Za-z]:)?(?:[/\\][^\s/\\:'\",;]+){2,}[/\\]?")
_CREDENTIALS = re.compile(r"(\w+://)[^\s/@]*@")


class Refusal(Exception):
    """A request that is not answered, in words fit for whoever sent it."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        fix: str | None = None,
        headers: Mapping[str, str] | None = None,
        param: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.fix = fix
        self.headers = dict(headers or {})
        self.param = param

    def as_dict(self) -> dict[str, Any]:
        return {"error": {"code": self.code, "message": self.message, "fix": self.fix}}


def refusal_of(error: PackwiseError) -> Refusal:
    """What a caller is told of an error of the library."""
    if isinstance(error, UsageError):
        return Refusal(400, "bad_request", without_paths(error.message))
    if isinstance(error, StoreBusy):
        return Refusal(
            503, "store_busy", "the store is being written", headers={"Retry-After": "1"}
        )
    return Refusal(
        503,
        "store_unavailable",
        "the store cannot be used just now",
        fix="the server's log says why",
        headers={"Retry-After": "5"},
    )


def without_paths(text: str) -> str:
    """A line for a caller elsewhere: places on this machine and credentials left out."""
    return _PATH.sub("…", _CREDENTIALS.sub(r"\1…@", text))
