"""A wrong pair of versions ends the process with a segmentation fault on import."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "order", [("usearch.index", "onnxruntime"), ("onnxruntime", "usearch.index")]
)
def test_vector_index_and_model_runtime_can_be_imported_in_either_order(order):
    code = f"import {order[0]}, {order[1]}; print('alive')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "alive"), done.stderr
