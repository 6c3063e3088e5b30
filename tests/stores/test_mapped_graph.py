"""A graph is searched without usearch's package, and finds what the package finds."""

import subprocess
import sys

import numpy as np
import pytest
from usearch.index import Index, MetricKind, search

from packwise.stores.pack import mapped_graph
from packwise.stores.pack.mapped_graph import MappedGraph, nearest_rows

DIM, COUNT = 32, 3000


@pytest.fixture(scope="module")
def vectors():
    found = np.random.default_rng(5).standard_normal((COUNT, DIM), np.float32)
    return found / np.linalg.norm(found, axis=1)[:, None]


@pytest.fixture(scope="module")
def graph(vectors, tmp_path_factory):
    path = tmp_path_factory.mktemp("graph") / "vectors.usearch"
    index = Index(ndim=DIM, metric="cos", dtype="f16")
    index.add(np.arange(10, 10 + COUNT, dtype=np.uint64), vectors, threads=1)
    index.save(str(path))
    return path


@pytest.mark.parametrize("count", [1, 7, 100, COUNT + 5])
def test_the_graph_finds_what_the_package_finds(graph, vectors, count):
    ours, theirs = MappedGraph(graph, 96), Index.restore(str(graph), view=True)
    theirs.expansion_search = 96
    assert (ours.dim, len(ours)) == (DIM, COUNT)
    for question in vectors[:20]:
        found = theirs.search(question, count, threads=1)
        assert ours.nearest(question, count).tolist() == found.keys.tolist()


@pytest.mark.parametrize("count", [1, 50, COUNT])
def test_the_scan_finds_what_the_package_finds(vectors, count):
    half = vectors.astype(np.float16)
    for question in half[:5]:
        found = search(half, question, count, MetricKind.Cos, exact=True, threads=1)
        assert nearest_rows(half, question, count).tolist() == found.keys.tolist()


def test_what_is_no_graph_is_an_error_that_opening_understands(tmp_path):
    (tmp_path / "no").write_bytes(b"no graph" * 100)
    for name in ("no", "missing"):
        with pytest.raises((RuntimeError, ValueError)):
            MappedGraph(tmp_path / name, 96)


@pytest.mark.parametrize("first", ["extension", "package"])
def test_the_extension_and_the_package_are_one(graph, first):
    """Its types can be registered only once per process."""
    steps = {
        "extension": "from packwise.stores.pack.mapped_graph import extension; extension()",
        "package": "import usearch.index",
    }
    order = [steps.pop(first), *steps.values()]
    code = (
        "import sys; "
        + "; ".join(order)
        + "; assert sys.modules['usearch.compiled'] is extension()"
        + "; assert usearch.index._CompiledIndex is extension().Index"
        + f"; assert len(usearch.index.Index.restore({str(graph)!r}, view=True)) == {COUNT}"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_where_the_extension_is_elsewhere_the_package_is_imported(monkeypatch):
    monkeypatch.setattr(mapped_graph, "PathFinder", NoFinder)
    assert mapped_graph.extension.__wrapped__().Index is Index(ndim=2)._compiled.__class__


class NoFinder:
    @staticmethod
    def find_spec(name, folders):
        return None
