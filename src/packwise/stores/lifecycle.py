"""What stores and builds have in common from opening to commit."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

from packwise.errors import StoreError
from packwise.stores.base import WriteSummary

_log = logging.getLogger(__name__)


def utc_now() -> str:
    """The time as stored: UTC in ISO 8601, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class Closeable:
    """Something that is closed when its ``with`` block ends."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.close()


class StagedBuild(Closeable):
    """A build in progress. Closing it saves what is staged for the next build."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        try:
            self.close()
        except StoreError as trouble:
            if error is None:
                raise
            # The error in flight is the one to report; what was staged before is safe.
            _log.info("the last staged documents are lost: %s", trouble)


@dataclass(frozen=True, slots=True)
class CommitPlan:
    """What a commit does, by document id; ``stored`` maps ids to keys."""

    taken: list[str]
    removed: list[str]
    stored: Mapping[str, int]
    prune: bool

    @classmethod
    def of(
        cls, stored: Mapping[str, int], staged: set[str], wanted: set[str], *, prune: bool
    ) -> CommitPlan:
        """The plan for a build that staged or kept the ``wanted`` documents."""
        removed = sorted(stored.keys() - wanted) if prune else []
        return cls(sorted(staged & wanted), removed, stored, prune)

    @property
    def replaced(self) -> list[str]:
        return [name for name in self.taken if name in self.stored]

    @property
    def unchanged(self) -> int:
        return len(self.stored) - len(self.removed) - len(self.replaced)

    def summary(self, passages: int) -> WriteSummary:
        changed = len(self.replaced)
        added = len(self.taken) - changed
        return WriteSummary(added, changed, len(self.removed), self.unchanged, passages)
