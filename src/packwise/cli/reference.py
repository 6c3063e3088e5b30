"""The command reference, generated from the commands.

python -m packwise.cli.reference > docs/commands.md
"""

from __future__ import annotations

from collections.abc import Iterator

import click

from packwise.cli import app

_OPENING = """\
# Commands

The `--help` text of every command. Exit code 0 means success, 1 failure (one line on standard
error says what went wrong and what to run), 2 wrong usage. Commands that print results take
`--json`.
"""


def reference() -> str:
    """The whole page as Markdown."""
    pages = [_OPENING]
    for path, command in commands(app, ("packwise",)):
        context = click.Context(
            command,
            info_name=" ".join(path),
            terminal_width=88,
            help_option_names=app.context_settings["help_option_names"],
        )
        pages.append(f"## `{' '.join(path)}`\n\n```text\n{command.get_help(context)}\n```\n")
    return "\n".join(pages)


def commands(
    command: click.Command, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """A command and all its subcommands, with the words that call them."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None:
                yield from commands(below, (*path, name))


if __name__ == "__main__":
    click.echo(reference(), nl=False)
