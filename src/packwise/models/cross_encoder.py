"""The cross-encoder: a question and a passage read together, and how well they fit."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from packwise.models.base import CrossEncoder
from packwise.models.locate import Found, obtain
from packwise.models.onnx import Graph, encode, load_tokenizer
from packwise.models.table import DEFAULT_CROSS_ENCODER, find_model
from packwise.models.workers import cores, spread
from packwise.settings import Settings

if TYPE_CHECKING:
    from tokenizers import Encoding

    from packwise.models.download import Received

_loaded: dict[tuple[str, Path, int], CrossEncoder] = {}
_loading = threading.Lock()


def load_cross_encoder(
    settings: Settings,
    *,
    name: str = DEFAULT_CROSS_ENCODER,
    folder: Path | None = None,
    received: Received | None = None,
) -> CrossEncoder:
    """The cross-encoder; loaded once a process, safe to share by threads."""
    model = find_model(name, "cross_encoder")
    threads = cores(settings)
    with _loading:
        found = obtain(model, settings, folder=folder, received=received)
        key = (model.name, found.folder.resolve(), threads)
        if key not in _loaded:
            _loaded[key] = OnnxCrossEncoder(found, threads)
        return _loaded[key]


class OnnxCrossEncoder:
    """Scores one pair a run, on all cores; a pair's score depends on that pair alone."""

    def __init__(self, found: Found, threads: int) -> None:
        self._model = found.model
        self._threads = threads
        self._tokenizer = load_tokenizer(found.tokenizer)
        # The longer of the two is cut, so that a long passage never pushes the question out.
        self._tokenizer.enable_truncation(found.model.window, strategy="longest_first")
        self._graph = Graph(found.weights)

    @property
    def name(self) -> str:
        return self._model.name

    def score(self, question: str, texts: Sequence[str]) -> NDArray[np.float32]:
        scores = np.empty(len(texts), dtype=np.float32)
        asked = self._tokens(question)

        def judge(i: int) -> None:
            pair = self._tokenizer.post_process(asked, self._tokens(texts[i]))
            logit = float(self._graph.run(pair.ids, pair.type_ids)[0])
            scores[i] = 1 / (1 + math.exp(-logit))

        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        spread(order, judge, min(self._threads, len(texts)))
        return scores

    def _tokens(self, text: str) -> Encoding:
        return encode(self._tokenizer, text, self._model.window, special=False)
