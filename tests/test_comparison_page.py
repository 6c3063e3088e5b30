"""The page that compares Packwise with other libraries names what others do better."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

from comparison_page import (
    OURS,
    Ranks,
    Set,
    Speed,
    page,
    ranking_part,
    speed_part,
    summary_part,
)
from environments import Footprint

SETS = {"one": Set("one", 1000, 2, "an embedder")}


def speed(recall, *, search=10.0, build=2.0, memory=100, disk=10):
    clock = {"p50": 1.0, "p95": 2.0}
    return Speed(
        {
            "seconds": build,
            "cpu_seconds": build,
            "peak_bytes": memory * 10**6,
            "disk_bytes": disk * 10**6,
        },
        {
            "cpu_ms": search,
            "open_seconds": 0.1,
            "open_cpu_seconds": 0.1,
            "first_seconds": 0.1,
            "one": clock,
            "many": clock,
            "per_second": 5.0,
            "peak_bytes": memory * 10**6,
        },
        recall,
    )


def ranks(*scores):
    by_question = {str(nth): score for nth, score in enumerate(scores)}
    return Ranks(dict.fromkeys(("recall@2", "recall@5", "ndcg@10"), by_question))


def lines_of(text, start):
    return [line for line in text.splitlines() if line.startswith(start)]


def test_what_another_library_does_better_is_said_in_a_sentence():
    found = {OURS: speed(0.9), "txtai": speed(0.95, build=0.5), "haystack": speed(0.8, disk=20)}
    text = speed_part({"one": found}, SETS)
    (said,) = lines_of(text, "**Where Packwise is not the best:**")
    assert said.endswith("recall@10 (txtai 0.950); build, CPU (txtai 0.25x).")


def test_no_library_is_named_better_where_packwise_is_best():
    text = speed_part({"one": {OURS: speed(0.9), "txtai": speed(0.8, search=20)}}, SETS)
    assert "not the best" not in text
    assert "Packwise has the best value of every column." in text


def test_a_library_that_did_not_finish_stays_in_the_table_with_the_reason():
    found = {OURS: speed(0.9), "txtai": Speed(failure="build: not done")}
    (row,) = lines_of(speed_part({"one": found}, SETS), "| txtai")
    assert "build: not done" in row


def test_the_ratios_are_missing_where_packwise_did_not_finish():
    found = {OURS: Speed(failure="build: not done"), "txtai": speed(0.8)}
    ratios, figures = lines_of(speed_part({"one": found}, SETS), "| txtai")
    assert "x |" not in ratios
    assert "| 10.0 |" in figures


@pytest.mark.parametrize(
    ("theirs", "said"), [((0.9, 1.0), "by 0.050, within chance"), ((0.6, 0.7), "")]
)
def test_a_library_that_ranks_better_is_named_below_the_table(theirs, said):
    text = ranking_part({"one": {OURS: ranks(0.9, 0.9), "txtai": ranks(*theirs)}}, SETS)
    found = lines_of(text, "**Ahead of Packwise:**")
    assert [line.removeprefix("**Ahead of Packwise:** txtai, hybrid ") for line in found] == (
        [f"({said})."] if said else []
    )


def test_the_summary_has_the_best_of_each_column_in_bold():
    installed = {OURS: Footprint("1", 2, 300, 0.5, 40), "txtai": Footprint("9", 40, 1200, 6.5, 400)}
    timed = {"one": {OURS: speed(0.9), "txtai": speed(0.8, search=5)}}
    ranked = {"one": {OURS: ranks(0.9, 0.9), "txtai": ranks(0.5, 0.7)}}
    text = summary_part(installed, timed, ranked, SETS)
    (ours,), (theirs, _) = lines_of(text, "| **Packwise**"), lines_of(text, "| txtai")
    assert ours.strip(" |").split(" | ")[1:] == [
        *("**300**", "**0.50**", "**2.0**", "10.0"),
        *("**100**", "**10**", "**0.900**", "**0.900**"),
    ]
    assert theirs.strip(" |").split(" | ")[1:] == [
        *("1200", "6.50", "**2.0**", "**5.0**"),
        *("**100**", "**10**", "0.800", "0.600"),
    ]
    assert lines_of(text, "**Where another library is best:**") == [
        "**Where another library is best:** search, CPU ms (txtai 5.0)."
    ]


def test_a_part_that_was_not_measured_stays_as_it_was():
    before = page({"speed": "old speed", "ranking": "old ranks"}, "")
    after = page({"speed": "new speed"}, before)
    assert "new speed" in after
    assert "old speed" not in after
    assert "old ranks" in after


def test_a_set_that_was_not_measured_stays_as_it_was():
    sets = {**SETS, "two": Set("two", 2000, 2, "an embedder")}
    both = speed_part({"one": {OURS: speed(0.1)}, "two": {OURS: speed(0.2)}}, sets)
    again = speed_part({"two": {OURS: speed(0.3)}}, sets)
    after = page({"speed": again}, page({"speed": both}, ""))
    assert [line.split(" | ")[1] for line in lines_of(after, "| **Packwise** | 0.")] == [
        "0.300",
        "0.100",
    ]
