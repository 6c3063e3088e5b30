"""The cross-encoder: reads a question and a passage together and scores how well they match."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from packwise.models.base import CrossEncoder
from packwise.models.locate import LocatedModel
from packwise.models.onnx import (
    LoadedModels,
    OnnxSession,
    encode,
    load_tokenizer,
    longest_first,
    spread,
)
from packwise.models.table import DEFAULT_CROSS_ENCODER, find_model
from packwise.settings import Settings

if TYPE_CHECKING:
    from tokenizers import Encoding

    from packwise.models.download import Received


def load_cross_encoder(
    settings: Settings,
    *,
    name: str = DEFAULT_CROSS_ENCODER,
    folder: Path | None = None,
    received: Received | None = None,
) -> CrossEncoder:
    """The cross-encoder, loaded once per process and safe to share between threads."""
    return _LOADED.get(find_model(name, "cross_encoder"), settings, folder, received)


class OnnxCrossEncoder:
    """Scores one pair per run, on all cores; a pair's score depends on that pair alone."""

    def __init__(self, found: LocatedModel, threads: int) -> None:
        self.name = found.model.name
        self._window = found.model.window
        self._threads = threads
        self._tokenizer = load_tokenizer(found.tokenizer)
        # The longer of the two is cut, so a long passage never pushes the question out.
        self._tokenizer.enable_truncation(self._window, strategy="longest_first")
        self._session = OnnxSession(found.weights)

    def score(self, question: str, texts: Sequence[str]) -> NDArray[np.float32]:
        scores = np.empty(len(texts), dtype=np.float32)
        asked = self._tokens(question)

        def judge(i: int) -> None:
            pair = self._tokenizer.post_process(asked, self._tokens(texts[i]))
            logit = float(self._session.run(pair.ids, pair.type_ids)[0])
            scores[i] = 1 / (1 + math.exp(-logit))

        spread(longest_first(texts), judge, min(self._threads, len(texts)))
        return scores

    def _tokens(self, text: str) -> Encoding:
        return encode(self._tokenizer, text, self._window, special=False)


_LOADED: LoadedModels[CrossEncoder] = LoadedModels(OnnxCrossEncoder)
