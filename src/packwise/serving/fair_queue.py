"""Who is served next: keys take turns, and expensive work leaves a place for the rest.

Without this, one key that sends many slow questions makes every other tenant wait behind them.
A request whose sender has closed the connection gives up its place in the queue.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from contextvars import ContextVar
from dataclasses import dataclass, field


@dataclass(frozen=True, eq=False, slots=True)
class Sender:
    """Where a request comes from: the id of its API key, empty without keys, and whether the
    client has closed the connection."""

    key: str = ""
    gone: asyncio.Event = field(default_factory=asyncio.Event)


SENDER: ContextVar[Sender | None] = ContextVar("packwise_sender", default=None)
"""The sender of the request that the current task works for."""


class QueueFull(Exception):
    """Too many requests are waiting, of this key or altogether."""


class SenderGone(Exception):
    """The client left before its request had its turn."""


@dataclass(eq=False, slots=True)
class _Waiter:
    key: str
    heavy: bool
    turn: asyncio.Future[None]


class FairQueue:
    """``places`` requests run at once and ``waiting`` more may wait. Use it on one event loop.

    A key may hold a quarter of the waiting places. Heavy requests of keys leave one place free
    for the others, unless there is only one. Without keys there is one user, who has it all.
    """

    def __init__(self, places: int, waiting: int) -> None:
        self._places = places
        self._most_waiting = waiting
        self._waiters: dict[str, deque[_Waiter]] = {}
        self._running: Counter[bool] = Counter()
        self._waiting_of: Counter[str] = Counter()

    @property
    def waiting(self) -> int:
        return self._waiting_of.total()

    def check(self, key: str) -> None:
        """Raise ``QueueFull`` if a request of this key could neither run nor wait."""
        most = max(1, self._most_waiting // 4) if key and self._most_waiting else self._most_waiting
        busy = self._running.total() >= self._places or self.waiting > 0
        if busy and (self.waiting >= self._most_waiting or self._waiting_of[key] >= most):
            raise QueueFull

    async def enter(self, sender: Sender, *, heavy: bool, deadline: float) -> None:
        """Wait for a place. Raises ``QueueFull``, ``SenderGone`` or ``TimeoutError``."""
        self.check(sender.key)
        turn = asyncio.get_running_loop().create_future()
        waiter = _Waiter(sender.key, heavy and bool(sender.key), turn)
        self._waiters.setdefault(sender.key, deque()).append(waiter)
        self._waiting_of[sender.key] += 1
        self._give_turns()
        gone = asyncio.ensure_future(sender.gone.wait())
        try:
            left = max(0.0, deadline - asyncio.get_running_loop().time())
            await asyncio.wait({turn, gone}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if turn.done():
                return
            raise SenderGone if gone.done() else TimeoutError
        except BaseException:
            if turn.done():  # It had its turn in the moment it was cancelled.
                self.leave(sender, heavy=heavy)
            else:
                self._forget(waiter)
            raise
        finally:
            gone.cancel()

    def leave(self, sender: Sender, *, heavy: bool) -> None:
        """Give back a place."""
        self._running[heavy and bool(sender.key)] -= 1
        self._give_turns()

    def _give_turns(self) -> None:
        while self._running.total() < self._places and (waiter := self._next()) is not None:
            self._forget(waiter)
            # The key goes to the end of the line.
            if waiter.key in self._waiters:
                self._waiters[waiter.key] = self._waiters.pop(waiter.key)
            self._running[waiter.heavy] += 1
            waiter.turn.set_result(None)

    def _next(self) -> _Waiter | None:
        heavy_may_run = self._running[True] < max(1, self._places - 1)
        for waiters in self._waiters.values():
            for waiter in waiters:
                if heavy_may_run or not waiter.heavy:
                    return waiter
        return None

    def _forget(self, waiter: _Waiter) -> None:
        waiters = self._waiters[waiter.key]
        waiters.remove(waiter)
        self._waiting_of[waiter.key] -= 1
        if not waiters:
            del self._waiters[waiter.key]
            del self._waiting_of[waiter.key]
