"""One build at a time: a lease on the server, renewed while its holder lives.

A build that was killed on this machine is noticed at once; one that was killed on another
holds its lease for another minute at most.
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

from packwise.errors import StoreBusy, StoreError
from packwise.stores.qdrant.address import Address
from packwise.stores.qdrant.layout import DENSE, Payload, build_collection, make_build_collection
from packwise.stores.qdrant.server import CollectionMissing, Server

_HOLDER = 0
_COUNTER = 1
_SECONDS = 60.0
_RENEWAL = 15.0
_BLOCK = 1 << 16

_log = logging.getLogger(__name__)


class Lease:
    """The right to build a store, and the counter of its point ids."""

    def __init__(self, server: Server, address: Address) -> None:
        self._server = server
        self._store = address.collection
        self._collection = build_collection(address.collection)
        self._token = secrets.token_hex(8)
        self._next = 0
        self._past = 0
        self._counting = threading.Lock()
        self._ended = threading.Event()
        make_build_collection(server, address, address.collection)
        self._take()
        self._renewal = threading.Thread(target=self._renew, name="packwise-lease", daemon=True)
        self._renewal.start()

    def key(self) -> int:
        """A point id that was never given out before."""
        with self._counting:
            if self._next == self._past:
                # The block is spoken for before any of it is used, so a kill only wastes ids.
                start = max(int(self.notes().get("next", 1)), 1)
                self.note(next=start + _BLOCK)
                self._next, self._past = start, start + _BLOCK
            self._next += 1
            return self._next - 1

    def notes(self) -> Payload:
        """What builds keep from one to the next."""
        records = self._server.call(lambda client: client.retrieve(self._collection, [_COUNTER]))
        return records[0].payload or {} if records else {}

    def note(self, **values: Any) -> None:
        """Keep something for the next build."""
        self._put(_COUNTER, {**self.notes(), **values})

    def release(self) -> None:
        """Let others build; harmless when repeated."""
        if self._ended.is_set():
            return
        self._ended.set()
        self._renewal.join()
        try:
            self._put(_HOLDER, {"holder": "", "until": 0.0}, self._is_mine())
        except (StoreError, CollectionMissing) as error:
            _log.info("the lease on %s ends by itself within a minute: %s", self._store, error)

    def _take(self) -> None:
        from qdrant_client import models

        free = models.Filter(
            should=[
                models.FieldCondition(key="until", range=models.Range(lt=time.time())),
                *(self._of(holder) for holder in self._dead_holders()),
            ]
        )
        self._put(_HOLDER, self._claim(), free)
        held = self._holder()
        if held.get("holder") != self._token:
            left = max(0, round(float(held.get("until", 0.0)) - time.time()))
            host = str(held.get("host", "elsewhere")).partition("/")[0]
            raise StoreBusy(
                f"another build is writing to {self._store} (from {host};"
                f" if it was killed, its lease ends in {left} s)",
                fix="wait for it to end",
            )

    def _dead_holders(self) -> list[str]:
        """The holder, when it was a process of this machine that is gone."""
        held = self._holder()
        if held.get("host") != _host() or not held.get("holder"):
            return []
        try:
            os.kill(int(held["pid"]), 0)
        except ProcessLookupError:
            return [held["holder"]]
        except PermissionError:
            return []
        return []

    def _renew(self) -> None:
        while not self._ended.wait(_RENEWAL):
            try:
                self._put(_HOLDER, self._claim(), self._is_mine())
            except (StoreError, CollectionMissing) as error:
                _log.warning("the lease on %s could not be renewed: %s", self._store, error)

    def _claim(self) -> Payload:
        return {
            "holder": self._token,
            "until": time.time() + _SECONDS,
            "host": _host(),
            "pid": os.getpid(),
        }

    def check(self) -> None:
        """Raise ``StoreBusy`` where somebody else has taken over meanwhile."""
        if self._holder().get("holder") != self._token:
            raise StoreBusy(
                f"another build of {self._store} took over while this one did not answer",
                fix="run it again once the other has ended",
            )

    def _holder(self) -> Payload:
        records = self._server.call(lambda client: client.retrieve(self._collection, [_HOLDER]))
        return records[0].payload or {} if records else {}

    def _is_mine(self) -> Any:
        from qdrant_client import models

        return models.Filter(must=[self._of(self._token)])

    @staticmethod
    def _of(holder: str) -> Any:
        from qdrant_client import models

        return models.FieldCondition(key="holder", match=models.MatchValue(value=holder))

    def _put(self, point: int, payload: Payload, only_if: Any = None) -> None:
        """Write a point; one that exists only where it passes the filter."""
        from qdrant_client import models

        # Strong ordering would go through one fixed node, and end with it.
        struct = models.PointStruct(id=point, vector={DENSE: [0.0]}, payload=payload)
        self._server.call(
            lambda client: client.upsert(
                self._collection,
                [struct],
                wait=True,
                ordering=models.WriteOrdering.MEDIUM,
                update_filter=only_if,
            )
        )


def _host() -> str:
    """This machine as far as process ids go: containers that share a name do not share those."""
    try:
        space = Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        space = 0
    return f"{socket.gethostname()}/{space}"
