"""Embeddings from a server with ``/v1/embeddings``: Ollama, vLLM, TEI, llama.cpp, OpenAI.

Texts are sent to a server only if a person named it: on the command line, in the environment or
in a program. A store that someone else built names one too, so a server counts as named once
``load_embedder`` was called with it on this machine. What it answered for one fixed sentence is
kept: it is the model's identity, since a server says nothing else about what it runs.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import re
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from packwise.errors import CallFailed, SettingError
from packwise.models.base import OnEmbedded, Vectors
from packwise.models.llm import as_object, check_address
from packwise.models.naming import SERVER, EmbedderName
from packwise.models.onnx import spread
from packwise.models.openai_compatible import MOST_BYTES, OpenAIServer
from packwise.models.table import family_of
from packwise.settings import data_folder

KEY_VARIABLE = "PACKWISE_EMBEDDER_KEY"
SENTENCE = "The quick brown fox jumps over the lazy dog."
TIMEOUT = 60.0
RETRIES = 4

_BATCH = 32
_BATCH_CHARACTERS = 60_000
_AT_ONCE = 2
_MOST_DIMENSIONS = 1 << 16
_USUAL_WINDOW = 512
_SAME_MODEL = 0.999
"""The least cosine between two answers of the same model: servers compute in batches and in half
precision, so the last digits differ from call to call."""
_REFUSED = (400, 413, 422)
# No tokenizer is at hand. These pieces are shorter than those of the usual tokenizers, so a text
# never exceeds the window.
_PIECE = re.compile(r"[^\W\d_\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{1,5}|\d{1,3}|\S")
_OPENAI = "api.openai.com"

_connected: dict[tuple[str, str], ServerEmbedder] = {}
_lock = threading.Lock()


def connect(named: EmbedderName) -> ServerEmbedder:
    """The embedder of a server, asked once per process which model it runs."""
    model, address, key = _parts(named)
    with _lock:
        known = _connected.get((str(named), key))
        if known is None:
            known = ServerEmbedder(named, model, address, key)
            _connected[str(named), key] = known
        return known


def was_named(named: EmbedderName) -> bool:
    """Whether someone has used this server on this machine."""
    return str(named) in _read_servers()


class ServerEmbedder(OpenAIServer):
    """A model behind a server. Asks it for one sentence at once, to know what it is."""

    _keys = KEY_VARIABLE

    def __init__(
        self,
        named: EmbedderName,
        model: str,
        address: str,
        key: str = "",
        *,
        timeout: float = TIMEOUT,
        retries: int = RETRIES,
    ) -> None:
        super().__init__(address, model, key, "the embedder's address")
        options, family = named.options, family_of(model)
        self._model = model
        self._timeout, self._retries = timeout, retries
        stated = (options.query_prefix, options.passage_prefix)
        usual = (family.query_prefix, family.passage_prefix)
        self._prefixes = [a if a is not None else b for a, b in zip(stated, usual, strict=True)]
        self.window = options.window or _USUAL_WINDOW
        self._cut = options.dim
        self.dim = 0
        self.name = f"{model} at {self._host}"
        vector = self._ask([SENTENCE])[0]
        self.dim = len(vector)
        self.name = str(named)
        self.version = _identity(self.name, vector, *self._version(vector))

    def embed_passages(self, texts: Sequence[str], progress: OnEmbedded | None = None) -> Vectors:
        vectors = np.empty((len(texts), self.dim), dtype=np.float32)
        sent = [self._within(self._prefixes[1] + text) for text in texts]
        batches = list(_batches(sent))

        def embed(i: int) -> None:
            start, stop = batches[i]
            vectors[start:stop] = self._embedded(sent[start:stop])

        def done(_: int) -> None:
            if progress is not None:
                progress(finished.pop())

        finished = [stop - start for start, stop in reversed(batches)]
        spread(range(len(batches)), embed, min(_AT_ONCE, len(batches)), done)
        return vectors

    def embed_query(self, text: str) -> Vectors:
        return self._embedded([self._within(self._prefixes[0] + text)])[0]

    def token_spans(self, text: str) -> list[tuple[int, int]]:
        return [match.span() for match in _PIECE.finditer(text)]

    def similarity(self, cosine: float) -> float | None:
        """Never measured: a server does not say which model it is."""
        del cosine

    def _within(self, text: str) -> str:
        """The text up to the window, and never empty: servers refuse that."""
        spans = self.token_spans(text[: self.window * 16])
        return text[: spans[self.window - 1][1]] if len(spans) >= self.window else text or " "

    def _embedded(self, texts: Sequence[str]) -> Vectors:
        """The vectors of a batch, in halves if the server refuses the whole."""
        try:
            return self._ask(texts)
        except CallFailed as error:
            if len(texts) == 1 or error.status not in _REFUSED:
                raise
        half = len(texts) // 2
        return np.vstack([self._embedded(texts[:half]), self._embedded(texts[half:])])

    def _ask(self, texts: Sequence[str]) -> Vectors:
        body: dict[str, object] = {"model": self._model, "input": list(texts)}
        body["encoding_format"] = "float"

        def send() -> bytes:
            with self._open("embeddings", body, self._timeout) as reply:
                received = reply.read(MOST_BYTES * 4)
                if reply.length:
                    raise http.client.IncompleteRead(received, reply.length)
                return received

        return self._call(send, lambda reply: self._vectors(reply, len(texts)), self._retries)

    def _vectors(self, reply: bytes, count: int) -> Vectors:
        """The vectors of a reply in the order of the texts, each of length 1."""
        try:
            data: Any = as_object(json.loads(reply)).get("data")
            ordered = sorted(data, key=lambda entry: entry["index"])
            if [entry["index"] for entry in ordered] != list(range(count)):
                raise ValueError
            vectors = np.array([entry["embedding"] for entry in ordered], dtype=np.float32)
        except (ValueError, TypeError, KeyError, RecursionError, OverflowError) as error:
            raise CallFailed(
                self.name,
                "the reply does not contain one vector per text",
                fix="check that the address ends in /v1 and that the model makes embeddings",
            ) from error
        vectors = vectors[:, : self._cut or None] if vectors.ndim == 2 else vectors
        wanted = self._cut or self.dim
        if vectors.ndim == 2 and vectors.shape[1] > _MOST_DIMENSIONS:
            raise CallFailed(self.name, f"the vectors have more than {_MOST_DIMENSIONS} dimensions")
        if vectors.ndim != 2 or vectors.shape[1] == 0 or wanted not in (0, vectors.shape[1]):
            found = vectors.shape[1] if vectors.ndim == 2 else "no"
            raise CallFailed(
                self.name, f"the vectors have {found} dimensions, not {wanted or 'some'}"
            )
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not np.isfinite(lengths).all() or not lengths.all():
            raise CallFailed(self.name, "a vector is zero or holds a number that is not finite")
        return vectors / lengths

    def _version(self, vector: Vectors) -> tuple[str, str]:
        """The version, and how the model is used in it."""
        use = "\n".join([str(self.window), *self._prefixes])
        digest = hashlib.sha256(f"{_signs(vector)}\n{len(vector)}\n{use}".encode()).hexdigest()
        return f"{self._model}+{digest[:12]}.r1", use


def _parts(named: EmbedderName) -> tuple[str, str, str]:
    """Model, address and key of ``openai:MODEL@http://HOST/v1``."""
    model, _, address = named.base.removeprefix(SERVER).partition("@http")
    if not model or not address:
        raise SettingError(
            f"{named.base} does not name a model and its server",
            fix=f"{SERVER}MODEL@http://HOST:PORT/v1",
        )
    address = f"http{address}"
    parts = check_address(address, "the embedder's address")
    if parts.username or parts.password:
        raise SettingError(
            "the embedder's address contains a password, which a store would record",
            fix=f"set {KEY_VARIABLE}",
        )
    key = os.environ.get(KEY_VARIABLE, "").strip()
    if not key and parts.hostname == _OPENAI:
        key = os.environ.get("OPENAI_API_KEY", "").strip()
    return model, address, key


