"""Embedders: texts in, unit vectors out. ``load_embedder`` gives one by its name."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from packwise.errors import ModelError
from packwise.models.base import Embedder, Progress, Vectors
from packwise.models.locate import Found, obtain
from packwise.models.onnx import Graph, encode, load_tokenizer, readable
from packwise.models.table import Knots, find_model
from packwise.models.workers import cores, spread
from packwise.settings import Settings

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from packwise.models.download import Received

RECIPE = 1
"""How text becomes a vector beyond the table's row; raised when that changes."""

_loaded: dict[tuple[str, Path, int], Embedder] = {}
_loading = threading.Lock()


def load_embedder(
    name: str,
    settings: Settings,
    *,
    folder: Path | None = None,
    received: Received | None = None,
) -> Embedder:
    """The embedder of this name; loaded once a process, safe to share by threads.

    Raises ``UsageError`` for an unknown name, ``ModelMissing`` and ``ModelCorrupt`` as
    ``obtain`` does. ``folder`` names its files, ``received`` hears of a download.
    """
    model = find_model(name, "embedder")
    threads = cores(settings)
    with _loading:
        found = obtain(model, settings, folder=folder, received=received)
        key = (model.name, found.folder.resolve(), threads)
        if key not in _loaded:
            static = model.pooling == "static"
            _loaded[key] = StaticEmbedder(found) if static else OnnxEmbedder(found, threads)
        return _loaded[key]


class _TableEmbedder:
    """What the table and the tokenizer say of an embedder, however it computes."""

    def __init__(self, found: Found) -> None:
        self._model = found.model
        self._version = _version(found)
        self._tokenizer: Tokenizer = load_tokenizer(found.tokenizer)

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def version(self) -> str:
        return self._version

    @property
    def dim(self) -> int:
        return self._model.dim

    @property
    def window(self) -> int:
        return self._model.window

    def token_spans(self, text: str) -> list[tuple[int, int]]:
        return self._tokenizer.encode(readable(text), add_special_tokens=False).offsets

    def similarity(self, cosine: float) -> float:
        return on_gate_scale(cosine, self._model.gate_map)


class OnnxEmbedder(_TableEmbedder):
    """A transformer, run one text at a time on all cores."""

    def __init__(self, found: Found, threads: int) -> None:
        super().__init__(found)
        self._graph = Graph(found.weights)
        self._threads = threads

    def embed_passages(self, texts: Sequence[str], progress: Progress | None = None) -> Vectors:
        vectors = np.empty((len(texts), self.dim), dtype=np.float32)

        def embed(i: int) -> None:
            vectors[i] = self._embed(self._model.passage_prefix + texts[i])

        # The long ones first: a long text begun last would leave the other cores idle.
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        spread(order, embed, min(self._threads, len(texts)), progress)
        return vectors

    def embed_query(self, text: str) -> Vectors:
        return self._embed(self._model.query_prefix + text)

    def _embed(self, text: str) -> Vectors:
        ids = encode(self._tokenizer, text, self.window).ids
        if len(ids) > self.window:
            ids = [*ids[: self.window - 1], ids[-1]]
        hidden = self._graph.run(ids)
        return _unit(hidden[0] if self._model.pooling == "cls" else hidden.mean(axis=0))


class StaticEmbedder(_TableEmbedder):
    """The mean of one fixed vector a token: thousands of texts a second, no sense of order."""

    def __init__(self, found: Found) -> None:
        super().__init__(found)
        self._table = _read_table(found.weights, self.dim)
        self._unknown = self._tokenizer.token_to_id("[UNK]") or 0

    def embed_passages(self, texts: Sequence[str], progress: Progress | None = None) -> Vectors:
        vectors = np.empty((len(texts), self.dim), dtype=np.float32)
        for i, text in enumerate(texts):
            vectors[i] = self._embed(self._model.passage_prefix + text)
            if progress is not None:
                progress(1)
        return vectors

    def embed_query(self, text: str) -> Vectors:
        return self._embed(self._model.query_prefix + text)

    def _embed(self, text: str) -> Vectors:
        ids = encode(self._tokenizer, text, self.window, special=False).ids[: self.window]
        known = [i for i in ids if i != self._unknown]
        return _unit(self._table[known or [self._unknown]].mean(axis=0))


def on_gate_scale(cosine: float, knots: Knots) -> float:
    """A cosine on the scale of the confidence gate: along the knots, within 0..1."""
    if knots:
        cosine = float(np.interp(cosine, [x for x, _ in knots], [y for _, y in knots]))
    return min(1.0, max(0.0, cosine))


def _unit(vector: Vectors) -> Vectors:
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def _version(found: Found) -> str:
    model = found.model
    parts = [file.sha256 for file in found.build.files]
    parts += [model.pooling, str(model.window), model.query_prefix, model.passage_prefix]
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()
    return f"{model.name}+{digest[:12]}.r{RECIPE}"


def _read_table(path: Path, dim: int) -> Vectors:
    """The one matrix of a safetensors file: a JSON header after its length, then the numbers."""
    with path.open("rb") as file:
        header: Any = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        start = file.tell()
    tensor = header.get("embeddings", {})
    if tensor.get("dtype") != "F32" or tensor.get("shape", [])[1:] != [dim]:
        raise ModelError(f"{path} does not hold vectors of {dim} numbers", fix="packwise models")
    offset = start + tensor["data_offsets"][0]
    mapped = np.memmap(path, dtype="<f4", mode="r", offset=offset, shape=tuple(tensor["shape"]))
    return np.asarray(mapped)
