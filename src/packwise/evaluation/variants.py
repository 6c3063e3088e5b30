"""The ways of searching that can be measured against one another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packwise.candidates import FUSIONS, Fusion, Mode
from packwise.evaluation.runner import Ranked, Ranker

if TYPE_CHECKING:
    from packwise.library import Library
    from packwise.settings import Settings


@dataclass(frozen=True, slots=True)
class Variant:
    """One way of searching; ``fusion`` is set where two legs are fused, and only there."""

    mode: Mode
    fusion: Fusion | None = None

    @property
    def name(self) -> str:
        return f"{self.mode}-{self.fusion}" if self.fusion else self.mode


def default_variant(settings: Settings) -> Variant:
    """How a search runs when nothing else is asked for."""
    return Variant("hybrid", _fusion(settings))


def combinations(
    modes: Sequence[Mode], fusions: Sequence[Fusion], settings: Settings
) -> tuple[Variant, ...]:
    """Every mode with every fusion that applies to it, each once, in the given order.

    No modes means hybrid; no fusions means the one of the settings.
    """
    chosen = fusions or (_fusion(settings),)
    found: dict[Variant, None] = {}
    for mode in modes or ("hybrid",):
        for fusion in chosen if mode == "hybrid" else (None,):
            found[Variant(mode, fusion)] = None
    return tuple(found)


EVERY_VARIANT: tuple[Variant, ...] = (
    Variant("keyword"),
    Variant("vector"),
    *(Variant("hybrid", fusion) for fusion in FUSIONS),
)


def library_ranker(library: Library, variant: Variant) -> Ranker:
    """A ranker that searches an open store in one way."""

    def rank(question: str, k: int) -> Ranked:
        found = library.search(question, k, mode=variant.mode, fusion=variant.fusion)
        return Ranked(
            documents=tuple(hit.passage.document for hit in found.hits),
            timings_ms=found.trace.timings_ms(),
        )

    return rank


def _fusion(settings: Settings) -> Fusion:
    return "rrf" if settings.fusion == "rrf" else "weighted"
