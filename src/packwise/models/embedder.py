"""Embedders: texts in, unit vectors out. ``load_embedder`` loads one by its name."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from packwise.errors import ModelError
from packwise.models.base import Embedder, OnEmbedded, Vectors
from packwise.models.locate import LocatedModel
from packwise.models.onnx import (
    LoadedModels,
    OnnxSession,
    encode,
    load_tokenizer,
    longest_first,
    readable,
    spread,
)
from packwise.models.table import Knots, find_model
from packwise.settings import Settings

if TYPE_CHECKING:
    from packwise.models.download import Received

RECIPE = 1
"""The version of how text becomes a vector, beyond the row of the model table."""


def load_embedder(
    name: str,
    settings: Settings,
    *,
    folder: Path | None = None,
    received: Received | None = None,
) -> Embedder:
    """The embedder of this name, loaded once per process and safe to share between threads.

    ``folder`` contains its files, ``received`` is called during a download. Raises
    ``UsageError`` for an unknown name, ``ModelMissing`` and ``ModelCorrupt`` as ``obtain`` does.
    """
    return _LOADED.get(find_model(name, "embedder"), settings, folder, received)


class _TableEmbedder:
    """An embedder of the model table, however it computes its vectors."""

    def __init__(self, found: LocatedModel) -> None:
        self._model = found.model
        self.name = found.model.name
        self.version = _version(found)
        self.dim = found.model.dim
        self.window = found.model.window
        self._tokenizer = load_tokenizer(found.tokenizer)

    def token_spans(self, text: str) -> list[tuple[int, int]]:
        return self._tokenizer.encode(readable(text), add_special_tokens=False).offsets

    def similarity(self, cosine: float) -> float:
        return on_gate_scale(cosine, self._model.gate_map)

    def embed_query(self, text: str) -> Vectors:
        return self._embed(self._model.query_prefix + text)

    def _embed(self, text: str) -> Vectors:
        raise NotImplementedError


class OnnxEmbedder(_TableEmbedder):
    """A transformer, run on one text at a time on all cores."""

    def __init__(self, found: LocatedModel, threads: int) -> None:
        super().__init__(found)
        self._session = OnnxSession(found.weights)
        self._threads = threads

    def embed_passages(self, texts: Sequence[str], progress: OnEmbedded | None = None) -> Vectors:
        vectors = np.empty((len(texts), self.dim), dtype=np.float32)

        def embed(i: int) -> None:
            vectors[i] = self._embed(self._model.passage_prefix + texts[i])

        spread(longest_first(texts), embed, min(self._threads, len(texts)), progress)
        return vectors

    def _embed(self, text: str) -> Vectors:
        ids = encode(self._tokenizer, text, self.window).ids
        if len(ids) > self.window:
            ids = [*ids[: self.window - 1], ids[-1]]
        hidden = self._session.run(ids)
        return _unit(hidden[0] if self._model.pooling == "cls" else hidden.mean(axis=0))


class StaticEmbedder(_TableEmbedder):
    """The mean of one fixed vector per token: thousands of texts a second, blind to word order."""

    def __init__(self, found: LocatedModel) -> None:
        super().__init__(found)
        self._table = _read_table(found.weights, self.dim)
        self._unknown = self._tokenizer.token_to_id("[UNK]") or 0

    def embed_passages(self, texts: Sequence[str], progress: OnEmbedded | None = None) -> Vectors:
        vectors = np.empty((len(texts), self.dim), dtype=np.float32)
        for i, text in enumerate(texts):
            vectors[i] = self._embed(self._model.passage_prefix + text)
            if progress is not None:
                progress(1)
        return vectors

    def _embed(self, text: str) -> Vectors:
        ids = encode(self._tokenizer, text, self.window, special=False).ids[: self.window]
        known = [i for i in ids if i != self._unknown]
        return _unit(self._table[known or [self._unknown]].mean(axis=0))


def _load(found: LocatedModel, threads: int) -> Embedder:
    static = found.model.pooling == "static"
    return StaticEmbedder(found) if static else OnnxEmbedder(found, threads)


_LOADED = LoadedModels(_load)


def on_gate_scale(cosine: float, knots: Knots) -> float:
    """A cosine on the scale of the confidence gate: interpolated between knots, within 0..1."""
    if knots:
        cosine = float(np.interp(cosine, [x for x, _ in knots], [y for _, y in knots]))
    return min(1.0, max(0.0, cosine))


def _unit(vector: Vectors) -> Vectors:
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def _version(found: LocatedModel) -> str:
    model = found.model
    parts = [file.sha256 for file in found.build.files]
    parts += [model.pooling, str(model.window), model.query_prefix, model.passage_prefix]
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()
    return f"{model.name}+{digest[:12]}.r{RECIPE}"


def _read_table(path: Path, dim: int) -> Vectors:
    """The matrix of a safetensors file: a JSON header after its length, then the numbers."""
    with path.open("rb") as file:
        header: Any = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        start = file.tell()
    tensor = header.get("embeddings", {})
    if tensor.get("dtype") != "F32" or tensor.get("shape", [])[1:] != [dim]:
        raise ModelError(f"{path} does not contain vectors of {dim} numbers", fix="packwise models")
    offset = start + tensor["data_offsets"][0]
    mapped = np.memmap(path, dtype="<f4", mode="r", offset=offset, shape=tuple(tensor["shape"]))
    return np.asarray(mapped)
