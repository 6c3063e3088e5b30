"""Live traffic in two arms: which request gets which variant, and what was recorded.

The arm of a request follows from a hash of its key (a user, a session or a question), so every
server makes the same choice and keeps no state. The share of the new variant grows in steps,
10% and then half; a key that had the new variant keeps it.

A recorded request is a line of JSON::

    {"id": "...", "arm": "b", "at": "2026-03-01T12:00:00Z", "latency_ms": 41.5, "error": false,
     "answer_recall": 1, "garbage_fraction": 0.31, "redundancy_ratio": 1.02, "cache_hit": false,
     "user_satisfaction": 0.8}

``id`` is the key it was routed by; arm ``b`` is the new variant. ``arm`` defaults to what the
hash says. Any figure may be missing; a rule without figures does not count. User satisfaction
is on any scale on which more is better, such as 0 and 1 for thumbs down and up.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np

from packwise.errors import DataError
from packwise.evaluation.compare import LEVEL, RESAMPLES, SEED, Difference, p95_change
from packwise.evaluation.data import read_json_lines
from packwise.evaluation.metrics import ANSWER_RECALL, GARBAGE, REDUNDANCY, mean
from packwise.evaluation.verdict import Verdict, VerdictRule, decide

Arm = Literal["a", "b"]

_REQUESTS = 10_000
_DAYS = 14
_SKEWED = 1e-3
_SATISFACTION = "user_satisfaction"
_FIGURES = (ANSWER_RECALL, GARBAGE, REDUNDANCY, "cache_hit", _SATISFACTION)
_NORMAL = 100
"""Above this many requests per arm, the difference of two means counts as normal."""


def arm_of(key: str, share: float = 0.1) -> Arm:
    """The arm of a request if the new variant gets this share of the traffic."""
    digest = hashlib.blake2b(key.encode(), digest_size=8, person=b"packwise-ab").digest()
    return "b" if int.from_bytes(digest) / 2**64 < share else "a"


@dataclass(frozen=True, slots=True)
class TrafficRequest:
    """A recorded request with the figures that were measured."""

    key: str
    arm: Arm
    ms: float
    error: bool
    at: datetime | None
    figures: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Traffic:
    """Recorded requests. ``astray`` counts those whose arm is not the one of the hash."""

    requests: tuple[TrafficRequest, ...]
    share: float
    astray: int

    def of_arm(self, arm: Arm) -> tuple[TrafficRequest, ...]:
        return tuple(r for r in self.requests if r.arm == arm)

    def figures(self, arm: Arm, name: str) -> list[float]:
        return [r.figures[name] for r in self.of_arm(arm) if name in r.figures]

    def cache_hits(self, arm: Arm) -> float | None:
        """Share of the arm's requests that the cache answered; ``None`` if not recorded."""
        found = self.figures(arm, "cache_hit")
        return mean(found) if found else None

    @property
    def days(self) -> float | None:
        """From the first request to the last; ``None`` if a time is missing."""
        times = [r.at for r in self.requests if r.at is not None]
        if len(times) < len(self.requests) or not times:
            return None
        return (max(times) - min(times)).total_seconds() / 86_400


def read_traffic(path: str | Path, share: float) -> Traffic:
    """Read recorded requests. Raises ``DataError`` with the line if one is malformed."""
    requests = [_request(where, row, share) for where, row in read_json_lines(Path(path))]
    astray = sum(request.arm != arm_of(request.key, share) for request in requests)
    traffic = Traffic(tuple(requests), share, astray)
    for arm in ("a", "b"):
        if not traffic.of_arm(arm):
            raise DataError(f"{path} has no requests of arm {arm!r}", fix="check --share")
    return traffic


