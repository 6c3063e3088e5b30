"""Progress bars for builds and copies, on standard error and only on a terminal."""

from __future__ import annotations

from typing import Self

from packwise.cli.console import err
from packwise.packs.progress import Progress


class ProgressBars(Progress):
    """Documents done, passages embedded per second, time left, documents verified."""

    def __init__(self, title: str, *, quiet: bool = False) -> None:
        from rich import progress

        console = err()
        self._bars = progress.Progress(
            progress.SpinnerColumn(finished_text="✓"),
            progress.TextColumn("{task.description}", markup=False),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TextColumn("{task.fields[rate]}", markup=False),
            progress.TimeElapsedColumn(),
            progress.TextColumn("left"),
            progress.TimeRemainingColumn(elapsed_when_finished=False),
            console=console,
            disable=quiet or not console.is_terminal,
        )
        self._documents = self._bars.add_task(f"{title}: documents", total=None, rate="")
        self._verified = self._bars.add_task("verifying", total=None, rate="", visible=False)
        self._fetched: progress.TaskID | None = None
        self._passages = 0

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def fetched(self, url: str) -> None:
        if self._fetched is None:
            self._fetched = self._bars.add_task("fetching pages", total=None, rate="")
        self._bars.advance(self._fetched)

    def counted(self, documents: int) -> None:
        if self._fetched is not None:
            self._bars.update(self._fetched, total=self._bars.tasks[self._fetched].completed)
        self._bars.update(self._documents, total=documents)
        self._bars.update(self._verified, total=documents)

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

    def verified(self) -> None:
        self._bars.update(self._verified, visible=True)
        self._bars.advance(self._verified)
