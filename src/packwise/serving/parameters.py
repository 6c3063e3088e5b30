"""Query parameters, checked."""

from __future__ import annotations

from starlette.requests import Request

from packwise.serving.refusals import Refusal

LONGEST_NAME = 512


def text(request: Request, name: str, *, required: bool = False) -> str:
    """A parameter as text; empty when it is not there and need not be."""
    value = request.query_params.get(name, "")
    if len(value) > LONGEST_NAME:
        raise Refusal(
            400, "bad_request", f"{name} is longer than {LONGEST_NAME} characters", param=name
        )
    if required and not value.strip():
        raise Refusal(400, "bad_request", f"{name} is missing", fix=f"?{name}=TEXT", param=name)
    return value


def number(request: Request, name: str, default: int, low: int, high: int) -> int:
    """A parameter as a whole number within its range."""
    raw = request.query_params.get(name)
    if raw is None:
        return default
    if not (raw.isascii() and raw.isdigit() and len(raw) < 12) or not low <= int(raw) <= high:
        raise Refusal(
            400, "bad_request", f"{name} is a whole number from {low} to {high}", param=name
        )
    return int(raw)
