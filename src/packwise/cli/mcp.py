"""``packwise mcp``: the stores as tools for agents."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from packwise.cli.serve import limits_of, listen, missing_extra, required_keys, server_options

if TYPE_CHECKING:
    from packwise.serving.limits import Limits
    from packwise.serving.shared_state import SharedState
    from packwise.serving.store_registry import StoreRegistry


@click.command()
@click.argument("stores", nargs=-1, required=True, metavar="STORE...")
@click.option("--http", is_flag=True, help="Serve at /mcp over HTTP instead of stdio.")
@server_options(8001)
def mcp(
    stores: tuple[str, ...],
    http: bool,
    host: str,
    port: int,
    keys_file: str | None,
    no_keys: bool,
    cors: tuple[str, ...],
    workers: int | None,
    **limits: Any,
) -> None:
    """Offer one or more STOREs to agents as MCP tools.

    An agent starts this command itself and talks to it over standard input and output. With
    --http it serves many agents, with API keys as in `packwise serve`.
    """
    ring = required_keys(host, keys_file, no_keys) if http else None
    try:
        from packwise.serving import mcp_server
        from packwise.serving.store_registry import open_stores
    except ImportError as error:
        raise missing_extra("the MCP server", "mcp", error) from error
    if http:
        build = partial(_build, keys=ring.file if ring is not None else None, cors=cors)
        listen(build, stores, host, port, limits, workers, path=mcp_server.PATH)
        return
    if sys.stdin.isatty():
        click.echo("waiting for an agent on standard input; press Ctrl-D to end", err=True)
    mcp_server.run_stdio(open_stores(stores), limits=limits_of(limits))


def _build(
    opened: StoreRegistry,
    limits: Limits,
    shared: SharedState,
    *,
    keys: Path | None,
    cors: tuple[str, ...],
) -> Any:
    """The application of one process."""
    from packwise.serving.keys import KeyRing
    from packwise.serving.mcp_server import build_mcp_app

    ring = KeyRing(keys) if keys is not None else None
    return build_mcp_app(opened, limits=limits, keys=ring, cors=cors, shared=shared)
