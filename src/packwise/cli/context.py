"""``packwise context``: a text that fits the budget, and why each passage is in or out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, get_args

import click

from packwise.candidates import PACKING_POLICIES, Fusion, Mode, PackingPolicy
from packwise.cli.console import (
    clean,
    counted,
    json_option,
    number,
    out,
    parse_where,
    print_json,
    say,
    text_argument,
    where_option,
    write_file,
)

if TYPE_CHECKING:
    from packwise.context.packer import Context
    from packwise.context.trace import Dropped, Selected


_PACKING_OPTIONS = (
    ("per-doc-cap", "N", "PACKING_PER_DOC_CAP", "Most passages per document"),
    ("per-section-cap", "N", "PACKING_PER_SECTION_CAP", "Most passages per section"),
    ("novelty-alpha", "X", "PACKING_NOVELTY_ALPHA", "Weight of novelty against relevance"),
    ("answerability-bonus", "X", "PACKING_ANSWERABILITY_BONUS", "Bonus for likely answers"),
    ("reunification", "on|off", "SECTION_REUNIFICATION", "Attach the neighbours of passages"),
    ("token-price", "X", "PACKING_TOKEN_PRICE", "What a thousand tokens must add"),
)


def _packing_options(command: Callable[..., None]) -> Callable[..., None]:
    for name, form, variable, text in reversed(_PACKING_OPTIONS):
        shown = f"{text} (PACKWISE_{variable})."
        command = click.option(f"--{name}", variable.lower(), metavar=form, help=shown)(command)
    return command


@click.command()
@click.argument("store")
@text_argument("question")
@click.option(
    "--budget", type=click.IntRange(min=1), metavar="N", help="Most tokens of the context."
)
@click.option("--policy", type=click.Choice(PACKING_POLICIES), help="How passages are chosen.")
@click.option("--mode", type=click.Choice(get_args(Mode)), default="hybrid", help="Which legs.")
@click.option("--fusion", type=click.Choice(get_args(Fusion)), help="How the legs are joined.")
@where_option
@click.option(
    "--tokenizer-model",
    metavar="MODEL",
    help="Whose tokens are counted (PACKWISE_TOKENIZER_MODEL).",
)
@click.option(
    "--token-counts",
    type=click.Choice(("local", "api")),
    help="Count with a stated margin, or ask Claude's API (PACKWISE_TOKEN_COUNTS).",
)
@_packing_options
@click.option("--trace", is_flag=True, help="Show why each passage is in or out.")
@click.option("--html", metavar="FILE", help="Write the trace there as a page.")
@json_option
def context(
    store: str,
    question: str,
    budget: int | None,
    policy: PackingPolicy | None,
    mode: Mode,
    fusion: Fusion | None,
    where: tuple[str, ...],
    trace: bool,
    html: str | None,
    as_json: bool,
    **packing: Any,
) -> None:
    """Pack the passages of STORE that answer QUESTION into a text of at most N tokens.

    Options that are not given are taken from the environment; see `packwise settings`.
    """
    from packwise.library import open_library
    from packwise.settings import Settings

    with open_library(store, settings=Settings.load(**packing)) as library:
        packed = library.context(
            question, budget, policy=policy, mode=mode, fusion=fusion, where=parse_where(where)
        )
    if html:
        from packwise.context.html import render

        write_file(html, render(packed))
    if as_json:
        print_json(packed.as_dict())
        return
    click.echo(clean(packed.text))
    line = (
        f"{packed.tokens} of {packed.budget} tokens, {counted(len(packed.passages), 'passage')}, "
        f"confidence {packed.confidence:.2f}"
    )
    say((line, "dim"), stderr=True)
    if trace:
        _show_trace(packed)


def _show_trace(packed: Context) -> None:
    from rich.table import Table

    table = Table(title="why each passage is in or out")
    for column in ("", "passage", "tokens", "score", "bonus", "novelty", "why"):
        table.add_column(column, justify="left" if column in ("", "passage", "why") else "right")

    def add(marker: str, entry: Selected | Dropped, why: str, style: str) -> None:
        scores = (number(value) for value in (entry.scores.final, entry.bonus, entry.novelty))
        tokens = str(entry.tokens if marker else entry.tokens or "-")
        table.add_row(marker, clean(entry.id), tokens, *scores, clean(why), style=style)

    for entry in packed.trace.selected:
        why = f"attached to {entry.attached_to}" if entry.attached_to else "in"
        if entry.reduced:
            why += f", {entry.sentences[0]} of {entry.sentences[1]} sentences"
        add(f"[{entry.marker}]", entry, why, "green")
    for entry in packed.trace.dropped:
        add("", entry, " ".join(filter(None, (entry.reason.value, entry.of))), "dim")
    out().print(table)
