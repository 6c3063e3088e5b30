"""``packwise serve``: the HTTP API and the page, and their API keys."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from packwise.cli.console import DefaultGroup, json_option, print_json, print_table
from packwise.errors import UsageError

if TYPE_CHECKING:
    from packwise.serving.keys import KeyRing
    from packwise.serving.limits import Limits
    from packwise.serving.processes import Build
    from packwise.serving.shared_state import SharedState
    from packwise.serving.store_registry import StoreRegistry

_option = partial(click.option, default=None)
_keys_file_option = _option("--keys", "keys_file", metavar="FILE", help="The file of API keys.")


def server_options(port: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The options of every server; ``port`` is the default one."""
    options = (
        _option("--host", default="127.0.0.1", show_default=True, help="The address to listen on."),
        _option("--port", default=port, show_default=True, help="The port; 0: any free port."),
        _keys_file_option,
        click.option("--no-keys", is_flag=True, help="Require no key; on loopback only."),
        click.option(
            "--cors",
            multiple=True,
            metavar="ORIGIN",
            help="Let pages of this site call the server; may be repeated.",
        ),
        _option(
            "--workers", type=click.IntRange(1, 256), help="Processes.  [default: one per core]"
        ),
        _option("--rate", type=float, help="Requests per minute and key; 0: no limit."),
        _option("--running", type=int, help="Questions to work on at once."),
        _option("--deadline", type=float, help="Seconds a request may take."),
    )
    return lambda command: reduce(lambda made, option: option(made), reversed(options), command)


@click.group(cls=DefaultGroup, no_args_is_help=False, subcommand_metavar="STORE... | keys COMMAND")
def serve() -> None:
    """Serve one or more STOREs over HTTP.

    A STORE may be a folder of packs, which may be empty: packs can then be made, changed and
    deleted in the page. The default is the current folder.

    `packwise serve STORE...` is short for `packwise serve run STORE...`. NAME=STORE gives a
    store a name. By default only this machine can connect. With another --host, every request
    needs an API key.
    """


@serve.command()
@click.argument("stores", nargs=-1, metavar="[STORE]...")
@server_options(8000)
@_option("--burst", type=int, help="Requests a key may send at once.")
@_option("--waiting", type=int, help="Questions that may wait in the queue.")
@_option("--body-bytes", type=int, help="Largest request body.")
@_option("--file-bytes", type=int, help="Largest file that can be added.")
@_option("--question", type=int, help="Longest question, in characters.")
@_option("--traces", type=int, help="Traces to keep in memory.")
@_option("--report", metavar="FILE", help="A result of `eval --json` to show.")
@click.option("--log-questions", is_flag=True, help="Write the questions to the log.")
@click.option("--telemetry", is_flag=True, help="Send OpenTelemetry spans over OTLP.")
def run(
    stores: tuple[str, ...],
    host: str,
    port: int,
    keys_file: str | None,
    no_keys: bool,
    cors: tuple[str, ...],
    workers: int | None,
    report: str | None,
    log_questions: bool,
    telemetry: bool,
    **limits: Any,
) -> None:
    """Serve one or more STOREs over HTTP."""
    ring = required_keys(host, keys_file, no_keys)
    build = partial(
        _build,
        keys=ring.file if ring is not None else None,
        log_questions=log_questions,
        telemetry=telemetry,
        report=Path(report) if report else None,
        cors=cors,
    )
    note = " (with keys)" if ring is not None else " (without keys, for this machine only)"
    listen(build, stores or (".",), host, port, limits, workers, note=note)


def _build(
    opened: StoreRegistry,
    limits: Limits,
    shared: SharedState,
    *,
    keys: Path | None,
    log_questions: bool,
    telemetry: bool,
    report: Path | None,
    cors: tuple[str, ...],
) -> Any:
    """The application of one process."""
    from packwise.serving.app import build_app
    from packwise.serving.keys import KeyRing
    from packwise.serving.observability import Log, Spans

    return build_app(
        opened,
        limits=limits,
        keys=KeyRing(keys) if keys is not None else None,
        log=Log(questions=log_questions),
        telemetry=Spans() if telemetry else None,
        report=report,
        cors=cors,
        shared=shared,
    )


def missing_extra(what: str, extra: str, error: ImportError) -> UsageError:
    """The error for a command whose optional dependencies are not installed."""
    return UsageError(
        f"{what} needs {error.name}, which is not installed", fix=f"pip install 'packwise[{extra}]'"
    )


def limits_of(options: dict[str, Any]) -> Limits:
    """The limits that the options set; the others have their defaults."""
    from packwise.serving.limits import Limits

    return Limits(**{name: value for name, value in options.items() if value is not None})


