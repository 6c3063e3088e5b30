"""A deadline for the work on one document, so that one of them cannot hold up a build."""

from __future__ import annotations

import ctypes
import signal
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

from packwise.errors import SourceError

_SHORTEST = 0.01
"""Seconds after which the time is looked at again, at the earliest."""


class _TimeUp(BaseException):
    """Not an ``Exception``: a reader that recovers from faults must not recover from this."""


@contextmanager
def deadline(seconds: float) -> Generator[None]:
    """End what runs inside after ``seconds``, with a ``SourceError``; 0 means never.

    The main thread is interrupted even inside a regular expression, and its seconds are of its
    own computing, so a busy machine and other threads do not count. Another thread is
    interrupted between two steps of Python, by the clock. A library written in C is not
    interrupted in either.
    """
    if not seconds:
        yield
        return
    here = threading.current_thread() is threading.main_thread()
    try:
        with _alarm(seconds) if here else _watch(seconds):
            yield
    except _TimeUp:
        setting = "PACKWISE_DOCUMENT_SECONDS allows more"
        raise SourceError(f"takes longer than {seconds:g} seconds to read ({setting})") from None


@contextmanager
def _alarm(seconds: float) -> Generator[None]:
    if sys.platform == "win32":  # It has no timer that interrupts.
        with _watch(seconds):
            yield
        return

    end = time.thread_time() + seconds

    def ring(number: int, frame: FrameType | None) -> None:
        # The timer counts the computing of all threads.
        if (left := end - time.thread_time()) <= 0:
            raise _TimeUp
        signal.setitimer(signal.ITIMER_VIRTUAL, max(left, _SHORTEST))

    before = signal.signal(signal.SIGVTALRM, ring)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@contextmanager
def _watch(seconds: float) -> Generator[None]:
    thread = ctypes.c_ulong(threading.get_ident())
    raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
    lock = threading.Lock()
    ended = False

    def ring() -> None:
        with lock:
            if not ended:
                raise_in(thread, ctypes.py_object(_TimeUp))

    timer = threading.Timer(seconds, ring)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        with lock:
            ended = True
        timer.cancel()
