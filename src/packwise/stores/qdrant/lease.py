"""One build at a time: a lease on the server, renewed while its holder lives.

The lease of a killed build is free at once on the same machine, and after at most a minute
on another.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
import time
from pathlib import Path
from typing import Any

from qdrant_client import models

from packwise.errors import StoreBusy, StoreError
from packwise.stores.qdrant.layout import DENSE, Payload, all_of, make_build_collection
from packwise.stores.qdrant.server import Address, CollectionMissing, QdrantServer

_HOLDER = 0
_COUNTER = 1
_SECONDS = 60.0
_RENEWAL = 15.0
_BLOCK = 1 << 16

_log = logging.getLogger(__name__)


class Lease:
    """The right to build a store, and the counter of its point ids. Raises ``StoreBusy`` if
    another build holds it."""

    def __init__(self, server: QdrantServer, address: Address) -> None:
        self._server = server
        self._store = address.collection
        self._token = secrets.token_hex(8)
        self._next_id = 0
        self._end_of_block = 0
        self._counting = threading.Lock()
        self._released = threading.Event()
        self._collection = make_build_collection(server, address)
        self._acquire()
        self._renewal = threading.Thread(target=self._renew, name="packwise-lease", daemon=True)
        self._renewal.start()

    def key(self) -> int:
        """A point id that was never used before."""
        with self._counting:
            if self._next_id == self._end_of_block:
                # The block is reserved before any of it is used, so a kill only wastes ids.
                start = max(int(self.notes().get("next", 1)), 1)
                self.note(next=start + _BLOCK)
                self._next_id, self._end_of_block = start, start + _BLOCK
            self._next_id += 1
            return self._next_id - 1

    def notes(self) -> Payload:
        """Values that builds keep for later builds."""
        return self._payload(_COUNTER)

    def note(self, **values: Any) -> None:
        """Keep values for later builds."""
        self._put(_COUNTER, {**self.notes(), **values})

    def check(self) -> None:
        """Raise ``StoreBusy`` if another build has taken the lease."""
        if self._payload(_HOLDER).get("holder") != self._token:
            raise StoreBusy(
                f"another build of {self._store} took over while this one did not answer",
                fix="run it again once the other has ended",
            )

    def release(self) -> None:
        """Let others build. Releasing again does nothing."""
        if self._released.is_set():
            return
        self._released.set()
        self._renewal.join()
        try:
            self._put(_HOLDER, {"holder": "", "until": 0.0}, all_of(_held_by(self._token)))
        except (StoreError, CollectionMissing) as error:
            _log.info("the lease on %s will expire within a minute: %s", self._store, error)

    def _acquire(self) -> None:
        expired = models.FieldCondition(key="until", range=models.Range(lt=time.time()))
        free = models.Filter(should=[expired, *map(_held_by, self._dead_holders())])
        self._put(_HOLDER, self._claim(), free)
        held = self._payload(_HOLDER)
        if held.get("holder") != self._token:
            left = max(0, round(float(held.get("until", 0.0)) - time.time()))
            host = str(held.get("host", "elsewhere")).partition("/")[0]
            raise StoreBusy(
                f"another build is writing to {self._store} (from {host};"
                f" if it was killed, its lease ends in {left} s)",
                fix="wait for it to end",
            )

    def _dead_holders(self) -> list[str]:
        """The holder, if it was a process of this machine that is gone."""
        held = self._payload(_HOLDER)
        if held.get("host") == _host() and held.get("holder"):
            try:
                os.kill(int(held["pid"]), 0)
            except ProcessLookupError:
                return [held["holder"]]
            except PermissionError:
                pass  # it is alive, and belongs to another user
        return []

    def _renew(self) -> None:
        while not self._released.wait(_RENEWAL):
            try:
                self._put(_HOLDER, self._claim(), all_of(_held_by(self._token)))
            except (StoreError, CollectionMissing) as error:
                _log.warning("the lease on %s could not be renewed: %s", self._store, error)

    def _claim(self) -> Payload:
        return {
            "holder": self._token,
            "until": time.time() + _SECONDS,
            "host": _host(),
            "pid": os.getpid(),
        }

    def _payload(self, point: int) -> Payload:
        records = self._server.call("retrieve", self._collection, [point])
        return records[0].payload or {} if records else {}

    def _put(self, point: int, payload: Payload, only_if: Any = None) -> None:
        """Write a point; if it exists, only when it passes the filter."""
        # Strong ordering would go through one fixed node, and fail with it.
        struct = models.PointStruct(id=point, vector={DENSE: [0.0]}, payload=payload)
        self._server.call(
            "upsert",
            self._collection,
            [struct],
            wait=True,
            ordering=models.WriteOrdering.MEDIUM,
            update_filter=only_if,
        )


def _held_by(token: str) -> models.FieldCondition:
    return models.FieldCondition(key="holder", match=models.MatchValue(value=token))


def _host() -> str:
    """This machine and its process id namespace: containers may share a name, but not ids."""
    try:
        namespace = Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        namespace = 0
    return f"{socket.gethostname()}/{namespace}"
