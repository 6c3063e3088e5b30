"""Packwise beside other libraries: speed, memory, size, ranking, and what installing brings.

    python benchmarks/comparison.py DATA [--out docs/comparison.md] [--speed scifact,synthetic-200k]

Every library runs in an environment of its own (environments.py) and gets the same passages,
vectors and questions (corpora.py); engines.py says how each is set up. What was measured is kept
below the work folder and used again, so an interrupted run continues, and `--only` measures some
libraries while the page still has the others; `--again` measures what is known once more.
Writes the page with comparison_page.py, or prints it. A part of the page that a run does not
measure (`--ranking ""`) stays as it was.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from comparison_page import (
    TIMED,
    Ranks,
    Set,
    Speed,
    install_part,
    page,
    ranking_part,
    speed_part,
    summary_part,
)
from corpora import ARTICLES, corpus, embedder_of, passage_count, read_questions
from environments import SUBJECTS, Footprint, footprint, python_of

from packwise.evaluation.metrics import HEADLINE, Metric, fold_to_documents
from packwise.settings import Settings, cache_folder

SPEED = "scifact,wikispeedia,synthetic-200k"
RANKING = "hotpotqa-100,musique-100,squad2,scifact,cisi,stackfaq"
ENGINES = {
    "packwise": "packwise",
    "lancedb": "lancedb",
    "txtai": "txtai",
    "haystack": "haystack",
    "llama-index": "llama-index",
    "llama-index-ranks": "llama-index",
    "vectrixdb": "vectrixdb",
    "lightrag": "lightrag",
    "agent-kgpacks": "agent-kgpacks",
}
"""Each with the environment it runs in."""

METRICS = (Metric("recall", 2), Metric("recall", 5), HEADLINE)
BESIDE_SPEED = Metric("recall", 10)
LONGEST_SECONDS = 1800
"""Processor time that a step may take. The clock would count the machine's other work."""


