"""The command line, one module per command group."""

from __future__ import annotations

import atexit
import errno
import gc
import sys
from importlib import import_module

import click

from packwise import __version__
from packwise.errors import PackwiseError

# A command is imported from the module of its name, or the one below, when it is used.
_COMMANDS = {
    "build": "Turn documents into a pack.",
    "update": "Read the sources of a pack again.",
    "add": "Add documents to a pack.",
    "watch": "Update a pack whenever its sources change.",
    "search": "Find the best passages for a query.",
    "context": "Pack the passages that answer a question.",
    "ask": "Answer a question, with sources.",
    "serve": "Answer over HTTP, and manage its keys.",
    "copy": "Copy a store to another place, including embeddings.",
    "mcp": "Offer stores to agents as tools.",
    "pack": "Show, check, install and remove packs.",
    "db": "Keep knowledge nodes in a PostgreSQL database.",
    "models": "List, verify and download the models.",
    "settings": "Show every setting and its origin.",
    "eval": "Measure retrieval on judged questions.",
    "feedback": "List what people said about answers.",
    "calibrate": "Fit a store's confidence to its answers.",
    "bench": "Measure speed on this machine.",
    "demo": "Build a small pack and search it.",
}

_MODULES = {"eval": "evaluate", "add": "update", "watch": "update"}

_OBJECTS_BEFORE_COLLECTING = 100_000
"""New objects before the garbage collector looks for cycles. A search makes fewer, nearly all of
them modules and functions that stay: looking at them again and again was a tenth of its time."""


class LazyGroup(click.Group):
    """A group that imports a command only to run it or to show its help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = import_module(f"packwise.cli.{_MODULES.get(cmd_name, cmd_name)}")
        command: click.Command = getattr(module, "evaluate" if cmd_name == "eval" else cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="packwise")
def app() -> None:
    """Documents in, the passages that contain the answer out.

    A STORE is a pack folder, the name of an installed pack, postgresql://...,
    qdrant+http://HOST:PORT/COLLECTION or kuzu:PATH.
    """


def main() -> None:
    """Run the command line. Exits with 0 on success, 1 on failure and 2 on wrong usage."""
    gc.set_threshold(_OBJECTS_BEFORE_COLLECTING)
    # Python collects several times when it ends; the system takes back all memory anyway.
    atexit.register(gc.freeze)
    try:
        # Where a command ends early with an exit code, click returns it.
        if code := app.main(standalone_mode=False):
            sys.exit(code)
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
    except OSError as error:
        # Even importing a library can fail like this, wherever it happens.
        if error.errno not in (errno.EMFILE, errno.ENFILE):
            raise
        _fail("too many files are open -> ulimit -n 1024, then again", 1)


def _fail(message: str, code: int) -> None:
    line = " ".join(message.split())
    click.echo(f"packwise: {line}", err=True)
    sys.exit(code)
