"""What every command shares: output, tables, JSON, common options, and text safe for a terminal."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from packwise.candidates import Filter
from packwise.errors import PackwiseError, UsageError
from packwise.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_Command = TypeVar("_Command", bound=Callable[..., Any])

# Control characters except tab and newline, and the marks that reorder text on the screen.
_UNSAFE = lazy_pattern(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200e\u200f]")

json_option = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
embedder_option = click.option(
    "--embedder",
    default=None,
    metavar="NAME",
    help="One of packwise models, a folder, a hub name or openai:MODEL@URL.",
)
where_option = click.option(
    "--where",
    multiple=True,
    metavar="KEY=VALUE",
    help="Only passages with this document, path, lang or metadata; may be repeated.",
)


class DefaultGroup(click.Group):
    """A group that runs ``run`` if the first argument is neither a command nor ``--help``."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        named = (*self.commands, *ctx.help_option_names)
        if args[0] not in named if args else not self.no_args_is_help:
            args = ["run", *args]
        return super().parse_args(ctx, args)


def text_argument(name: str) -> Callable[[_Command], _Command]:
    """An argument of one or more words, with or without quotes around them."""

    def join(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> str:
        return " ".join(value)

    return click.argument(name, nargs=-1, required=True, callback=join, metavar=name.upper())


def split_stores(store: str, text: str) -> tuple[list[str], str]:
    """The stores at the start of ``STORE... TEXT``: the first, and every further word that names
    an existing store, as long as words are left for the text."""
    from packwise.stores.locate import exists

    stores, words = [store], text.split(" ")
    while len(words) > 1 and exists(words[0]):
        stores.append(words.pop(0))
    return list(dict.fromkeys(stores)), " ".join(words)


def clean(text: str) -> str:
    """Text from a document, unable to move the cursor, colour the screen or reorder itself."""
    return _UNSAFE.sub("", text)


def out() -> Console:
    """The console for results."""
    return _console(stderr=False)


def err() -> Console:
    """The console for progress and notes: standard error, so that output can be piped."""
    return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    from rich.console import Console
    from rich.text import Text

    class LineConsole(Console):
        """Wraps text to the width of a terminal, and never in a pipe or a file."""

        def print(self, *objects: Any, **how: Any) -> None:
            if not self.is_terminal and all(isinstance(o, (str, Text)) for o in objects):
                how.setdefault("soft_wrap", True)
            super().print(*objects, **how)

    return LineConsole(stderr=stderr, highlight=False, emoji=False, markup=False)


Part = str | tuple[str, str]
"""A piece of a line, plain or with its style."""


def say(*parts: Part, stderr: bool = False) -> None:
    """Print a line of pieces, with their styles where it goes to a terminal."""
    if in_terminal(stderr=stderr):
        from rich.text import Text

        _console(stderr=stderr).print(Text.assemble(*parts))
        return
    # rich takes as long to import as a search.
    plain = "".join(part if isinstance(part, str) else part[0] for part in parts)
    click.echo(plain.expandtabs(), err=stderr)


def in_terminal(*, stderr: bool = False) -> bool:
    """Whether what is printed may go to a terminal; the variables are those that rich reads."""
    forced = any(os.environ.get(name) for name in ("FORCE_COLOR", "TTY_COMPATIBLE"))
    stream = sys.stderr if stderr else sys.stdout
    return (forced or stream.isatty()) and _console(stderr=stderr).is_terminal


def note(line: str, style: str = "yellow") -> None:
    """One line on standard error."""
    say((clean(line), style), stderr=True)


def print_json(value: Any) -> None:
    """Print a value as JSON, with everything escaped that could control a terminal."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    click.echo(_UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def emit(as_json: bool, record: Callable[[], Any], show: Callable[[], None]) -> None:
    """Print a result as JSON or for people."""
    if as_json:
        print_json(record())
    else:
        show()


def write_file(path: str, text: str) -> None:
    """Write a text file."""
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise PackwiseError(f"cannot write {path}: {error.strerror}") from error


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[str | Text]],
    *,
    header: bool = True,
) -> None:
    """Print a table; a column whose name starts with ``>`` is aligned to the right."""
    from rich.table import Table

    table = Table(title=clean(title) or None, show_header=header)
    for name in columns:
        justify = "right" if name.startswith(">") else "left"
        table.add_column(name.removeprefix(">"), justify=justify, overflow="fold")
    for row in rows:
        table.add_row(*(clean(cell) if isinstance(cell, str) else cell for cell in row))
    out().print(table)


def number(value: float | None) -> str:
    """A score for a table; a dash if there is none."""
    return "-" if value is None else f"{value:.3f}"


def counted(count: int, what: str) -> str:
    """A number of things: ``1 node``, ``2 nodes``."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def size(count: float) -> str:
    """A number of bytes for people."""
    amount = float(count)
    for unit in ("B", "kB", "MB"):
        if abs(amount) < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"


def parse_where(pairs: tuple[str, ...]) -> Filter:
    """``key=value`` options as a filter; ``Filter.parse`` lists the keys."""
    split: list[tuple[str, str]] = []
    for pair in pairs:
        key, _, value = pair.partition("=")
        if not key.strip() or not value:
            raise UsageError(f"--where takes key=value, not {pair!r}")
        split.append((key.strip(), value))
    return Filter.parse(split)
