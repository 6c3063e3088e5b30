"""Embedders: texts in, unit vectors out. ``load_embedder`` loads one by its name."""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from packwise.errors import ModelError, ModelMissing
from packwise.models.base import Embedder, OnEmbedded, Vectors
from packwise.models.folder import apply, find_embedder, read_folder
from packwise.models.locate import LocatedModel, obtain
from packwise.models.naming import NO_OPTIONS, EmbedderName, parse_embedder_name
from packwise.models.onnx import (
    LoadedModels,
    OnnxSession,
    encode,
    load_tokenizer,
    longest_first,
    readable,
    spread,
)
from packwise.models.table import Knots, known_model
from packwise.models.wordpiece import WordPiece
from packwise.settings import Settings

RECIPE = 1
"""The version of how text becomes a vector, beyond the row of the model table."""

_REPORTED_AT_ONCE = 256
"""Texts after which a static embedder, which takes some milliseconds for them, reports them."""


def load_embedder(
    name: str | Path, settings: Settings | None = None, *, folder: Path | None = None
) -> Embedder:
    """The embedder of this name, loaded once per process and safe to share between threads.

    The name is that of a model of the table, a folder, a hub name or
    ``openai:MODEL@http://HOST/v1``; see ``models/naming.py`` for its options. ``folder`` contains
    the files of a model of the table. Raises ``UsageError`` for an unknown name, ``ModelMissing``
    when the model is not on this machine, ``ModelCorrupt`` when its bytes are not the expected
    ones.
    """
    settings = settings or Settings.load()
    named = parse_embedder_name(str(name))
    if named.is_server:
        from packwise.models.embedding_server import connect

        return connect(named)
    return _LOADED.get(lambda: find(named, settings, folder), settings)


def load_recorded_embedder(name: str, settings: Settings, location: str) -> Embedder:
    """The embedder that a store records. Raises as ``load_embedder`` does.

    One that is no longer where it was is replaced by ``settings.embedder`` if that was set; the
    store checks that it is the same. A server is asked only if a person has named it. A store may
    come from someone else with a model beside it, which is used only if a person has named it.
    """
    try:
        named = parse_embedder_name(name)
        beside = _comes_with(named, location)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ModelMissing(f"{location}: its embedder cannot be found ({reason})") from error
    chosen = settings.origin("embedder") != "default"
    if named.is_server and not (chosen and settings.embedder == name):
        from packwise.models.embedding_server import was_named

        if not was_named(named):
            raise ModelMissing(
                f"{location} was built with {name}, a server that was not used here before",
                fix=f"if questions may be sent there: PACKWISE_EMBEDDER='{name}'",
            )
    try:
        if beside and not (chosen and settings.embedder == name):
            raise ModelMissing(
                f"the embedder {named.base} came with the store",
                fix=f"if you trust it: PACKWISE_EMBEDDER='{named.folder}'",
            )
        return load_embedder(name, settings)
    except ModelMissing as error:
        if not chosen or settings.embedder == name:
            raise ModelMissing(f"{location}: {error.message}", fix=error.fix) from error
        return load_embedder(settings.embedder, settings)


def _comes_with(named: EmbedderName, location: str) -> bool:
    """Whether a recorded name leads to a folder that no build has recorded: builds record whole
    paths, and none inside the store."""
    if named.is_server or known_model(named.base, "embedder") or not named.folder.is_dir():
        return False
    whole = Path(named.base).expanduser().is_absolute()
    return not whole or named.folder.resolve().is_relative_to(Path(location).resolve())


def find(named: EmbedderName, settings: Settings, folder: Path | None = None) -> LocatedModel:
    """The files of an embedder, and how they are used; raises as ``load_embedder`` does."""
    model = known_model(named.base, "embedder")
    if model is None and folder is not None:
        return read_folder(folder, named, "folder")
    if model is None:
        return find_embedder(named, settings)
    found = obtain(model, settings, folder=folder)
    if named.options == NO_OPTIONS:
        return found
    used = apply(found.model, named.options)
    return replace(found, model=used, reference=str(replace(named, base=model.name)))


class _LocalEmbedder:
    """An embedder whose files are on this machine, however it computes its vectors."""

    def __init__(self, found: LocatedModel) -> None:
        self._model = found.model
        self.name = found.reference or found.model.name
        self.version = _version(found)
        self.dim = found.model.dim
        self.window = found.model.window
        self._tokenizer = load_tokenizer(found.tokenizer)

    def token_spans(self, text: str) -> list[tuple[int, int]]:
        tokenizer, text = self._tokenizer, readable(text)
        if isinstance(tokenizer, WordPiece):
            return tokenizer.spans(text)
        return tokenizer.encode(text, add_special_tokens=False).offsets

    def similarity(self, cosine: float) -> float | None:
        return on_gate_scale(cosine, self._model.gate_map)

    def embed_query(self, text: str) -> Vectors:
        return self._embed(self._model.query_prefix + text)

    def _embed(self, text: str) -> Vectors:
        raise NotImplementedError

    def _measure(self, found: LocatedModel, vector: Vectors) -> None:
        """Set the dimension by a vector of the model: all of it, or what was asked for."""
        width, wanted = len(vector), found.model.dim
        if wanted > width or (wanted != width and wanted and not found.reference):
            raise ModelError(
                f"{found.weights} makes vectors of {width} numbers, not {wanted}",
                fix="packwise models",
            )
        self.dim = wanted or width
        if self.dim < width:
            self.version = _version(found, str(self.dim))


