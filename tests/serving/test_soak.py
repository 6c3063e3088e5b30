"""Short runs of the commands that try a server for long: ``soak.py`` and ``tenant_probes.py``."""

import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def run(name, *options):
    return subprocess.run(
        [sys.executable, str(BENCHMARKS / name), *options],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_a_server_under_mixed_work_neither_grows_nor_changes_its_answers():
    # Ten seconds say nothing of p95; the other checks hold from the start.
    done = run("soak.py", "--minutes", "0.2", "--slower", "100")
    assert done.stdout.endswith("0 did not hold\n"), done.stdout + done.stderr[-2000:]


@pytest.mark.slow
def test_no_probe_sees_another_tenant():
    done = run("tenant_probes.py", "--probes", "90")
    assert done.stdout.endswith("88 probes, 0 leaked\n"), done.stdout + done.stderr[-2000:]
