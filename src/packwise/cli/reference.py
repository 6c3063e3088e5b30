"""The reference pages that are generated from the code.

python -m packwise.cli.reference [commands|endpoints|metrics|trace] > docs/commands.md

Those of settings and Python names exist only in the built site.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from typing import Any

import click

import packwise
from packwise.candidates import Scores
from packwise.cli import app
from packwise.context.trace import Cap, Dropped, DropReason, PackingTrace, Selected
from packwise.settings import Settings
from packwise.trace import STAGES, DroppedCandidate, Stage, Trace

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
            terminal_width=80,
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


def settings_page() -> str:
    """Every setting with its variable, default, meaning and reason, as Markdown."""
    rows: list[tuple[str, ...]] = []
    for one in fields(Settings):
        meta = one.metadata
        value = ("off", "on")[one.default] if isinstance(one.default, bool) else one.default
        shown = f"`{value}`" if str(value) else "not set"
        rows.append((f"`{meta['env']}`", shown, meta["meaning"], meta["why"]))
    return (
        "# Settings\n\nA value given in the call or on the command line comes first, then the"
        " environment variable, then the default. `packwise settings` shows the current values and"
        " their origin. Where the last column names the specification, the value was given with the"
        " design.\n\n" + _table(("variable", "default", "meaning", "why this default"), rows)
    )


def python_page() -> str:
    """Every public name with its signature and docstring, as Markdown."""
    lines = ["# Python names\n", "What `import packwise` offers, by name.\n"]
    for name in sorted(packwise.__all__, key=str.lower):
        value: Any = getattr(packwise, name)
        doc = inspect.getdoc(value) if callable(value) else None
        if name.startswith("_") or not doc:
            continue
        lines += [f"## {name}\n", *_described(name, value, doc)]
        methods = inspect.getmembers(value, inspect.isfunction) if inspect.isclass(value) else []
        for method, function in methods:
            if not method.startswith("_") and (doc := inspect.getdoc(function)):
                lines += _described(f"{name}.{method}", function, doc)
    return "\n".join(lines)


def _described(name: str, value: Any, doc: str) -> Iterator[str]:
    """A signature, without the quotes of its types, and the docstring as Markdown."""
    try:
        shown = str(inspect.signature(value)).replace("packwise.", "")
    except (ValueError, TypeError):
        shown = ""
    call = name + re.sub(r"(: |-> )'([^']*)'", r"\1\2", shown)
    wrapped = textwrap.fill(
        call, 78, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )
    yield f"```python\n{wrapped}\n```\n"
    yield f"{doc.replace('``', '`')}\n"


def endpoints_page() -> str:
    """Every endpoint of the HTTP API with its fields, from the OpenAPI document, as Markdown."""
    from packwise.serving.app import openapi_document
    from packwise.serving.page import Schemas

    document = openapi_document()
    schemas = Schemas(document)
    lines = [
        "# Endpoints\n",
        "Every endpoint with what it takes and returns, as in `/openapi.json`."
        " [The HTTP API](http.md) explains them.\n",
    ]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            lines.append(f"## {method.upper()} {path}\n\n{operation['summary']}\n")
            taken = [
                (f"`{name}`", schemas.kind(schema), "yes" if required else "", text)
                for name, schema, text, required in schemas.taken(operation)
            ]
            if taken:
                lines.append(_table(("field", "type", "required", "meaning"), taken))
            result = schemas.result(operation)
            if names := list(result.get("properties", {})):
                lines.append(f"Returns {', '.join(f'`{name}`' for name in names)}.\n")
    return "\n".join(lines)


def trace_page() -> str:
    """Every field of a trace, as Markdown."""
    lines = [
        "# The trace\n",
        "What `packwise search --json`, `packwise context --json`, `packwise ask --json --trace`"
        " and `/v1/trace/{id}` return under `trace`. More fields may be added under the same"
        " `version`.\n",
        "## Of a search or an answer\n",
        _fields(Trace, {"version": "1"}),
        "### stages[]\n",
        _fields(Stage, without=("started", "error")),
        "Notes stand beside `name` and `ms`. The stages, in the order in which they can run:\n",
        _table(("name", "what it does"), ((f"`{name}`", text) for name, text in STAGES.items())),
        "### dropped[]\n",
        _fields(DroppedCandidate),
        "## Of a context\n",
        "An answer has it under `packing`. Equal input gives an equal trace, byte for byte.\n",
        _fields(
            PackingTrace,
            {
                "version": "1",
                "candidates": inspect.getdoc(PackingTrace.candidates) or "",
                "merges": "passages that became one piece: its `marker` and their `ids`",
                "reunions": "neighbours that were attached to a passage: `id`, `to`, `tokens`",
            },
        ),
        "### selected[]\n",
        _fields(Selected),
        "### dropped[]\n",
        _fields(Dropped),
        "Each candidate that is not in the context has exactly one reason:\n",
        _table(
            ("reason", "meaning"),
            (
                (f"`{DropReason[name].value}`", text)
                for name, text in _attribute_docs(DropReason).items()
            ),
        ),
        "### caps[]\n",
        _fields(Cap),
        "## Scores\n",
        f"```text\n{inspect.getdoc(Scores)}\n```",
    ]
    return "\n".join(lines) + "\n"


def metrics_page() -> str:
    """Every metric of an evaluation and of a server, as Markdown."""
    from packwise.evaluation.metrics import AVERAGED, CONTEXT_FORMULAS, RANKING_FORMULAS, STANDARD
    from packwise.serving.observability import Metrics
    from packwise.serving.operations import CURRENT

    head = ("metric", "meaning")
    ranking = [
        (
            ", ".join(f"`{one}`" for one in STANDARD if one.formula == formula),
            " ".join((inspect.getdoc(function) or "").replace("``k``", "k").split()),
        )
        for formula, function in RANKING_FORMULAS.items()
    ]
    served = [
        (f"`{name}`", ", ".join(f"`{label}`" for label in labels), text)
        for name, text, labels in Metrics().described
    ]
    served += [
        (f"`{name}`", "`store`" if name in list(CURRENT)[-3:] else "", text)
        for name, text in CURRENT.items()
    ]
    return "\n".join(
        (
            "# Metrics\n",
            "## Of rankings\n",
            "`packwise eval` prints them: means over the judged questions, equal to those of"
            " `ir_measures` and trec_eval.\n",
            _table(head, ranking),
            "## Of contexts\n",
            "`packwise eval --budget B` prints them for the questions that can be answered.\n",
            _table(head, ((f"`{name}@B`", text) for name, text in CONTEXT_FORMULAS.items())),
            f"{', '.join(f'`{name}`' for name in AVERAGED)} without a budget are means over the"
            " budgets.\n",
            "## Of a server\n",
            "`packwise serve` has them at `/metrics`, for Prometheus. Those of stores are shown"
            " only to keys that see every document.\n",
            _table(("metric", "labels", "meaning"), served),
        )
    )


def _fields(record: type, more: dict[str, str] | None = None, without: Sequence[str] = ()) -> str:
    """The documented fields of a record."""
    known = {name: text for name, text in _attribute_docs(record).items() if name not in without}
    rows = ((f"`{name}`", text) for name, text in ((more or {}) | known).items())
    return _table(("field", "meaning"), rows)


def _attribute_docs(record: type) -> dict[str, str]:
    """The string below each attribute of a class."""
    (body,) = ast.parse(inspect.getsource(record)).body
    assert isinstance(body, ast.ClassDef)
    found: dict[str, str] = {}
    for one, below in zip(body.body, body.body[1:], strict=False):
        target = one.target if isinstance(one, ast.AnnAssign) else None
        target = one.targets[0] if isinstance(one, ast.Assign) else target
        if isinstance(target, ast.Name):
            value = below.value if isinstance(below, ast.Expr) else None
            text = value.value if isinstance(value, ast.Constant) else ""
            found[target.id] = " ".join(str(text).replace("``", "`").split())
    return found


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head)]
    lines += [[str(cell).replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


PAGES = {
    "commands": reference,
    "endpoints": endpoints_page,
    "metrics": metrics_page,
    "trace": trace_page,
}


if __name__ == "__main__":
    click.echo(PAGES[sys.argv[1] if len(sys.argv) > 1 else "commands"](), nl=False)
