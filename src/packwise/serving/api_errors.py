"""Errors as callers see them: a status, a code and one line of text.

They never contain a path, a traceback or the text of an exception that was not written for the
caller. Those go to the log.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import fastapi
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from packwise.errors import PackwiseError, StoreBusy, UsageError

_PATH = re.compile(r"(?<![\w/])(?:~|[A-Za-z]:)?(?:[/\\][^\s/\\:'\",;]+){2,}[/\\]?")
_CREDENTIALS = re.compile(r"(\w+://)[^\s/@]*@")


class ApiError(fastapi.HTTPException):
    """A request that failed, in words that may be shown to the caller."""

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
        super().__init__(status, message, dict(headers or {}))
        self.code = code
        self.message = message
        self.fix = fix
        self.param = param

    def as_dict(self) -> dict[str, Any]:
        return {"error": {"code": self.code, "message": self.message, "fix": self.fix}}

    def as_openai_dict(self) -> dict[str, Any]:
        """The error in the format of the OpenAI protocol."""
        kind = "server_error" if self.status_code >= 500 else "invalid_request_error"
        detail = {"message": self.message, "type": kind, "param": self.param, "code": self.code}
        return {"error": detail}


def bad_request(message: str, *, fix: str | None = None, param: str | None = None) -> ApiError:
    """A 400 error."""
    return ApiError(400, "bad_request", message, fix=fix, param=param)


def api_error(error: Exception) -> ApiError | None:
    """An exception as the caller sees it; ``None`` for one that is a bug."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, RequestValidationError):
        return _invalid_request(error)
    if isinstance(error, HTTPException):
        words = HTTPStatus(error.status_code).phrase.lower()
        code = words.replace(" ", "_").replace("'", "")
        headers = dict(error.headers or {})
        if headers.get("Allow") == "GET":
            headers["Allow"] = "GET, HEAD"
        return ApiError(error.status_code, code, words, headers=headers)
    return library_error(error) if isinstance(error, PackwiseError) else None


def library_error(error: PackwiseError) -> ApiError:
    """An error of the library as the caller sees it."""
    if isinstance(error, UsageError):
        return bad_request(without_paths(error.message))
    if isinstance(error, StoreBusy):
        return unavailable("store_busy", "the store is being written", 1)
    return unavailable(
        "store_unavailable",
        "the store is unavailable right now",
        5,
        fix="see the server's log for the reason",
    )


def unavailable(code: str, message: str, retry_after: int, *, fix: str | None = None) -> ApiError:
    """A 503 error with ``Retry-After``."""
    return ApiError(503, code, message, fix=fix, headers={"Retry-After": str(retry_after)})


def without_paths(text: str) -> str:
    """A line without paths of this machine and without credentials."""
    return _PATH.sub("…", _CREDENTIALS.sub(r"\1…@", text))


def _invalid_request(error: RequestValidationError) -> ApiError:
    """A 400 error that names the first invalid field and says what is wrong with it."""
    first = error.errors()[0]
    field = ".".join(str(part)[:64] for part in first["loc"][1:7])
    message = f"{field}: {first['msg']}" if field else "the body must be a JSON object"
    return bad_request(message, fix="GET /docs", param=field or None)
