"""The benchmarks are commands, not tests; but what they import from `packwise` must exist."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

BENCHMARKS = sorted((Path(__file__).parent.parent / "benchmarks").glob("*.py"))


def imported(path: Path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("packwise"):
            for alias in node.names:
                yield node.module, alias.name


@pytest.mark.parametrize("path", BENCHMARKS, ids=lambda path: path.name)
def test_what_a_benchmark_imports_exists(path):
    for module, name in imported(path):
        assert hasattr(import_module(module), name) or import_module(f"{module}.{name}"), (
            f"{path.name} imports {name} from {module}"
        )
