"""Nothing that only Linux has is needed to import Packwise, to build a pack and to search it.

A system that says it is Windows, without the names that Windows lacks, stands in for the real one:
it shows a missing guard, not that Packwise runs there.
"""

import os
import subprocess
import sys

LACKING = """
import ctypes, filelock, os, pathlib, platform, shutil, signal, subprocess, tempfile
import asyncio, multiprocessing, numpy, onnxruntime, sqlite3, tantivy, tokenizers, usearch.index
import concurrent.futures.thread, rich.console, click, selectolax, py3langid, docutils.core, jinja2
import sys
filelock.FileLock = filelock.SoftFileLock
os.O_BINARY = os.O_NOINHERIT = 0
for name in ("sched_getaffinity", "geteuid", "getuid", "O_NOFOLLOW", "O_DIRECTORY", "O_NONBLOCK",
             "O_CLOEXEC", "posix_fallocate", "sysconf", "fork", "killpg"):
    delattr(os, name)
for name in ("setitimer", "SIGVTALRM", "SIGALRM", "SIGKILL"):
    delattr(signal, name)
sys.modules["resource"] = sys.modules["fcntl"] = None
sys.platform = "win32"
"""
WORK = """
import pathlib, pkgutil, packwise
from importlib import import_module
pathlib.Path("notes").mkdir()
pathlib.Path("notes/a.md").write_text("# Harbour\\n\\nShips call the harbour on channel 12.\\n")
packwise.build("notes", "pack")
with packwise.open("pack") as library:
    print(library.search("which channel do ships use?", k=1).hits[0].passage.text)
from packwise.machine import core_count, memory_bytes, peak_memory_bytes
assert core_count() > 0 and memory_bytes() is None and peak_memory_bytes() is None
"""


def test_a_pack_is_built_and_searched_without_what_only_linux_has(tmp_path):
    env = {**os.environ, "PACKWISE_HOME": str(tmp_path / "home")}
    command = [sys.executable, "-c", LACKING + WORK]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "channel 12" in done.stdout


def test_linux_counts_the_cores_it_may_use():
    from packwise.machine import core_count

    assert core_count() == len(os.sched_getaffinity(0))
