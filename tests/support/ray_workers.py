"""The Ray workers of this process, to kill one as a machine that fails would."""

import os
import signal
from pathlib import Path


def kill_worker() -> int:
    """Kill one Ray worker that this process started, and return its process id."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and _is_worker(int(folder.name)):
            os.kill(int(folder.name), signal.SIGKILL)
            return int(folder.name)
    raise RuntimeError("no Ray worker was found")


def _is_worker(process: int) -> bool:
    try:
        title = Path(f"/proc/{process}/cmdline").read_bytes()
        while process > 1 and process != os.getpid():
            process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return False
    return title.startswith(b"ray::RayWorker") and process == os.getpid()
