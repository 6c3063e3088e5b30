"""Fits the default calibration and says what it is worth on questions it has not seen.

    python benchmarks/calibration.py DATA [--write src/packwise/retrieval/default_calibration.json]

DATA holds the data sets, one BEIR-style folder each. Fitted on the tune half of SQuAD 2.0,
whose unanswerable questions are near misses, and on questions of the other sets, which its
articles say nothing about; reported on the other half of all of them. Prints Markdown.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from packwise.evaluation.cache import cached_store
from packwise.evaluation.calibration import (
    SINGLE_SCORES,
    CalibrationExample,
    data_hash,
    fit,
    gather,
)
from packwise.evaluation.calibration_metrics import Assessment, assess, auroc, risk_coverage
from packwise.evaluation.data import Question, half_of, load_dataset
from packwise.library import open_library
from packwise.retrieval.calibration import Calibration
from packwise.settings import Settings

ON = "squad2"
OTHERS = ("scifact", "hotpotqa-100", "musique-100", "cisi", "stackfaq")
OFF_TOPIC = 60
COVERAGES = (0.1, 0.25, 0.5, 0.75, 1.0)


def main() -> None:
    """Fit, print the figures, write the calibration where asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--write", type=Path, help="write the calibration there")
    parser.add_argument("--limit", type=int, help="only the first N questions: a quick look")
    given = parser.parse_args()
    examples, version = gathered(given.data, given.limit)
    tune, report = halves(examples)
    found = fit(tune, embedder_version=version)
    calibration = replace(found.calibration, source="default")
    write = sys.stdout.write
    write(figures(calibration, report))
    twins = [e for e in examples if half(e) == "tune" and (e.made or e.right)]
    taught = fit(twins, embedder_version=version).calibration
    held = fit(twins, embedder_version=version, prior=calibration.models[0]).calibration
    near = [e for e in report if not e.id.startswith("other:")]
    by_twins = assess([probability(taught, e) for e in near], [e.right for e in near])
    write(
        "\nFitted on answerable questions alone, each beside its twin with the answer taken out "
        f"of the list: AUROC on near misses {by_twins.auroc:.3f}; the same, held near the default "
        f"as `packwise calibrate` does: {assessed(held, near).auroc:.3f}.\n"
    )
    plain = fit([unsaid(e) for e in tune], embedder_version=version).calibration
    without = assess([probability(plain, unsaid(e)) for e in near], [e.right for e in near])
    write(
        "\nNear misses are often made by putting a negation in. Without that sign: AUROC on near "
        f"misses {without.auroc:.3f}.\n"
    )
    if given.write:
        record = replace(calibration, facts=facts(calibration, tune, report)).as_dict()
        given.write.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def gathered(data: Path, limit: int | None) -> tuple[list[CalibrationExample], str]:
    """Every question with its signs, and the embedder they were read with."""
    settings = Settings.load(query_cache=0)
    dataset = load_dataset(data / ON)
    others: list[Question] = []
    for name in OTHERS:
        asked = sorted(load_dataset(data / name).questions, key=lambda q: q.id)
        step = max(1, len(asked) // OFF_TOPIC)
        others += asked[::step][:OFF_TOPIC]
    with open_library(str(cached_store(dataset, settings)), settings=settings) as library:
        version = library.info().embedder_version
        return gather(library, dataset, others=others, limit=limit, twins=True), version


def half(example: CalibrationExample) -> str:
    """The half a question belongs to."""
    return half_of(example.id.removeprefix("other:"))


def unsaid(example: CalibrationExample) -> CalibrationExample:
    """The example, with its question's negation unheard."""
    return replace(example, signs={**example.signs, "negated": 0.0})


def halves(
    examples: Sequence[CalibrationExample],
) -> tuple[list[CalibrationExample], list[CalibrationExample]]:
    """What is fitted on and what is reported, without twins."""
    real = [e for e in examples if not e.made]
    return [e for e in real if half(e) == "tune"], [e for e in real if half(e) == "report"]


def probability(calibration: Calibration, example: CalibrationExample) -> float:
    """What a calibration says of an example."""
    found = calibration.probability(example.signs)
    assert found is not None
    return found


def figures(calibration: Calibration, report: Sequence[CalibrationExample]) -> str:
    """The held-out figures as Markdown."""
    near = [e for e in report if not e.id.startswith("other:")]
    off = [e for e in report if e.id.startswith("other:")]
    whole = assessed(calibration, report)
    missed = assessed(calibration, near)
    lines = [
        "| questions | number | answer there | AUROC | ECE | ECE, even bins | Brier "
        "| answering from 0.5 on | always | never |\n",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
    ]
    for name, a in (("near misses", missed), ("near misses and other topics", whole)):
        lines.append(
            f"| {name} | {a.questions} | {a.right:.1%} | {a.auroc:.3f} | {a.ece:.3f} "
            f"| {a.ece_even:.3f} | {a.brier:.3f} | {a.accuracy:.1%} | {a.always:.1%} "
            f"| {a.never:.1%} |\n"
        )
    refused = sum(probability(calibration, e) < 0.5 for e in off)
    lines.append(f"\nOf {len(off)} questions on other topics, {refused} are below 0.5.\n")
    lines += ["\n| single score, near misses | AUROC |\n", "| --- | ---: |\n"]
    right = [e.right for e in near]
    for name in SINGLE_SCORES:
        lines.append(f"| {name} | {auroc([e.signs[name] for e in near], right):.3f} |\n")
    lines.append(f"| **calibrated** | {missed.auroc:.3f} |\n")
    points = risk_coverage([probability(calibration, e) for e in near], right)
    lines += ["\n| share answered, the surest first | of these, answer not there |\n"]
    lines += ["| ---: | ---: |\n"]
    for wanted in COVERAGES:
        point = min(points, key=lambda p, wanted=wanted: abs(p.coverage - wanted))
        lines.append(f"| {point.coverage:.0%} | {point.risk:.1%} |\n")
    return "".join(lines)


def assessed(calibration: Calibration, examples: Sequence[CalibrationExample]) -> Assessment:
    """How a calibration does on examples."""
    return assess([probability(calibration, e) for e in examples], [e.right for e in examples])


def facts(
    calibration: Calibration,
    tune: Sequence[CalibrationExample],
    report: Sequence[CalibrationExample],
) -> dict[str, Any]:
    """What is stored beside the weights."""
    whole = assessed(calibration, report)
    return {
        "data": "SQuAD 2.0 (half of its questions) and questions on other topics",
        "data_hash": data_hash(tune),
        "questions": len(tune),
        "answer_there": sum(e.right for e in tune),
        "held_out": {
            "questions": whole.questions,
            "ece": round(whole.ece, 4),
            "auroc": round(whole.auroc, 4),
            "brier": round(whole.brier, 4),
        },
    }


if __name__ == "__main__":
    main()
