"""Run a server for long under mixed work, and check that nothing grows and nothing changes.

    python benchmarks/soak.py --minutes 60
    python benchmarks/soak.py --minutes 60 --pause 0.5     for a machine that others use too

Two tenants ask, search and read articles; some hang up at once, some send nonsense. Meanwhile the
pack is built again and again, with documents that come and go. The run is divided into ten parts.
It fails if the memory or the open files of the server grow from the first half to the second, if
p95 or the computing per request does, if an answer about a document that did not change is another
one at the end, if one tenant sees a word of the other, or if the server answers with an error of
its own.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from packwise.packs.build import build_pack
from packwise.serving.keys import KeyRing

PARTS = 10
MORE_MEMORY = 0.15
"""The share by which memory may grow from the first half to the second; half an hour of caches
that fill up stay below it."""
MORE_HANDLES = 8
BASIC = 24
WORDS = "harbour vault keeper launch silver ledger tide lantern copper orchard".split()


def note(tenant: str, number: int, turn: int = 0) -> str:
    """A document of a tenant, which has a word that no other tenant has."""
    word = WORDS[number % len(WORDS)]
    return (
        f"---\ntenant: {tenant}\n---\n# {tenant} {word} {number}\n\n"
        f"The {word} of secret{tenant} is kept in room {number} by keeper {number % 7}.\n\n"
        f"Every {word} was counted {turn} times in the year {1900 + number}.\n"
    )


@dataclass
class Seen:
    """What the clients saw, by part of the run."""

    part: int = 0
    seconds: dict[int, list[float]] = field(default_factory=dict)
    outcomes: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, outcome: str, seconds: float | None = None) -> None:
        with self.lock:
            self.outcomes[outcome] += 1
            if seconds is not None:
                self.seconds.setdefault(self.part, []).append(seconds)


class Server:
    """``packwise serve`` in a process of its own."""

    def __init__(self, pack: Path, keys: Path) -> None:
        command = [sys.executable, "-m", "packwise", "serve", str(pack), "--keys", str(keys)]
        self.process = subprocess.Popen(
            [*command, "--port", "0", "--rate", "0", "--workers", "1"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if " on http" not in line:
            raise SystemExit(f"the server did not start: {line}")
        self.port = int(line.split(" on ")[1].split()[0].rstrip("/").rpartition(":")[2])

    def memory(self) -> int:
        """Resident bytes."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def handles(self) -> int:
        """Open files and sockets."""
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def computed(self) -> float:
        """Seconds of computing so far, which other programs on the machine do not change."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(60)


def send(port: int, key: str, path: str, body: object, seconds: float = 60.0) -> tuple[int, str]:
    """The status and the text of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=seconds)
    try:
        method = "GET" if body is None else "POST"
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        content = body if isinstance(body, str | None) else json.dumps(body)
        connection.request(method, path, content, headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def hang_up(port: int, key: str, path: str, body: object) -> None:
    """Send a request and leave."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    connection.request("POST", path, json.dumps(body), headers)
    connection.close()


def client(
    port: int, tenant: str, key: str, others: list[str], seen: Seen, end: float, pause: float
) -> None:
    """One tenant at work until the end."""
    place = random.Random(tenant + key)
    while time.monotonic() < end:
        time.sleep(pause)
        number = place.randrange(BASIC)
        question = f"Where is the {WORDS[number % len(WORDS)]} of room {number}?"
        started = time.monotonic()
        try:
            kind = place.randrange(12)
            if kind < 5:
                status, text = send(port, key, "/v1/search", {"query": question, "k": 5})
            elif kind < 7:
                status, text = send(port, key, "/v1/ask", {"question": question})
            elif kind == 7:
                status, text = send(port, key, "/v1/context", {"question": question})
            elif kind == 8:
                path = f"/v1/articles/{tenant}-{place.randrange(BASIC + 8):03}.md"
                status, text = send(port, key, path, None)
            elif kind == 9:
                status, text = send(port, key, "/v1/ask", {"question": question, "stream": True})
            elif kind == 10:
                hang_up(port, key, "/v1/ask", {"question": question, "rerank": "crossencoder"})
                seen.add("hung up")
                continue
            else:
                nonsense = place.choice(["{", '{"query": 1}', '{"query": ""}', "[]"])
                status, text = send(port, key, "/v1/search", nonsense)
        except OSError as error:
            seen.add(f"FAILED: {type(error).__name__}")
            continue
        seen.add(f"status {status}", time.monotonic() - started)
        if status >= 500 and status not in (503, 504):
            seen.wrong.append(f"{status}: {text[:200]}")
        if any(f"secret{other}" in text for other in others):
            seen.wrong.append(f"{tenant} saw another tenant's word: {text[:200]}")


def writer(
    source: Path, pack: Path, tenants: list[str], seen: Seen, end: float, pause: float
) -> None:
    """Documents that come, change and go, each time with a build."""
    turn = 0
    while time.monotonic() < end:
        turn += 1
        for tenant in tenants:
            for extra in range(8):
                path = source / f"{tenant}-{BASIC + extra:03}.md"
                if (turn + extra) % 3 == 0:
                    path.unlink(missing_ok=True)
                else:
                    path.write_text(note(tenant, BASIC + extra, turn))
        build_pack([str(source)], str(pack))
        seen.add("builds")
        time.sleep(0.5 + 20 * pause)


def answers(port: int, keys: dict[str, str]) -> dict[str, object]:
    """What each tenant is told about documents that do not change."""
    told: dict[str, object] = {}
    for tenant, key in keys.items():
        for number in range(0, BASIC, 5):
            question = f"In which room is the {WORDS[number % len(WORDS)]} kept, room {number}?"
            where = {"document": f"{tenant}-{number:03}.md"}
            body = {"query": question, "k": 3, "where": where}
            status, text = send(port, key, "/v1/search", body)
            hits = json.loads(text).get("hits", status)
            told[f"{tenant} {number}"] = [(hit["id"], hit["text"]) for hit in hits]
    return told


def run(minutes: float, tenants: int, most_slower: float, pause: float) -> list[str]:
    """Run, print the table, and return what did not hold."""
    names = [f"tenant{number}" for number in range(tenants)]
    with tempfile.TemporaryDirectory() as scratch:
        source, pack = Path(scratch) / "notes", Path(scratch) / "pack"
        source.mkdir()
        for tenant in names:
            for number in range(BASIC):
                (source / f"{tenant}-{number:03}.md").write_text(note(tenant, number))
        build_pack([str(source)], str(pack))
        ring = KeyRing(Path(scratch) / "keys.json")
        keys = {tenant: ring.add(tenant=tenant)[1] for tenant in names}
        server, seen = Server(pack, ring.file), Seen()
        try:
            for key in keys.values():  # Each model is loaded before anything is measured.
                body = {"question": "Where is the vault?", "rerank": "crossencoder"}
                send(server.port, key, "/v1/ask", body, seconds=600)
            before = answers(server.port, keys)
            end = time.monotonic() + minutes * 60
            others = {tenant: [name for name in names if name != tenant] for tenant in names}
            threads = [
                threading.Thread(
                    target=client,
                    args=(server.port, name, keys[name], others[name], seen, end, pause),
                )
                for name in names
            ]
            building = (source, pack, names, seen, end, pause)
            threads.append(threading.Thread(target=writer, args=building))
            for thread in threads:
                thread.start()
            held = watch(server, seen, minutes)
            for thread in threads:
                thread.join()
            after = answers(server.port, keys)
        finally:
            code = server.stop()
    return report(seen, held, before == after, code, most_slower)


@dataclass
class Held:
    """The most that the server held in each part of the run, and its computing by the end of it."""

    memory: list[int] = field(default_factory=lambda: [0] * PARTS)
    handles: list[int] = field(default_factory=lambda: [0] * PARTS)
    computed: list[float] = field(default_factory=lambda: [0.0] * PARTS)
    at_first: float = 0.0

    def per_request(self, part: int, requests: int) -> float:
        """Milliseconds of computing per request."""
        before = self.computed[part - 1] if part else self.at_first
        return (self.computed[part] - before) * 1000 / max(1, requests)


def watch(server: Server, seen: Seen, minutes: float) -> Held:
    """What the server holds in each part of the run."""
    held = Held(at_first=server.computed())
    started = time.monotonic()
    while (passed := time.monotonic() - started) < minutes * 60:
        seen.part = min(PARTS - 1, int(passed / (minutes * 60) * PARTS))
        held.memory[seen.part] = max(held.memory[seen.part], server.memory())
        held.handles[seen.part] = max(held.handles[seen.part], server.handles())
        held.computed[seen.part] = server.computed()
        time.sleep(min(1.0, minutes * 60 / PARTS / 5))
    return held


def report(seen: Seen, held: Held, same: bool, code: int, most_slower: float) -> list[str]:
    """Print what was seen; what did not hold."""
    sys.stdout.write("part  requests  p95 ms  CPU ms each  memory MB  handles\n")
    slow: list[float] = []
    work: list[float] = []
    for part in range(PARTS):
        times = sorted(seen.seconds.get(part, [0.0]))
        slow.append(times[int(len(times) * 0.95)] * 1000)
        work.append(held.per_request(part, len(times)))
        sys.stdout.write(
            f"{part + 1:4} {len(times):9} {slow[-1]:7.0f} {work[-1]:12.0f}"
            f" {held.memory[part] >> 20:10} {held.handles[part]:8}\n"
        )
    for outcome, count in sorted(seen.outcomes.items()):
        sys.stdout.write(f"  {count:6} {outcome}\n")
    half = PARTS // 2
    # In the first part caches fill.
    first, second = slice(1, half), slice(half, PARTS)
    grown = ratio(held.memory[second], held.memory[first]) - 1
    more = statistics.median(held.handles[second]) - statistics.median(held.handles[first])
    slower, costlier = ratio(slow[second], slow[first]), ratio(work[second], work[first])
    sys.stdout.write(
        f"second half against first: memory {grown:+.1%}, handles {more:+.0f},"
        f" p95 x{slower:.2f}, computing per request x{costlier:.2f}\n"
    )
    wrong = list(dict.fromkeys(seen.wrong))
    wrong += [f"{n} {what}" for what, n in seen.outcomes.items() if what.startswith("FAILED")]
    checks = {
        "memory grew": grown > MORE_MEMORY,
        "open files grew": more > MORE_HANDLES,
        "p95 grew": slower > most_slower,
        "computing per request grew": costlier > most_slower,
        "answers changed": not same,
        f"the server ended with {code}": code != 0,
        "nothing was built": not seen.outcomes["builds"],
        "nothing was answered": not seen.outcomes["status 200"],
    }
    return wrong + [what for what, failed in checks.items() if failed]


def ratio(values: Sequence[float], others: Sequence[float]) -> float:
    """How many times larger the median is."""
    return statistics.median(values) / max(1.0, statistics.median(others))


def main() -> None:
    """Run; the exit code is 1 if something did not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--tenants", type=int, default=2)
    parser.add_argument("--slower", type=float, default=2.0, help="how much p95 may grow")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds between requests")
    given = parser.parse_args()
    wrong = run(given.minutes, given.tenants, given.slower, given.pause)
    for line in wrong:
        sys.stdout.write(f"DID NOT HOLD: {line}\n")
    sys.stdout.write(f"{len(wrong)} did not hold\n")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
