"""How many tokens a language model sees in a text, by the model's name.

OpenAI publishes its tokenizers, so its counts are exact and offline. Claude's tokenizer is not
public: its counts are those of ``o200k_base`` times a safety margin.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, Literal, NamedTuple

from packwise.errors import ModelError, SettingError
from packwise.lazy_pattern import lazy_pattern
from packwise.models.base import TokenCounter

DEFAULT_TOKENIZER_MODEL = "gpt-4o-2024-11-20"

TokenEncoding = Literal["o200k_base", "cl100k_base"]

CLAUDE_MARGIN = 1.35
"""Claude up to 4.6 against o200k_base: published counts are +16% on English prose, +21% on
mathematics and +30% on Python, the worst of the three; rounded up."""

NEW_CLAUDE_MARGIN = 1.8
"""Claude from 4.7 on: its tokenizer gives up to 1.47 times the tokens of the one before
(technical English; the vendor says about 1.3), which are themselves a fifth more than
o200k_base's there; 1.47 x 1.2, rounded up."""

_END = r"(?:[-:@].*)?"
_O200K = lazy_pattern(
    rf"(?:o200k_base|(?:chat)?gpt-4o|gpt-4\.[15]|gpt-5(?:\.\d+)?|gpt-oss|o[134]){_END}"
)
_CL100K = lazy_pattern(rf"(?:cl100k_base|gpt-4|gpt-3\.5|gpt-35|text-embedding-(?:3|ada-002)){_END}")
_CLAUDE = lazy_pattern(r"(?:[a-z]+\.)*claude-.+")
_VERSION = lazy_pattern(r"(?<!\d)(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)")


def token_counter(name: str = DEFAULT_TOKENIZER_MODEL) -> TokenCounter:
    """The counter for a language model of this name, or for an encoding.

    Raises ``SettingError`` for a name whose tokenizer is unknown.
    """
    wanted = name.strip().lower().rpartition("/")[2].removeprefix("ft:")
    if _O200K.fullmatch(wanted):
        return ModelTokens(name, "o200k_base")
    if _CL100K.fullmatch(wanted):
        return ModelTokens(name, "cl100k_base")
    if _CLAUDE.fullmatch(wanted):
        return ModelTokens(name, "o200k_base", _claude_margin(wanted))
    raise SettingError(
        f"the tokenizer of {name!r} is unknown; known: gpt-4o..., gpt-4.1..., gpt-5..., o1..., "
        "o3..., o4..., gpt-4..., gpt-3.5..., claude-..., o200k_base, cl100k_base",
        fix="set PACKWISE_TOKENIZER_MODEL to one of these",
    )


def _claude_margin(name: str) -> float:
    version = _VERSION.search(name)
    if version is None:
        return NEW_CLAUDE_MARGIN
    older = (int(version[1]), int(version[2] or 0)) < (4, 7)
    return CLAUDE_MARGIN if older else NEW_CLAUDE_MARGIN


class ModelTokens(NamedTuple):
    """Counts a model's tokens: those of an encoding, times a margin if it is an estimate."""

    name: str
    encoding: TokenEncoding
    margin: float = 1.0

    @property
    def exact(self) -> bool:
        return self.margin == 1.0

    def count(self, text: str) -> int:
        return self.count_many((text,))[0]

    def count_many(self, texts: Sequence[str]) -> list[int]:
        tokenizer = _tokenizer(self.encoding)
        return list(self.with_margin([_count(tokenizer, text) for text in texts]))

    def with_margin(self, counts: Sequence[int]) -> Sequence[int]:
        """The counts of this model where the encoding has these."""
        return counts if self.exact else [math.ceil(n * self.margin) for n in counts]


def _bindings() -> Any:
    """The compiled tokenizers of bpe-openai, without its Python code.

    Importing the package loads every encoding (ten times the time and twice the memory of
    one), and its Python code refuses texts of a million characters.
    """
    name = "bpe_openai._bindings"
    if name in sys.modules:
        return sys.modules[name]
    package = find_spec("bpe_openai")
    folders = (package.submodule_search_locations or ()) if package else ()
    for path in (p for folder in folders for p in sorted(Path(folder).glob("_bindings.*"))):
        if path.suffix in (".so", ".pyd") and (spec := spec_from_file_location(name, path)):
            module = module_from_spec(spec)
            assert spec.loader is not None
            spec.loader.exec_module(module)
            # A later import of the package gets this same module: it can be loaded only once.
            return sys.modules.setdefault(name, module)
    raise ModelError("the tokenizers of bpe-openai are missing", fix="pip install bpe-openai")


@cache
def _tokenizer(encoding: TokenEncoding) -> Any:
    return _bindings().tokenizer_for_encoding(encoding)


def _count(tokenizer: Any, text: str) -> int:
    try:
        return tokenizer.count(text)
    except UnicodeEncodeError:
        # Lone surrogates are replaced, as tiktoken does.
        return tokenizer.count(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
