"""``packwise eval questions``: goldens made from a store itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from packwise.cli.console import err
from packwise.cli.eval_shared import questions_bar
from packwise.errors import ModelError, PackwiseError, UsageError

if TYPE_CHECKING:
    from packwise.models.llm import LanguageModel


@click.command()
@click.argument("store")
@click.option("--n", "number", type=click.IntRange(min=1), default=100, show_default=True)
@click.option(
    "--out", "target", type=click.Path(), metavar="FILE", help="Write them there.  [default: print]"
)
@click.option("--seed", type=int, default=0, show_default=True, help="Another draw.")
@click.option("--by-rule", is_flag=True, help="Ask no language model, even where one is set.")
def questions(store: str, number: int, target: str | None, seed: int, by_rule: bool) -> None:
    """Make questions from STORE, with the documents that answer them.

    With a language model configured, it writes them; else they are made from definitions,
    link anchors, figures and headings. JSON lines, marked as synthetic: `packwise eval FILE
    --store STORE` measures with them.
    """
    from packwise.evaluation.questions import as_lines, make_goldens
    from packwise.stores.locate import open_store

    if target is not None and not Path(target).absolute().parent.is_dir():
        raise UsageError(f"there is no folder to write {target} to")
    llm = None if by_rule else _language_model()
    opened = open_store(store)
    try:
        with questions_bar(store, number) as progress:
            made = make_goldens(
                opened, number, llm=llm, seed=seed, remark=_remark, progress=progress
            )
    finally:
        opened.close()
        if llm is not None:
            llm.close()
    lines = as_lines(made)
    if target is None:
        click.echo(lines, nl=False)
    else:
        try:
            Path(target).write_text(lines, encoding="utf-8")
        except OSError as error:
            raise PackwiseError(f"cannot write {target}: {error.strerror}") from error
    if len(made) < number:
        _remark(f"{len(made)} questions is all that the store gives")


def _language_model() -> LanguageModel | None:
    from packwise.models.llm import load_llm
    from packwise.settings import Settings

    settings = Settings.load()
    try:
        return load_llm(model=settings.llm_model or None, url=settings.llm_url or None)
    except ModelError as error:
        _remark(f"made by rule: {error}")
        return None


def _remark(text: str) -> None:
    err().print(text, style="yellow", soft_wrap=True)
