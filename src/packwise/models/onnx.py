"""What models share: an ONNX session, a tokenizer, and work spread over the cores.

Quantised models scale their activations by the whole batch, so a text's result would depend on
the other texts (cosines down to 0.994 between a batch of one and of four). One unpadded text per
run, on single-threaded sessions used by one thread per core, is as fast as batches and depends
on the text alone.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from packwise.errors import ModelError
from packwise.models.locate import LocatedModel, obtain
from packwise.models.table import ModelSpec
from packwise.settings import Settings

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

    from packwise.models.download import Received

_T = TypeVar("_T")
_SURROGATE = re.compile("[\ud800-\udfff]")
_CHARACTERS_PER_TOKEN = 8


class OnnxSession:
    """An ONNX model, run on one sequence of tokens at a time; safe to share between threads."""

    def __init__(self, path: Path) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        try:
            self._session = onnxruntime.InferenceSession(
                str(path), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:
            reason = str(error).splitlines()[0]
            raise ModelError(
                f"onnxruntime cannot load {path}: {reason}", fix="packwise models verify"
            ) from error
        self._inputs = {given.name for given in self._session.get_inputs()}

    def run(self, ids: list[int], types: list[int] | None = None) -> NDArray[np.float32]:
        """The first output for this sequence, without the batch dimension."""
        row = np.array([ids], dtype=np.int64)
        feed = {"input_ids": row, "attention_mask": np.ones_like(row)}
        if "token_type_ids" in self._inputs:
            feed["token_type_ids"] = (
                np.zeros_like(row) if types is None else np.array([types], dtype=np.int64)
            )
        outputs = cast("list[Any]", self._session.run(None, feed))
        return cast("NDArray[np.float32]", outputs[0][0])


def load_tokenizer(path: Path) -> Tokenizer:
    """A tokenizer that neither pads nor truncates, and reads ``[SEP]`` in a text as text."""
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:
        raise ModelError(
            f"tokenizers cannot load {path}: {error}", fix="packwise models verify"
        ) from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    tokenizer.encode_special_tokens = True
    return tokenizer


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


class LoadedModels(Generic[_T]):
    """Loads each model once per process."""

    def __init__(self, load: Callable[[LocatedModel, int], _T]) -> None:
        self._load = load
        self._loaded: dict[tuple[str, Path, int], _T] = {}
        self._lock = threading.Lock()

    def get(
        self, model: ModelSpec, settings: Settings, folder: Path | None, received: Received | None
    ) -> _T:
        """The model, loaded from ``folder`` or from where ``obtain`` finds it."""
        threads = cores(settings)
        with self._lock:
            found = obtain(model, settings, folder=folder, received=received)
            key = (model.name, found.folder.resolve(), threads)
            if key not in self._loaded:
                self._loaded[key] = self._load(found, threads)
            return self._loaded[key]


def cores(settings: Settings) -> int:
    """How many threads models may use: the setting, else the cores of this process."""
    return settings.threads or len(os.sched_getaffinity(0))


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
