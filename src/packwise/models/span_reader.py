"""The span reader: a model, trained on data such as SQuAD, that marks where an answer is.

There is no default one: the setting ``answer_reader`` names a folder with ``model.onnx`` and
``tokenizer.json``, or a repository that is in the local Hugging Face cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from packwise.errors import ModelError, ModelMissing
from packwise.models.base import Encoding, SpanLogits, SpanReader
from packwise.models.locate import hub_cache_folder
from packwise.models.onnx import (
    OnnxSession,
    cores,
    encode,
    load_tokenizer,
    longest_first,
    span_logits,
    spread,
)
from packwise.settings import Settings

_WEIGHTS = tuple(
    f"{folder}{name}.onnx"
    for folder in ("", "onnx/")
    for name in ("model_quantized", "model_quant", "model")
)
_WINDOW = 384
"""Tokens; what readers of SQuAD are trained on."""


def load_span_reader(settings: Settings) -> SpanReader | None:
    """The span reader that the settings name, loaded once per process; ``None`` if they name
    none. Raises ``ModelError`` if it cannot be used."""
    if not settings.answer_reader:
        return None
    return _loaded(settings.answer_reader, cores(settings))


@lru_cache(maxsize=2)
def _loaded(name: str, threads: int) -> SpanReader:
    return OnnxSpanReader(_folder_of(name), name, threads)


class OnnxSpanReader:
    """An ONNX model with two outputs per token: the logits of start and end."""

    def __init__(self, folder: Path, name: str, threads: int = 1) -> None:
        self.name = name
        self._threads = threads
        weights = next((folder / name for name in _WEIGHTS if (folder / name).is_file()), None)
        tokenizer = folder / "tokenizer.json"
        if weights is None or not tokenizer.is_file():
            raise ModelMissing(
                f"{folder} does not contain a span reader",
                fix="put model.onnx and tokenizer.json there, or unset PACKWISE_ANSWER_READER",
            )
        self._tokenizer = load_tokenizer(tokenizer)
        # A long text is cut, the question never is.
        self._tokenizer.enable_truncation(_WINDOW)
        self._session = OnnxSession(weights)

    def read(self, question: str, texts: Sequence[str]) -> list[SpanLogits]:
        found: dict[int, SpanLogits] = {}
        asked = self._tokens(question)

        def judge(i: int) -> None:
            pair = self._tokenizer.post_process(asked, self._tokens(texts[i]))
            outputs = self._session.outputs(pair.ids, pair.type_ids)
            if len(outputs) < 2 or any(len(logits) != len(pair.ids) for logits in outputs[:2]):
                raise ModelError(
                    f"{self.name} is not a span reader: it does not return two logits per token",
                    fix="name a model for question answering, or unset PACKWISE_ANSWER_READER",
                )
            found[i] = span_logits(
                pair, np.stack([logits.reshape(-1) for logits in outputs[:2]], axis=1)
            )

        spread(longest_first(texts), judge, min(self._threads, len(texts)))
        return [found[i] for i in range(len(texts))]

    def _tokens(self, text: str) -> Encoding:
        return encode(self._tokenizer, text, _WINDOW, special=False)


def _folder_of(name: str) -> Path:
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder
    repository = hub_cache_folder() / f"models--{name.replace('/', '--')}"
    snapshots = sorted((repository / "snapshots").glob("*/tokenizer.json"))
    if not snapshots:
        raise ModelMissing(
            f"the span reader {name} is neither a folder nor in the Hugging Face cache",
            fix=f"hf download {name}, or name a folder in PACKWISE_ANSWER_READER",
        )
    return snapshots[-1].parent
