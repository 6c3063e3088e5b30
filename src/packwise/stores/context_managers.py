"""What a ``with`` block around a store or a build does at its end."""

from __future__ import annotations

import logging
from types import TracebackType
from typing import Self

from packwise.errors import StoreError

_log = logging.getLogger(__name__)


class Closing:
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


class Build(Closing):
    """A build in progress: its end saves what is staged, for the next one to go on with."""

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
