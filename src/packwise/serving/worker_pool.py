"""Runs blocking work off the event loop, with limits on concurrency, queue length and time.

A thread cannot be stopped. Work that has passed its deadline keeps its worker until it is done,
so that the machine never runs more than it was configured for; only the caller gets an error.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from packwise.serving.api_errors import ApiError, unavailable
from packwise.serving.fair_queue import SENDER, FairQueue, QueueFull, Sender, SenderGone
from packwise.serving.limits import Limits

_T = TypeVar("_T")
_END = object()


class WorkerPool:
    """Runs blocking calls for the server. Create and use it on one event loop."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._queue = FairQueue(limits.running, limits.waiting)
        self._threads = ThreadPoolExecutor(limits.running, thread_name_prefix="packwise-serve")
        self._aside = ThreadPoolExecutor(2, thread_name_prefix="packwise-aside")
        self.running = 0

    @property
    def waiting(self) -> int:
        """Requests in the queue."""
        return self._queue.waiting

    def close(self) -> None:
        """Wait for what is still running."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._aside.shutdown(wait=True, cancel_futures=True)

    async def run(self, call: Callable[..., _T], *arguments: Any, heavy: bool = False) -> _T:
        """The result of the call. ``heavy`` work leaves a worker for the rest.

        Raises ``ApiError``: 503 when the queue is full, 504 when the deadline passes, 499 when
        the client left while it waited.
        """
        deadline = _now() + self._limits.deadline
        sender = await self._acquire(deadline, heavy)
        job = self._start(sender, heavy, call, *arguments)
        done, _ = await asyncio.wait({job}, timeout=max(0.0, deadline - _now()))
        if not done:
            raise _late()
        return job.result()

    async def run_aside(self, call: Callable[[], _T], seconds: float = 5.0) -> _T:
        """Run a short call outside the queue of questions, such as a health check."""
        job = asyncio.get_running_loop().run_in_executor(self._aside, call)
        try:
            return await asyncio.wait_for(asyncio.shield(job), seconds)
        except TimeoutError:
            raise _late() from None

    async def stream(
        self, call: Callable[[], Iterator[_T]], *, heartbeat: float = 10.0
    ) -> AsyncIterator[_T | None]:
        """The items of the call's iterator as they come, within the same limits; ``None``
        after every ``heartbeat`` seconds of silence.

        The work does not wait for the reader, so a slow reader occupies no worker. When the
        reader leaves, the work stops at its next item.
        """
        deadline = _now() + self._limits.deadline
        sender = await self._acquire(deadline, heavy=True)
        loop = asyncio.get_running_loop()
        items: asyncio.Queue[Any] = asyncio.Queue()
        reader_left = threading.Event()

        def work() -> None:
            try:
                source = call()
                for item in source:
                    if reader_left.is_set():
                        break
                    loop.call_soon_threadsafe(items.put_nowait, item)
                if isinstance(source, Generator):
                    source.close()  # Ends the request to a language model that is still writing.
            finally:
                loop.call_soon_threadsafe(items.put_nowait, _END)

        job = self._start(sender, True, work)
        try:
            while True:
                left = max(0.0, deadline - _now())
                try:
                    item = await asyncio.wait_for(items.get(), min(heartbeat, left))
                except TimeoutError:
                    if left <= heartbeat:
                        raise _late() from None
                    yield None
                    continue
                if item is _END:
                    break
                yield item
            await job
        finally:
            reader_left.set()

    def check_capacity(self) -> None:
        """Raise the 503 error if the queue is full; for responses that begin before the work."""
        try:
            self._queue.check(_sender().key)
        except QueueFull:
            raise _full() from None

    async def _acquire(self, deadline: float, heavy: bool) -> Sender:
        sender = _sender()
        try:
            await self._queue.enter(sender, heavy=heavy, deadline=deadline)
        except QueueFull:
            raise _full() from None
        except SenderGone:
            raise ApiError(499, "gone", "the client closed the connection") from None
        except TimeoutError:
            raise _late() from None
        return sender

    def _start(
        self, sender: Sender, heavy: bool, call: Callable[..., _T], *arguments: Any
    ) -> asyncio.Future[_T]:
        job = asyncio.get_running_loop().run_in_executor(self._threads, call, *arguments)
        self.running += 1

        def release(job: asyncio.Future[_T]) -> None:
            self.running -= 1
            self._queue.leave(sender, heavy=heavy)
            if not job.cancelled():
                job.exception()  # The caller may have left: then no one else retrieves it.

        job.add_done_callback(release)
        return job


def _sender() -> Sender:
    return SENDER.get() or Sender()


def _full() -> ApiError:
    return unavailable(
        "overloaded", "too many requests are waiting", 1, fix="try again in a moment"
    )


def _now() -> float:
    return asyncio.get_running_loop().time()


def _late() -> ApiError:
    return ApiError(
        504,
        "deadline",
        "the answer was not ready in time",
        fix="ask for less, or raise --deadline",
        headers={"Retry-After": "1"},
    )
