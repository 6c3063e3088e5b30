"""Contexts within a budget counted by the model's own API.

The API counts whole texts, not pieces. So a context is packed with an estimate, counted, and
packed again with the ratio of the two until the count is within the budget.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from packwise.errors import SettingError
from packwise.models.base import TokenCounter
from packwise.models.tokens import token_counter

if TYPE_CHECKING:
    from packwise.context.packer import Context

# Counts asked for per context; after the last, the estimate's margin keeps it within.
_MOST_CALLS = 5
# Share of the budget kept free when packing by a ratio: other sentences have another ratio.
_MARGIN = 1.02
# A context this full by the API's count is not packed again for the rest.
_WELL_FILLED = 0.9


@dataclass(frozen=True, slots=True)
class ScaledCounter:
    """Another counter's counts times a ratio."""

    name: str
    base: TokenCounter
    ratio: float
    exact: bool = False

    def count(self, text: str) -> int:
        return self.count_many((text,))[0]

    def count_many(self, texts: Sequence[str]) -> list[int]:
        return [math.ceil(n * self.ratio) for n in self.base.count_many(texts)]


def pack_by_api_count(
    pack_with: Callable[[TokenCounter], Context], model: str, budget: int
) -> Context:
    """A context within the budget by the API's count of its text.

    Raises ``SettingError`` if no API counts the tokens of this model.
    """
    from packwise.models.claude import ClaudeModel
    from packwise.models.llm import KEY_VARIABLE, load_llm

    llm = load_llm(model=model) if "claude" in model.lower() else None
    if not isinstance(llm, ClaudeModel):
        raise SettingError(
            f"no API counts the tokens of {model!r}",
            fix=f"set PACKWISE_TOKENIZER_MODEL to a Claude model and {KEY_VARIABLE}, "
            "or PACKWISE_TOKEN_COUNTS=local",
        )
    base = token_counter("o200k_base")
    estimate = token_counter(model)
    with closing(llm):
        context = pack_with(estimate)
        for _ in range(_MOST_CALLS):
            if not context.text:
                break
            tokens = llm.count_tokens(context.text)
            trace = replace(context.trace, tokens=tokens, exact=True)
            counted = replace(context, tokens=tokens, trace=trace)
            full = isinstance(estimate, ScaledCounter) or tokens >= budget * _WELL_FILLED
            if tokens <= budget and full:
                return counted
            # Too much, or the margin is so large that more of the answer may fit.
            ratio = tokens / max(1, base.count(context.text))
            estimate = ScaledCounter(model, base, ratio * _MARGIN)
            again = pack_with(estimate)
            if again.text == context.text and tokens <= budget:
                return counted
            context = again
    return pack_with(token_counter(model))
