"""Progress bars for long work, on standard error and only on a terminal."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from packwise.cli.console import err


class BuildProgress:
    """Shows a build: documents done, passages embedded a second, time left."""

    def __init__(self, title: str = "building", *, quiet: bool = False) -> None:
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            SpinnerColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        console = err()
        self._bars = Progress(
            SpinnerColumn(finished_text="✓"),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}", markup=False),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(elapsed_when_finished=False),
            console=console,
            disable=quiet or not console.is_terminal,
        )
        self._documents = self._bars.add_task(f"{title}: documents", total=None, rate="")
        self._passages = 0

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self._bars.stop()

    def counted(self, documents: int) -> None:
        self._bars.update(self._documents, total=documents)

    def document(self) -> None:
        self._bars.advance(self._documents)

    def embedded(self, passages: int) -> None:
        self._passages += passages
        elapsed = self._bars.tasks[self._documents].elapsed or 0.0
        if elapsed:
            rate = f"{self._passages} passages, {self._passages / elapsed:.0f}/s"
            self._bars.update(self._documents, rate=rate)

    def committing(self) -> None:
        self._bars.add_task("writing the indexes", total=None, rate="")
