"""How much each leg counts for one question.

The intent sets the start (``intent.PRESETS``). Then the vector leg says how sure it is: a
passage that nearly repeats the question in other words needs no help from the words, one
that is only near the topic does. Between the two the keyword leg gives up part of its
share. Measured on six sets: fixed weights fall below the vector leg where questions
paraphrase their answers, these do not (docs/search.md).
"""

from __future__ import annotations

from dataclasses import dataclass

from packwise.language.intent import PRESETS, Intent, intent_of
from packwise.retrieval.fusion import Weights
from packwise.settings import Settings


@dataclass(frozen=True, slots=True)
class Leaning:
    """How far the weights follow the vector leg; ``benchmarks/strengths.py`` prints what other
    values are worth.

    low, high  similarities of the best passage between which the keyword leg gives up its share
    less       what of its share it gives up at most
    more       what it gains where the vector leg is unsure
    """

    low: float = 0.41
    high: float = 0.79
    less: float = 0.3
    more: float = 0.1


LEANING = Leaning()


@dataclass(frozen=True, slots=True)
class Weighing:
    """The weights for one question before its legs have run, and why."""

    intent: Intent
    weights: Weights
    k_base: int
    adaptive: bool
    leaning: Leaning = LEANING

    def after(self, best_similarity: float | None) -> Weights:
        """The weights once the vector leg has found its best passage."""
        if not self.adaptive or best_similarity is None:
            return self.weights
        lean = self.leaning
        sure = min(1.0, max(0.0, (best_similarity - lean.low) / (lean.high - lean.low)))
        keyword = min(1.0, max(0.0, self.weights.keyword + lean.more - lean.less * sure))
        return Weights(1.0 - keyword, keyword)


def weigh(question: str, settings: Settings, leaning: Leaning = LEANING) -> Weighing:
    """The weights to start with; as configured when ``QUERY_ADAPTIVE_WEIGHTS`` is off."""
    weights = Weights(settings.vector_weight, settings.keyword_weight).normalised()
    if not settings.query_adaptive_weights:
        return Weighing(Intent.EXPLORATORY, weights, settings.k_base, adaptive=False)
    intent = intent_of(question)
    preset = PRESETS[intent]
    keyword = min(1.0, weights.keyword + preset.keyword_shift)
    return Weighing(
        intent,
        Weights(1.0 - keyword, keyword),
        settings.k_base + preset.more_candidates,
        adaptive=True,
        leaning=leaning,
    )
