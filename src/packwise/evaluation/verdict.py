"""Ship, roll back, or no difference: the specification's rules, with the reason for each.

| what | ship needs | roll back when |
|---|---|---|
| answer recall | better, p < 0.05 | more than 5 points worse |
| garbage fraction | down by more than 2 points | |
| latency, p95 | at most 15% slower (over 5%: look at it) | more than 20% slower, clearly |
| errors | | more than 1 point more |

Where a rule's figure was not measured the rule does not count, and the verdict says so.
Without answers to look for, whether a relevant passage was found stands in for answer recall.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from packwise.evaluation.compare import Difference, compare
from packwise.evaluation.contexts import ANSWER_RECALL, GARBAGE, GOLD_RECALL, REDUNDANCY
from packwise.evaluation.experiment import Arm, p95_change
from packwise.evaluation.metrics import Metric

Outcome = Literal["ship", "no difference", "rollback"]

SIGNIFICANT = 0.05
GARBAGE_DOWN = 0.02
SLOWER = 0.15
LOOK_AT = 0.05
RECALL_DROP = 0.05
SLOWER_ROLLBACK = 0.20
MORE_ERRORS = 0.01
POWER = 0.8
_Z_ALPHA, _Z_POWER = 1.959964, 0.841621


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule and how it came out. ``met`` is ``None`` where nothing was measured."""

    name: str
    found: str
    needs: str
    met: bool | None
    rollback: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to do with a new variant, and why.

    ``needed`` says how many questions would show a difference as large as the one observed
    in four of five trials; ``detectable`` is the smallest difference these questions could
    show that well.
    """

    outcome: Outcome
    reasons: tuple[str, ...]
    rules: tuple[Rule, ...]
    primary: str
    difference: Difference | None
    needed: int | None
    detectable: float | None

    def as_dict(self) -> dict[str, Any]:
        return {
            "verdict": self.outcome,
            "reasons": list(self.reasons),
            "primary": self.primary,
            "rules": [
                {
                    "rule": rule.name,
                    "found": rule.found,
                    "needs": rule.needs,
                    "met": rule.met,
                    "rollback": rule.rollback,
                }
                for rule in self.rules
            ],
            "power": {"questions_needed": self.needed, "detectable": self.detectable},
        }


@dataclass(frozen=True, slots=True)
class Figures:
    """What the rules look at. Differences are new minus old; ``slower`` is the change of
    p95 as a share, with its interval."""

    primary: str
    recall: Difference | None
    spread: float
    garbage: Difference | None
    slower: tuple[float, float, float]
    errors: float
    more: tuple[Rule, ...] = ()


def judge(new: Arm, old: Arm) -> Verdict:
    """The verdict on a variant against the one it would replace, on the same questions."""
    answer = str(Metric(ANSWER_RECALL, new.budget))
    gold = str(Metric(GOLD_RECALL, new.budget))
    primary = answer if new.scores(answer) else gold
    a, b = new.scores(primary), old.scores(primary)
    recall = compare(a, b) if a else None
    if recall is not None:
        recall = replace(recall, p_value=p_value(recall, (*a.values(), *b.values())))
    garbage = _difference(new, old, str(Metric(GARBAGE, new.budget)))
    redundancy = new.value(str(Metric(REDUNDANCY, new.budget)))
    return decide(
        Figures(
            primary=primary,
            recall=recall,
            spread=float(np.std([a[q] - b[q] for q in a], ddof=1)) if len(a) > 1 else 0.0,
            garbage=garbage,
            slower=p95_change([x.ms for x in new.answered], [x.ms for x in old.answered]),
            errors=new.errors - old.errors,
            more=(
                Rule("redundancy ratio", f"{redundancy:.2f}", "at most 1.20", redundancy <= 1.2),
            ),
        )
    )


def decide(figures: Figures) -> Verdict:
    """The verdict on measured figures."""
    rules = [_recall(figures), _garbage(figures), *_latency(figures), _errors(figures)]
    rules += figures.more
    back = [rule for rule in rules if rule.rollback]
    unmet = [rule for rule in rules if rule.met is False]
    outcome: Outcome
    if back:
        outcome, why = "rollback", back
    elif unmet or figures.recall is None:
        outcome, why = "no difference", unmet
    else:
        outcome, why = "ship", [rule for rule in rules if rule.met]
    reasons = [f"{rule.name}: {rule.found} (needs: {rule.needs})" for rule in why]
    reasons += [f"{rule.name}: not measured" for rule in rules if rule.met is None]
    difference = figures.recall
    return Verdict(
        outcome=outcome,
        reasons=tuple(reasons),
        rules=tuple(rules),
        primary=figures.primary,
        difference=difference,
        needed=questions_needed(figures.spread, difference.mean) if difference else None,
        detectable=detectable(figures.spread, difference.questions) if difference else None,
    )


def questions_needed(spread: float, difference: float) -> int | None:
    """Questions with which a true difference of this size is found in four of five trials
    (two-sided, 5%); ``spread`` is the standard deviation of the paired differences."""
    if not difference or not spread:
        return None
    return math.ceil(((_Z_ALPHA + _Z_POWER) * spread / abs(difference)) ** 2)


def detectable(spread: float, questions: int) -> float | None:
    """The smallest true difference that this many questions find in four of five trials."""
    return (_Z_ALPHA + _Z_POWER) * spread / math.sqrt(questions) if questions else None


def mcnemar(wins: int, losses: int) -> float:
    """Exact two-sided McNemar test of questions won and lost, for outcomes that are 0 or 1.

    The paired permutation test tends to the same value; this one needs no resampling.
    """
    n, k = wins + losses, min(wins, losses)
    if not n:
        return 1.0
    tail = sum(math.comb(n, i) for i in range(k + 1)) / 2**n
    return min(1.0, 2.0 * tail)


def p_value(difference: Difference, values: Sequence[float]) -> float:
    """McNemar's where every score is 0 or 1, else that of the permutation test."""
    if all(value in (0.0, 1.0) for value in values):
        return mcnemar(difference.wins, difference.losses)
    return difference.p_value


