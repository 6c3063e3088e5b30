"""What an embedder is named by: a model of the table, a folder, a hub name or a server.

    bge-small-en-v1.5                            a model of the table
    models/my-e5                                 a folder with its files
    intfloat/multilingual-e5-small               a repository on the hub
    openai:MODEL@http://HOST:PORT/v1             a server with /v1/embeddings

``?window=512&query_prefix=query:%20`` after any of them states what its files do not say, or say
wrongly. A store records the whole name, so a question is embedded as the passages were.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from packwise.errors import UsageError
from packwise.lazy_pattern import lazy_pattern
from packwise.models.table import Pooling

SERVER = "openai:"
POOLINGS = ("cls", "mean", "max", "last", "none")
_HUB_NAME = lazy_pattern(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


@dataclass(frozen=True, slots=True)
class EmbedderOptions:
    """What a name states of its embedder; ``None`` and 0 leave it to the model's files.

    ``file`` is the ONNX file to use, ``dim`` cuts longer vectors off, which only suits models
    that were trained for it.
    """

    pooling: Pooling | None = None
    query_prefix: str | None = None
    passage_prefix: str | None = None
    window: int = 0
    dim: int = 0
    file: str = ""

    def __str__(self) -> str:
        given = {f.name: getattr(self, f.name) for f in fields(self)}
        stated = {key: value for key, value in given.items() if value not in (None, 0, "")}
        # An empty prefix says that there is none, whatever the files say.
        stated |= {key: "" for key, value in given.items() if value == "" and key != "file"}
        return f"?{urlencode(stated, quote_via=quote)}" if stated else ""


NO_OPTIONS = EmbedderOptions()


@dataclass(frozen=True, slots=True)
class EmbedderName:
    """The parts of a name: ``base`` says which embedder, ``options`` how to use it."""

    base: str
    options: EmbedderOptions = NO_OPTIONS

    def __str__(self) -> str:
        return f"{self.base}{self.options}"

    @property
    def is_server(self) -> bool:
        return self.base.startswith(SERVER)

    @property
    def is_path(self) -> bool:
        """Whether it can only be the path of a folder."""
        return self.base.startswith(("/", "./", "../", "~")) or self.base.count("/") > 1

    @property
    def is_hub_name(self) -> bool:
        return _HUB_NAME.fullmatch(self.base) is not None

    @property
    def folder(self) -> Path:
        """The folder of that name; it need not exist."""
        return Path(self.base).expanduser().absolute()


def parse_embedder_name(text: str) -> EmbedderName:
    """The parts of a name. Raises ``UsageError`` for an option that does not exist."""
    # Spaces at the end belong to a prefix, and a question mark may be part of a folder's name.
    base, mark, query = text.lstrip().rpartition("?")
    if not mark or "=" not in query or Path(text).is_dir():
        return EmbedderName(text.strip())
    values: dict[str, Any] = {}
    for key, value in parse_qsl(query, keep_blank_values=True):
        values[key] = _checked(key, value)
    return EmbedderName(base, EmbedderOptions(**values))


def _checked(key: str, value: str) -> str | int:
    known = [f.name for f in fields(EmbedderOptions)]
    if key not in known:
        raise UsageError(f"an embedder has no option {key!r}; it has {', '.join(known)}")
    if key == "pooling" and value not in POOLINGS:
        raise UsageError(f"pooling is one of {', '.join(POOLINGS)}, not {value!r}")
    if key in ("window", "dim"):
        if not value.isdecimal() or not 1 <= int(value) <= 1_000_000:
            raise UsageError(f"{key} takes a whole number of 1 or more, not {value!r}")
        return int(value)
    return value
