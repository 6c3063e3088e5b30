"""Every test that docs/guarantees.md names exists."""

import ast
import re
from fnmatch import fnmatch
from pathlib import Path

HERE = Path(__file__).parents[1]


def functions_in(path: Path) -> list[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]


def test_every_promise_names_tests_that_exist():
    page = (HERE / "docs" / "guarantees.md").read_text(encoding="utf-8")
    named = re.findall(r"`(?:([\w/]*test_\w+\.py))?(?:::(test_[\w*]+))?`", page)
    files = {path.name: path for path in HERE.glob("tests/**/test_*.py")}
    last, seen = "", 0
    for file, test in named:
        last = file or last
        if not (file or test):
            continue
        assert last in files, last
        if test:
            assert any(fnmatch(name, test) for name in functions_in(files[last])), (last, test)
        seen += 1
    assert seen > 40


def test_every_row_of_a_table_of_promises_names_a_test():
    page = (HERE / "docs" / "guarantees.md").read_text(encoding="utf-8")
    for table in re.findall(r"\| promise \| test \|\n\|---\|---\|\n((?:\|.*\n)+)", page):
        for row in table.splitlines():
            assert "test_" in row.split("|")[2] or "the same" in row.split("|")[2], row
