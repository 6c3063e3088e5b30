"""Work spread over the cores: one item at a time, each by whichever thread is free."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from queue import SimpleQueue

from packwise.settings import Settings


def cores(settings: Settings) -> int:
    """How many threads models may use: the setting, else the cores this process has."""
    return settings.threads or len(os.sched_getaffinity(0))


def spread(
    items: Iterable[int],
    work: Callable[[int], None],
    threads: int,
    done: Callable[[int], None] | None = None,
) -> None:
    """Call ``work`` once for each item, in about that order, on so many threads.

    ``done`` is called in the calling thread with the number of items just finished. Whatever
    interrupts it (an error in ``work``, Ctrl-C), no thread is left running.
    """
    waiting = iter(items)
    turn = threading.Lock()
    stop = threading.Event()
    reports: SimpleQueue[BaseException | bool] = SimpleQueue()

    def pull() -> None:
        try:
            while not stop.is_set():
                with turn:
                    item = next(waiting, None)
                if item is None:
                    break
                work(item)
                reports.put(True)
        except BaseException as error:  # noqa: BLE001 - raised again in the calling thread
            reports.put(error)
        else:
            reports.put(False)

    pullers = [threading.Thread(target=pull, name=f"packwise-{n}") for n in range(threads)]
    running = 0
    try:
        for puller in pullers:
            puller.start()
            running += 1
        left = running
        while left:
            report = reports.get()
            if isinstance(report, BaseException):
                raise report
            if not report:
                left -= 1
            elif done is not None:
                done(1)
    finally:
        stop.set()
        for puller in pullers[:running]:
            puller.join()
