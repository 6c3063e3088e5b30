"""What the ONNX models share: a session, a tokenizer, and one text a run.

Quantised models scale their activations by what is in the batch, so a text's result would
change with its companions (cosines down to 0.994 between a batch of one and of four). One
unpadded text a run, on single-threaded sessions used by as many threads as there are cores,
is as fast as batches and depends on the text alone.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from packwise.errors import ModelError

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

_SURROGATE = re.compile("[\ud800-\udfff]")
_CHARACTERS_PER_TOKEN = 8


class Graph:
    """An ONNX model, run on one sequence of tokens at a time; safe to share by threads."""

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
    """A tokenizer that neither pads nor cuts, and reads ``[SEP]`` in a text as text."""
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
    """The text with lone surrogates, which no tokenizer takes, replaced one for one."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def encode(tokenizer: Tokenizer, text: str, tokens: int, *, special: bool = True) -> Encoding:
    """The encoding of at least the first ``tokens`` tokens, without reading all of a long text.

    The tokenizers here split at spaces first, so the tokens of a text cut at one are the
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
