"""Runs the application: sockets, slow clients, signals."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from packwise.errors import PackwiseError, UsageError
from packwise.serving.limits import Limits
from packwise.serving.observability import Log

_BACKLOG = 1024
"""Connections that may wait to be accepted."""


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket that listens on this address. Raises ``UsageError`` if it cannot."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, asyncio sets TCP_NODELAY and the end of a response is not delayed.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(_BACKLOG)
    except (OSError, OverflowError) as error:
        listening.close()
        reason = error.strerror if isinstance(error, OSError) else "no such port"
        raise UsageError(
            f"cannot listen on {host}:{port}: {reason}", fix="choose another port with --port"
        ) from error
    listening.setblocking(False)
    return listening


class _TimedProtocol(H11Protocol):
    """Uvicorn's HTTP protocol with time limits.

    It closes the connection of a client that takes too long to send the head of a request,
    before the application sees it, and of one that takes too long to read the response.
    """

    def __init__(
        self, *arguments: Any, header_seconds: float, write_seconds: float, **named: Any
    ) -> None:
        super().__init__(*arguments, **named)
        self._header_seconds = header_seconds
        self._write_seconds = write_seconds
        self._header_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        self._start_header_timer()

    def data_received(self, data: bytes) -> None:
        if self._header_timer is None and not self._responding():
            self._start_header_timer()
        super().data_received(data)
        if self._responding():
            self._stop_header_timer()

    def pause_writing(self) -> None:
        self._write_timer = self.loop.call_later(self._write_seconds, self.transport.abort)
        super().pause_writing()

    def resume_writing(self) -> None:
        self._stop_write_timer()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_header_timer()
        self._stop_write_timer()
        super().connection_lost(exc)

    def _start_header_timer(self) -> None:
        self._header_timer = self.loop.call_later(self._header_seconds, self._header_timed_out)

    def _stop_header_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _stop_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _header_timed_out(self) -> None:
        self._header_timer = None
        if not self._responding():
            self.transport.abort()

    def _responding(self) -> bool:
        # Before the first request there is no cycle, despite the annotation.
        cycle: Any = self.cycle
        return cycle is not None and not cycle.response_complete


class _LogHandler(logging.Handler):
    """Writes warnings of uvicorn and asyncio to the server's own log."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        reason = f"{type(error).__name__}: {error}" if error is not None else None
        level = "error" if record.levelno >= logging.ERROR else "warning"
        self._log.write(record.name, level, message=record.getMessage(), reason=reason)


class Server(uvicorn.Server):
    """Uvicorn's server, which returns on a signal instead of raising it again.

    One of several processes at a socket (``shared``) leaves SIGINT to its supervisor, and takes
    one connection at a time, so that the others get some of those that arrive together.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        *,
        shared: bool = False,
        started: Callable[[Server], None] | None = None,
    ) -> None:
        super().__init__(config)
        self._shared = shared
        self._when_started = started

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        def stop(number: int, frame: FrameType | None) -> None:
            self.handle_exit(number, frame)

        if threading.current_thread() is not threading.main_thread():
            yield  # Only the main thread gets signals.
            return
        numbers = [signal.SIGTERM] if self._shared else [signal.SIGINT, signal.SIGTERM]
        before = {number: signal.signal(number, stop) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listening in sockets or ():
            listening.listen(_BACKLOG)  # asyncio has set it to what it accepts at once.
        if self._when_started is not None:
            self._when_started(self)


def serve(
    app: FastAPI,
    listening: socket.socket,
    limits: Limits,
    *,
    shared: bool = False,
    started: Callable[[Server], None] | None = None,
) -> None:
    """Serve on a socket until SIGINT or SIGTERM, then finish running requests and return.

    ``shared`` says that other processes serve on the socket too. ``started`` is called when
    connections are accepted.
    """
    for name in ("uvicorn.error", "asyncio"):
        logger = logging.getLogger(name)
        logger.addHandler(_LogHandler(app.state.serving.log))
        logger.setLevel(logging.WARNING)
        logger.propagate = False
    server = server_of(app, limits, shared=shared, started=started)
    server.run(sockets=[listening])
    if not server.started:
        raise PackwiseError("the server could not start")


def server_of(
    app: FastAPI,
    limits: Limits,
    *,
    shared: bool = False,
    started: Callable[[Server], None] | None = None,
) -> Server:
    """A server that runs the application within the limits."""
    protocol = partial(
        _TimedProtocol, header_seconds=limits.header_seconds, write_seconds=limits.write_seconds
    )
    config = uvicorn.Config(
        app,
        http=protocol,  # pyright: ignore[reportArgumentType]
        ws="none",
        loop="asyncio",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        # More than one makes uvicorn share the socket on Windows.
        workers=2 if shared else 1,
        backlog=1 if shared else _BACKLOG,
        limit_concurrency=limits.connections,
        timeout_keep_alive=max(1, round(limits.idle_seconds)),
        timeout_graceful_shutdown=max(1, round(limits.drain_seconds)),
        h11_max_incomplete_event_size=64 * 1024,
    )
    return Server(config, shared=shared, started=started)