def judge_traffic(traffic: Traffic) -> Verdict:
    """The specification's rules on recorded requests. The arms are different requests, so
    nothing is paired. To ship takes 10,000 requests per arm and two weeks."""
    old, new = traffic.of_arm("a"), traffic.of_arm("b")
    fewer, days = min(len(old), len(new)), traffic.days
    skew = skew_p_value(len(new), len(old), traffic.share)
    satisfied = _unpaired(traffic, _SATISFACTION)
    redundancy, recall = traffic.figures("b", REDUNDANCY), traffic.figures("b", ANSWER_RECALL)
    return decide(
        primary=ANSWER_RECALL,
        recall=_unpaired(traffic, ANSWER_RECALL),
        # Two independent means: the spread of their difference, request by request.
        spread=float(np.std(recall)) * math.sqrt(2.0) if len(recall) > 1 else 0.0,
        garbage=_unpaired(traffic, GARBAGE),
        slower=p95_change([r.ms for r in new], [r.ms for r in old], resamples=500),
        errors=mean(r.error for r in new) - mean(r.error for r in old),
        redundancy=mean(redundancy) if redundancy else None,
        more=(
            VerdictRule("requests an arm", f"{fewer:,}", f"{_REQUESTS:,}", fewer >= _REQUESTS),
            VerdictRule(
                "days",
                "" if days is None else f"{days:.1f}",
                str(_DAYS),
                None if days is None else days >= _DAYS,
            ),
            VerdictRule(
                "split",
                f"{len(new):,} of {len(new) + len(old):,} requests, p {skew:.3f}, "
                f"{traffic.astray} in the wrong arm",
                f"{traffic.share:.0%} by the hash",
                skew >= _SKEWED and not traffic.astray,
            ),
            VerdictRule(
                "user satisfaction",
                "" if satisfied is None else f"{satisfied.mean:+.3f}, p {satisfied.p_value:.3f}",
                "not lower beyond chance",
                None if satisfied is None else satisfied.high >= 0.0,
            ),
        ),
    )


def skew_p_value(new: int, old: int, share: float) -> float:
    """How likely a split at least this far from its share is by chance (chi-squared, one
    degree of freedom). A small value means that requests were lost or misrouted."""
    total = new + old
    spread = math.sqrt(total * share * (1.0 - share))
    return math.erfc(abs(new - total * share) / spread / math.sqrt(2.0)) if spread else 1.0


def _unpaired(traffic: Traffic, figure: str) -> Difference | None:
    """New minus old of two independent arms: bootstrap interval, p by permuting the arms."""
    a, b = (np.array(traffic.figures(arm, figure)) for arm in ("b", "a"))
    if not a.size or not b.size:
        return None
    random = np.random.default_rng(SEED)
    observed = float(a.mean() - b.mean())
    if min(a.size, b.size) > _NORMAL:
        error = math.sqrt(a.var(ddof=1) / a.size + b.var(ddof=1) / b.size)
        low, high = observed - 1.959964 * error, observed + 1.959964 * error
        p = math.erfc(abs(observed) / error / math.sqrt(2.0)) if error else float(observed == 0)
    else:
        drawn = [
            float(random.choice(a, a.size).mean() - random.choice(b, b.size).mean())
            for _ in range(RESAMPLES)
        ]
        tail = (1.0 - LEVEL) / 2.0
        low, high = (float(q) for q in np.quantile(drawn, (tail, 1.0 - tail)))
        both = np.concatenate((a, b))
        extreme = 0
        for _ in range(RESAMPLES):
            random.shuffle(both)
            extreme += abs(both[: a.size].mean() - both[a.size :].mean()) >= abs(observed) - 1e-12
        p = (extreme + 1) / (RESAMPLES + 1)
    return Difference(min(a.size, b.size), observed, low, high, float(p), 0, 0, 0)


def _request(where: str, row: Mapping[str, Any], share: float) -> TrafficRequest:
    key, arm, ms, when = (row.get(name) for name in ("id", "arm", "latency_ms", "at"))
    if not isinstance(key, str) or not key:
        raise DataError(f"{where}: has no id")
    if arm not in (None, "a", "b"):
        raise DataError(f"{where}: arm is a or b, not {arm!r}")
    if isinstance(ms, bool) or not isinstance(ms, (int, float)) or ms < 0:
        raise DataError(f"{where}: latency_ms is a number, not {ms!r}")
    figures = {name: row[name] for name in _FIGURES if row.get(name) is not None}
    for name, value in figures.items():
        if not isinstance(value, (int, float)):
            raise DataError(f"{where}: {name} is a number, not {value!r}")
    try:
        at = datetime.fromisoformat(when) if isinstance(when, str) else None
    except ValueError as error:
        raise DataError(f"{where}: at is not a time ({when!r})") from error
    if at is not None and at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    return TrafficRequest(
        key,
        arm or arm_of(key, share),
        float(ms),
        bool(row.get("error", False)),
        at,
        {name: float(value) for name, value in figures.items()},
    )
