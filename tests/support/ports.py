"""Ports for servers that a test starts, and for servers that are not there."""

import contextlib
import random
import socket
from pathlib import Path

_CHOICE = random.SystemRandom()


def free_ports(count: int) -> list[int]:
    """Ports nobody listens on, and none that the system gives to outgoing connections: those
    may be taken between this call and the start of the server that is to listen there."""
    found: list[int] = []
    below = range(12_000, _first_given_out())
    with contextlib.ExitStack() as held:
        for port in _CHOICE.sample(below, 500):
            candidate = held.enter_context(socket.socket())
            try:
                candidate.bind(("127.0.0.1", port))
            except OSError:
                continue
            found.append(port)
            if len(found) == count:
                return found
    raise RuntimeError("this machine has no free ports")


def free_port() -> int:
    return free_ports(1)[0]


def _first_given_out() -> int:
    try:
        first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except OSError:
        first = 32_768
    return first if first > 13_000 else 32_768
