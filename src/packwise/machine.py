"""What the machine gives this process. Linux has all of it, other systems some."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def core_count() -> int:
    """The cores this process may use; where the system does not say, those of the machine."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory_bytes(*, files: bool = True) -> int | None:
    """Memory in use now, with or without the pages of mapped files, which the system can drop and
    processes share; ``None`` where only the peak is known."""
    if sys.platform != "linux":
        return None
    _, resident, shared, *_ = Path("/proc/self/statm").read_text(encoding="ascii").split()
    pages = int(resident) - (0 if files else int(shared))
    return pages * os.sysconf("SC_PAGE_SIZE")


def peak_memory_bytes() -> int | None:
    """The most memory in use so far; ``None`` where the system does not say."""
    if sys.platform == "win32":
        return None
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def process_exists(process: int) -> bool:
    """Whether a process with this id is running."""
    if sys.platform == "win32":
        import ctypes

        # `os.kill` would interrupt it there. 0x1000: ask for nothing but its state.
        kernel = ctypes.windll.kernel32
        handle = kernel.OpenProcess(0x1000, False, process)
        if not handle:
            return False
        code = ctypes.c_ulong()
        kernel.GetExitCodeProcess(handle, ctypes.byref(code))
        kernel.CloseHandle(handle)
        return code.value == 259
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
