"""What every command shares: output streams, JSON, and text made safe for a terminal."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import click

from packwise.candidates import Filter
from packwise.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

# Control characters but tab and newline, and the marks that reorder text on the screen.
_UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200e\u200f]")


def clean(text: str) -> str:
    """Text from a document, unable to move the cursor, colour the screen or reorder itself."""
    return _UNSAFE.sub("", text)


def out() -> Console:
    """The console for results."""
    from rich.console import Console

    return Console(highlight=False, emoji=False, markup=False)


def err() -> Console:
    """The console for progress and remarks: standard error, so that output can be piped."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, emoji=False, markup=False)


def print_json(value: Any) -> None:
    """Write a value as JSON to standard output; what could drive a terminal is escaped in it."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    click.echo(_UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def number(value: float | None, digits: int = 3) -> str:
    """A score for a table; a dash where there is none."""
    return "-" if value is None else f"{value:.{digits}f}"


def size(count: int) -> str:
    """A number of bytes, as people read it."""
    amount = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000 or unit == "GB":
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    raise AssertionError("unreachable")


_FIELDS = {"tenant": "tenant", "space": "space", "lang": "lang", "type": "node_type"}


def parse_where(pairs: tuple[str, ...]) -> Filter:
    """``key=value`` pairs as a filter.

    ``document``, ``path`` (prefix of the document id), ``lang``, ``tenant``, ``space``,
    ``acl`` and ``type`` are the store's own; any other key is one of the documents' metadata.
    """
    fields: dict[str, str] = {}
    documents: list[str] = []
    acl: list[str] = []
    metadata: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip() or not value:
            raise UsageError(f"--where takes key=value, not {pair!r}")
        key = key.strip()
        if key == "document":
            documents.append(value)
        elif key == "acl":
            acl.append(value)
        elif key == "path":
            fields["path_prefix"] = value
        elif key in _FIELDS:
            fields[_FIELDS[key]] = value
        else:
            metadata[key] = value
    return Filter(**fields, documents=tuple(documents), acl=tuple(acl), metadata=metadata)
