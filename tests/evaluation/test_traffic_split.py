"""Live traffic: who gets which variant, and the rules on what was recorded."""

import json
import random
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packwise.errors import DataError
from packwise.evaluation.traffic import arm_of, judge_traffic, read_traffic, skew_p_value

START = datetime(2026, 1, 1, tzinfo=UTC)


def record(path, number, *, share=0.5, gain=0.0, slower=1.0, failing=0.0, days=15, **fields):
    chance = random.Random(3)
    lines = []
    for i in range(number):
        key = f"user-{i}"
        new = arm_of(key, share) == "b"
        row = {
            "id": key,
            "at": (START + timedelta(days=days * i / number)).isoformat(),
            "latency_ms": chance.uniform(40, 60) * (slower if new else 1),
            "error": new and chance.random() < failing,
            "answer_recall": int(chance.random() < 0.7 + (gain if new else 0)),
            "garbage_fraction": 0.3 if new else 0.4,
            **fields,
        }
        lines.append(json.dumps(row))
    path.write_text("\n".join(lines))
    return path


@given(st.text(max_size=40))
@settings(max_examples=100)
def test_whoever_had_the_new_variant_at_ten_percent_has_it_at_fifty(key):
    assert arm_of(key, 1.0) == "b"
    if arm_of(key, 0.1) == "b":
        assert arm_of(key, 0.5) == "b"


def test_the_split_is_the_same_everywhere_and_even():
    # Fixed for good: another place for a key would move users between variants.
    assert "".join(arm_of(f"user-{i}", 0.5) for i in range(8)) == "bbaaaaaa"
    for share in (0.1, 0.5):
        found = sum(arm_of(f"user-{i}", share) == "b" for i in range(20_000)) / 20_000
        assert found == pytest.approx(share, abs=0.01)


def test_a_gain_over_enough_requests_and_days_ships(tmp_path):
    verdict = judge_traffic(read_traffic(record(tmp_path / "t", 24_000, gain=0.05), 0.5))
    assert verdict.outcome == "ship"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"number": 4000}, "requests an arm"),
        ({"days": 5}, "days"),
        ({"gain": 0.0}, "answer recall"),
    ],
)
def test_too_little_of_anything_does_not_ship(tmp_path, changes, reason):
    given_ = {"number": 24_000, "gain": 0.05} | changes
    verdict = judge_traffic(read_traffic(record(tmp_path / "t", **given_), 0.5))
    assert verdict.outcome == "no difference"
    assert any(r.startswith(reason) for r in verdict.reasons)


@pytest.mark.parametrize("changes", [{"gain": -0.1}, {"slower": 1.4}, {"failing": 0.03}])
def test_harm_rolls_back_long_before_the_sample_is_full(tmp_path, changes):
    path = record(tmp_path / "t", 3000, share=0.1, **changes)
    assert judge_traffic(read_traffic(path, 0.1)).outcome == "rollback"


def test_a_split_that_is_not_the_hash_is_caught(tmp_path):
    path = record(tmp_path / "t", 24_000, gain=0.05)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows[:50]:
        row["arm"] = "a" if arm_of(row["id"], 0.5) == "b" else "b"
    path.write_text("\n".join(map(json.dumps, rows)))
    traffic = read_traffic(path, 0.5)
    assert traffic.astray == 50
    assert any("50 in the wrong arm" in r for r in judge_traffic(traffic).reasons)


def test_lost_requests_show_as_a_skewed_split():
    assert skew_p_value(5000, 5000, 0.5) == 1.0
    assert skew_p_value(4800, 5200, 0.5) < 0.001
    assert skew_p_value(1000, 9000, 0.1) == 1.0


def test_figures_that_were_not_recorded_do_not_count(tmp_path):
    path = tmp_path / "t"
    rows = [{"id": f"u{i}", "latency_ms": 10, "cache_hit": i % 4 == 0} for i in range(200)]
    path.write_text("\n".join(map(json.dumps, rows)))
    traffic = read_traffic(path, 0.5)
    verdict = judge_traffic(traffic)
    assert verdict.outcome == "no difference"
    assert "answer recall: not measured" in verdict.reasons
    assert 0.1 < traffic.cache_hits("a") < 0.4


@pytest.mark.parametrize(("satisfied", "met"), [(0.9, True), (0.1, False), (None, None)])
def test_users_that_are_less_satisfied_keep_a_variant_from_shipping(tmp_path, satisfied, met):
    path = record(tmp_path / "t", 24_000, gain=0.05)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for i, row in enumerate(rows if satisfied is not None else ()):
        share = satisfied if arm_of(row["id"], 0.5) == "b" else 0.5
        row["user_satisfaction"] = int(i % 10 < share * 10)
    path.write_text("\n".join(map(json.dumps, rows)))
    verdict = judge_traffic(read_traffic(path, 0.5))
    (rule,) = [rule for rule in verdict.rules if rule.rule == "user satisfaction"]
    assert rule.met is met
    assert (verdict.outcome == "ship") is (met is not False)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("oops", "is not JSON"),
        ("[]", "is not a JSON object"),
        ('{"latency_ms": 1}', "has no id"),
        ('{"id": "x"}', "latency_ms is a number"),
        ('{"id": "x", "latency_ms": true}', "latency_ms is a number"),
        ('{"id": "x", "latency_ms": 1, "arm": "c"}', "arm is a or b"),
        ('{"id": "x", "latency_ms": 1, "at": "soon"}', "at is not a time"),
        ('{"id": "x", "latency_ms": 1, "answer_recall": "yes"}', "answer_recall is a number"),
    ],
)
def test_a_malformed_line_of_traffic_is_named(tmp_path, line, says):
    path = tmp_path / "t.jsonl"
    path.write_text('{"id": "u", "latency_ms": 1}\n' + line)
    with pytest.raises(DataError, match=f"t.jsonl:2: .*{says}"):
        read_traffic(path, 0.5)


def test_one_arm_alone_is_nothing_to_compare(tmp_path):
    path = tmp_path / "t"
    path.write_text('{"id": "u", "latency_ms": 1, "arm": "a"}')
    with pytest.raises(DataError, match="no requests of arm 'b'"):
        read_traffic(path, 0.5)
    with pytest.raises(DataError, match="cannot be read"):
        read_traffic(tmp_path / "none", 0.5)
