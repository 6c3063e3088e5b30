"""One line of JSON an event, on standard error."""

from __future__ import annotations

import json
import sys
import threading
from datetime import UTC, datetime
from typing import Any, TextIO


class Log:
    """Writes events. Questions are written only with ``questions``."""

    def __init__(self, out: TextIO | None = None, *, questions: bool = False) -> None:
        self._out = out
        self._lock = threading.Lock()
        self.questions = questions

    def write(self, event: str, level: str = "info", **values: Any) -> None:
        """One event; values of ``None`` are left out."""
        line = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "level": level,
            "event": event,
            **{name: value for name, value in values.items() if value is not None},
        }
        text = json.dumps(line, ensure_ascii=True, default=str)
        with self._lock:
            out = self._out or sys.stderr
            out.write(text + "\n")
            out.flush()
