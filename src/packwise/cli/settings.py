"""``packwise settings``: every knob, its value, where the value comes from, what it does."""

from __future__ import annotations

import os
from dataclasses import fields

import click

from packwise.cli.console import out, print_json
from packwise.settings import Settings


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the settings as JSON.")
def settings(as_json: bool) -> None:
    """Show every setting, its value, its origin and its meaning."""
    current = Settings.load()
    rows = [
        {
            "variable": f.metadata["env"],
            "setting": f.name,
            "value": getattr(current, f.name),
            "default": f.default,
            "origin": "environment" if os.environ.get(f.metadata["env"]) else "default",
            "meaning": f.metadata["reason"],
        }
        for f in fields(Settings)
    ]
    if as_json:
        print_json(rows)
        return
    from rich.table import Table

    table = Table(title="settings")
    for column in ("variable", "value", "origin", "meaning"):
        table.add_column(column, overflow="fold")
    for row in rows:
        value = row["value"]
        shown = ("on" if value else "off") if isinstance(value, bool) else str(value)
        table.add_row(
            str(row["variable"]), shown or "(not set)", str(row["origin"]), str(row["meaning"])
        )
    out().print(table)
