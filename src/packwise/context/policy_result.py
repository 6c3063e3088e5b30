"""What a policy made of a pool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from packwise.context.draft_context import Draft
from packwise.context.trace import Cap, Dropped, Reason


class Judgement(NamedTuple):
    """What a policy thought of an entry: the share of the expected answer it holds, how
    much of that is in, what likeness to the others left of it, what all of it would cost."""

    mass: float = 0.0
    value: float = 0.0
    novelty: float = 1.0
    cost: int | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """A filled draft and why it is as it is; ``judgements`` go by the draft's entries.

    ``reasons`` has one for each candidate of which nothing was chosen, with the id of the
    passage that it gives way to, if any. ``aside`` are those that never were in the running.
    """

    draft: Draft
    method: str
    judgements: tuple[Judgement, ...]
    reasons: Mapping[int, tuple[Reason, str | None]]
    caps: tuple[Cap, ...]
    aside: tuple[Dropped, ...] = ()
