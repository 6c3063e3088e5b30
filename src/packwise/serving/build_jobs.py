"""Builds that a server runs aside, one at a time, and how far each is.

The record of a build is a file, so that every process of a server can answer for it.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from packwise.errors import PackwiseError
from packwise.machine import process_exists
from packwise.packs.build import BuildReport
from packwise.packs.progress import Progress
from packwise.serving.api_errors import without_paths
from packwise.serving.observability import Log

_SHOWN_PROBLEMS = 20
_WRITE_SECONDS = 0.2


class _Stopped(Exception):
    """The server stops; the pack stays as it was."""


class BuildJobs:
    """The builds of one process."""

    def __init__(self, folder: Path, log: Log) -> None:
        self._folder = folder
        self._log = log
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="packwise-build")
        self._stopping = False

    def start(self, store: str, build: Callable[[Progress], BuildReport]) -> dict[str, Any]:
        """Queue a build; returns its record."""
        job = _Job(self._folder, store, lambda: self._stopping)
        job.write()
        self._thread.submit(self._run, job, build)
        return job.record

    def get(self, name: str) -> dict[str, Any] | None:
        """The record of a build, of whichever process; ``None`` if there is none."""
        if not name.isalnum():
            return None
        try:
            record: dict[str, Any] = json.loads((self._folder / f"{name}.json").read_bytes())
        except (OSError, ValueError):
            return None
        process = record.pop("process")
        if record["state"] in ("waiting", "running") and not process_exists(process):
            lost = "the server was stopped during the build; the pack is as it was"
            record.update(state="failed", error=lost)
        return record

    def close(self) -> None:
        """Stop what is running; its pack stays as it was."""
        self._stopping = True
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _run(self, job: _Job, build: Callable[[Progress], BuildReport]) -> None:
        try:
            job.update(state="running")
            report = build(job)
        except PackwiseError as error:
            job.update(state="failed", error=without_paths(error.message))
        except _Stopped:
            job.update(state="failed", error="the server was stopped during the build")
        except Exception as error:  # noqa: BLE001 - no one else would see it
            self._log.write("build", "error", store=job.store, reason=repr(error))
            job.update(state="failed", error="internal error; see the server's log")
        else:
            job.finish(report)


class _Job(Progress):
    """One build; it writes its record now and then."""

    def __init__(self, folder: Path, store: str, stopping: Callable[[], bool]) -> None:
        self.store = store
        self._stopping = stopping
        self._written = 0.0
        self.record: dict[str, Any] = {
            "id": secrets.token_hex(16),
            "store": store,
            "state": "waiting",
            "step": "",
            "documents": 0,
            "total": 0,
            "passages": 0,
            "added": 0,
            "changed": 0,
            "removed": 0,
            "problems": [],
            "error": None,
        }
        self._file = folder / f"{self.record['id']}.json"

    def counted(self, documents: int) -> None:
        self.update(total=documents, step="reading")

    def document(self) -> None:
        self._count("documents", 1)

    def embedded(self, passages: int) -> None:
        self._count("passages", passages)

    def committing(self) -> None:
        self.update(step="saving")

    def finish(self, report: BuildReport) -> None:
        unread = [*report.problems, *report.warnings][:_SHOWN_PROBLEMS]
        changes = report.changes
        self.update(
            state="done",
            added=changes.added,
            changed=changes.changed,
            removed=changes.removed,
            problems=[f"{Path(p.location).name}: {without_paths(p.reason)}" for p in unread],
        )

    def update(self, **values: Any) -> None:
        self.record.update(values)
        self.write()

    def write(self) -> None:
        self._written = time.monotonic()
        scratch = self._file.with_suffix(".new")
        scratch.write_text(json.dumps({**self.record, "process": os.getpid()}), encoding="utf-8")
        scratch.replace(self._file)

    def _count(self, name: str, more: int) -> None:
        if self._stopping():
            raise _Stopped
        self.record[name] += more
        if time.monotonic() - self._written > _WRITE_SECONDS:
            self.write()
