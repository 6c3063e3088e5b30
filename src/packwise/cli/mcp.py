"""``packwise mcp``: the stores as tools for agents."""

from __future__ import annotations

import sys
from typing import Any

import click

from packwise.cli.serve import keys_for
from packwise.errors import UsageError


@click.command()
@click.argument("stores", nargs=-1, required=True, metavar="STORE...")
@click.option("--http", is_flag=True, help="Serve at /mcp over HTTP instead of stdio.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", default=8001, show_default=True, help="The port; 0 takes a free one.")
@click.option("--keys", "keys_file", default=None, metavar="FILE", help="The file of the API keys.")
@click.option("--no-keys", is_flag=True, help="Ask for no key; only on this machine's loopback.")
@click.option("--rate", default=None, type=float, help="Requests a minute for a key; 0: any.")
@click.option("--running", default=None, type=int, help="Questions worked on at once.")
@click.option("--deadline", default=None, type=float, help="Seconds a request may take.")
def mcp(
    stores: tuple[str, ...],
    http: bool,
    host: str,
    port: int,
    keys_file: str | None,
    no_keys: bool,
    **limits: Any,
) -> None:
    """Offer one or several STOREs to agents as MCP tools.

    An agent starts it itself and speaks with it over standard input and output. With --http it
    serves many, with keys as `packwise serve` does.
    """
    ring = keys_for(host, keys_file, no_keys) if http else None
    try:
        from packwise.serving import mcp_server, server
    except ImportError as error:
        raise UsageError(
            f"the MCP server needs {error.name}, which is not installed",
            fix="pip install 'packwise[mcp]'",
        ) from error
    from packwise.serving.limits import Limits
    from packwise.serving.store_registry import open_stores

    bounds = Limits(**{name: value for name, value in limits.items() if value is not None})
    if not http:
        if sys.stdin.isatty():
            click.echo("an agent speaks MCP with this on standard input; Ctrl-D ends it", err=True)
        mcp_server.run_stdio(open_stores(stores), limits=bounds)
        return
    listening = server.bound_socket(host, port)
    try:
        opened = open_stores(stores)
        app = mcp_server.build_mcp_app(opened, limits=bounds, keys=ring)
        shown = f"[{host}]" if ":" in host else host
        url = f"http://{shown}:{listening.getsockname()[1]}{mcp_server.PATH}"
        click.echo(f"serving {', '.join(store.name for store in opened)} on {url}")
        server.serve(app, listening, bounds)
    finally:
        listening.close()
    click.echo("stopped")
