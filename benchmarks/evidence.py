"""Chooses the parameters of ``context/candidate_pool.py`` for where the answer is expected.

    python benchmarks/evidence.py DATA [--sets squad2,spans]

DATA holds the data sets, one BEIR-style folder each. Each parameter in turn is given other
values, on the questions of the half ``tune`` alone; the search is done once, the packing anew.
A value is taken over where its gain is beyond chance, and the next parameter is tried with it.
What was chosen is then measured on the half ``report``, beside what is in the code. Prints
Markdown.

The score is answer recall, the mean over the budgets; sets count alike, whatever their number
of questions.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from paired import Scores, difference, means

from packwise.candidates import Candidate
from packwise.context.candidate_pool import DEFAULT_PARAMS, RelevanceParams
from packwise.context.packer import pack
from packwise.evaluation.cache import cached_store
from packwise.evaluation.data import DataSet, Half, Question, load_dataset
from packwise.evaluation.metrics import ANSWER_RECALL, gold_answers, mean, score_context
from packwise.library import Library, open_library
from packwise.settings import Settings

SETS = ("squad2", "spans", "hotpotqa-100", "musique-100")
BUDGETS = (250, 500, 1000)
TRIED: Mapping[str, tuple[float, ...]] = {
    "rank_decay": (0.6, 0.9, 1.6, 2.4),
    "score_power": (0.0, 1.0, 4.0, 8.0),
    "words": (3.5, 5.0, 9.0, 14.0),
    "match": (0.0, 0.5, 2.0),
    "surroundings": (0.0, 0.15, 0.5),
    "scattered": (0.2, 0.6),
    "in_one_place": (0.6, 1.0),
}


@dataclass(frozen=True)
class SearchedSet:
    """The questions of one half of a set with what search found for each."""

    dataset: DataSet
    library: Library
    found: Sequence[tuple[Question, tuple[Candidate, ...]]]


def main() -> None:
    """Try, choose, report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--sets", default=",".join(SETS))
    given = parser.parse_args()
    names = given.sets.split(",")
    write = sys.stdout.write
    with ExitStack() as opened:
        settings = Settings.load(query_cache=0)
        libraries: dict[str, Library] = {}
        for name in names:
            store = str(cached_store(load_dataset(given.data / name), settings))
            libraries[name] = opened.enter_context(open_library(store, settings=settings))

        def half(which: Half) -> list[SearchedSet]:
            return [
                searched(load_dataset(given.data / name, half=which), libraries[name])
                for name in names
            ]

        chosen = choose(half("tune"), names)
        write("\nChosen: " + ", ".join(f"{k} {v:g}" for k, v in asdict(chosen).items()) + ".\n")
        write(reported(half("report"), names, chosen))


def searched(dataset: DataSet, library: Library) -> SearchedSet:
    """What a context is chosen from, for each question whose answer a text can hold."""
    most = library.settings.context_candidates
    questions = [q for q in dataset.judged if q.answerable and gold_answers(q)]
    return SearchedSet(
        dataset, library, [(q, library.search(q.text, most).hits) for q in questions]
    )


def choose(asked: Sequence[SearchedSet], names: Sequence[str]) -> RelevanceParams:
    """The parameters to take, value by value; prints what each try was worth."""
    write = sys.stdout.write
    number = sum(len(one.found) for one in asked)
    write(f"On the half `tune`, {number} questions:\n\n")
    write(f"| parameter | value | {' | '.join(names)} | all sets | to the values so far |\n")
    write(f"| --- | ---: |{' ---: |' * len(names)} ---: | ---: |\n")
    best = DEFAULT_PARAMS
    score = scored(asked, best)
    write(f"| as in the code | | {cells(score)} | |\n")
    for name, values in TRIED.items():
        better: tuple[float, RelevanceParams, Scores] | None = None
        for value in values:
            tried = replace(best, **{name: value})
            found = scored(asked, tried)
            change = difference(found, score)
            write(f"| {name} | {value:g} | {cells(found)} | {change.interval_text()} |\n")
            sys.stdout.flush()
            if change.low > 0.0 and (better is None or change.mean > better[0]):
                better = (change.mean, tried, found)
        if better is not None:
            _, best, score = better
    return best


def reported(asked: Sequence[SearchedSet], names: Sequence[str], chosen: RelevanceParams) -> str:
    """What the chosen parameters are worth on questions they were not chosen on."""
    number = sum(len(one.found) for one in asked)
    lines = [
        f"\nOn the half `report`, {number} questions:\n\n",
        f"| parameters | {' | '.join(names)} | all sets | difference |\n",
        f"| --- |{' ---: |' * len(names)} ---: | ---: |\n",
    ]
    old = scored(asked, DEFAULT_PARAMS)
    lines.append(f"| as in the code | {cells(old)} | |\n")
    if chosen != DEFAULT_PARAMS:
        new = scored(asked, chosen)
        lines.append(f"| chosen | {cells(new)} | {difference(new, old).interval_text()} |\n")
    return "".join(lines)


def scored(asked: Sequence[SearchedSet], params: RelevanceParams) -> Scores:
    """Answer recall of each question, the mean over the budgets."""
    scores: dict[str, dict[str, float]] = {}
    for one in asked:
        scores[one.dataset.name] = {
            question.id: mean(
                score_context(
                    pack(
                        question.text,
                        hits,
                        store=one.library.store,
                        settings=one.library.settings,
                        budget=budget,
                        relevance_params=params,
                    ),
                    question,
                    one.dataset.relevant[question.id],
                )[ANSWER_RECALL]
                for budget in BUDGETS
            )
            for question, hits in one.found
        }
    return scores


def cells(scores: Scores) -> str:
    """The mean of each set, and the mean of those."""
    found = means(scores)
    return " | ".join(f"{value:.3f}" for value in (*found, mean(found)))


if __name__ == "__main__":
    main()
