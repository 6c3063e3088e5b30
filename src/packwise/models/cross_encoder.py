"""The cross-encoder: reads a question and a passage together and scores how well they match.

Two linear heads on its hidden states (``span_heads.json``, fitted by ``benchmarks/span_heads.py``)
mark where an answer may begin and end, at no further cost.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from packwise.models.base import CrossEncoder, Encoding, SpanLogits
from packwise.models.locate import LocatedModel, obtain
from packwise.models.onnx import (
    LoadedModels,
    OnnxSession,
    encode,
    load_tokenizer,
    longest_first,
    span_logits,
    spread,
)
from packwise.models.table import DEFAULT_CROSS_ENCODER, find_model
from packwise.settings import Settings

_UNFUSED = ("SkipLayerNormFusion",)
"""onnxruntime adds and normalises in one step ten times as slowly as in two: 14% of a pair. The
scores differ in the third digit, so embedders, whose vectors are stored, keep the step as it is."""


def load_cross_encoder(settings: Settings, *, folder: Path | None = None) -> CrossEncoder:
    """The cross-encoder, loaded once per process and safe to share between threads."""
    model = find_model(DEFAULT_CROSS_ENCODER, "cross_encoder")
    return _LOADED.get(lambda: obtain(model, settings, folder=folder), settings)


class OnnxCrossEncoder:
    """Scores one pair per run, on all cores; a pair's score depends on that pair alone.

    ``heads`` mark where an answer begins and ends, a column each; those that come with Packwise
    unless given.
    """

    def __init__(
        self, found: LocatedModel, threads: int, heads: NDArray[np.float32] | None = None
    ) -> None:
        self.name = found.model.name
        self._window = found.model.window
        self._threads = threads
        self._tokenizer = load_tokenizer(found.tokenizer)
        # The longer of the two is cut, so a long passage never pushes the question out.
        self._tokenizer.enable_truncation(self._window)
        self._session = OnnxSession(found.weights, found.build.token_states, unfused=_UNFUSED)
        own = _span_heads() if heads is None else heads
        self._heads = own if found.build.token_states else None

    def score(self, question: str, texts: Sequence[str]) -> NDArray[np.float32]:
        scores = np.empty(len(texts), dtype=np.float32)

        def keep(i: int, pair: Encoding, outputs: list[NDArray[np.float32]]) -> None:
            scores[i] = _chance(outputs[0])

        self._read(question, texts, keep)
        return scores

    def marks(self, question: str, texts: Sequence[str]) -> list[tuple[float, SpanLogits]] | None:
        heads = self._heads
        if heads is None:
            return None
        found: dict[int, tuple[float, SpanLogits]] = {}

        def keep(i: int, pair: Encoding, outputs: list[NDArray[np.float32]]) -> None:
            found[i] = _chance(outputs[0]), span_logits(pair, np.hstack(outputs[1:]) @ heads)

        self._read(question, texts, keep)
        return [found[i] for i in range(len(texts))]

    def _read(
        self,
        question: str,
        texts: Sequence[str],
        keep: Callable[[int, Encoding, list[NDArray[np.float32]]], None],
    ) -> None:
        asked = self._tokens(question)

        def judge(i: int) -> None:
            pair = self._tokenizer.post_process(asked, self._tokens(texts[i]))
            keep(i, pair, self._session.outputs(pair.ids, pair.type_ids))

        spread(longest_first(texts), judge, min(self._threads, len(texts)))

    def _tokens(self, text: str) -> Encoding:
        return encode(self._tokenizer, text, self._window, special=False)


def _chance(logit: NDArray[np.float32]) -> float:
    return 1 / (1 + math.exp(-float(logit[0])))


@cache
def _span_heads() -> NDArray[np.float32]:
    """The weights of both heads, a column each."""
    stored = Path(__file__).with_name("span_heads.json").read_text("utf-8")
    heads = json.loads(stored)
    return np.array([heads["start"], heads["end"]], dtype=np.float32).T


_LOADED: LoadedModels[CrossEncoder] = LoadedModels(OnnxCrossEncoder)