def _difference(new: Arm, old: Arm, metric: str) -> Difference | None:
    a, b = new.scores(metric), old.scores(metric)
    return compare(a, b) if a and a.keys() == b.keys() else None


def _recall(figures: Figures) -> Rule:
    found = figures.recall
    name = figures.primary.replace("_", " ")
    needs = f"better with p < {SIGNIFICANT}"
    if found is None:
        return Rule(name, "", needs, None)
    better = found.mean > 0 and found.p_value < SIGNIFICANT
    text = f"{_interval(found)}, p {_p(found)}"
    dropped = found.mean < -RECALL_DROP
    if dropped:
        return Rule(name, text, "a drop of at most 5 points", False, rollback=True)
    return Rule(name, text, needs, better)


def _garbage(figures: Figures) -> Rule:
    found = figures.garbage
    needs = "down by more than 2 points"
    if found is None:
        return Rule("garbage fraction", "", needs, None)
    text = _interval(found)
    return Rule("garbage fraction", text, needs, found.mean < -GARBAGE_DOWN)


def _latency(figures: Figures) -> tuple[Rule, ...]:
    change, low, high = figures.slower
    text = f"{change:+.0%} [{low:+.0%}, {high:+.0%}]"
    # A single slow answer moves a p95: without a clear sign it is no reason to roll back.
    if change > SLOWER_ROLLBACK and low > 0:
        return (Rule("p95 latency", text, "at most 20% slower", False, rollback=True),)
    if change > SLOWER:
        return (Rule("p95 latency", text, "at most 15% slower", False),)
    if change > LOOK_AT:
        text += ", more than 5% slower: look at it before shipping"
    return (Rule("p95 latency", text, "at most 15% slower", True),)


def _errors(figures: Figures) -> Rule:
    more = figures.errors > MORE_ERRORS
    return Rule(
        "error rate", _points(figures.errors), "at most 1 point more", not more, rollback=more
    )


def _points(value: float) -> str:
    return f"{value * 100:+.1f} points"


def _interval(difference: Difference) -> str:
    mean, low, high = (100 * v for v in (difference.mean, difference.low, difference.high))
    return f"{mean:+.1f} points [{low:+.1f}, {high:+.1f}]"


def _p(difference: Difference) -> str:
    return f"{difference.p_value:.3f}" if difference.p_value >= 0.001 else "< 0.001"


def differences(
    new: Arm, old: Arm, metrics: Sequence[str] | None = None
) -> Mapping[str, Difference]:
    """New minus old for each metric that both have on the same questions."""
    found: dict[str, Difference] = {}
    for metric in metrics or new.metrics:
        a, b = new.scores(metric), old.scores(metric)
        if a and a.keys() == b.keys():
            found[metric] = compare(a, b)
    return found
