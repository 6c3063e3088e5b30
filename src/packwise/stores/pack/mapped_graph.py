"""usearch's graph in its file, and its scan, without the rest of usearch's Python package.

That imports what progress bars and downloads need, which takes a command from the shell longer than
its search. Building a graph (``index_writer``) does need the package.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_EXTENSION = "usearch.compiled"


class MappedGraph:
    """A graph of vectors in a file. Two threads must not search it at the same time."""

    def __init__(self, path: Path, expansion: int) -> None:
        """Raises ``RuntimeError`` or ``ValueError`` where the file is not a graph."""
        usearch = extension()
        about = usearch.index_dense_metadata_from_path(str(path))
        self._graph = usearch.Index(
            ndim=about["dimensions"],
            dtype=about["kind_scalar"],
            connectivity=usearch.DEFAULT_CONNECTIVITY,
            expansion_add=usearch.DEFAULT_EXPANSION_ADD,
            expansion_search=expansion,
            multi=False,
            enable_key_lookups=True,
            metric_kind=about["kind_metric"],
            metric_pointer=0,
            metric_signature=usearch.MetricSignature.ArrayArraySize,
        )
        self._graph.view_index_from_path(str(path), None)
        self.dim: int = about["dimensions"]

    def __len__(self) -> int:
        return len(self._graph)

    def nearest(self, vector: NDArray[np.float32], count: int) -> NDArray[np.uint64]:
        """The keys of the vectors that are near a vector, the nearest first."""
        keys, _, counts, *_ = self._graph.search_many(
            vector[None], count=count, exact=False, threads=1
        )
        return keys[0, : counts[0]]


def nearest_rows(
    vectors: NDArray[np.float16], vector: NDArray[np.float16], count: int
) -> NDArray[np.uint64]:
    """The rows of the nearest of all vectors, the nearest first."""
    usearch = extension()
    keys, _, counts, *_ = usearch.exact_search(
        vectors,
        vector[None],
        count=count,
        threads=1,
        metric_kind=usearch.MetricKind.Cos,
        metric_signature=usearch.MetricSignature.ArrayArraySize,
        metric_pointer=0,
    )
    return keys[0, : counts[0]]


@cache
def extension() -> Any:
    """The extension module of usearch, which its package finds loaded if it is imported later."""
    package = find_spec("usearch")
    folders = package.submodule_search_locations if package else None
    spec = PathFinder.find_spec(_EXTENSION, folders)
    if _EXTENSION in sys.modules or sys.platform == "win32" or not (spec and spec.loader):
        return import_module(_EXTENSION)
    # As the package does it: the extension looks for the kernels among what is loaded.
    if (kernels := find_spec("simsimd")) and kernels.origin:
        ctypes.CDLL(kernels.origin, mode=ctypes.RTLD_GLOBAL)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
