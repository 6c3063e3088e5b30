"""What `packwise search` and `ask` take from the shell, compared with Python that only runs the
model of the pack once.

    python benchmarks/cold_start.py PACK [--question TEXT] [--runs 7]

The bare program imports onnxruntime, loads the model of the pack and runs it on twelve tokens. All
run in turn, each in a new process with its files in the system's cache, and with compiled modules
as an installed package has them. The least processor time of all runs counts, so that other work
on the machine counts for little. The ratio on the clock says something only while nothing else
uses the machine.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click

import packwise
from packwise.models.embedder import find
from packwise.models.naming import parse_embedder_name
from packwise.settings import Settings

PACKWISE = [sys.executable, "-m", "packwise"]
BARE = """
import sys
import numpy as np
import onnxruntime
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = options.inter_op_num_threads = 1
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
row = np.arange(1000, 1012)[None]
session.run(None, {given.name: row if given.name == "input_ids" else np.ones_like(row)
                   for given in session.get_inputs()})
"""


def main() -> None:
    """Print what each takes, and the ratios."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("pack", type=Path)
    parser.add_argument("--question", default="what is this about?")
    parser.add_argument("--runs", type=int, default=7)
    given = parser.parse_args()
    with packwise.open(given.pack) as library:
        name = library.info().embedder
    model = find(parse_embedder_name(name), Settings.load()).weights
    commands = {
        "bare": [sys.executable, "-c", BARE, str(model)],
        **{
            f"packwise {verb}": [*PACKWISE, verb, str(given.pack), given.question]
            for verb in ("search", "ask")
        },
    }
    least = {name: (float("inf"), float("inf")) for name in commands}
    with tempfile.TemporaryDirectory(prefix="packwise-cold-") as compiled:
        for _ in range(given.runs + 1):
            for name, command in commands.items():
                least[name] = tuple(map(min, least[name], spent(command, compiled)))
    for name, (cpu, seconds) in least.items():
        click.echo(f"{name:16} {cpu:.3f} s of the processor, {seconds:.3f} s on the clock")
    bare = least.pop("bare")
    for name, spent_by_it in least.items():
        cpu, seconds = (ours / base for ours, base in zip(spent_by_it, bare, strict=True))
        click.echo(f"{name} / bare: {cpu:.2f} of the processor, {seconds:.2f} on the clock")


def spent(command: list[str], compiled: str) -> tuple[float, float]:
    """Processor time and time on the clock of a command that keeps compiled modules in a folder."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": compiled}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, env=environment)
    seconds = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, seconds


if __name__ == "__main__":
    main()