class OnnxEmbedder(_LocalEmbedder):
    """A transformer, run on one text at a time on all cores."""

    def __init__(self, found: LocatedModel, threads: int) -> None:
        super().__init__(found)
        self._session = OnnxSession(found.weights)
        self._threads = threads
        self._pool = self._pooled_by(found)
        if found.reference:
            self._measure(found, self._vector("Packwise"))

    def embed_passages(self, texts: Sequence[str], progress: OnEmbedded | None = None) -> Vectors:
        vectors = np.empty((len(texts), self.dim), dtype=np.float32)

        def embed(i: int) -> None:
            vectors[i] = self._embed(self._model.passage_prefix + texts[i])

        spread(longest_first(texts), embed, min(self._threads, len(texts)), progress)
        return vectors

    def _embed(self, text: str) -> Vectors:
        return _unit(self._vector(text)[: self.dim])

    def _vector(self, text: str) -> Vectors:
        ids = encode(self._tokenizer, text, self.window).ids
        if len(ids) > self.window:
            ids = [*ids[: self.window - 1], ids[-1]]
        return self._pool(self._session.run(ids))

    def _pooled_by(self, found: LocatedModel) -> Callable[[Vectors], Vectors]:
        """What makes one vector of the graph's output."""
        pooling = found.model.pooling
        if pooling != "none" and self._session.use_token_vectors():
            return _POOLINGS[pooling]
        if self._session.use_sentence_vector():
            return np.ravel
        raise ModelError(
            f"{found.folder} does not say how its token vectors become one",
            fix=f"name the pooling, as its model card says: '{self.name}?pooling=mean' or cls",
        )


_POOLINGS: dict[str, Callable[[Vectors], Vectors]] = {
    "cls": lambda hidden: hidden[0],
    "mean": lambda hidden: hidden.mean(axis=0),
    "max": lambda hidden: hidden.max(axis=0),
    "last": lambda hidden: hidden[-1],
}


class StaticEmbedder(_LocalEmbedder):
    """The mean of one fixed vector per token: thousands of texts a second, blind to word order."""

    def __init__(self, found: LocatedModel) -> None:
        super().__init__(found)
        self._table = _read_table(found.weights)
        self._measure(found, self._table[0])
        unknown = (self._tokenizer.token_to_id(token) for token in ("[UNK]", "<unk>"))
        self._unknown = next((known for known in unknown if known is not None), None)

    def embed_passages(self, texts: Sequence[str], progress: OnEmbedded | None = None) -> Vectors:
        vectors = np.empty((len(texts), self.dim), dtype=np.float32)
        for start in range(0, len(texts), _REPORTED_AT_ONCE):
            some = texts[start : start + _REPORTED_AT_ONCE]
            for i, text in enumerate(some, start):
                vectors[i] = self._embed(self._model.passage_prefix + text)
            if progress is not None:
                progress(len(some))
        return vectors

    def _embed(self, text: str) -> Vectors:
        ids = encode(self._tokenizer, text, self.window, special=False).ids[: self.window]
        known = [i for i in ids if i != self._unknown]
        return _unit(self._table[known or [self._unknown or 0]].mean(axis=0)[: self.dim])


def _load(found: LocatedModel, threads: int) -> Embedder:
    static = found.model.pooling == "static"
    return StaticEmbedder(found) if static else OnnxEmbedder(found, threads)


_LOADED = LoadedModels(_load)


def on_gate_scale(cosine: float, knots: Knots | None) -> float | None:
    """A cosine on the scale of the confidence gate: interpolated between knots, within 0..1.

    ``None`` without knots that were measured: a cosine alone says nothing.
    """
    if knots is None:
        return None
    if knots:
        # Every candidate of a search is asked for: ``np.interp`` takes ten times as long for one.
        after = min(max(1, bisect_right(knots, cosine, key=itemgetter(0))), len(knots) - 1)
        (x0, y0), (x1, y1) = knots[after - 1], knots[after]
        inside = min(max(cosine, x0), x1)
        cosine = y1 if inside == x1 else (y1 - y0) / (x1 - x0) * (inside - x0) + y0
    return min(1.0, max(0.0, cosine))


def _unit(vector: Vectors) -> Vectors:
    return (vector / (np.linalg.norm(vector) or 1.0)).astype(np.float32)


def _version(found: LocatedModel, *more: str) -> str:
    model = found.model
    parts = [file.sha256 for file in found.build.files]
    parts += [model.pooling, str(model.window), model.query_prefix, model.passage_prefix]
    digest = hashlib.sha256("\n".join((*parts, *more)).encode()).hexdigest()
    return f"{model.name}+{digest[:12]}.r{RECIPE}"


def _read_table(path: Path) -> Vectors:
    """One row per token from a safetensors file: a JSON header after its length, then numbers.

    Newer files of model2vec also have a weight per token, and tokens that share a row.
    """
    with path.open("rb") as file:
        header: Any = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        start = file.tell()

    def read(*names: str) -> Any:
        name = next((n for n in names if n in header), None)
        if name is None:
            return None
        tensor = header[name]
        kind = _TENSORS.get(tensor["dtype"])
        if kind is None:
            raise ModelError(f"{path} contains numbers of the kind {tensor['dtype']}")
        offset, shape = start + tensor["data_offsets"][0], tuple(tensor["shape"])
        return np.asarray(np.memmap(path, dtype=kind, mode="r", offset=offset, shape=shape))

    rows = read("embeddings", "embedding.weight")
    if rows is None or rows.ndim != 2:
        raise ModelError(f"{path} does not contain a vector per token", fix="packwise models")
    mapping, weights = read("mapping"), read("weights")
    if mapping is not None:
        rows = rows[mapping]
    if weights is not None:
        rows = rows * weights[:, None]
    return rows if rows.dtype == np.float32 else rows.astype(np.float32)


_TENSORS = {"F32": "<f4", "F16": "<f2", "F64": "<f8", "I32": "<i4", "I64": "<i8"}