def listen(
    build: Build,
    stores: tuple[str, ...],
    host: str,
    port: int,
    limits: dict[str, Any],
    workers: int | None,
    *,
    path: str = "",
    note: str = "",
) -> None:
    """Serve the application that ``build`` makes of the stores until it is stopped."""
    try:
        from packwise.serving import server
        from packwise.serving.processes import Serving, serve_in_processes
    except ImportError as error:
        raise missing_extra("serving", "serve", error) from error
    from packwise.machine import core_count
    from packwise.serving.shared_state import SharedState
    from packwise.serving.store_registry import open_stores

    bounds = limits_of(limits)
    listening = server.bound_socket(host, port)
    shown = f"[{host}]" if ":" in host else host
    url = f"http://{shown}:{listening.getsockname()[1]}{path}"

    def announce(names: list[str]) -> None:
        click.echo(f"serving {', '.join(names) or 'no pack yet'} on {url}{note}")

    try:
        processes = workers or core_count()
        if processes > 1:
            serving = Serving(build, stores, bounds, processes)
            serve_in_processes(serving, listening, announce)
        else:
            opened = open_stores(stores)
            app = build(opened, bounds, SharedState())
            announce([store.name for store in opened])
            server.serve(app, listening, bounds)
    finally:
        listening.close()
    click.echo("stopped")


def required_keys(host: str, keys_file: str | None, no_keys: bool) -> KeyRing | None:
    """The keys that a server on this host requires; ``None`` for none."""
    from packwise.serving.keys import is_loopback

    local = is_loopback(host)
    fix = "packwise serve keys add --tenant T"
    if no_keys:
        if not local:
            raise UsageError(f"API keys are needed to serve other machines on {host}", fix=fix)
        return None
    ring = _ring(keys_file)
    if ring.keys():
        return ring
    # Where keys were used once, a server must not open to everyone when the last one is revoked.
    if local and keys_file is None and not ring.file.exists():
        return None
    reason = "" if local else f", and {host} requires one"
    fix += f", or remove {ring.file} to serve this machine without keys" if local else ""
    raise UsageError(f"there is no API key in {ring.file}{reason}", fix=fix)


@serve.group()
def keys() -> None:
    """Add, list and revoke API keys."""


@keys.command()
@click.option("--tenant", default=None, metavar="T", help="The tenant whose documents it sees.")
@click.option("--acl", multiple=True, metavar="G", help="A group of the tenant; may be repeated.")
@click.option("--all", "unbound", is_flag=True, help="It sees the documents of every tenant.")
@click.option("--admin", is_flag=True, help="With --all: it may also change the packs.")
@click.option("--label", default="", help="What the key is for.")
@_keys_file_option
@json_option
def add(
    tenant: str | None,
    acl: tuple[str, ...],
    unbound: bool,
    admin: bool,
    label: str,
    keys_file: str | None,
    as_json: bool,
) -> None:
    """Create a key. It is shown only once."""
    key, text = _ring(keys_file).add(
        tenant=tenant or "", acl=acl, unbound=unbound, label=label, admin=admin
    )
    if as_json:
        print_json({"id": key.id, "key": text, "tenant": key.tenant, "acl": list(key.acl)})
        return
    click.echo(text)
    click.echo("it is not stored and cannot be shown again", err=True)


@keys.command("list")
@_keys_file_option
@json_option
def list_keys(keys_file: str | None, as_json: bool) -> None:
    """List the keys: their ids and what they may see, never the keys themselves."""
    found = _ring(keys_file).keys()
    if as_json:
        print_json(
            [
                {
                    "id": key.id,
                    "tenant": key.tenant or None,
                    "acl": list(key.acl),
                    "all": key.unbound,
                    "admin": key.admin,
                    "label": key.label,
                    "created": _day(key.created),
                }
                for key in found
            ]
        )
        return
    if not found:
        click.echo("there is no key: packwise serve keys add --tenant T")
        return
    rows: list[tuple[str, ...]] = []
    for key in found:
        everyone = "all, admin" if key.admin else "all"
        tenant = everyone if key.unbound else key.tenant
        rows.append((key.id, tenant, ", ".join(key.acl), key.label, _day(key.created)))
    print_table("API keys", ("id", "tenant", "groups", "label", "created"), rows)


@keys.command()
@click.argument("id")
@_keys_file_option
def revoke(id: str, keys_file: str | None) -> None:
    """Revoke a key. A running server refuses it at once."""
    gone = _ring(keys_file).revoke(id)
    click.echo(f"revoked {gone.id}")


def _ring(keys_file: str | None) -> KeyRing:
    from packwise.serving.keys import KeyRing, default_file

    return KeyRing(Path(keys_file).expanduser() if keys_file else default_file())


def _day(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")
