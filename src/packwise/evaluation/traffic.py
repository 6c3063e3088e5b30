"""Live traffic in two arms: who gets which variant, and what came of it.

Which arm a request belongs to follows from a hash of its key (a user, a session or a
question), so every server decides alike and nobody has to remember. The share grows in
stages, 10% and then half, and whoever had the new variant keeps it.

A recorded request is a line of JSON::

    {"id": "...", "arm": "b", "at": "2026-03-01T12:00:00Z", "latency_ms": 41.5, "error": false,
     "answer_recall": 1, "garbage_fraction": 0.31, "redundancy_ratio": 1.02}

A ``cache_hit`` that is true or false gives the hit rate of each arm.

``id`` is the key it was routed by, ``b`` the new variant. ``arm`` may be left out: it is then
what the hash says. Any figure may be left out too; a rule without figures does not count.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from packwise.errors import DataError
from packwise.evaluation.compare import LEVEL, RESAMPLES, SEED, Difference
from packwise.evaluation.experiment import p95_change
from packwise.evaluation.verdict import Figures, Rule, Verdict, decide

Side = Literal["a", "b"]
SIDES: tuple[Side, ...] = ("a", "b")
STAGES: tuple[float, ...] = (0.1, 0.5)
"""The share of traffic the new variant gets, stage by stage."""

QUERIES = 10_000
DAYS = 14
_SKEWED = 1e-3
_FIGURES = ("answer_recall", "garbage_fraction", "redundancy_ratio", "cache_hit")


def place_of(key: str) -> float:
    """Where a key stands between 0 and 1: evenly spread, always the same."""
    digest = hashlib.blake2b(key.encode(), digest_size=8, person=b"packwise-ab").digest()
    return int.from_bytes(digest) / 2**64


def arm_of(key: str, share: float = STAGES[0]) -> Side:
    """The arm a request belongs to when the new variant gets this share of the traffic."""
    return "b" if place_of(key) < share else "a"


@dataclass(frozen=True, slots=True)
class Request:
    """A recorded request; ``figures`` holds what was measured of it."""

    key: str
    side: Side
    ms: float
    error: bool
    at: datetime | None
    figures: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Traffic:
    """What was recorded. ``astray`` counts requests whose arm is not the hash's."""

    requests: tuple[Request, ...]
    share: float
    astray: int

    def arm(self, side: Side) -> tuple[Request, ...]:
        return tuple(r for r in self.requests if r.side == side)

    def cache_hits(self, side: Side) -> float | None:
        """Share of the arm's requests answered from memory; ``None`` where nobody noted it."""
        noted = [r.figures["cache_hit"] for r in self.arm(side) if "cache_hit" in r.figures]
        return sum(noted) / len(noted) if noted else None

    @property
    def days(self) -> float | None:
        """From the first to the last request; ``None`` where times are missing."""
        times = [r.at for r in self.requests if r.at is not None]
        if len(times) < len(self.requests) or not times:
            return None
        return (max(times) - min(times)).total_seconds() / 86_400


def read_traffic(path: str | Path, share: float) -> Traffic:
    """The recorded requests of a file. Raises ``DataError`` with the line on malformed ones."""
    requests: list[Request] = []
    astray = 0
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read ({error})") from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        request, own = _request(f"{path}:{number}", line, share)
        requests.append(request)
        astray += own is not None and own != arm_of(request.key, share)
    traffic = Traffic(tuple(requests), share, astray)
    for side in SIDES:
        if not traffic.arm(side):
            raise DataError(f"{path} has no requests of arm {side!r}", fix="check --share")
    return traffic


