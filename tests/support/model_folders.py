"""Small embedders made of files, as sentence-transformers, transformers and model2vec lay them out.

The graph looks each token's vector up in a table, so a text's vectors can be computed by hand.
"""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import TemplateProcessing

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
_ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"
LETTERS = [mark + letter for letter in _ALPHABET for mark in ("", "##")]
SIGNS = list(".,:;?!'\"`()-_/<>&#=")
USUAL = """
key keys sign signing signed release releases rotate rotating the backup backups restore night
mirror tenant disk call database every day new old public valid month query passage search
document tea pot
""".split()
WORDS = [*SPECIAL, *dict.fromkeys([*USUAL, *LETTERS, *SIGNS])]


def table_of(dim: int, words: list[str] = WORDS) -> np.ndarray:
    """One random but fixed vector per word."""
    rows = []
    for word in words:
        seed = int.from_bytes(hashlib.sha256(f"{word}/{dim}".encode()).digest()[:4], "big")
        rows.append(np.random.default_rng(seed).normal(size=dim))
    return np.array(rows, dtype="<f4")


def write_tokenizer(path: Path, words: list[str] = WORDS) -> Tokenizer:
    tokenizer = Tokenizer(WordPiece({w: i for i, w in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.normalizer = BertNormalizer()
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        special_tokens=[("[CLS]", words.index("[CLS]")), ("[SEP]", words.index("[SEP]"))],
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(path))
    return tokenizer


def write_model(
    folder: Path,
    dim: int = 8,
    *,
    weights: str = "onnx/model.onnx",
    output: str = "last_hidden_state",
    inputs: tuple[str, ...] = ("input_ids", "attention_mask"),
    **files: Any,
) -> Path:
    """A model folder; ``files`` are JSON files by their path, with ``__`` for a slash."""
    write_tokenizer(folder / "tokenizer.json")
    path = folder / weights
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(graph(table_of(dim), output, inputs))
    for name, content in files.items():
        target = folder / f"{name.replace('__', '/')}.json"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(content), encoding="utf-8")
    return folder


POOLING = {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}
"""``1_Pooling/config.json`` of most models."""


def write_static(path: Path, name: str = "embeddings", **more: np.ndarray) -> None:
    """A safetensors file with a table of vectors."""
    tensors = {name: table_of(8), **more}
    header, start = {}, 0
    kinds = {"<f4": "F32", "<f2": "F16", "<i8": "I64"}
    for key, tensor in tensors.items():
        stop = start + tensor.nbytes
        kind = kinds[tensor.dtype.str]
        header[key] = {"dtype": kind, "shape": tensor.shape, "data_offsets": [start, stop]}
        start = stop
    text = json.dumps(header).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    body = b"".join(tensor.tobytes() for tensor in tensors.values())
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def graph(table: np.ndarray, output: str, inputs: tuple[str, ...]) -> bytes:
    """An ONNX file: ``output`` is the vectors of the tokens, or with one axis less their mean."""
    dim = table.shape[1]
    nodes = [_node("Gather", ["table", "input_ids"], ["vectors"])]
    shape: list[str | int] = ["batch", "sequence", dim]
    if output == "sentence_embedding":
        nodes.append(_node("ReduceMean", ["vectors"], [output], {"axes": [1], "keepdims": 0}))
        shape = ["batch", dim]
    else:
        nodes.append(_node("Identity", ["vectors"], [output]))
    tensor = b"".join(_varint_field(1, size) for size in table.shape)
    tensor += _varint_field(2, 1) + _bytes(8, b"table") + _bytes(9, table.tobytes())
    made = b"".join(_bytes(1, node) for node in nodes) + _bytes(2, b"test") + _bytes(5, tensor)
    made += b"".join(_bytes(11, _value(name, 7, ["batch", "sequence"])) for name in inputs)
    made += _bytes(12, _value(output, 1, shape))
    return _varint_field(1, 8) + _bytes(7, made) + _bytes(8, _bytes(1, b"") + _varint_field(2, 13))


def _node(
    kind: str, inputs: list[str], outputs: list[str], options: dict[str, Any] | None = None
) -> bytes:
    node = b"".join(_bytes(1, name.encode()) for name in inputs)
    node += b"".join(_bytes(2, name.encode()) for name in outputs) + _bytes(4, kind.encode())
    for name, value in (options or {}).items():
        attribute = _bytes(1, name.encode())
        if isinstance(value, list):
            attribute += b"".join(_varint_field(8, each) for each in value) + _varint_field(20, 7)
        else:
            attribute += _varint_field(3, value) + _varint_field(20, 2)
        node += _bytes(5, attribute)
    return node


def _value(name: str, kind: int, shape: list[Any]) -> bytes:
    axes = b"".join(
        _bytes(1, _varint_field(1, size) if isinstance(size, int) else _bytes(2, size.encode()))
        for size in shape
    )
    return _bytes(1, name.encode()) + _bytes(2, _bytes(1, _varint_field(1, kind) + _bytes(2, axes)))


def _varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def _varint_field(field: int, number: int) -> bytes:
    return _varint(field << 3) + _varint(number)


def _bytes(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content
