"""``packwise settings``: every setting, its value, where it came from, what it does and why."""

from __future__ import annotations

from dataclasses import Field, fields
from typing import Any

import click

from packwise.cli.console import json_option, print_json, print_table
from packwise.settings import Settings


@click.command()
@json_option
def settings(as_json: bool) -> None:
    """Show every setting, its value, its origin and its meaning.

    The origin is the environment variable that set the value, or "default". Names without
    the prefix PACKWISE_ work as well, where --json lists one as the alias.
    """
    current = Settings.load()
    rows = [
        {
            "variable": f.metadata["env"],
            "alias": f.metadata["alias"],
            "setting": f.name,
            "value": getattr(current, f.name),
            "default": f.default,
            "origin": current.origin(f.name),
            "meaning": f.metadata["meaning"],
            "why": f.metadata["why"],
        }
        for f in fields(Settings)
    ]
    if as_json:
        print_json(rows)
        return
    print_table(
        "settings",
        ("variable", "value", "origin", "meaning"),
        [
            (f.metadata["env"], _shown(getattr(current, f.name)), current.origin(f.name), _text(f))
            for f in fields(Settings)
        ],
    )


def _text(f: Field[Any]) -> str:
    return f"{f.metadata['meaning']} ({f.metadata['why']})"


def _shown(value: object) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else str(value) or "(not set)"
