"""Regular expressions that are compiled when they are first used.

Compiling those of all modules took a command longer than the search it was started for, which
uses a third of them.
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, Generic, cast


def lazy_pattern(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """What ``re.compile`` returns, but compiled at the first use."""
    return cast("re.Pattern[AnyStr]", _LazyPattern(pattern, flags))


class _LazyPattern(Generic[AnyStr]):
    def __init__(self, pattern: AnyStr, flags: int) -> None:
        self.pattern = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        value = getattr(re.compile(self.pattern, self._flags), name)
        # Found without this method from now on, as fast as in a compiled pattern.
        setattr(self, name, value)
        return value
