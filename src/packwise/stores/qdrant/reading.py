"""Reading one generation of a store in Qdrant, whatever a build does meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from packwise.errors import StoreError, StoreMissing
from packwise.stores.qdrant.layout import STATE, State, every, scroll, visible
from packwise.stores.qdrant.server import CollectionMissing, Server
from packwise.stores.qdrant.tables import Part, Tables, part_tag, unpack_part

_ATTEMPTS = 8
_BATCH = 200


class Moved(Exception):
    """The generation that was read is not the current one any more."""


class Reading:
    """The current generation of a store. Safe to use from several threads.

    What died in a generation stays on the server for a while after it, so whoever began to
    read may finish.
    """

    def __init__(self, server: Server, name: str, location: str) -> None:
        self._server = server
        self._name = name
        self._location = location
        self._state: State | None = None
        self._tables = Tables("")
        self._lock = threading.Lock()

    def state(self) -> State:
        """The generation that is current now. Raises ``StoreMissing``."""
        try:
            records = self._server.call(lambda client: client.retrieve(self._name, [STATE]))
        except CollectionMissing as error:
            raise self._missing() from error
        return self._remember(State.read(records[0].payload) if records else None)

    def ask(self, requests: Callable[[State], Sequence[Any]]) -> tuple[State, list[list[Any]]]:
        """Put several queries in one request, made for a generation that is current when
        the request arrives; that generation, and the points found for each."""
        state = self._state or self.state()
        for _ in range(_ATTEMPTS):
            try:
                return state, self._validated(state, requests(state))
            except Moved:
                state = self._state or self.state()
            except StoreError:
                # What was remembered may be of another kind than what is there by now.
                fresh = self.state()
                if fresh.token == state.token:
                    raise
                state = fresh
                continue
        raise StoreError(f"{self._location} changes faster than it can be read", fix="try again")

    def _validated(self, state: State, requests: Sequence[Any]) -> list[list[Any]]:
        """The points found for each query, asked together with what the current generation
        is. Raises ``Moved`` where that is not this one."""
        from qdrant_client import models

        look = models.QueryRequest(
            filter=models.Filter(must=[models.HasIdCondition(has_id=[STATE])]),
            limit=1,
            with_payload=True,
        )
        try:
            answers = self._server.call(
                lambda client: client.query_batch_points(self._name, [look, *requests])
            )
        except CollectionMissing as error:
            raise self._missing() from error
        points = answers[0].points
        now = self._remember(State.read(points[0].payload) if points else None)
        if now.token != state.token:
            raise Moved
        return [answer.points for answer in answers[1:]]

    def pick(
        self,
        state: State,
        conditions: Sequence[Any],
        most: int,
        fields: Sequence[str] | bool = True,
    ) -> list[Any]:
        """At most so many points of a generation that meet conditions. Raises ``Moved``."""
        from qdrant_client import models

        request = models.QueryRequest(
            filter=every([*visible(state.generation), *conditions]),
            limit=most,
            with_payload=list(fields) if not isinstance(fields, bool) else fields,
        )
        return self._validated(state, [request])[0]

    def find(
        self,
        state: State,
        conditions: Sequence[Any],
        fields: Sequence[str] | bool = True,
        **options: Any,
    ) -> Iterable[Any]:
        """The points of a generation that meet conditions, by id."""
        where = every([*visible(state.generation), *conditions])
        return scroll(self._server, state.collection, where, fields, **options)

    def firsts(
        self,
        state: State,
        wanted: Sequence[Sequence[Any]],
        most: int,
        *,
        by: str,
        descending: bool = False,
        fields: Sequence[str] | bool = True,
    ) -> list[list[Any]]:
        """For each list of conditions, the first points of a generation that meet them, in
        the order of a number; all in one request. Raises ``Moved``."""
        from qdrant_client import models

        direction = models.Direction.DESC if descending else models.Direction.ASC
        order = models.OrderByQuery(order_by=models.OrderBy(key=by, direction=direction))
        found: list[list[Any]] = []
        for batch in batched(wanted) if most > 0 else ():
            requests = [
                models.QueryRequest(
                    query=order,
                    filter=every([*visible(state.generation), *conditions]),
                    limit=most,
                    with_payload=list(fields) if not isinstance(fields, bool) else fields,
                )
                for conditions in batch
            ]
            found += self._validated(state, requests)
        return found or [[] for _ in wanted]

    def numbers(self, state: State, table: str, names: Iterable[str]) -> dict[str, float]:
        """The numbers that a table of this generation holds for names."""
        with self._lock:
            if self._tables.token != state.token:
                self._tables = Tables(state.token)
            tables = self._tables
        return tables.lookup(table, names, lambda parts: self.parts(state, table, parts))

    def parts(self, state: State, table: str, parts: Sequence[int]) -> Mapping[int, Part]:
        """Parts of a table, as stored."""
        from packwise.stores.qdrant.layout import has_any

        wanted = [has_any(part_tag(table, part) for part in parts)]
        return {
            record.payload["part"]: unpack_part(record.payload["values"])
            for record in self.find(state, wanted, ["part", "values"])
        }

    def consistently(self, work: Callable[[State], Any], *, checked: bool = False) -> Any:
        """Do several requests on one generation; again where it is gone meanwhile.

        With ``checked`` the work itself finds out whether the generation is current, as
        ``pick`` and ``firsts`` do, so it need not be asked for first.
        """
        state = self._state if checked else None
        for _ in range(_ATTEMPTS):
            try:
                return work(state or self.state())
            except (CollectionMissing, Moved):
                state = None
        raise StoreError(f"{self._location} changes faster than it can be read", fix="try again")

    def _remember(self, state: State | None) -> State:
        if state is None:
            raise self._missing()
        self._state = state
        return state

    def _missing(self) -> StoreMissing:
        self._state = None
        return StoreMissing(
            f"there is no finished store at {self._location}",
            fix=f"packwise build SOURCE --out {self._location}",
        )


def batched(values: Iterable[Any], size: int = _BATCH) -> Iterable[list[Any]]:
    """Values in pieces that one request can carry."""
    every_value = list(values)
    return (every_value[at : at + size] for at in range(0, len(every_value), size))
