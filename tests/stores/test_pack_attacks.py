"""A few of the attacks of ``benchmarks/attacks.py`` and ``kills.py``: none may succeed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        "attacks.py --flips 12 --crafted 0",
        "attacks.py --flips 0 --crafted 24",
        "kills.py --kills 10",
    ],
)
def test_attacks_on_packs_fail(command, tmp_path):
    name, *options = command.split()
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / name), *options],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.endswith("\n0 did not hold\n"), done.stdout + done.stderr[-2000:]