def judge_traffic(traffic: Traffic) -> Verdict:
    """The specification's rules on recorded requests: the two arms are different requests,
    so nothing is paired. To ship, ten thousand requests an arm and two weeks are needed."""
    old, new = traffic.arm("a"), traffic.arm("b")
    recall = _unpaired(new, old, "answer_recall")
    garbage = _unpaired(new, old, "garbage_fraction")
    redundancy = [r.figures["redundancy_ratio"] for r in new if "redundancy_ratio" in r.figures]
    few = min(len(old), len(new))
    days = traffic.days
    skew = skewed(len(new), len(old), traffic.share)
    more = [
        Rule(
            "redundancy ratio",
            f"{np.mean(redundancy):.2f}" if redundancy else "",
            "at most 1.20",
            bool(np.mean(redundancy) <= 1.2) if redundancy else None,
        ),
        Rule("requests an arm", f"{few:,}", f"{QUERIES:,}", few >= QUERIES),
        Rule(
            "days",
            f"{days:.1f}" if days is not None else "",
            str(DAYS),
            days >= DAYS if days is not None else None,
        ),
        Rule(
            "split",
            f"{len(new):,} of {len(new) + len(old):,} requests, p {skew:.3f}, "
            f"{traffic.astray} in the wrong arm",
            f"{traffic.share:.0%} by the hash",
            skew >= _SKEWED and not traffic.astray,
        ),
    ]
    values = [r.figures["answer_recall"] for r in new if "answer_recall" in r.figures]
    return decide(
        Figures(
            primary="answer_recall",
            recall=recall,
            # Two independent means: the spread of their difference, request by request.
            spread=float(np.std(values)) * math.sqrt(2.0) if len(values) > 1 else 0.0,
            garbage=garbage,
            slower=p95_change([r.ms for r in new], [r.ms for r in old], resamples=500),
            errors=float(np.mean([r.error for r in new]) - np.mean([r.error for r in old])),
            more=tuple(more),
        )
    )


def skewed(new: int, old: int, share: float) -> float:
    """How likely a split at least this far from its share is by chance (chi-squared, one
    degree of freedom): a small value says that requests were lost or sent astray."""
    total = new + old
    expected = total * share
    spread = math.sqrt(total * share * (1.0 - share))
    return math.erfc(abs(new - expected) / spread / math.sqrt(2.0)) if spread else 1.0


def _unpaired(new: Sequence[Request], old: Sequence[Request], figure: str) -> Difference | None:
    """New minus old of two independent arms: bootstrap interval, p by permuting the arms."""
    a = np.array([r.figures[figure] for r in new if figure in r.figures])
    b = np.array([r.figures[figure] for r in old if figure in r.figures])
    if not a.size or not b.size:
        return None
    random = np.random.default_rng(SEED)
    observed = float(a.mean() - b.mean())
    # Both means are sums of many terms, so their bootstrap is normal to a good approximation
    # from a hundred requests on; below that the resampling is done.
    if min(a.size, b.size) > 100:
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


def _request(where: str, line: str, share: float) -> tuple[Request, Side | None]:
    try:
        record: Any = json.loads(line)
    except ValueError as error:
        raise DataError(f"{where}: is not JSON ({error})") from error
    if not isinstance(record, dict):
        raise DataError(f"{where}: is not a JSON object")
    row = cast("dict[str, Any]", record)
    key, own, ms = row.get("id"), row.get("arm"), row.get("latency_ms")
    if not isinstance(key, str) or not key:
        raise DataError(f"{where}: has no id")
    if own not in (None, "a", "b"):
        raise DataError(f"{where}: arm is a or b, not {own!r}")
    if isinstance(ms, bool) or not isinstance(ms, (int, float)) or ms < 0:
        raise DataError(f"{where}: latency_ms is a number, not {ms!r}")
    figures: dict[str, float] = {}
    for name in _FIGURES:
        value = row.get(name)
        if value is None:
            continue
        if not isinstance(value, (int, float)):
            raise DataError(f"{where}: {name} is a number, not {value!r}")
        figures[name] = float(value)
    side: Side = own or arm_of(key, share)
    when = row.get("at")
    try:
        at = _utc(datetime.fromisoformat(when)) if isinstance(when, str) else None
    except ValueError as error:
        raise DataError(f"{where}: at is not a time ({when!r})") from error
    return Request(key, side, float(ms), bool(row.get("error", False)), at, figures), own


def _utc(time: datetime) -> datetime:
    """A time without a zone counts as UTC, so that all can be compared."""
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time
