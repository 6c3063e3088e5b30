"""Servers for tests: in process, and as the command a user starts."""

import json
import math
import os
import shutil
import subprocess
import sys
import threading
from contextlib import contextmanager
from io import StringIO
from pathlib import Path

from starlette.testclient import TestClient

from packwise.library import open_library
from packwise.retrieval.calibration import CALIBRATION, default_calibration
from packwise.serving import server
from packwise.serving.app import build_app
from packwise.serving.keys import KeyRing
from packwise.serving.limits import Limits
from packwise.serving.observability import Log
from packwise.serving.store_registry import open_stores
from tests_world import PATIENCE, wait_until

# One word that only this tenant's, or this group's, documents hold.
SECRETS = {
    "acme": "zorblatt",
    "globex": "quixnard",
    "acme-board": "vintrosk",
    "open": "plumbago",
}
TENANTS = {
    "acme/plan.md": """---
tenant: acme
---
# The Zorblatt plan

The zorblatt launch happens in March. Zorblatt Valley is where the launch is held, near
Harbour City. See [the board](board.md) and [the rival](../globex/plan.md).
""",
    "acme/links.md": """---
tenant: acme
---
# Reading for the zorblatt launch

Before the zorblatt launch read [the plan of the others](../globex/plan.md) and
[the people](../globex/people.md), then [our plan](plan.md) and [the minutes](board.md).
""",
    "acme/board.md": """---
tenant: acme
acl: board, finance
---
# The Vintrosk minutes

The board of the zorblatt company met in Harbour City. Vintrosk Holdings offered nine million
for the launch, and the board said no.
""",
    "globex/plan.md": """---
tenant: globex
---
# The Quixnard plan

The quixnard launch happens in April. Quixnard Ridge is where the launch is held, near
Harbour City. Compare it with [the other plan](../acme/plan.md).
""",
    "globex/people.md": """---
tenant: globex
---
# Quixnard people

The quixnard launch is led by Petra Lindqvist from Harbour City.
""",
}


@contextmanager
def listening_server(pack, limits, keys=None):
    """A server on a thread of its own, and its port."""
    listening = server.bound_socket("127.0.0.1", 0)
    app = build_app(open_stores([str(pack)]), limits=limits, log=Log(StringIO()), keys=keys)
    running = server.server_of(app, limits)
    thread = threading.Thread(target=lambda: running.run(sockets=[listening]))
    thread.start()
    try:
        wait_until(lambda: running.started, "the server listens")
        yield running, listening.getsockname()[1]
    finally:
        running.should_exit = True
        thread.join(PATIENCE)
        listening.close()


def write_tenants(folder: Path) -> Path:
    for name, text in TENANTS.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


@contextmanager
def client_of(
    *stores, limits=None, keys=None, questions=False, telemetry=None, report=None, cors=()
):
    """A client of a server in this process; ``client.log`` is what the server wrote."""
    out = StringIO()
    app = build_app(
        open_stores([str(store) for store in stores]),
        limits=limits or Limits(),
        keys=keys,
        log=Log(out, questions=questions),
        telemetry=telemetry,
        report=report,
        cors=cors,
    )
    with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as client:
        client.log = out
        yield client


def key_ring(folder: Path, **keys) -> tuple[KeyRing, dict[str, dict[str, str]]]:
    """A ring with these keys, and for each the headers that send it."""
    ring = KeyRing(folder / "keys.json")
    headers = {}
    for name, values in keys.items():
        _, text = ring.add(**values)
        headers[name] = {"Authorization": f"Bearer {text}"}
    return ring, headers


class RunningServer:
    """``packwise serve`` (or ``mcp --http``) in a process of its own, or in several."""

    def __init__(self, *arguments: str, command: str = "serve", env=None, workers: int = 1) -> None:
        at = ["--port", "0", "--workers", str(workers)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "packwise", command, *arguments, *at],
            start_new_session=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(env or {})},
        )
        first = self.process.stdout.readline()
        if " on http" not in first:
            self.process.kill()
            said = self.process.communicate()[1]
            raise AssertionError(f"it did not start: {first}{said}")
        self.url = first.split(" on ")[1].split()[0]
        self.port = int(self.url.split(":")[2].split("/")[0])
        self.lines: list[dict] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stderr:
            self.lines.append(json.loads(line))

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.terminate()
        code = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        self.process.stdout.close()
        self.process.stderr.close()
        return code

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def copy_calibrated(pack: Path, target: Path, *, says: float, **changes) -> Path:
    """A copy of a pack with a calibration of its own, which gives every question one chance."""
    stored = default_calibration().as_dict()
    weightless = {"similarity": {"mean": 0.0, "scale": 1.0, "weight": 0.0}}
    stored["source"] = "pack"
    stored["models"] = [{"bias": math.log(says / (1 - says)), "signs": weightless}]
    shutil.copytree(pack, target)
    with open_library(str(target)) as library:
        stored["embedder_version"] = library.info().embedder_version
    stored.update(changes)
    (target / CALIBRATION).write_text(json.dumps(stored), encoding="utf-8")
    return target
