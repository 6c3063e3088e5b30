"""Running the application: sockets, slow clients, signals."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from packwise.errors import PackwiseError, UsageError
from packwise.serving.limits import Limits
from packwise.serving.logs import Log
from packwise.serving.state import Serving


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket that listens there. Raises ``UsageError`` when it cannot."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With its protocol named, connections get TCP_NODELAY: an answer's end is not held back.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(1024)
    except (OSError, OverflowError) as error:
        listening.close()
        reason = error.strerror if isinstance(error, OSError) else "no such port"
        raise UsageError(
            f"cannot listen on {host}:{port}: {reason}", fix="choose another with --port"
        ) from error
    listening.setblocking(False)
    return listening


class _PatientProtocol(H11Protocol):
    """Uvicorn's HTTP protocol, with an end to its patience.

    A client that opens a connection and says nothing, or says it a byte at a time, is cut
    off and never reaches the application; one that does not take what it asked for is cut
    off with what it has not taken.
    """

    def __init__(
        self, *arguments: Any, header_seconds: float, write_seconds: float, **named: Any
    ) -> None:
        super().__init__(*arguments, **named)
        self._header_seconds = header_seconds
        self._write_seconds = write_seconds
        self._head_due: asyncio.TimerHandle | None = None
        self._taking_due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        if self._head_due is None and not self._answering():
            self._wait_for_head()
        super().data_received(data)
        if self._answering():
            self._head_arrived()

    def pause_writing(self) -> None:
        self._taking_due = self.loop.call_later(self._write_seconds, self.transport.abort)
        super().pause_writing()

    def resume_writing(self) -> None:
        self._taken()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_arrived()
        self._taken()
        super().connection_lost(exc)

    def _wait_for_head(self) -> None:
        self._head_due = self.loop.call_later(self._header_seconds, self._give_up)

    def _head_arrived(self) -> None:
        if self._head_due is not None:
            self._head_due.cancel()
            self._head_due = None

    def _taken(self) -> None:
        if self._taking_due is not None:
            self._taking_due.cancel()
            self._taking_due = None

    def _give_up(self) -> None:
        self._head_due = None
        if not self._answering():
            self.transport.abort()

    def _answering(self) -> bool:
        # Before the first request there is no cycle, whatever the annotation says.
        cycle: Any = self.cycle
        return cycle is not None and not cycle.response_complete


class _ToLog(logging.Handler):
    """What the libraries below have to say, as events of the server's own log."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        reason = f"{type(error).__name__}: {error}" if error is not None else None
        level = "error" if record.levelno >= logging.ERROR else "warning"
        self._log.write(record.name, level, message=record.getMessage(), reason=reason)


class _Server(uvicorn.Server):
    """Uvicorn's server, which returns when told to stop instead of dying of the signal."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        def stop(number: int, frame: FrameType | None) -> None:
            self.handle_exit(number, frame)

        if threading.current_thread() is not threading.main_thread():
            yield  # Signals are the main thread's; whoever runs us here stops us.
            return
        before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def serve(app: Starlette, listening: socket.socket, limits: Limits) -> None:
    """Answer on a socket until SIGINT or SIGTERM; then finish what runs and return."""
    state: Serving = app.state.serving
    for name in ("uvicorn.error", "asyncio"):
        logger = logging.getLogger(name)
        logger.addHandler(_ToLog(state.log))
        logger.setLevel(logging.WARNING)
        logger.propagate = False
    server = server_of(app, limits)
    server.run(sockets=[listening])
    if not server.started:
        raise PackwiseError("the server could not start")


def server_of(app: Starlette, limits: Limits) -> uvicorn.Server:
    """A server that runs the application within the limits."""
    patient = partial(
        _PatientProtocol,
        header_seconds=limits.header_seconds,
        write_seconds=limits.write_seconds,
    )
    config = uvicorn.Config(
        app,
        http=patient,  # pyright: ignore[reportArgumentType]
        ws="none",
        loop="asyncio",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=limits.connections,
        timeout_keep_alive=max(1, round(limits.idle_seconds)),
        timeout_graceful_shutdown=max(1, round(limits.drain_seconds)),
        h11_max_incomplete_event_size=64 * 1024,
    )
    return _Server(config)
