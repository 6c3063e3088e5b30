"""What models share: an ONNX session, a tokenizer, and work spread over the cores.

Quantised models scale their activations by the whole batch, so a text's result would depend on
the other texts (cosines down to 0.994 between a batch of one and of four). One unpadded text per
run, on single-threaded sessions used by one thread per core, is as fast as batches and depends
on the text alone.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Generic, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from packwise.errors import ModelError
from packwise.file_hashes import remembered
from packwise.lazy_pattern import lazy_pattern
from packwise.machine import core_count
from packwise.models.base import Encoding, SpanLogits, Tokenizer
from packwise.models.locate import LocatedModel
from packwise.models.saved_graph import optimised_session
from packwise.models.wordpiece import WordPiece, is_wordpiece
from packwise.settings import Settings

_T = TypeVar("_T")
_SURROGATE = lazy_pattern("[\ud800-\udfff]")
_CHARACTERS_PER_TOKEN = 8
_INPUTS = frozenset({"input_ids", "attention_mask", "token_type_ids", "position_ids"})
_TOKEN_VECTORS = ("last_hidden_state", "token_embeddings")
_SENTENCE_VECTORS = ("sentence_embedding", "sentence_embeddings", "text_embeds", "embeddings")


class OnnxSession:
    """An ONNX model, run on one sequence of tokens at a time; safe to share between threads.

    ``inner`` names values inside the graph that are returned as further outputs, ``unfused``
    optimisations of onnxruntime that are left out.
    """

    def __init__(
        self, path: Path, inner: Sequence[str] = (), *, unfused: Sequence[str] = ()
    ) -> None:
        import onnxruntime

        def options() -> Any:
            chosen = onnxruntime.SessionOptions()
            chosen.intra_op_num_threads = 1
            chosen.inter_op_num_threads = 1
            chosen.log_severity_level = 3
            return chosen

        def model() -> str | bytes:
            return _with_outputs(path.read_bytes(), inner) if inner else str(path)

        try:
            digest, size = f"{remembered(path.resolve())} {' '.join(inner)}", path.stat().st_size
            self._session = optimised_session(model, digest, size, options, unfused)
        except Exception as error:
            reason = str(error).splitlines()[0]
            raise ModelError(
                f"onnxruntime cannot load {path}: {reason}", fix="packwise models verify"
            ) from error
        self._path = path
        self._inputs = {
            given.name: np.int32 if given.type == "tensor(int32)" else np.int64
            for given in self._session.get_inputs()
        }
        if unknown := sorted(self._inputs.keys() - _INPUTS):
            raise ModelError(f"{path} asks for {unknown[0]}, which Packwise does not know")
        self._outputs = {out.name: len(out.shape or ()) for out in self._session.get_outputs()}
        self._output = next(iter(self._outputs))

    def use_token_vectors(self) -> bool:
        """Return the vector of every token from now on; whether the graph has them."""
        return self._use(_TOKEN_VECTORS, 3)

    def use_sentence_vector(self) -> bool:
        """Return the vector of the whole text from now on; whether the graph has it."""
        return self._use(_SENTENCE_VECTORS, 2)

    def _use(self, names: Sequence[str], rank: int) -> bool:
        """Choose an output by name. A graph need not name its tokens' vectors, but the only
        output of one vector per text may be another layer's."""
        found = [name for name in names if self._outputs.get(name) == rank]
        if rank == 3:
            found += [name for name, axes in self._outputs.items() if axes == rank]
        self._output = found[0] if found else self._output
        return bool(found)

    def run(self, ids: list[int], types: list[int] | None = None) -> NDArray[np.float32]:
        """The output for this sequence, without the batch dimension; the first unless chosen."""
        return self._run([self._output], ids, types)[0]

    def outputs(self, ids: list[int], types: list[int] | None = None) -> list[NDArray[np.float32]]:
        """All outputs for this sequence, without the batch dimension."""
        return self._run(None, ids, types)

    def _run(
        self, wanted: list[str] | None, ids: list[int], types: list[int] | None
    ) -> list[NDArray[np.float32]]:
        row = np.array([ids], dtype=np.int64)
        feed = {
            "input_ids": row,
            "attention_mask": np.ones_like(row),
            "token_type_ids": np.zeros_like(row) if types is None else np.array([types]),
            "position_ids": np.arange(len(ids), dtype=np.int64)[None],
        }
        given = {name: feed[name].astype(kind) for name, kind in self._inputs.items()}
        try:
            outputs = cast("list[Any]", self._session.run(wanted, given))
        except Exception as error:
            reason = str(error).splitlines()[0]
            raise ModelError(f"onnxruntime cannot run {self._path}: {reason}") from error
        return [output[0].astype(np.float32, copy=False) for output in outputs]


