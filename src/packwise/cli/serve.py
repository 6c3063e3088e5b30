"""``packwise serve``: the HTTP API and the page; and the keys for it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from packwise.cli.console import clean, out, print_json
from packwise.errors import UsageError


class _StoresOrKeys(click.Group):
    """``serve STORE...`` serves; ``serve keys ...`` is about keys."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args != ["--help"] and args != ["-h"]:
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_StoresOrKeys, subcommand_metavar="STORE... | keys COMMAND")
def serve() -> None:
    """Answer over HTTP from one or several STOREs.

    `packwise serve STORE...` is short for `packwise serve run STORE...`. A STORE may be given
    a name: NAME=STORE. Only this machine can reach the server unless --host says otherwise,
    and then every request needs a key.
    """


@serve.command()
@click.argument("stores", nargs=-1, required=True, metavar="STORE...")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", default=8000, show_default=True, help="The port; 0 takes a free one.")
@click.option("--keys", "keys_file", default=None, metavar="FILE", help="The file of the API keys.")
@click.option("--no-keys", is_flag=True, help="Ask for no key; only on this machine's loopback.")
@click.option("--rate", default=None, type=float, help="Requests a minute for a key; 0: any.")
@click.option("--burst", default=None, type=int, help="Requests a key may send at once.")
@click.option("--running", default=None, type=int, help="Questions worked on at once.")
@click.option("--waiting", default=None, type=int, help="Questions that may wait their turn.")
@click.option("--deadline", default=None, type=float, help="Seconds a request may take.")
@click.option("--body-bytes", default=None, type=int, help="Largest request body.")
@click.option("--question", default=None, type=int, help="Longest question, in characters.")
@click.option("--traces", default=None, type=int, help="Traces kept in memory.")
@click.option("--report", default=None, metavar="FILE", help="An `eval --json` result to show.")
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
    """Answer over HTTP from one or several STOREs."""
    ring = keys_for(host, keys_file, no_keys)
    try:
        from packwise.serving import server
        from packwise.serving.app import build_app
    except ImportError as error:
        raise UsageError(
            f"serving needs {error.name}, which is not installed",
            fix="pip install 'packwise[serve]'",
        ) from error
    from packwise.serving.limits import Limits
    from packwise.serving.observability import Log, NoTelemetry, Spans
    from packwise.serving.store_registry import open_stores

    bounds = Limits(**{name: value for name, value in limits.items() if value is not None})
    log = Log(questions=log_questions)
    spans = Spans() if telemetry else NoTelemetry()
    listening = server.bound_socket(host, port)
    try:
        opened = open_stores(stores)
        app = build_app(
            opened,
            limits=bounds,
            keys=ring,
            log=log,
            telemetry=spans,
            report=Path(report) if report else None,
        )
        shown = f"[{host}]" if ":" in host else host
        url = f"http://{shown}:{listening.getsockname()[1]}"
        with_keys = "with keys" if ring is not None else "without keys, for this machine only"
        click.echo(f"serving {', '.join(store.name for store in opened)} on {url} ({with_keys})")
        server.serve(app, listening, bounds)
    finally:
        listening.close()
    click.echo("stopped")


def keys_for(host: str, keys_file: str | None, no_keys: bool) -> Any:
    """The keys a server asks for; ``None`` for none."""
    from packwise.serving.keys import KeyRing, default_file, is_loopback

    local = is_loopback(host)
    if no_keys:
        if not local:
            raise UsageError(
                f"{host} can be reached from elsewhere: keys are needed there",
                fix="packwise serve keys add --tenant T",
            )
        return None
    ring = KeyRing(Path(keys_file).expanduser() if keys_file else default_file())
    if ring.keys():
        return ring
    if local and keys_file is None:
        return None
    raise UsageError(
        f"there is no API key in {ring.file}, and {host} asks for one"
        if not local
        else f"there is no API key in {ring.file}",
        fix="packwise serve keys add --tenant T",
    )


@serve.group()
def keys() -> None:
    """Add, list and revoke API keys."""


_FILE = click.option(
    "--keys", "keys_file", default=None, metavar="FILE", help="The file of the API keys."
)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")


@keys.command()
@click.option("--tenant", default=None, metavar="T", help="The tenant whose documents it sees.")
@click.option("--acl", multiple=True, metavar="G", help="A group it is in; may be repeated.")
@click.option("--all", "unbound", is_flag=True, help="It sees every tenant's documents.")
@click.option("--label", default="", help="What the key is for.")
@_FILE
@_JSON
def add(
    tenant: str | None,
    acl: tuple[str, ...],
    unbound: bool,
    label: str,
    keys_file: str | None,
    as_json: bool,
) -> None:
    """Make a key; it is shown once and never again."""
    key, text = _ring(keys_file).add(tenant=tenant or "", acl=acl, unbound=unbound, label=label)
    if as_json:
        print_json({"id": key.id, "key": text, "tenant": key.tenant, "acl": list(key.acl)})
        return
    click.echo(text)
    click.echo("it is not stored and cannot be shown again", err=True)


@keys.command("list")
@_FILE
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

    table = Table(title="API keys")
    for column in ("id", "tenant", "groups", "label", "made on"):
        table.add_column(column)
    for key in found:
        tenant = "all" if key.unbound else clean(key.tenant)
        groups = clean(", ".join(key.acl))
        table.add_row(key.id, tenant, groups, clean(key.label), _day(key.created))
    out().print(table)


@keys.command()
@click.argument("id")
@_FILE
def revoke(id: str, keys_file: str | None) -> None:
    """Take a key away; a running server refuses it at once."""
    gone = _ring(keys_file).revoke(id)
    click.echo(f"revoked {gone.id}")


def _ring(keys_file: str | None) -> Any:
    from packwise.serving.keys import KeyRing, default_file

    return KeyRing(Path(keys_file).expanduser() if keys_file else default_file())


def _day(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")
