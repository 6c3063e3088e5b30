"""How many searches a server answers, how soon, and whether its memory stays where it is.

    python benchmarks/serving.py PACK [--workers 1,2] [--clients 8,32] [--seconds 60] [--cache]

Starts ``packwise serve PACK`` on loopback with each number of workers and lets so many clients
ask, each its next question as soon as it has an answer; the same questions, asked one after the
other of the library in this process, are the yardstick. Prints JSON; exits 1 when any request
fails. The clients run on the same machine and take some of its time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import numpy as np

import packwise
from packwise.settings import Settings

K = 10
LENGTH = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")
_LIBRARY_SECONDS = 6.0


@dataclass(slots=True)
class Tally:
    """What the clients saw."""

    ms: list[float] = field(default_factory=list)
    failed: dict[str, int] = field(default_factory=dict)

    def fail(self, why: str) -> None:
        self.failed[why] = self.failed.get(why, 0) + 1


def questions(pack: str, most: int = 2000) -> list[str]:
    """Questions on what the pack holds: the first words of its passages, in a fixed order."""
    made: list[str] = []
    with packwise.open(pack) as library:
        for entry in library.store.documents():
            for _, passage in library.store.document_passages(entry.id)[:8]:
                made.append(f"{passage.doc_title} {' '.join(passage.text.split()[:8])}")
            if len(made) >= 4 * most:
                break
    Random(7).shuffle(made)
    return made[:most]


def library_rate(pack: str, asked: list[str], cache: bool) -> float:
    """Searches a second of the library alone, one after the other."""
    settings = Settings.load(query_cache=None if cache else 0)
    with packwise.open(pack, settings=settings) as library:
        for question in asked[:20]:
            library.search(question, K)
        done, started = 0, time.perf_counter()
        while time.perf_counter() - started < _LIBRARY_SECONDS:
            library.search(asked[done % len(asked)], K)
            done += 1
        return done / (time.perf_counter() - started)


class Client(asyncio.Protocol):
    """Asks until time is up, its next question as soon as it has an answer, on one connection at a
    time. It takes little of the machine, which it shares with the server."""

    def __init__(
        self, port: int, requests: list[bytes], offset: int, until: float, tally: Tally
    ) -> None:
        self._port = port
        self._requests = requests
        self._at = offset
        self._until = until
        self._tally = tally
        self._ended = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        """Connect, ask, and come back when time is up."""
        await self._connect()
        await self._ended

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._ask()

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, blank, body = self._received.partition(b"\r\n\r\n")
        length = LENGTH.search(head)
        if not blank or len(body) < int(length[1] if length else 0):
            return
        if head.startswith(b"HTTP/1.1 200 "):
            self._tally.ms.append((time.perf_counter() - self._started) * 1000)
        else:
            self._tally.fail(head[9:12].decode())
        self._ask()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._ended.done():
            self._tally.fail(type(exc).__name__ if exc else "closed")
            self._again = asyncio.ensure_future(self._connect())

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: self, "127.0.0.1", self._port)

    def _ask(self) -> None:
        self._started = time.perf_counter()
        if self._started >= self._until:
            self._ended.set_result(None)
            self._transport.close()
            return
        self._received = b""
        self._transport.write(self._requests[self._at % len(self._requests)])
        self._at += 1


def requests(asked: list[str]) -> list[bytes]:
    """What is sent for each question."""
    bodies = [json.dumps({"query": question, "k": K}).encode() for question in asked]
    return [
        b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
        for body in bodies
    ]


async def load(port: int, asked: list[str], clients: int, seconds: float, pid: int) -> dict:
    """Let the clients loose; what they and the server's memory did."""
    tally, memory = Tally(), []
    sent = requests(asked)
    before, own = _cpu_seconds(pid), time.process_time()
    until = time.perf_counter() + seconds

    async def watch() -> None:
        while time.perf_counter() < until:
            memory.append(_resident_mb(pid))
            await asyncio.sleep(0.5)

    step = max(1, len(asked) // clients)
    await asyncio.gather(
        watch(),
        *(Client(port, sent, n * step, until, tally).run() for n in range(clients)),
    )
    own = time.process_time() - own
    later = memory[len(memory) // 3 :]
    ms = np.asarray(tally.ms or [0.0])
    return {
        "clients": clients,
        "seconds": seconds,
        "requests": len(tally.ms),
        "failed": tally.failed,
        "requests_per_second": round(len(tally.ms) / seconds, 1),
        "cpu_ms_per_request": round((_cpu_seconds(pid) - before) / max(1, len(tally.ms)) * 1000, 1),
        "client_cpu_ms_per_request": round(own / max(1, len(tally.ms)) * 1000, 2),
        "latency_ms": {f"p{q}": round(float(np.percentile(ms, q)), 1) for q in (50, 95, 99)},
        "memory_mb": {
            "after_a_third": round(later[0], 1),
            "at_the_end": round(later[-1], 1),
            "most": round(max(memory), 1),
        },
    }


def _processes(pid: int) -> list[int]:
    """A server and its workers."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [pid, *(int(child) for task in tasks for child in task.read_text().split())]


def _resident_mb(pid: int) -> float:
    pages = sum(
        int(Path(f"/proc/{one}/statm").read_text(encoding="ascii").split()[1])
        for one in _processes(pid)
    )
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _cpu_seconds(pid: int) -> float:
    ticks = 0
    for one in _processes(pid):
        fields = Path(f"/proc/{one}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


@contextmanager
def server(pack: str, workers: int, cache: bool) -> Generator[tuple[subprocess.Popen, int]]:
    """A server of so many workers, and its port."""
    env = {**os.environ} if cache else {**os.environ, "PACKWISE_QUERY_CACHE": "0"}
    command = [sys.executable, "-m", "packwise", "serve", pack, "--port", "0", "--no-keys"]
    with subprocess.Popen(
        [*command, "--workers", str(workers)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=env,
    ) as process:
        assert process.stdout is not None
        yield process, int(process.stdout.readline().split(" on http://127.0.0.1:")[1].split()[0])
        process.terminate()
        process.wait(60)


def measured(given: argparse.Namespace, asked: list[str], workers: int) -> dict:
    """One server under each number of clients, once it is warm."""
    with server(given.pack, workers, given.cache) as (process, port):
        runs = [asyncio.run(load(port, asked, 4 * workers, 3.0, process.pid))]
        for clients in given.clients:
            runs.append(asyncio.run(load(port, asked, clients, given.seconds, process.pid)))
        single = asyncio.run(load(port, asked, 1, 5.0, process.pid))
    return {
        "workers": workers,
        "runs": runs[1:],
        "one_client": {name: single[name] for name in ("requests_per_second", "latency_ms")},
        "failed": sum(sum(run["failed"].values()) for run in runs),
        "exit_code": process.returncode,
    }


def main() -> int:
    """Measure, and print what came out."""

    def several(text: str) -> list[int]:
        return [int(part) for part in text.split(",")]

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pack")
    parser.add_argument("--workers", type=several, default=[1, 2], metavar="N,...")
    parser.add_argument("--clients", type=several, default=[8, 32], metavar="N,...")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--cache", action="store_true", help="let searches be answered from memory")
    given = parser.parse_args()
    asked = questions(given.pack)
    alone = library_rate(given.pack, asked, given.cache)
    servers = [measured(given, asked, workers) for workers in given.workers]
    first, last = servers[0]["runs"], servers[-1]["runs"]
    rates = [run["requests_per_second"] for run in last]
    p95 = [run["latency_ms"]["p95"] for run in last]
    result = {
        "machine_load": os.getloadavg()[0],
        "library_per_second": round(alone, 1),
        "servers": servers,
        "ratio_to_library": round(max(rates) / alone, 3),
        "ratio_to_fewest_workers": [
            round(rate / max(0.1, run["requests_per_second"]), 2)
            for rate, run in zip(rates, first, strict=True)
        ],
        "p95_ratio_of_most_to_fewest_clients": round(p95[-1] / max(0.1, p95[0]), 2),
    }
    sys.stdout.write(json.dumps(result, indent=2) + "\n")
    return 1 if any(one["failed"] or one["exit_code"] for one in servers) else 0


if __name__ == "__main__":
    sys.exit(main())
