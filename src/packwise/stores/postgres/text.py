"""Text as PostgreSQL can hold it, and back: its ``text`` and ``jsonb`` cannot hold NUL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from packwise.stores.checks import storable

_ESCAPE = "\ufdd0"  # a code point reserved for a program's own use
_ESCAPED = {ord("\0"): f"{_ESCAPE}0", ord(_ESCAPE): f"{_ESCAPE}1"}


def held(text: str) -> str:
    """A text fit to store: without lone surrogates, NUL written in two characters.

    Works character by character, so prefixes and equality are kept.
    """
    text = storable(text)
    return text.translate(_ESCAPED) if "\0" in text or _ESCAPE in text else text


def given(text: str) -> str:
    """The inverse of ``held``."""
    if _ESCAPE not in text:
        return text
    return text.replace(f"{_ESCAPE}0", "\0").replace(f"{_ESCAPE}1", _ESCAPE)


def held_map(values: Mapping[str, str]) -> dict[str, str]:
    """``held`` for keys and values."""
    return {held(name): held(value) for name, value in values.items()}


def given_map(values: Mapping[str, str]) -> dict[str, str]:
    """The inverse of ``held_map``."""
    return {given(name): given(value) for name, value in values.items()}


def held_list(values: Iterable[str]) -> list[str]:
    """``held`` for each."""
    return [held(value) for value in values]


def plain(value: Any) -> Any:
    """A JSON value whose texts PostgreSQL can hold; NUL becomes the replacement character."""
    if isinstance(value, str):
        return storable(value).replace("\0", "\ufffd")
    if isinstance(value, Mapping):
        return {plain(str(k)): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value
