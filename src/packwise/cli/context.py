"""``packwise context``: a text that fits the budget, and why each passage is in or out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from packwise.candidates import PACKING_POLICIES, Fusion, Mode, PackingPolicy
from packwise.cli.console import clean, err, number, out, parse_where, print_json
from packwise.errors import PackwiseError

if TYPE_CHECKING:
    from packwise.context.packer import Context


@click.command()
@click.argument("store")
@click.argument("question")
@click.option("--budget", type=int, default=None, metavar="N", help="Most tokens of the text.")
@click.option(
    "--policy", type=click.Choice(PACKING_POLICIES), default=None, help="How passages are chosen."
)
@click.option("--mode", type=click.Choice(get_args(Mode)), default="hybrid", help="Which legs.")
@click.option(
    "--fusion", type=click.Choice(get_args(Fusion)), default=None, help="How the legs are joined."
)
@click.option(
    "--where",
    multiple=True,
    metavar="KEY=VALUE",
    help="Only passages of that document, path, lang or metadata; may be repeated.",
)
@click.option(
    "--tokenizer-model", metavar="MODEL", help="Whose tokens are counted (TOKENIZER_MODEL)."
)
@click.option(
    "--token-counts",
    type=click.Choice(("local", "api")),
    help="Count with a stated margin, or ask Claude's API (PACKWISE_TOKEN_COUNTS).",
)
@click.option(
    "--per-doc-cap",
    "packing_per_doc_cap",
    metavar="N",
    help="Passages a document may give (PACKING_PER_DOC_CAP).",
)
@click.option(
    "--per-section-cap",
    "packing_per_section_cap",
    metavar="N",
    help="Passages a section may give (PACKING_PER_SECTION_CAP).",
)
@click.option(
    "--novelty-alpha",
    "packing_novelty_alpha",
    metavar="X",
    help="Weight of novelty against relevance (PACKING_NOVELTY_ALPHA).",
)
@click.option(
    "--answerability-bonus",
    "packing_answerability_bonus",
    metavar="X",
    help="Bonus of what looks like an answer (PACKING_ANSWERABILITY_BONUS).",
)
@click.option(
    "--reunification",
    "section_reunification",
    metavar="on|off",
    help="Attach the neighbours of a passage (SECTION_REUNIFICATION).",
)
@click.option(
    "--token-price",
    "packing_token_price",
    metavar="X",
    help="What a thousand tokens must bring (PACKWISE_PACKING_TOKEN_PRICE).",
)
@click.option("--trace", is_flag=True, help="Show why each passage is in or out.")
@click.option("--html", default=None, metavar="FILE", help="Write the trace there as a page.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
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
    **knobs: Any,
) -> None:
    """Pack the passages of STORE that answer QUESTION into a text of at most N tokens.

    What is not given is as the environment says; `packwise settings` shows it.
    """
    from packwise.library import open_library
    from packwise.settings import Settings

    with open_library(store, settings=Settings.load(**knobs)) as library:
        packed = library.context(
            question, budget, policy=policy, mode=mode, fusion=fusion, where=parse_where(where)
        )
    if html:
        from packwise.context.html import render

        try:
            Path(html).write_text(render(packed), encoding="utf-8")
        except OSError as error:
            raise PackwiseError(f"cannot write {html}: {error.strerror}") from error
    if as_json:
        print_json(packed.as_dict())
        return
    click.echo(clean(packed.text))
    err().print(
        f"{packed.tokens} of {packed.budget} tokens, {len(packed.passages)} passages, "
        f"confidence {packed.confidence:.2f}",
        style="dim",
    )
    if trace:
        _show_trace(packed)


def _show_trace(packed: Context) -> None:
    from rich.table import Table

    table = Table(title="why each passage is in or out")
    for column in ("", "passage", "tokens", "score", "bonus", "novelty", "why"):
        table.add_column(column, justify="left" if column in ("", "passage", "why") else "right")
    for entry in packed.trace.selected:
        why = f"attached to {entry.attached_to}" if entry.attached_to else "in"
        if entry.reduced:
            why += f", {entry.units} of {entry.of_units} sentences"
        table.add_row(
            f"[{entry.marker}]",
            clean(entry.id),
            str(entry.tokens),
            number(entry.scores.final),
            number(entry.bonus),
            number(entry.novelty),
            clean(why),
            style="green",
        )
    for entry in packed.trace.dropped:
        of = f" {entry.of}" if entry.of else ""
        table.add_row(
            "",
            clean(entry.id),
            str(entry.tokens or "-"),
            number(entry.scores.final),
            number(entry.bonus),
            number(entry.novelty),
            clean(f"{entry.reason.value}{of}"),
            style="dim",
        )
    out().print(table)
