"""Contexts within a budget of the model's own count, asked from its API.

The API counts whole texts, not pieces. So a context is packed with an estimate, counted, and
packed again with the ratio that came out until the count is within the budget.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from packwise.errors import SettingError
from packwise.models.base import TokenCounter

MOST_CALLS = 5
"""Counts asked for one context; after the last, the margin alone keeps it within."""

# Of what the ratio leaves of the budget, kept free: other sentences have another ratio.
CAUTION = 1.02


@dataclass(frozen=True, slots=True)
class Scaled:
    """Another counter's counts times a ratio."""

    name: str
    base: TokenCounter
    ratio: float

    @property
    def exact(self) -> bool:
        return False

    def count(self, text: str) -> int:
        return self.count_many((text,))[0]

    def count_many(self, texts: Sequence[str]) -> list[int]:
        return [math.ceil(n * self.ratio) for n in self.base.count_many(texts)]


@contextmanager
def api_count(model: str) -> Generator[Callable[[str], int]]:
    """The count of the API that serves a model. Raises ``SettingError`` where there is none."""
    from packwise.models.claude import ClaudeModel
    from packwise.models.llm import KEY_VARIABLE, load_llm

    llm = load_llm(model=model) if "claude" in model.lower() else None
    if not isinstance(llm, ClaudeModel):
        raise SettingError(
            f"no API counts the tokens of {model!r}",
            fix=f"set TOKENIZER_MODEL to a Claude model and {KEY_VARIABLE}, "
            "or PACKWISE_TOKEN_COUNTS=local",
        )
    try:
        yield llm.count_tokens
    finally:
        llm.close()
