"""ONNX graphs as onnxruntime optimised them, kept in the cache folder.

Optimising the graph of a small transformer takes as long as loading the result, and every
process would do it again. The optimisations here are those that do not depend on the processor,
and the vectors are the same to the last bit.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from packwise.settings import cache_folder

_SMALLEST, _LARGEST = 4 << 20, 512 << 20
"""Smaller graphs are optimised in no time, larger ones fill the disk."""
_NAME = re.compile(r"[0-9a-f]{32}-([0-9a-f]{64})\.onnx")


def optimised_session(
    model: str | bytes,
    digest: str,
    size: int,
    options: Callable[[], Any],
    unfused: Sequence[str] = (),
) -> Any:
    """A session of a model, given as a path or as bytes. ``digest`` identifies its content, of
    ``size`` bytes. The optimised graph is read from the cache, or else kept there. ``unfused``
    names optimisations that are left out."""
    import onnxruntime

    def session(graph: str | bytes, level: str, keep: Path | None = None) -> Any:
        chosen = options()
        chosen.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
        if keep is not None:
            chosen.optimized_model_filepath = str(keep)
        return onnxruntime.InferenceSession(
            graph, chosen, providers=["CPUExecutionProvider"], disabled_optimizers=[*unfused]
        )

    if not _SMALLEST <= size <= _LARGEST:
        return session(model, "ORT_ENABLE_EXTENDED")
    rules = " ".join((digest, "extended onnxruntime", onnxruntime.__version__, *unfused))
    key = hashlib.sha256(rules.encode()).hexdigest()[:32]
    folder = cache_folder() / "graphs"
    if (kept := _kept(folder, key)) is not None:
        return session(kept, "ORT_DISABLE_ALL")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".graph-", dir=folder) as scratch:
            written = Path(scratch) / "graph.onnx"
            made = session(model, "ORT_ENABLE_EXTENDED", written)
            seen = hashlib.sha256(written.read_bytes()).hexdigest()
            written.replace(folder / f"{key}-{seen}.onnx")
            return made
    except Exception:  # noqa: BLE001 - onnxruntime has no error of its own for a full disk
        # What is wrong with the model, and not with the cache, is raised here.
        return session(model, "ORT_ENABLE_EXTENDED")


def _kept(folder: Path, key: str) -> bytes | None:
    """The graph in the cache, if it has the bytes that were written."""
    for file in sorted(folder.glob(f"{key}-*.onnx")):
        with contextlib.suppress(OSError):
            graph = file.read_bytes()
            name = _NAME.fullmatch(file.name)
            if name is not None and hashlib.sha256(graph).hexdigest() == name[1]:
                return graph
            file.unlink()
    return None
