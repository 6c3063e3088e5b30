"""Reads one generation of a store in Qdrant, whatever a build does in the meantime."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from qdrant_client import models

from packwise.errors import StoreError, StoreMissing
from packwise.stores.bm25 import term_hash
from packwise.stores.qdrant.layout import (
    DENSE,
    STATE,
    Fields,
    QdrantState,
    all_of,
    batched,
    has_any,
    scroll,
    tag,
    visible,
)
from packwise.stores.qdrant.server import CollectionMissing, QdrantServer
from packwise.stores.qdrant.statistics import TABLE_PARTS, unpack_part

_ATTEMPTS = 8
HELD_SECONDS = 60.0
"""How long a generation may be read after it has ended: its points stay on the server for twice
as long (``commit._GRACE``)."""

_T = TypeVar("_T")


class GenerationEnded(Exception):
    """The generation that was read is no longer the current one."""


class _Held(threading.local):
    """The generation that a thread reads until its block ends."""

    inside = False
    state: QdrantState | None = None
    since = 0.0

    def hold(self, state: QdrantState) -> None:
        """Keep this generation, if the thread is to keep one and has none."""
        if self.inside and self.current() is None:
            self.state, self.since = state, time.monotonic()

    def current(self) -> QdrantState | None:
        """The generation that is held, while the server still has all of it."""
        return self.state if time.monotonic() - self.since < HELD_SECONDS else None


class QdrantReader:
    """The current generation of a store. Thread-safe.

    Points that died stay on the server for a while, so a read in progress can finish.
    """

    def __init__(self, server: QdrantServer, name: str, location: str) -> None:
        self._server = server
        self._name = name
        self._location = location
        self._state: QdrantState | None = None
        self._held = _Held()
        self._parts: dict[tuple[str, int], Mapping[int, float]] = {}
        self._parts_token = ""
        self._lock = threading.Lock()

    @contextmanager
    def one_state(self) -> Generator[None]:
        """Let this thread read one generation until the block ends, the one that is current at its
        first read; a newer one if the block takes longer than ``HELD_SECONDS``."""
        if self._held.inside:
            yield
            return
        self._held.inside = True
        try:
            yield
        finally:
            self._held.inside, self._held.state = False, None

    def state(self) -> QdrantState:
        """The current generation, or the one that this thread holds. Raises ``StoreMissing``."""
        if (held := self._held.current()) is not None:
            return held
        try:
            records = self._server.call("retrieve", self._name, [STATE])
        except CollectionMissing as error:
            raise self._missing() from error
        return self._remember(records)

    def query(
        self, requests: Callable[[QdrantState], Sequence[models.QueryRequest]]
    ) -> tuple[QdrantState, list[list[Any]]]:
        """Send several queries as one request, built for a generation that is current when the
        request arrives. Returns that generation and the points found by each query."""
        return self.consistently(
            lambda state: (state, self._query(state, requests(state))), checked=True
        )

    def _query(
        self, state: QdrantState, requests: Sequence[models.QueryRequest]
    ) -> list[list[Any]]:
        """Run queries together with one for the state point. Raises ``GenerationEnded`` if that
        is no longer ``state``, unless this thread holds it."""
        newest = models.QueryRequest(
            filter=all_of(models.HasIdCondition(has_id=[STATE])), limit=1, with_payload=True
        )
        try:
            answers = self._server.call("query_batch_points", self._name, [newest, *requests])
        except CollectionMissing as error:
            raise self._missing() from error
        held = self._held.current() == state
        current = self._remember(answers[0].points)
        # A store that was built anew, as with another embedder, is in another collection.
        if current.token != state.token and not (held and current.collection == state.collection):
            raise GenerationEnded
        return [answer.points for answer in answers[1:]]

    def pick(
        self,
        state: QdrantState,
        conditions: Sequence[Any],
        most: int,
        fields: Fields = True,
        *,
        vectors: bool = False,
    ) -> list[Any]:
        """Up to ``most`` points of a generation that meet all conditions. Raises
        ``GenerationEnded``."""
        request = _request(state, conditions, most, fields)
        request.with_vector = [DENSE] if vectors else False
        return self._query(state, [request])[0]

    def find(
        self, state: QdrantState, conditions: Sequence[Any], fields: Fields = True, **options: Any
    ) -> Iterator[Any]:
        """The points of a generation that meet all conditions, by id."""
        where = all_of(*visible(state.generation), *conditions)
        return scroll(self._server, state.collection, where, fields, **options)

    def firsts(
        self,
        state: QdrantState,
        wanted: Sequence[Sequence[Any]],
        most: int,
        *,
        by: str,
        descending: bool = False,
        fields: Fields = True,
    ) -> list[list[Any]]:
        """For each list of conditions, the first points of a generation that meet them, ordered
        by a number. Raises ``GenerationEnded``."""
        direction = models.Direction.DESC if descending else models.Direction.ASC
        order = models.OrderByQuery(order_by=models.OrderBy(key=by, direction=direction))
        found: list[list[Any]] = []
        for batch in batched(wanted) if most > 0 else ():
            found += self._query(state, [_request(state, c, most, fields, order) for c in batch])
        return found or [[] for _ in wanted]

    def numbers(self, state: QdrantState, table: str, names: Iterable[str]) -> dict[str, float]:
        """The numbers that a table of this generation has for these names."""
        hashes = {name: term_hash(name) for name in names}
        with self._lock:
            if self._parts_token != state.token:
                self._parts, self._parts_token = {}, state.token
            needed = {hashed % TABLE_PARTS for hashed in hashes.values()}
            missing = sorted(part for part in needed if (table, part) not in self._parts)
            if missing:
                fetched = self.parts(state, table, missing)
                self._parts |= {(table, part): fetched.get(part, {}) for part in missing}
            found = {
                name: self._parts[table, hashed % TABLE_PARTS].get(hashed)
                for name, hashed in hashes.items()
            }
        return {name: number for name, number in found.items() if number is not None}

    def parts(
        self, state: QdrantState, table: str, parts: Iterable[int]
    ) -> dict[int, dict[int, float]]:
        """These parts of a table, by number; see ``statistics.TABLE_PARTS``."""
        wanted = [has_any(tag("part", table, part) for part in parts)]
        return {
            record.payload["part"]: unpack_part(record.payload["values"])
            for record in self.find(state, wanted, ["part", "values"])
        }

    def consistently(self, work: Callable[[QdrantState], _T], *, checked: bool = False) -> _T:
        """Run several requests on one generation, and again if it ended in the meantime.

        With ``checked``, ``work`` itself notices that the generation has ended, as ``pick``
        and ``firsts`` do; then the remembered one is tried without asking the server first.
        """
        state = self._held.current() or (self._state if checked else None)
        for _ in range(_ATTEMPTS):
            current = state or self.state()
            try:
                return work(current)
            except (CollectionMissing, GenerationEnded):
                state = self._held.state = None
            except StoreError:
                # The remembered generation may have had vectors of another embedder.
                self._held.state = None
                if not checked or (state := self.state()).token == current.token:
                    raise
        raise StoreError(f"{self._location} changes faster than it can be read", fix="try again")

    def _remember(self, points: Sequence[Any]) -> QdrantState:
        state = QdrantState.read(points[0].payload) if points else None
        if state is None:
            raise self._missing()
        self._state = state
        self._held.hold(state)
        return state

    def _missing(self) -> StoreMissing:
        self._state = None
        return StoreMissing(
            f"there is no finished store at {self._location}",
            fix=f"packwise build SOURCE --out {self._location}",
        )


def _request(
    state: QdrantState, conditions: Sequence[Any], most: int, fields: Fields, order: Any = None
) -> models.QueryRequest:
    return models.QueryRequest(
        query=order,
        filter=all_of(*visible(state.generation), *conditions),
        limit=most,
        with_payload=fields if isinstance(fields, bool) else list(fields),
    )