def _batches(texts: Sequence[str]) -> Iterator[tuple[int, int]]:
    start = size = 0
    for i, text in enumerate(texts):
        if i > start and (i - start >= _BATCH or size + len(text) > _BATCH_CHARACTERS):
            yield start, i
            start, size = i, 0
        size += len(text)
    if texts:
        yield start, len(texts)


def _signs(vector: Vectors) -> str:
    """The sides of 32 fixed planes that a vector is on: other last digits do not move it."""
    bits = np.frombuffer(hashlib.shake_256(b"packwise").digest(4 * len(vector)), dtype=np.uint8)
    planes = np.unpackbits(bits).reshape(32, len(vector)).astype(np.float32) * 2 - 1
    return "".join("1" if side > 0 else "0" for side in planes @ vector)


def _identity(name: str, vector: Vectors, version: str, use: str) -> str:
    """The version that this server had before if it still runs the same model, else the new one."""
    servers = _read_servers()
    before = as_object(servers.get(name))
    known = np.array(before.get("vector") or [], dtype=np.float32)
    same = known.shape == vector.shape and float(known @ vector) >= _SAME_MODEL
    if same and before.get("use") == use and isinstance(before.get("version"), str):
        return before["version"]
    rounded = [round(float(x), 5) for x in vector]
    _write_servers({**servers, name: {"version": version, "use": use, "vector": rounded}})
    return version


def _servers_file() -> Path:
    return data_folder() / "embedding-servers.json"


def _read_servers() -> dict[str, Any]:
    try:
        return as_object(json.loads(_servers_file().read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}


def _write_servers(servers: dict[str, Any]) -> None:
    path = _servers_file()
    # Without it the server has to be named again, and nothing else is lost.
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".embedding-servers-")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(servers, file)
        Path(name).replace(path)
