"""Blocking work off the event loop: so much at once, so much waiting, so long each.

A thread cannot be stopped. Work whose deadline has passed keeps its place until it is done,
so that what runs never exceeds what the machine was said to bear; only its caller is told.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from packwise.serving.limits import Limits
from packwise.serving.refusals import Refusal

_T = TypeVar("_T")
_END = object()
_BEAT = 10.0


class Workroom:
    """Runs blocking calls for the server; made and used on its event loop."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._places = asyncio.Semaphore(limits.running)
        self._threads = ThreadPoolExecutor(limits.running, thread_name_prefix="packwise-serve")
        self._aside = ThreadPoolExecutor(2, thread_name_prefix="packwise-aside")
        self._waiting = 0
        self._running = 0

    @property
    def running(self) -> int:
        return self._running

    @property
    def waiting(self) -> int:
        return self._waiting

    def close(self) -> None:
        """Wait for what still runs."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._aside.shutdown(wait=True, cancel_futures=True)

    async def run(self, call: Callable[..., _T], *arguments: Any) -> _T:
        """The call's result. Raises ``Refusal``: 503 when too many wait, 504 when it is late."""
        until = self._until()
        await self._enter(until)
        job = self._start(call, *arguments)
        done, _ = await asyncio.wait({job}, timeout=max(0.0, until - _now()))
        if not done:
            raise _late()
        return job.result()

    async def aside(self, call: Callable[[], _T], seconds: float = 5.0) -> _T:
        """A short call that must not wait behind questions, such as whether all is well."""
        job = asyncio.get_running_loop().run_in_executor(self._aside, call)
        try:
            return await asyncio.wait_for(asyncio.shield(job), seconds)
        except TimeoutError:
            raise _late() from None

    async def stream(
        self, call: Callable[[], Iterator[_T]], *, beat: float = _BEAT
    ) -> AsyncIterator[_T | None]:
        """What the call's iterator yields, as it comes, within the same limits; ``None``
        whenever ``beat`` seconds went by without anything.

        The work never waits for whoever reads: a slow reader holds no place. When the reader
        leaves, the work stops at its next piece.
        """
        until = self._until()
        await self._enter(until)
        loop = asyncio.get_running_loop()
        pieces: asyncio.Queue[Any] = asyncio.Queue()
        gone = threading.Event()

        def work() -> None:
            try:
                source = call()
                for piece in source:
                    if gone.is_set():
                        break
                    loop.call_soon_threadsafe(pieces.put_nowait, piece)
                if isinstance(source, Generator):
                    source.close()  # Hangs up on a language model that is still writing.
            finally:
                loop.call_soon_threadsafe(pieces.put_nowait, _END)

        job = self._start(work)
        try:
            while True:
                left = max(0.0, until - _now())
                try:
                    piece = await asyncio.wait_for(pieces.get(), min(beat, left))
                except TimeoutError:
                    if left <= beat:
                        raise _late() from None
                    yield None
                    continue
                if piece is _END:
                    break
                yield piece
            await job
        finally:
            gone.set()

    def _until(self) -> float:
        return _now() + self._limits.deadline

    def check_room(self) -> None:
        """Raise the 503 ``Refusal`` if one more could not even wait; for answers that begin
        before their work does."""
        if self._places.locked() and self._waiting >= self._limits.waiting:
            raise Refusal(
                503,
                "overloaded",
                "too many requests are waiting",
                fix="try again in a moment",
                headers={"Retry-After": "1"},
            )

    async def _enter(self, until: float) -> None:
        self.check_room()
        self._waiting += 1
        try:
            async with asyncio.timeout_at(until):
                await self._places.acquire()
        except TimeoutError:
            raise _late() from None
        finally:
            self._waiting -= 1

    def _start(self, call: Callable[..., _T], *arguments: Any) -> asyncio.Future[_T]:
        job = asyncio.get_running_loop().run_in_executor(self._threads, call, *arguments)
        self._running += 1
        job.add_done_callback(self._leave)
        return job

    def _leave(self, job: asyncio.Future[Any]) -> None:
        self._running -= 1
        self._places.release()
        if not job.cancelled():
            # Nobody may be waiting for it any more; its error is then of no interest.
            job.exception()


def _now() -> float:
    return asyncio.get_running_loop().time()


def _late() -> Refusal:
    return Refusal(
        504,
        "deadline",
        "the answer was not ready in time",
        fix="ask for less, or raise --deadline",
        headers={"Retry-After": "1"},
    )