def _with_outputs(model: bytes, names: Sequence[str]) -> bytes:
    """A serialised model that also returns the inner values of these names.

    Protobuf merges a message that occurs twice, so a second graph with nothing but an output
    adds that output to the first.
    """
    graph, output, label = 7, 12, 1
    for name in names:
        message = name.encode()
        for field in (label, output, graph):
            assert len(message) < 128, "the length of a field is written in one byte"
            message = bytes([field << 3 | 2, len(message)]) + message
        model += message
    return model


def load_tokenizer(path: Path) -> Tokenizer:
    """A tokenizer that neither pads nor truncates, and reads ``[SEP]`` in a text as text."""
    try:
        description: Any = json.loads(path.read_bytes())
        if is_wordpiece(description):
            return WordPiece(description)
        kind = description["model"]["type"]
    except (OSError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise ModelError(
            f"{path} does not describe a tokenizer: {error}", fix="packwise models verify"
        ) from error
    try:
        from tokenizers import Tokenizer as AnyTokenizer
    except ImportError as error:
        raise ModelError(
            f"{path} is a tokenizer of the kind {kind}, which Packwise reads with a library",
            fix="pip install 'packwise[tokenizers]'",
        ) from error
    try:
        tokenizer = AnyTokenizer.from_file(str(path))
    except Exception as error:
        raise ModelError(
            f"tokenizers cannot load {path}: {error}", fix="packwise models verify"
        ) from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    tokenizer.encode_special_tokens = True
    return cast("Tokenizer", tokenizer)


def readable(text: str) -> str:
    """The text with lone surrogates, which no tokenizer accepts, replaced one for one."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def encode(tokenizer: Tokenizer, text: str, tokens: int, *, special: bool = True) -> Encoding:
    """The encoding of at least the first ``tokens`` tokens, without reading all of a long text.

    The tokenizers here split at spaces first, so the tokens of a text cut at a space are the
    first tokens of the whole text.
    """
    text = readable(text)
    size = tokens * _CHARACTERS_PER_TOKEN
    while size < len(text):
        cut = max(text.rfind(" ", 0, size), text.rfind("\n", 0, size))
        if cut > 0:
            encoding = tokenizer.encode(text[:cut], add_special_tokens=special)
            if len(encoding.ids) >= tokens:
                return encoding
        size *= 2
    return tokenizer.encode(text, add_special_tokens=special)


def span_logits(pair: Encoding, logits: NDArray[np.float32]) -> SpanLogits:
    """The logits of start and end, a column each, for the tokens of a pair's second text."""
    at = [place for place, part in enumerate(pair.sequence_ids) if part == 1]
    start, end = logits[at].T
    offsets = pair.offsets
    spans = tuple(offsets[place] for place in at)
    return SpanLogits(spans, start, end, float(logits[0].sum()))


class LoadedModels(Generic[_T]):
    """Loads each model once per process."""

    def __init__(self, load: Callable[[LocatedModel, int], _T]) -> None:
        self._load = load
        self._loaded: dict[tuple[object, ...], _T] = {}
        self._lock = threading.Lock()

    def get(self, find: Callable[[], LocatedModel], settings: Settings) -> _T:
        """The model that ``find`` finds on this machine."""
        threads = cores(settings)
        with self._lock:
            found = find()
            key = (found.model, found.reference, found.build, found.folder.resolve(), threads)
            if key not in self._loaded:
                self._loaded[key] = self._load(found, threads)
            return self._loaded[key]


def cores(settings: Settings) -> int:
    """How many threads models may use: the setting, else the cores of this process."""
    return settings.threads or core_count()


def longest_first(texts: Iterable[str]) -> list[int]:
    """The indexes of texts by length: a long text started last would leave other cores idle."""
    lengths = [len(text) for text in texts]
    return sorted(range(len(lengths)), key=lambda i: -lengths[i])


def spread(
    items: Iterable[int],
    work: Callable[[int], None],
    threads: int,
    done: Callable[[int], None] | None = None,
) -> None:
    """Call ``work`` once per item, in roughly this order, on this many threads.

    ``done`` is called in the calling thread with the number of items just finished. After an
    error in ``work`` or Ctrl-C, no thread is left running.
    """
    waiting = iter(items)
    turn = threading.Lock()
    stop = threading.Event()
    reports: SimpleQueue[BaseException | bool] = SimpleQueue()

    def run() -> None:
        try:
            while not stop.is_set():
                with turn:
                    item = next(waiting, None)
                if item is None:
                    break
                work(item)
                reports.put(True)
        except BaseException as error:  # noqa: BLE001 - raised again in the calling thread
            reports.put(error)
        else:
            reports.put(False)

    workers = [threading.Thread(target=run, name=f"packwise-worker-{n}") for n in range(threads)]
    started = 0
    try:
        for worker in workers:
            worker.start()
            started += 1
        running = started
        while running:
            report = reports.get()
            if isinstance(report, BaseException):
                raise report
            if not report:
                running -= 1
            elif done is not None:
                done(1)
    finally:
        stop.set()
        for worker in workers[:started]:
            worker.join()
