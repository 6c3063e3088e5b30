"""Which questions ``packwise eval`` puts to which store: the options, the store, progress."""

from __future__ import annotations

import functools
import os
import shlex
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from packwise.cli.console import clean, err, json_option, note
from packwise.errors import UsageError

if TYPE_CHECKING:
    from packwise.evaluation.data import DataSet, Half, Question
    from packwise.evaluation.experiment import Experiment
    from packwise.evaluation.variants import Variant
    from packwise.settings import Settings


@dataclass(frozen=True, slots=True)
class QuestionChoice:
    """Which questions are put to which store."""

    folder: str
    store: str | None
    split: str | None
    half: Half | None
    limit: int | None

    def prepare(self, settings: Settings) -> EvaluationRun:
        """Read the questions and find their store: the given one, the pack they are part of, or
        one built from their corpus. What makes the figures differ is said on standard error."""
        from packwise.cli.progress import ProgressBars
        from packwise.evaluation.cache import cached_store
        from packwise.evaluation.coverage_check import check_coverage, leaked_questions
        from packwise.evaluation.goldens import has_questions, load_questions, resolve
        from packwise.stores.locate import open_store

        dataset = load_questions(self.folder, split=self.split, half=self.half)
        store = self.store
        if store is None and has_questions(self.folder):
            store = self.folder
        if store is None:
            progress = ProgressBars(f"building {clean(dataset.name)}")
            store = str(cached_store(dataset, settings, progress))
        with open_store(store) as opened:
            dataset = check_coverage(resolve(dataset, opened), opened)
            info = opened.info()
        pack = Path(info.location) if info.kind == "pack" else None
        leaked = len(leaked_questions(dataset.questions, pack)) if pack else 0
        missing = dataset.documents - info.documents
        for number, text in (
            (dataset.absent, "relevant documents missing from the store"),
            (missing, "documents of the corpus missing from the store"),
            (leaked, "questions that are few-shot examples too (left out of their own prompts)"),
        ):
            if number > 0:
                note(f"{dataset.name}: {text}: {number}")
        return EvaluationRun(dataset, store, self.limit)

    def command_line(
        self, *words: str, folders: Sequence[str] = (), **options: Sequence[object]
    ) -> str:
        """The command that makes a page or a table again. A folder within ``PACKWISE_DATA`` is
        written with that variable, so that the line works on other machines."""
        data = os.environ.get("PACKWISE_DATA")
        line = ["packwise", "eval", *words]
        for folder in folders or (self.folder,):
            place = Path(folder).resolve()
            if data and place.is_relative_to(Path(data).resolve()):
                inside = place.relative_to(Path(data).resolve()).as_posix()
                line.append(f'"$PACKWISE_DATA"/{shlex.quote(inside)}')
            else:
                line.append(shlex.quote(folder))
        own = {"split": [self.split], "half": [self.half], "limit": [self.limit]}
        for option, values in (own | options).items():
            for value in values:
                line += [] if value is None else [f"--{option}", shlex.quote(str(value))]
        return " ".join(line)


@dataclass(frozen=True, slots=True)
class EvaluationRun:
    """Questions with documents named as the store names them, and the store."""

    dataset: DataSet
    store: str
    limit: int | None

    def run(
        self, variants: Sequence[Variant], questions: Sequence[Question], **options: Any
    ) -> Experiment:
        """Run an experiment with a progress bar; options are those of ``run_experiment``."""
        from packwise.evaluation.experiment import run_experiment

        asked = questions[: self.limit]
        with progress_bar(self.dataset.name, len(asked) * len(variants)) as progress:
            return run_experiment(
                self.dataset, self.store, variants, asked, progress=progress, **options
            )

    def run_rankings(self, variants: Sequence[Variant], reference: str = "") -> Experiment:
        """Rank many documents per judged question."""
        from packwise.evaluation.experiment import DEPTH

        return self.run(variants, self.dataset.judged, depth=DEPTH, reference=reference)

    def run_variants(
        self, variants: Sequence[Variant], budgets: Sequence[int], keep_traces: bool = False
    ) -> Experiment:
        """Rankings and contexts; the first budget is the one that contexts are judged by."""
        return self.run(
            variants,
            self.dataset.known,
            budgets=budgets,
            keep_traces=keep_traces,
            count_errors=True,
        )


@contextmanager
def progress_bar(name: str, total: int) -> Generator[Callable[[int], None]]:
    """A progress bar on standard error if that is a terminal; it disappears at the end."""
    from rich import progress

    console = err()
    columns = (
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TextColumn("left"),
        progress.TimeRemainingColumn(),
    )
    with progress.Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task(f"asking {clean(name)}", total=total)
        yield lambda done: bar.advance(task, done)


def question_options(with_store: bool = True) -> Callable[[Callable[..., None]], click.Command]:
    """The options that select questions; the command receives them as ``selection``."""

    def decorate(command: Callable[..., None]) -> Any:
        @functools.wraps(command)
        def call(
            split: str | None,
            half: Half | None,
            limit: int | None,
            folder: str | None = None,
            store: str | None = None,
            **others: Any,
        ) -> None:
            command(selection=QuestionChoice(folder or "", store, split, half, limit), **others)

        options = [
            json_option,
            click.option(
                "--limit", type=click.IntRange(min=1), help="Ask only the first N questions."
            ),
            click.option(
                "--half",
                type=click.Choice(("tune", "report")),
                help="Ask one half of the questions: choose settings on one, report the other.",
            ),
            click.option(
                "--split",
                help="Which split's questions.  [default: test, else dev, else the only one]",
            ),
        ]
        if with_store:
            options.append(
                click.option(
                    "--store",
                    help="Search this store.  [default: one built from FOLDER, kept in the cache]",
                )
            )
        return functools.reduce(lambda decorated, option: option(decorated), options, call)

    return decorate


def check_folder_of(path: str | None) -> None:
    """Raise ``UsageError`` before measuring if a file could not be written afterwards."""
    if path is not None and not Path(path).absolute().parent.is_dir():
        raise UsageError(f"there is no folder to write {path} to")
