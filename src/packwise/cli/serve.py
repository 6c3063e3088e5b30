"""``packwise serve``: the HTTP API and the page, and their API keys."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from packwise.cli.console import clean, out, print_json
from packwise.errors import UsageError

if TYPE_CHECKING:
    from packwise.serving.keys import KeyRing
    from packwise.serving.limits import Limits
    from packwise.serving.store_registry import StoreRegistry

KEYS_FILE = click.option(
    "--keys", "keys_file", default=None, metavar="FILE", help="The file with the API keys."
)
NO_KEYS = click.option("--no-keys", is_flag=True, help="Require no key; on loopback only.")
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


class _StoresOrKeys(click.Group):
    """``serve STORE...`` serves; ``serve keys ...`` manages keys."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args != ["--help"] and args != ["-h"]:
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_StoresOrKeys, subcommand_metavar="STORE... | keys COMMAND")
def serve() -> None:
    """Serve one or more STOREs over HTTP.

    `packwise serve STORE...` is short for `packwise serve run STORE...`. NAME=STORE gives a
    store a name. By default only this machine can connect. With another --host, every request
    needs an API key.
    """


@serve.command()
@click.argument("stores", nargs=-1, required=True, metavar="STORE...")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", default=8000, show_default=True, help="The port; 0: any free port.")
@KEYS_FILE
@NO_KEYS
@click.option("--rate", default=None, type=float, help="Requests per minute and key; 0: any.")
@click.option("--burst", default=None, type=int, help="Requests a key may send at once.")
@click.option("--running", default=None, type=int, help="Questions to work on at once.")
@click.option("--waiting", default=None, type=int, help="Questions that may wait in the queue.")
@click.option("--deadline", default=None, type=float, help="Seconds a request may take.")
@click.option("--body-bytes", default=None, type=int, help="Largest request body.")
@click.option("--question", default=None, type=int, help="Longest question, in characters.")
@click.option("--traces", default=None, type=int, help="Traces to keep in memory.")
@click.option("--report", default=None, metavar="FILE", help="A result of `eval --json` to show.")
@click.option("--log-questions", is_flag=True, help="Write the questions to the log.")
@click.option("--telemetry", is_flag=True, help="Send OpenTelemetry spans over OTLP.")
def run(
    stores: tuple[str, ...],
    host: str,
    port: int,
    keys_file: str | None,
    no_keys: bool,
    report: str | None,
    log_questions: bool,
    telemetry: bool,
    **limits: Any,
) -> None:
    """Serve one or more STOREs over HTTP."""
    ring = required_keys(host, keys_file, no_keys)
    try:
        from packwise.serving.app import build_app
        from packwise.serving.observability import Log, Spans
    except ImportError as error:
        raise missing_extra("serving", "serve", error) from error

    def build(opened: StoreRegistry, bounds: Limits) -> Any:
        return build_app(
            opened,
            limits=bounds,
            keys=ring,
            log=Log(questions=log_questions),
            telemetry=Spans() if telemetry else None,
            report=Path(report) if report else None,
        )

    note = " (with keys)" if ring is not None else " (without keys, for this machine only)"
    listen(build, stores, host, port, limits, note=note)


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
    build: Callable[[StoreRegistry, Limits], Any],
    stores: tuple[str, ...],
    host: str,
    port: int,
    limits: dict[str, Any],
    *,
    path: str = "",
    note: str = "",
) -> None:
    """Open the stores, then serve the application that ``build`` makes until it is stopped."""
    try:
        from packwise.serving import server
    except ImportError as error:
        raise missing_extra("serving", "serve", error) from error
    from packwise.serving.store_registry import open_stores

    bounds = limits_of(limits)
    listening = server.bound_socket(host, port)
    try:
        opened = open_stores(stores)
        app = build(opened, bounds)
        shown = f"[{host}]" if ":" in host else host
        names = ", ".join(store.name for store in opened)
        url = f"http://{shown}:{listening.getsockname()[1]}{path}"
        click.echo(f"serving {names} on {url}{note}")
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
    if local and keys_file is None:
        return None
    reason = "" if local else f", and {host} requires one"
    raise UsageError(f"there is no API key in {ring.file}{reason}", fix=fix)


@serve.group()
def keys() -> None:
    """Add, list and revoke API keys."""


@keys.command()
@click.option("--tenant", default=None, metavar="T", help="The tenant whose documents it sees.")
@click.option("--acl", multiple=True, metavar="G", help="A group of the tenant; may be repeated.")
@click.option("--all", "unbound", is_flag=True, help="It sees the documents of every tenant.")
@click.option("--label", default="", help="What the key is for.")
@KEYS_FILE
@_JSON
def add(
    tenant: str | None,
    acl: tuple[str, ...],
    unbound: bool,
    label: str,
    keys_file: str | None,
    as_json: bool,
) -> None:
    """Create a key. It is shown only once."""
    key, text = _ring(keys_file).add(tenant=tenant or "", acl=acl, unbound=unbound, label=label)
    if as_json:
        print_json({"id": key.id, "key": text, "tenant": key.tenant, "acl": list(key.acl)})
        return
    click.echo(text)
    click.echo("it is not stored and cannot be shown again", err=True)


@keys.command("list")
@KEYS_FILE
@_JSON
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
    from rich.table import Table

    table = Table("id", "tenant", "groups", "label", "created", title="API keys")
    for key in found:
        tenant = "all" if key.unbound else clean(key.tenant)
        groups = clean(", ".join(key.acl))
        table.add_row(key.id, tenant, groups, clean(key.label), _day(key.created))
    out().print(table)


@keys.command()
@click.argument("id")
@KEYS_FILE
def revoke(id: str, keys_file: str | None) -> None:
    """Revoke a key. A running server refuses it at once."""
    gone = _ring(keys_file).revoke(id)
    click.echo(f"revoked {gone.id}")


def _ring(keys_file: str | None) -> KeyRing:
    from packwise.serving.keys import KeyRing, default_file

    return KeyRing(Path(keys_file).expanduser() if keys_file else default_file())


def _day(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")
