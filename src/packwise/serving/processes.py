"""Several processes that serve one port, and the one that looks after them.

Each worker is a whole server with its own interpreter, models and stores; the system gives a new
connection to one that is free. The supervisor opens nothing. It replaces workers that end by
themselves and stops them all when it is asked to; when the supervisor is gone, they stop too.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import connection, get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packwise.errors import PackwiseError

if TYPE_CHECKING:
    from fastapi import FastAPI

    from packwise.serving.limits import Limits
    from packwise.serving.shared_state import SharedState
    from packwise.serving.store_registry import StoreRegistry

    Build = Callable[[StoreRegistry, Limits, SharedState], FastAPI]

_Pipe = Any
"""An end of a pipe, whose type is another one on Windows."""
_STOP = "stop"
_FAILURES = 5
"""Workers that may end one after the other without ever having served."""
_GRACE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Serving:
    """What a worker serves. It travels to a new process, so ``build`` is a function of a
    module or a ``partial`` of one."""

    build: Build
    stores: tuple[str, ...]
    limits: Limits
    workers: int


@dataclass(eq=False, slots=True)
class _Worker:
    process: BaseProcess
    pipe: _Pipe
    ready: bool = False


def serve_in_processes(
    serving: Serving, listening: socket.socket, announce: Callable[[list[str]], None]
) -> None:
    """Serve with several workers until SIGINT or SIGTERM; they finish what they are working on.

    ``announce`` is called with the names of the stores when the first worker has opened them.
    Raises the error of a worker that cannot start.
    """
    with tempfile.TemporaryDirectory(prefix="packwise-serve-", ignore_cleanup_errors=True) as at:
        supervisor = _Supervisor(serving, listening, Path(at), announce)
        with supervisor.signals():
            supervisor.run()


@dataclass(eq=False, slots=True)
class _Supervisor:
    serving: Serving
    listening: socket.socket
    folder: Path
    announce: Callable[[list[str]], None]
    workers: list[_Worker] = field(default_factory=list[_Worker])
    failures: int = 0
    announced: bool = False
    stops: int = 0
    wake: tuple[socket.socket, socket.socket] = field(default_factory=socket.socketpair)

    @contextmanager
    def signals(self) -> Generator[None]:
        def stop(*_: object) -> None:
            self.stops += 1

        with self.wake[0], self.wake[1]:
            for end in self.wake:
                end.setblocking(False)
            if threading.current_thread() is not threading.main_thread():
                yield  # Only the main thread gets signals.
                return
            # The system may hand a signal to a thread of a library. This thread would go on
            # waiting, and the handler would not run, if the signal did not also wake it.
            woken = signal.set_wakeup_fd(self.wake[1].fileno(), warn_on_full_buffer=False)
            numbers = (signal.SIGINT, signal.SIGTERM)
            before = {number: signal.signal(number, stop) for number in numbers}
            try:
                yield
            finally:
                for number, handler in before.items():
                    signal.signal(number, handler)
                signal.set_wakeup_fd(woken)

    def run(self) -> None:
        try:
            for _ in range(self.serving.workers):
                self._start()
            while not self.stops:
                self._wait()
        finally:
            self._stop()

    def _start(self) -> None:
        ours, theirs = connection.Pipe()
        process = get_context("spawn").Process(
            target=_work, args=(self.serving, self.listening, self.folder, theirs)
        )
        process.start()
        theirs.close()
        self.workers.append(_Worker(process, ours))

    def _wait(self) -> None:
        """Until a worker says something or ends, or a signal arrives."""
        awaited = [self.wake[0], *(worker.process.sentinel for worker in self.workers)]
        awaited += [worker.pipe for worker in self.workers if not worker.ready]
        connection.wait(awaited)
        for worker in list(self.workers):
            if not worker.ready:
                self._hear(worker)
            if not worker.process.is_alive() and not self.stops:
                self._replace(worker)

    def _hear(self, worker: _Worker) -> None:
        """What a worker says when it has started: the names of its stores, or its error."""
        try:
            said: list[str] | PackwiseError | None = (
                worker.pipe.recv() if worker.pipe.poll() else None
            )
        except (EOFError, OSError):
            return  # It ended without a word.
        if isinstance(said, PackwiseError):
            raise said
        if said is not None:
            worker.ready = True
            self.failures = 0
            if not self.announced:
                self.announced = True
                self.announce(said)

    def _replace(self, worker: _Worker) -> None:
        from packwise.serving.observability import Log

        self.workers.remove(worker)
        worker.pipe.close()
        code = worker.process.exitcode
        self.failures += not worker.ready
        if self.failures >= _FAILURES or not self.announced:
            raise PackwiseError(f"the server could not start: a worker ended with code {code}")
        Log().write("worker ended", "error", worker=worker.process.pid, code=code)
        if self.failures:
            time.sleep(0.2 * 2**self.failures)
        self._start()

    def _stop(self) -> None:
        # With the last copy of the socket closed, the system refuses new connections.
        self.listening.close()
        for worker in self.workers:
            with suppress(OSError):
                worker.pipe.send(_STOP)
        until = time.monotonic() + self.serving.limits.drain_seconds + _GRACE_SECONDS
        while self.workers:
            awaited = [worker.process.sentinel for worker in self.workers]
            left = until - time.monotonic()
            connection.wait([self.wake[0], *awaited], max(0.0, left))
            with suppress(BlockingIOError):
                self.wake[0].recv(4096)
            if self.stops > 1 or left <= 0:
                for worker in self.workers:
                    worker.process.kill()
            for worker in list(self.workers):
                if not worker.process.is_alive():
                    worker.process.join()
                    worker.pipe.close()
                    self.workers.remove(worker)


def _work(serving: Serving, listening: socket.socket, folder: Path, pipe: _Pipe) -> None:
    """Serve as one of several processes, until the supervisor says stop or is gone."""
    # Ctrl-C reaches the whole group of processes; the supervisor passes it on.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # prometheus_client looks for it when it is imported.
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(folder)
    from packwise.serving import server
    from packwise.serving.shared_state import SharedState
    from packwise.serving.store_registry import open_stores

    limits = serving.limits.for_one_of(serving.workers)
    try:
        opened = open_stores(serving.stores)
        app = serving.build(opened, limits, SharedState(folder))
    except PackwiseError as error:
        pipe.send(error)
        sys.exit(1)
    names = [store.name for store in opened]
    orphaned = threading.Event()

    def obey(running: server.Server) -> None:
        with suppress(EOFError, OSError):
            while pipe.recv() != _STOP:
                pass
            running.should_exit = True
            return
        orphaned.set()
        running.should_exit = True

    def started(running: server.Server) -> None:
        pipe.send(names)
        threading.Thread(target=obey, args=(running,), daemon=True).start()

    server.serve(app, listening, limits, shared=True, started=started)
    if orphaned.is_set():
        shutil.rmtree(folder, ignore_errors=True)
