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
from packwise.serving.limits import Limits

_T = TypeVar("_T")
_END = object()


class WorkerPool:
    """Runs blocking calls for the server. Create and use it on one event loop."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._free = asyncio.Semaphore(limits.running)
        self._threads = ThreadPoolExecutor(limits.running, thread_name_prefix="packwise-serve")
        self._aside = ThreadPoolExecutor(2, thread_name_prefix="packwise-aside")
        self.waiting = 0
        self.running = 0

    def close(self) -> None:
        """Wait for what is still running."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._aside.shutdown(wait=True, cancel_futures=True)

    async def run(self, call: Callable[..., _T], *arguments: Any) -> _T:
        """The result of the call.

        Raises ``ApiError``: 503 when the queue is full, 504 when the deadline passes.
        """
        deadline = _now() + self._limits.deadline
        await self._acquire(deadline)
        job = self._start(call, *arguments)
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
        await self._acquire(deadline)
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

        job = self._start(work)
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
        if self._free.locked() and self.waiting >= self._limits.waiting:
            raise unavailable(
                "overloaded", "too many requests are waiting", 1, fix="try again in a moment"
            )

    async def _acquire(self, deadline: float) -> None:
        self.check_capacity()
        self.waiting += 1
        try:
            async with asyncio.timeout_at(deadline):
                await self._free.acquire()
        except TimeoutError:
            raise _late() from None
        finally:
            self.waiting -= 1

    def _start(self, call: Callable[..., _T], *arguments: Any) -> asyncio.Future[_T]:
        job = asyncio.get_running_loop().run_in_executor(self._threads, call, *arguments)
        self.running += 1
        job.add_done_callback(self._release)
        return job

    def _release(self, job: asyncio.Future[Any]) -> None:
        self.running -= 1
        self._free.release()
        if not job.cancelled():
            job.exception()  # The caller may have left: then no one else retrieves it.


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
