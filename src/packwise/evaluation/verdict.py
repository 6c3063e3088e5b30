"""Ship, roll back, or no difference: the specification's rules, with the reason for each.

| what | ship needs | roll back if |
|---|---|---|
| answer recall | better, p < 0.05 | more than 5 points worse |
| garbage fraction | down by more than 2 points | |
| latency, p95 | at most 15% slower (over 5%: look at it) | more than 20% slower, clearly |
| errors | | more than 1 point more |

A rule without a measured figure does not count, and the verdict says so. Without known answers,
gold recall (was a relevant passage found?) takes the place of answer recall.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from packwise.evaluation.compare import Difference, compare, p95_change
from packwise.evaluation.experiment import VariantResult, differences
from packwise.evaluation.metrics import ANSWER_RECALL, GARBAGE, GOLD_RECALL, REDUNDANCY

Outcome = Literal["ship", "no difference", "rollback"]

_SIGNIFICANT = 0.05
_GARBAGE_DROP = 0.02
_SLOWER = 0.15
_LOOK_AT = 0.05
_RECALL_DROP = 0.05
_SLOWER_ROLLBACK = 0.20
_MORE_ERRORS = 0.01
_MOST_REDUNDANT = 1.2
# Two-sided 5%, and a power of 80%.
_Z_ALPHA, _Z_POWER = 1.959964, 0.841621


@dataclass(frozen=True, slots=True)
class VerdictRule:
    """One rule and its result. ``met`` is ``None`` if nothing was measured."""

    rule: str
    found: str
    needs: str
    met: bool | None
    rollback: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to do with a new variant, and why.

    ``needed`` is the number of questions that would show a difference as large as the observed
    one four times in five; ``detectable`` is the smallest difference that these questions would
    show that reliably.
    """

    outcome: Outcome
    reasons: tuple[str, ...]
    rules: tuple[VerdictRule, ...]
    primary: str
    difference: Difference | None
    needed: int | None
    detectable: float | None


def judge(new: VariantResult, old: VariantResult) -> Verdict:
    """The verdict on a variant against the one it would replace, on the same questions."""
    answers, gold = f"{ANSWER_RECALL}@{new.budget}", f"{GOLD_RECALL}@{new.budget}"
    primary = answers if new.scores(answers) else gold
    a, b = new.scores(primary), old.scores(primary)
    recall = compare(a, b) if a else None
    if recall is not None and all(value in (0.0, 1.0) for value in (*a.values(), *b.values())):
        recall = replace(recall, p_value=mcnemar(recall.wins, recall.losses))
    garbage = f"{GARBAGE}@{new.budget}"
    return decide(
        primary=primary,
        recall=recall,
        spread=float(np.std([a[q] - b[q] for q in a], ddof=1)) if len(a) > 1 else 0.0,
        garbage=differences(new, old, [garbage]).get(garbage),
        slower=p95_change(new.times(), old.times()),
        errors=new.errors - old.errors,
        redundancy=new.value(f"{REDUNDANCY}@{new.budget}"),
    )


def decide(
    *,
    primary: str,
    recall: Difference | None,
    spread: float,
    garbage: Difference | None,
    slower: tuple[float, float, float],
    errors: float,
    redundancy: float | None,
    more: tuple[VerdictRule, ...] = (),
) -> Verdict:
    """The verdict on measured figures, which are new minus old. ``slower`` is the change of p95
    as a share with its interval, ``spread`` the standard deviation of the difference in recall,
    ``more`` are further rules."""
    rules = (
        _recall(primary, recall),
        _garbage(garbage),
        _latency(*slower),
        _errors(errors),
        _redundancy(redundancy),
        *more,
    )
    unmet = [rule for rule in rules if rule.met is False]
    outcome: Outcome
    if any(rule.rollback for rule in rules):
        outcome, why = "rollback", [rule for rule in rules if rule.rollback]
    elif unmet or recall is None:
        outcome, why = "no difference", unmet
    else:
        outcome, why = "ship", [rule for rule in rules if rule.met]
    reasons = [f"{rule.rule}: {rule.found} (needs: {rule.needs})" for rule in why]
    reasons += [f"{rule.rule}: not measured" for rule in rules if rule.met is None]
    return Verdict(
        outcome=outcome,
        reasons=tuple(reasons),
        rules=rules,
        primary=primary,
        difference=recall,
        needed=questions_needed(spread, recall.mean) if recall else None,
        detectable=detectable(spread, recall.questions) if recall else None,
    )


def questions_needed(spread: float, difference: float) -> int | None:
    """The number of questions that show a true difference of this size four times in five
    (two-sided, 5%); ``spread`` is the standard deviation of the paired differences."""
    if not difference or not spread:
        return None
    return math.ceil(((_Z_ALPHA + _Z_POWER) * spread / abs(difference)) ** 2)


def detectable(spread: float, questions: int) -> float | None:
    """The smallest true difference that this many questions show four times in five."""
    return (_Z_ALPHA + _Z_POWER) * spread / math.sqrt(questions) if questions else None


def mcnemar(wins: int, losses: int) -> float:
    """Exact two-sided McNemar test of questions won and lost, for scores that are 0 or 1.

    The paired permutation test tends to the same value; this one needs no resampling.
    """
    n, k = wins + losses, min(wins, losses)
    tail = sum(math.comb(n, i) for i in range(k + 1)) / 2**n
    return min(1.0, 2.0 * tail)


def _recall(primary: str, found: Difference | None) -> VerdictRule:
    name = primary.replace("_", " ")
    needs = f"better with p < {_SIGNIFICANT}"
    if found is None:
        return VerdictRule(name, "", needs, None)
    text = f"{_interval(found)}, p {found.p_text()}"
    if found.mean < -_RECALL_DROP:
        return VerdictRule(name, text, "a drop of at most 5 points", False, rollback=True)
    return VerdictRule(name, text, needs, found.mean > 0 and found.p_value < _SIGNIFICANT)


def _garbage(found: Difference | None) -> VerdictRule:
    text = _interval(found) if found else ""
    met = found.mean < -_GARBAGE_DROP if found else None
    return VerdictRule("garbage fraction", text, "down by more than 2 points", met)


def _latency(change: float, low: float, high: float) -> VerdictRule:
    name = "p95 latency"
    text = f"{change:+.0%} [{low:+.0%}, {high:+.0%}]"
    # A single slow answer moves a p95: roll back only if the interval excludes zero.
    if change > _SLOWER_ROLLBACK and low > 0:
        return VerdictRule(name, text, "at most 20% slower", False, rollback=True)
    if _LOOK_AT < change <= _SLOWER:
        text += ", more than 5% slower: look at it before shipping"
    return VerdictRule(name, text, "at most 15% slower", change <= _SLOWER)


def _errors(change: float) -> VerdictRule:
    more = change > _MORE_ERRORS
    text = f"{change * 100:+.1f} points"
    return VerdictRule("error rate", text, "at most 1 point more", not more, rollback=more)


def _redundancy(ratio: float | None) -> VerdictRule:
    text = "" if ratio is None else f"{ratio:.2f}"
    met = None if ratio is None else ratio <= _MOST_REDUNDANT
    return VerdictRule("redundancy ratio", text, "at most 1.20", met)


def _interval(difference: Difference) -> str:
    mean, low, high = (100 * v for v in (difference.mean, difference.low, difference.high))
    return f"{mean:+.1f} points [{low:+.1f}, {high:+.1f}]"
