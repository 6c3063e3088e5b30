"""The command that makes a page or a table again, as it is written there."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path


def run_line(
    folder: str,
    split: str | None,
    half: str | None,
    limit: int | None,
    budgets: Sequence[int],
    variants: Sequence[str],
    sets: Sequence[str],
    report: str | None,
) -> str:
    """``packwise eval`` with the options that were given."""
    words = ["packwise", "eval", _by_variable(folder)]
    for option, values in (
        ("--split", (split,)),
        ("--half", (half,)),
        ("--limit", (limit,)),
        ("--budget", budgets),
        ("--variant", variants),
        ("--set", sets),
        ("--report", (report,)),
    ):
        for value in values:
            if value is not None:
                words += [option, shlex.quote(str(value))]
    return " ".join(words)


def table_line(
    folders: Sequence[str], split: str | None, half: str | None, limit: int | None
) -> str:
    """``packwise eval table`` with the options that were given."""
    words = ["packwise", "eval", "table", *(_by_variable(folder) for folder in folders)]
    for option, value in (("--split", split), ("--half", half), ("--limit", limit)):
        if value is not None:
            words += [option, shlex.quote(str(value))]
    return " ".join(words)


def _by_variable(folder: str) -> str:
    """A folder of the data by ``PACKWISE_DATA``, so that the line holds on other machines."""
    data = os.environ.get("PACKWISE_DATA")
    if data and Path(folder).resolve().is_relative_to(Path(data).resolve()):
        inside = Path(folder).resolve().relative_to(Path(data).resolve())
        return f'"$PACKWISE_DATA"/{shlex.quote(inside.as_posix())}'
    return shlex.quote(folder)
