"""The command line, one module per command group."""

from __future__ import annotations

import sys
from importlib import import_module

import click

from packwise import __version__
from packwise.errors import PackwiseError

# Name, module and one line of help. A command's module is imported when it is used.
_COMMANDS = {
    "build": ("packwise.cli.build:build", "Turn documents into a pack."),
    "search": ("packwise.cli.search:search", "Find the best passages for a query."),
    "context": ("packwise.cli.context:context", "Pack the passages that answer a question."),
    "ask": ("packwise.cli.ask:ask", "Answer a question, with sources."),
    "serve": ("packwise.cli.serve:serve", "Answer over HTTP, and manage its keys."),
    "copy": ("packwise.cli.copy:copy", "Copy a store to another place, including embeddings."),
    "mcp": ("packwise.cli.mcp:mcp", "Offer stores to agents as tools."),
    "pack": ("packwise.cli.pack:pack", "Show, check, install and remove packs."),
    "db": ("packwise.cli.db:db", "Keep knowledge nodes in a PostgreSQL database."),
    "models": ("packwise.cli.models:models", "List, verify and download the models."),
    "settings": (
        "packwise.cli.settings:settings",
        "Show every setting and its origin.",
    ),
    "eval": ("packwise.cli.evaluate:evaluate", "Measure retrieval on judged questions."),
    "calibrate": ("packwise.cli.calibrate:calibrate", "Fit a store's confidence to its answers."),
    "bench": ("packwise.cli.bench:bench", "Measure speed on this machine."),
    "demo": ("packwise.cli.demo:demo", "Build a small pack and search it."),
}


class LazyGroup(click.Group):
    """A group that imports a command only to run it or to show its help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, _, attribute = _COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in _COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="packwise")
def app() -> None:
    """Documents in, the passages that contain the answer out.

    A STORE is a pack folder, the name of an installed pack, postgresql://...,
    qdrant+http://HOST:PORT/COLLECTION or kuzu:PATH.
    """


def main() -> None:
    """Run the command line. Exits with 0 on success, 1 on failure and 2 on wrong usage."""
    try:
        app.main(standalone_mode=False)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except PackwiseError as error:
        _fail(str(error), error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        _fail("stopped; stored content is unchanged", 130)
    except BrokenPipeError:
        # Nothing reads our output any more (`packwise search ... | head`): not a failure.
        sys.stderr.close()
        sys.exit(0)


def _fail(message: str, code: int) -> None:
    line = " ".join(message.split())
    click.echo(f"packwise: {line}", err=True)
    sys.exit(code)
