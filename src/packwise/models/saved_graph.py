"""ONNX graphs as onnxruntime optimised them, kept in the cache folder.

Optimising the graph of a small transformer takes as long as loading the result, and every
process would do it again. The optimisations here are those that do not depend on the processor,
and the vectors are the same to the last bit. The weights are in a file of their own, which
onnxruntime maps instead of copying it; processes share what they map.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from packwise.file_hashes import remembered
from packwise.settings import cache_folder

_SMALLEST, _LARGEST = 4 << 20, 512 << 20
"""Smaller graphs are optimised in no time, larger ones fill the disk."""
_GRAPH, _WEIGHTS = "graph.onnx", "weights.bin"


def optimised_session(
    model: Callable[[], str | bytes],
    digest: str,
    size: int,
    options: Callable[[], Any],
    unfused: Sequence[str] = (),
) -> Any:
    """A session of a model. ``digest`` identifies its content, of ``size`` bytes. The optimised
    graph is read from the cache; else ``model`` returns the path or the bytes of the model's own,
    and the result is kept there. ``unfused`` names optimisations that are left out."""
    import onnxruntime

    def session(graph: str | bytes, level: str, keep: Path | None = None) -> Any:
        chosen = options()
        chosen.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
        if keep is not None:
            weights = "session.optimized_model_external_initializers_file_name"
            chosen.optimized_model_filepath = str(keep / _GRAPH)
            chosen.add_session_config_entry(weights, _WEIGHTS)
        return onnxruntime.InferenceSession(
            graph, chosen, providers=["CPUExecutionProvider"], disabled_optimizers=[*unfused]
        )

    if not _SMALLEST <= size <= _LARGEST:
        return session(model(), "ORT_ENABLE_EXTENDED")
    rules = " ".join((digest, "extended apart onnxruntime", onnxruntime.__version__, *unfused))
    key = hashlib.sha256(rules.encode()).hexdigest()[:32]
    home = cache_folder() / "graphs"
    if (kept := _kept(home, key)) is not None:
        return session(str(kept / _GRAPH), "ORT_DISABLE_ALL")
    try:
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".graph-", dir=home) as scratch:
            written = Path(scratch) / key
            written.mkdir()
            made = session(model(), "ORT_ENABLE_EXTENDED", written)
            _publish(written, home / f"{key}-{_digest(written)}")
            return made
    except Exception:  # noqa: BLE001 - onnxruntime has no error of its own for a full disk
        # What is wrong with the model, and not with the cache, is raised here.
        return session(model(), "ORT_ENABLE_EXTENDED")


def _publish(written: Path, folder: Path) -> None:
    for file in written.iterdir():
        with file.open("rb+") as handle:
            os.fsync(handle.fileno())
    with contextlib.suppress(OSError):  # Another process was first.
        written.rename(folder)


def _kept(home: Path, key: str) -> Path | None:
    """The folder of a graph in the cache, if it has the bytes that were written."""
    for folder in sorted(home.glob(f"{key}-*")):
        with contextlib.suppress(OSError):
            if folder.name == f"{key}-{_digest(folder)}":
                return folder
        shutil.rmtree(folder, ignore_errors=True)
    return None


def _digest(folder: Path) -> str:
    digests = " ".join(remembered(folder / name) for name in (_GRAPH, _WEIGHTS))
    return hashlib.sha256(digests.encode()).hexdigest()