def main() -> None:
    """Measure what is missing, and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--work", type=Path, default=cache_folder() / "comparison")
    parser.add_argument("--out", type=Path, help="the page; by default it is printed")
    parser.add_argument("--speed", default=SPEED, help="sets to time, such as synthetic-200k")
    parser.add_argument("--ranking", default=RANKING, help="sets to rank")
    parser.add_argument("--only", default=",".join(ENGINES), help="libraries to run; none with ''")
    parser.add_argument("--articles", type=int, default=300, help="of wikispeedia")
    parser.add_argument("--embedder", help="of the vectors; by default that of the settings")
    parser.add_argument("--again", action="store_true", help="measure again what is known")
    given = parser.parse_args()
    if unknown := set(_names(given.only)) - set(ENGINES):
        parser.error(f"no library {', '.join(unknown)}; there are {', '.join(ENGINES)}")
    given.work.mkdir(parents=True, exist_ok=True)
    bench = Bench(given)
    footprints = {
        subject.name: _footprint(subject.name, given.work, again=given.again)
        for subject in SUBJECTS
        if bench.chosen.issuperset(ENGINES)
        or any(ENGINES[name] == subject.name for name in bench.chosen)
        or _kept_footprint(subject.name, given.work).exists()
    }
    timed = {name: bench.speed(name) for name in _names(given.speed)}
    ranks = {name: bench.ranks(name) for name in _names(given.ranking)}
    parts = {"install": install_part(footprints)}
    if timed:
        parts["speed"] = speed_part(timed, bench.sets)
    if ranks:
        parts["ranking"] = ranking_part(ranks, bench.sets)
    if timed and ranks:
        parts["summary"] = summary_part(footprints, timed, ranks, bench.sets)
    before = given.out.read_text(encoding="utf-8") if given.out and given.out.exists() else ""
    text = page(parts, before)
    if given.out:
        given.out.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _kept_footprint(name: str, work: Path) -> Path:
    return work / "footprints" / f"{name}.json"


def _footprint(name: str, work: Path, *, again: bool) -> Footprint:
    (subject,) = (one for one in SUBJECTS if one.name == name)
    kept = _kept_footprint(name, work)
    if again or not kept.exists():
        sys.stderr.write(f"installing {name}\n")
        _keep(kept, asdict(footprint(subject, work / "environments")))
    return Footprint(**json.loads(kept.read_text()))


class Bench:
    """Measures libraries on sets, and keeps what it measured."""

    def __init__(self, given: argparse.Namespace) -> None:
        self._given = given
        self._work: Path = given.work
        self.chosen = set(_names(given.only))
        self._settings = Settings.load(embedder=given.embedder)
        self.sets: dict[str, Set] = {}

    def speed(self, name: str) -> dict[str, Speed]:
        """Time libraries on a set."""
        found = self._known("speed", TIMED, self._corpus(name), self._time)
        return {engine: Speed(**one) for engine, one in found.items()}

    def ranks(self, name: str) -> dict[str, Ranks]:
        """Let libraries rank a set."""
        found = self._known("ranking", list(ENGINES), self._corpus(name), self._rank)
        return {engine: Ranks(**one) for engine, one in found.items()}

    def _corpus(self, name: str) -> Path:
        given = self._given
        folder = corpus(name, given.data, self._work, given.articles, self._settings)
        title = f"{name}, {given.articles} articles" if name == ARTICLES else name
        self.sets[name] = Set(
            title,
            passage_count(folder),
            len(read_questions(folder)),
            embedder_of(name, self._settings),
        )
        return folder

    def _known(
        self,
        kind: str,
        engines: Sequence[str],
        folder: Path,
        measure: Callable[[Run], Speed | Ranks],
    ) -> dict[str, dict[str, Any]]:
        """What is known about libraries on a set; what the chosen ones lack is measured first."""
        known: dict[str, dict[str, Any]] = {}
        for engine in engines:
            kept = self._work / kind / folder.name / f"{engine}.json"
            if engine in self.chosen and (self._given.again or not kept.exists()):
                sys.stderr.write(f"{kind}: {engine} on {folder.name}\n")
                try:
                    _keep(kept, asdict(self._measured(engine, folder, measure)))
                except Failed as failed:
                    sys.stderr.write(f"{failed.said}\n{failed}\n")
                    _keep(kept, {"failure": str(failed)})
            if kept.exists():
                known[engine] = json.loads(kept.read_text())
        return known

    def _measured(
        self, engine: str, folder: Path, measure: Callable[[Run], Speed | Ranks]
    ) -> Speed | Ranks:
        (subject,) = (one for one in SUBJECTS if one.name == ENGINES[engine])
        place = self._work / "stores" / folder.name / engine
        shutil.rmtree(place, ignore_errors=True)
        place.parent.mkdir(parents=True, exist_ok=True)
        python = python_of(subject, self._work / "environments")
        try:
            return measure(Run(python, engine, folder, place))
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def _time(self, run: Run) -> Speed:
        build, search = run.step("build"), run.step("search")
        recalls = [
            BESIDE_SPEED.score(fold_to_documents(documents), question.relevant)
            for question, documents in zip(
                read_questions(run.folder), search.pop("found"), strict=True
            )
        ]
        return Speed(build, search, sum(recalls) / len(recalls))

    def _rank(self, run: Run) -> Ranks:
        run.step("build")
        found = [fold_to_documents(documents) for documents in run.step("rank")["found"]]
        questions = read_questions(run.folder)
        return Ranks(
            {
                str(metric): {
                    question.id: metric.score(documents, question.relevant)
                    for question, documents in zip(questions, found, strict=True)
                }
                for metric in METRICS
            }
        )


class Failed(Exception):
    """A library did not finish a step; ``said`` is the end of what it wrote."""

    def __init__(self, reason: str, said: str) -> None:
        super().__init__(reason)
        self.said = said


@dataclass(frozen=True, slots=True)
class Run:
    """One library with one set in a fresh folder."""

    python: Path
    engine: str
    folder: Path
    place: Path

    def step(self, step: str) -> dict[str, Any]:
        """Run a step of engines.py in a process of the library's environment. Raises ``Failed``."""
        script = str(Path(__file__).with_name("engines.py"))
        command = [self.python, "-I", script, self.engine, step, self.folder, self.place]
        done = subprocess.run(
            command, capture_output=True, check=False, preexec_fn=_limit_processor_time
        )
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        if done.returncode == -signal.SIGXCPU:
            minutes = LONGEST_SECONDS // 60
            raise Failed(f"{step}: not done after {minutes} minutes of processor time", "")
        if done.returncode:
            reason = said[-1][:200] if said else f"ended with {done.returncode}"
            raise Failed(f"{step}: {reason}", "\n".join(said[-20:]))
        return json.loads(done.stdout[done.stdout.index(b"{") :])


def _limit_processor_time() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (LONGEST_SECONDS, LONGEST_SECONDS + 60))


def _keep(path: Path, figures: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(figures), encoding="utf-8")


if __name__ == "__main__":
    main()
