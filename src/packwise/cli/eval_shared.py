"""What the commands of ``packwise eval`` share: which questions, which store, progress."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from packwise.cli.console import clean, err

if TYPE_CHECKING:
    from packwise.evaluation.data import DataSet, Half
    from packwise.settings import Settings

HALVES = ("tune", "report")


@dataclass(frozen=True, slots=True)
class Asked:
    """The questions, named as the store names things, and the store they are put to."""

    dataset: DataSet
    store: str


def which_questions(command: Callable[..., None]) -> Callable[..., None]:
    """The options that say which questions are put to which store."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print the result as JSON."),
        click.option("--limit", type=click.IntRange(min=1), help="Ask only the first N questions."),
        click.option(
            "--half",
            type=click.Choice(HALVES),
            help="Ask one half of the questions: choose settings on one, report the other.",
        ),
        click.option(
            "--split", help="Which split's questions.  [default: test, else dev, else the only one]"
        ),
        click.option(
            "--store",
            help="Search this store.  [default: one built from FOLDER, kept in the cache]",
        ),
    ):
        command = option(command)
    return command


def prepare(
    place: str, store: str | None, split: str | None, half: Half | None, settings: Settings
) -> Asked:
    """Read the questions and find their store: the one given, the pack they lie in, or one
    built from their corpus. Remarks on what makes figures differ go to standard error."""
    from packwise.cli.progress import ProgressBars
    from packwise.evaluation.cache import cached_store
    from packwise.evaluation.coverage_check import within_reach
    from packwise.evaluation.goldens import QUESTIONS, load_questions, resolve
    from packwise.evaluation.leaks import pack_leaks
    from packwise.stores.locate import open_store

    dataset = load_questions(place, split=split, half=half)
    if store is None and (Path(place) / QUESTIONS).is_file():
        store = place
    if store is None:
        store = str(
            cached_store(dataset, settings, ProgressBars(f"building {clean(dataset.name)}"))
        )
    opened = open_store(store)
    try:
        dataset = within_reach(resolve(dataset, opened), opened)
        info = opened.info()
    finally:
        opened.close()
    remark(dataset, info.documents)
    if info.kind == "pack":
        told = pack_leaks(dataset.questions, Path(info.location))
        if told:
            _say(
                dataset.name,
                f"{len(told)} questions are worked examples of the pack too; asking leaves each "
                "out of its own prompt",
            )
    return Asked(dataset, store)


def remark(dataset: DataSet, documents: int) -> None:
    """Say on standard error what makes the figures differ from those of the whole corpus."""
    if dataset.absent:
        _say(
            dataset.name, f"relevant documents that no search can find: {dataset.absent} not stored"
        )
    if documents < dataset.documents:
        _say(
            dataset.name,
            f"the store holds {documents} of the corpus's {dataset.documents} documents",
        )


def _say(name: str, text: str) -> None:
    err().print(f"{clean(name)}: {text}", style="yellow", soft_wrap=True)


@contextmanager
def questions_bar(name: str, total: int) -> Generator[Callable[[int], None]]:
    """A bar on standard error, gone when it is done; none where nobody watches."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    console = err()
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as shown:
        task = shown.add_task(f"asking {clean(name)}", total=total)
        yield lambda done: shown.advance(task, done)
