"""The last traces, kept in memory by id and shown only to the key that made them."""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from packwise.serving.callers import Caller


@dataclass(frozen=True, slots=True)
class KeptTrace:
    """One record and whose it is."""

    caller: Caller
    record: dict[str, Any]


class TraceShelf:
    """Keeps the last ``most`` traces. Safe to use from several threads."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[str, KeptTrace] = OrderedDict()
        self._lock = threading.Lock()

    def keep(self, caller: Caller, kind: str, store: str, content: dict[str, Any]) -> str:
        """Keep a record; its id cannot be guessed. The oldest makes room."""
        name = secrets.token_urlsafe(16)
        record = {"id": name, "kind": kind, "store": store, "at": round(time.time(), 3), **content}
        with self._lock:
            self._kept[name] = KeptTrace(caller, record)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return name

    def get(self, caller: Caller, name: str) -> dict[str, Any] | None:
        """The record of that id, if this caller made it."""
        with self._lock:
            kept = self._kept.get(name)
        return kept.record if kept is not None and kept.caller == caller else None

    def __len__(self) -> int:
        with self._lock:
            return len(self._kept)
