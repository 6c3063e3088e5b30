"""``packwise models``: which models there are, where they are, and whether they are whole."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from packwise.cli.console import clean, err, out, print_json
from packwise.errors import ModelCorrupt, ModelError, ModelMissing
from packwise.settings import Settings

if TYPE_CHECKING:
    from packwise.models.download import Received
    from packwise.models.locate import LocatedModel
    from packwise.models.table import ModelSpec

_json = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")


@click.group(invoke_without_command=True)
@_json
@click.pass_context
def models(ctx: click.Context, as_json: bool) -> None:
    """List, verify and get the models; alone, it lists them."""
    if ctx.invoked_subcommand is None:
        _list(as_json)


@models.command("list")
@_json
def list_models(as_json: bool) -> None:
    """List the known models and where each was found."""
    _list(as_json)


@models.command()
@click.argument("name", required=False)
@_json
def verify(name: str | None, as_json: bool) -> None:
    """Read the files of NAME, or of every model found, and check each hash."""
    from packwise.models.table import MODELS, find_model

    settings = Settings.load()
    chosen = [find_model(name)] if name else list(MODELS)
    states = [_state(model, settings, thoroughly=True) for model in chosen]
    looked_at = [state for state in states if state.found or state.error]
    if not looked_at:
        raise _missing(chosen[0])
    _show(looked_at, "verified models", as_json)
    for state in looked_at:
        if state.error is not None:
            raise state.error


@models.command()
@click.argument("name")
@_json
def get(name: str, as_json: bool) -> None:
    """Fetch NAME from the hub, unless it is on this machine already."""
    from packwise.models.locate import get as fetch
    from packwise.models.table import find_model

    with download_bar() as received:
        found = fetch(find_model(name), Settings.load(), received=received)
    if as_json:
        print_json(_as_dict(_State(found.model, found)))
    else:
        click.echo(f"{found.model.name} is in {found.folder} ({found.origin})")


@models.command()
@click.argument("name")
@_json
def where(name: str, as_json: bool) -> None:
    """Print the folder that holds NAME."""
    from packwise.models.locate import locate
    from packwise.models.table import find_model

    model = find_model(name)
    found = locate(model, Settings.load())
    if found is None:
        raise _missing(model)
    if as_json:
        print_json(_as_dict(_State(model, found)))
    else:
        click.echo(str(found.folder))


@contextmanager
def download_bar() -> Generator[Received]:
    """A progress bar on standard error for downloads made within the block."""
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TaskID,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    tasks: dict[str, TaskID] = {}
    with Progress(*columns, console=err()) as progress:

        def received(file: str, done: int, total: int | None) -> None:
            if file not in tasks:
                tasks[file] = progress.add_task(clean(file), total=total)
            progress.update(tasks[file], completed=done, total=total)

        yield received


@dataclass(frozen=True, slots=True)
class _State:
    model: ModelSpec
    found: LocatedModel | None = None
    error: ModelError | None = None

    @property
    def verdict(self) -> str:
        if self.error is not None:
            return "corrupt" if isinstance(self.error, ModelCorrupt) else "unreadable"
        return "verified" if self.found else "missing"


def _state(model: ModelSpec, settings: Settings, *, thoroughly: bool = False) -> _State:
    from packwise.models.locate import locate
    from packwise.models.locate import verify as read_again

    try:
        found = locate(model, settings)
        if found is not None and thoroughly:
            read_again(found)
    except ModelError as error:
        return _State(model, error=error)
    return _State(model, found)


def _missing(model: ModelSpec) -> ModelMissing:
    from packwise.models.locate import missing

    return missing(model)


def _list(as_json: bool) -> None:
    from packwise.models.table import MODELS

    settings = Settings.load()
    _show([_state(model, settings) for model in MODELS], "models", as_json)


def _show(states: list[_State], title: str, as_json: bool) -> None:
    if as_json:
        print_json([_as_dict(state) for state in states])
        return
    from rich.table import Table
    from rich.text import Text

    colours = {"verified": "green", "missing": "yellow"}
    table = Table(title=title)
    for column in ("name", "kind", "dim", "found", "state"):
        table.add_column(column, justify="right" if column == "dim" else "left", overflow="fold")
    for state in states:
        table.add_row(
            state.model.name,
            state.model.kind.replace("_", "-"),
            str(state.model.dim),
            clean(state.found.origin) if state.found else "-",
            Text(state.verdict, style=colours.get(state.verdict, "red")),
        )
    console = out()
    console.print(table)
    for state in states:
        if state.found is None:
            console.print(Text(clean(str(state.error or _missing(state.model))), style="dim"))


def _as_dict(state: _State) -> dict[str, Any]:
    model, found = state.model, state.found
    return {
        "name": model.name,
        "kind": model.kind,
        "dim": model.dim,
        "window": model.window,
        "license": model.license,
        "state": state.verdict,
        "origin": found.origin if found else None,
        "folder": str(found.folder) if found else None,
        "error": str(state.error) if state.error else None,
    }
