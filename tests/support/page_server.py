"""A `packwise serve` process whose page a browser opens."""

import re
import signal
import subprocess
import sys
from dataclasses import dataclass

from tests_world import PATIENCE

MILLISECONDS = PATIENCE * 1000


@dataclass
class Running:
    """A `packwise serve` process."""

    arguments: list[str]
    environment: dict[str, str]
    url: str = ""
    process: subprocess.Popen[str] | None = None

    def start(self, port: int = 0) -> "Running":
        command = [sys.executable, "-m", "packwise", "serve", *self.arguments]
        command += ["--port", str(port), "--workers", "1"]
        self.process = subprocess.Popen(
            command,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        found = re.search(r"http://[\d.]+:(\d+)", said)
        assert found, f"the server did not start: {said}"
        self.url = f"http://localhost:{found[1]}"
        return self

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def stop(self, how: int = signal.SIGTERM) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(PATIENCE)
            if self.process.stdout is not None:
                self.process.stdout.close()
            self.process = None
