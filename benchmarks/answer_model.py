"""Fits the model that ranks the blocks of an answer and says how likely it is right.

    python benchmarks/answer_model.py collect FOLDER [SET ...]
    python benchmarks/answer_model.py fit FOLDER [--only MODEL ...] [--write]

``collect`` asks the tuning questions without a language model and keeps, for each, the blocks
that were considered and whether each holds the answer. The sets:

    TREE      benchmarks/documentation/PART/TREE.jsonl, on the pack FOLDER/TREE, where PART is
              tune, second, third, fourth or fifth
    squad2    SQuAD 2.0, the questions of the half ``tune``, also unanswerable ones
    tatqa     TAT-QA, the questions at even places, each within its own document

The data of the last two is read from the folder that PACKWISE_DATA names. ``fit`` prints what
the models give, each question judged by models that have not seen it or its tree, and with
--write stores them in ``answering/block_weights.json``; with --only some of them (``rank``,
``answer``, ``answer without sections``), the others stay as they are. Nothing here sees the
questions that ``benchmarks/documentation.py`` asks without a part, or with --sixth.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import os
import pickle
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize

import packwise
from packwise.answering import asking, block_ranking
from packwise.answering.answer import LIKELY
from packwise.answering.block_ranking import (
    RankedBlock,
    RankedBlocks,
    answer_features,
    answer_model,
)
from packwise.answering.blocks import AnswerBlock
from packwise.answering.extractive import choose, rendered
from packwise.candidates import EVERYTHING, Filter
from packwise.documents import content_hash
from packwise.evaluation.answers import AnswerQuestion
from packwise.evaluation.cache import cached_store
from packwise.evaluation.calibration_metrics import assess
from packwise.evaluation.data import half_of, load_dataset
from packwise.settings import Settings

QUESTIONS = {
    path.stem: path
    for part in ("tune", "second", "third", "fourth", "fifth")
    for path in sorted((Path(__file__).parent / "documentation" / part).glob("*.jsonl"))
}
WEIGHTS = Path(block_ranking.__file__).with_name("block_weights.json")
JUDGES = ("cross", "words")
MODELS = ("rank", "answer", "answer without sections")
LARGE = ("squad2", "tatqa")
TATQA_QUESTIONS = 240
FOLDS = 6
CHANGE_LOG = -1.5
"""What a part of a change log gets at most. Search has lowered them already, so few of the
questions here tell, and those cannot say how wrong a change log is where search let it pass."""


def main() -> None:
    """Run the command that was asked for."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("command", choices=["collect", "fit"])
    options.add_argument("folder", type=Path)
    options.add_argument("sets", nargs="*")
    options.add_argument("--only", nargs="+", default=MODELS, choices=MODELS)
    options.add_argument("--write", action="store_true")
    given = options.parse_args()
    if given.command == "fit":
        fit(given.folder, given.only, given.write)
        return
    for name in given.sets or [*QUESTIONS, *LARGE]:
        rows = {"squad2": squad, "tatqa": tatqa}.get(name, documentation)(given.folder, name)
        with (given.folder / f"{name}.blocks.pickle").open("wb") as out:
            for row in rows:
                pickle.dump(row, out)


def documentation(folder: Path, tree: str) -> Iterator[dict[str, Any]]:
    """The tuning questions over real documentation and notes."""
    with Recorder(str(folder / tree)) as recorder:
        for line in QUESTIONS[tree].read_text(encoding="utf-8").splitlines():
            row = {"holds": [], **json.loads(line)}
            yield recorder.row(tree, row["question"], row)


def squad(folder: Path, name: str) -> Iterator[dict[str, Any]]:
    """SQuAD's paragraphs; a block is right only in the paragraph that holds the answer."""
    dataset = load_dataset(str(data("squad2")))
    questions = [question for question in dataset.questions if half_of(question.id) == "tune"]
    with Recorder(str(cached_store(dataset, Settings.load()))) as recorder:
        for question in questions:
            answers = question.answers if question.answerable else ()
            right: dict[str, Any] = {"holds": [[answer] for answer in answers]}
            right["documents"] = list(dataset.relevant.get(question.id, ()))
            yield recorder.row(name, question.text, right)


def tatqa(folder: Path, name: str) -> Iterator[dict[str, Any]]:
    """TAT-QA, each question within its own document, and half of them in another one too, which
    seems to answer it and does not."""
    rows = [json.loads(line) for line in (data("tatqa") / "questions.jsonl").open()]
    rows = rows[::2]
    rows = rows[:: max(1, len(rows) // TATQA_QUESTIONS)]
    with Recorder(tatqa_pack(folder)) as recorder:
        for i, row in enumerate(rows):
            where = Filter(documents=(f"{row['document']}.md",))
            yield recorder.row(name, row["question"], {"holds": [row["answers"]]}, where)
            other = rows[(i + len(rows) // 2) % len(rows)]["document"]
            if i % 2 and other != row["document"]:
                where = Filter(documents=(f"{other}.md",))
                yield recorder.row(name, row["question"], {"holds": []}, where)


def tatqa_pack(folder: Path) -> str:
    """The pack of TAT-QA's documents, built if it is not there yet."""
    target = folder / "tatqa"
    if not (target / "pack.sqlite").exists():
        source = folder / "tatqa-source"
        source.mkdir(parents=True, exist_ok=True)
        with gzip.open(data("tatqa") / "documents.jsonl.gz", "rt", encoding="utf-8") as lines:
            for row in map(json.loads, lines):
                (source / f"{row['_id']}.md").write_text(row["text"], encoding="utf-8")
        packwise.build([str(source)], str(target))
    return str(target)


def data(name: str) -> Path:
    """The folder of a public data set."""
    return Path(os.environ["PACKWISE_DATA"]) / name


class Recorder:
    """Asks one store, and keeps the blocks that each answer was chosen from."""

    def __init__(self, store: str) -> None:
        self._library = packwise.open(store)
        self._extract = asking.extract
        self._seen: dict[str, Any] = {}

    def __enter__(self) -> Recorder:
        rank, extract = block_ranking.rank_blocks, self._extract

        def ranked(*given: Any) -> RankedBlocks:
            found = self._seen["ranked"] = rank(*given)
            return found

        def extracted(*given: Any, signs: Mapping[str, float], **more: Any) -> Any:
            self._seen["signs"] = dict(signs)
            return extract(*given, signs=signs, **more)

        sys.modules["packwise.answering.extractive"].rank_blocks = ranked  # type: ignore[attr-defined]
        asking.extract = extracted
        return self

    def __exit__(self, *_: object) -> None:
        asking.extract = self._extract
        self._library.close()

    def row(
        self, name: str, question: str, right: dict[str, Any], where: Filter = EVERYTHING
    ) -> dict[str, Any]:
        """One question with its blocks."""
        self._seen.clear()
        self._library.ask(question, synthesis=False, threshold=0.0, where=where)
        return {
            "set": name,
            "question": question,
            "kind": right.get("kind", ""),
            "right": right,
            "signs": self._seen.get("signs", {}),
            "ranked": self._seen.get("ranked"),
        }


def question_of(right: dict[str, Any]) -> AnswerQuestion:
    """What a right answer holds."""
    return AnswerQuestion("", "", holds=tuple(tuple(parts) for parts in right["holds"]))


def is_right(shown: Sequence[AnswerBlock], right: dict[str, Any]) -> bool:
    """Whether blocks as they are shown hold the answer, those of a document that does."""
    documents = right.get("documents")
    if documents:
        shown = [block for block in shown if block.source.passage.document in documents]
    return bool(shown) and question_of(right).held_by("\n\n".join(rendered(shown)))


def fit(folder: Path, only: Sequence[str], write: bool) -> None:
    """Fit these models for each judge, print what they give, and write them if asked."""
    rows = collected(folder)
    stored: dict[str, dict[str, dict[str, float]]] = json.loads(WEIGHTS.read_text(encoding="utf-8"))
    for judge in JUDGES:
        scored: list[tuple[dict[str, Any], float]] = []
        for fold in range(FOLDS):
            others = [row for row in rows if fold_of(row) != fold]
            models = fitted(others, judge, only, stored[judge])
            scored += [best_of(row, judge, models) for row in rows if fold_of(row) == fold]
        report(judge, scored)
        found = fitted(rows, judge, only, stored[judge])
        stored[judge] = {name: rounded(model) for name, model in found.items()}
    if write:
        WEIGHTS.write_text(json.dumps(stored, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def collected(folder: Path) -> list[dict[str, Any]]:
    """What ``collect`` kept, of questions with any blocks, with the features of today's code."""
    rows: list[dict[str, Any]] = []
    for path in sorted(folder.glob("*.blocks.pickle")):
        with path.open("rb") as kept, suppress(EOFError):
            while row := pickle.load(kept):
                if row["ranked"] and row["ranked"].blocks:
                    rows.append({**row, "blocks": list(described(row))})
    return rows


def described(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The blocks of a question with their features; what the cross-encoder said is kept."""
    for one in row["ranked"].blocks:
        said = {name: v for name, v in one.features.items() if name.startswith("judge")}
        features = block_ranking.features_of(row["ranked"].question, one.block) | said
        right = is_right([one.block], row["right"])
        yield {"block": one.block, "features": features, "right": right}


def fold_of(row: Mapping[str, Any]) -> int:
    """A whole documentation tree is in one fold; questions of the large sets are spread."""
    large = row["set"] in LARGE
    return int(content_hash(row["question"] if large else row["set"])[-2:], 16) % FOLDS


def features_of(row: Mapping[str, Any], judge: str) -> list[dict[str, float]]:
    """The features of the blocks as this judge sees them."""
    hidden = () if judge == "cross" else ("judge", "judge gap")
    return [
        {name: value for name, value in block["features"].items() if name not in hidden}
        for block in row["blocks"]
    ]


def fitted(
    rows: Sequence[dict[str, Any]],
    judge: str,
    only: Sequence[str],
    stored: Mapping[str, dict[str, float]],
) -> dict[str, dict[str, float]]:
    """Weights of the ranking model, and of those of the answer's probability."""
    models = dict(stored)
    if "rank" in only:
        models["rank"] = fit_ranking(rows, judge)
    parts: dict[str, list[tuple[dict[str, float], bool, str]]] = defaultdict(list)
    for row in rows:
        ranked = as_ranked(row, judge, models["rank"])
        right = is_right(choose(ranked, 1.0), row["right"])
        features = answer_features(ranked, row["signs"])
        parts[answer_model(ranked)].append((features, right, row["set"]))
    for name, found in parts.items():
        if name not in only:
            continue
        features, labels, sets = zip(*found, strict=True)
        models[name] = fit_logistic(features, labels, weights_of(sets))
    return models


def weights_of(groups: Sequence[str]) -> list[float]:
    """Documentation, SQuAD and TAT-QA count alike, whatever their number of questions, but no
    question counts more than twice."""
    kinds = [name if name in LARGE else "documentation" for name in groups]
    count = Counter(kinds)
    return [min(2.0, len(kinds) / len(count) / count[kind]) for kind in kinds]


def fit_ranking(rows: Sequence[dict[str, Any]], judge: str) -> dict[str, float]:
    """Listwise: the share of a question's right blocks under a softmax of the scores."""
    usable = [row for row in rows if any(block["right"] for block in row["blocks"])]
    lists = [features_of(row, judge) for row in usable]
    names = sorted({name for blocks in lists for found in blocks for name in found})
    at = {name: i for i, name in enumerate(names)}
    matrices, rights = [], []
    for row, blocks in zip(usable, lists, strict=True):
        matrix = np.zeros((len(blocks), len(names)))
        for i, found in enumerate(blocks):
            for name, value in found.items():
                matrix[i, at[name]] = value
        matrices.append(matrix)
        rights.append(np.array([block["right"] for block in row["blocks"]]))
    share = weights_of([row["set"] for row in usable])

    def loss(w: np.ndarray) -> tuple[float, np.ndarray]:
        total, slope = 0.5 * 1.0 * float(w @ w), 1.0 * w
        for matrix, right, by in zip(matrices, rights, share, strict=True):
            scores = matrix @ w
            scores = np.exp(scores - scores.max())
            all_shares = scores / scores.sum()
            right_shares = np.where(right, scores, 0) / scores[right].sum()
            total -= by * np.log(all_shares[right].sum())
            slope = slope + by * ((all_shares - right_shares) @ matrix)
        return total, slope

    bounds = [(None, CHANGE_LOG if name == "in a change log" else None) for name in names]
    found = minimize(loss, np.zeros(len(names)), jac=True, method="L-BFGS-B", bounds=bounds)
    return dict(zip(names, found.x.tolist(), strict=True))


def as_ranked(row: dict[str, Any], judge: str, rank: Mapping[str, float]) -> RankedBlocks:
    """The blocks of a question ranked by these weights."""
    found = [
        RankedBlock(block["block"], sum(rank.get(n, 0.0) * v for n, v in f.items()), f)
        for block, f in zip(row["blocks"], features_of(row, judge), strict=True)
    ]
    found.sort(key=lambda one: -one.score)
    return RankedBlocks(row["ranked"].question, judge, tuple(found))  # type: ignore[arg-type]


def fit_logistic(
    features: Sequence[Mapping[str, float]],
    labels: Sequence[bool],
    share: Sequence[float],
) -> dict[str, float]:
    """Weights of a logistic regression, the constant among the features."""
    names = sorted({name for found in features for name in found})
    x = np.array([[found.get(name, 0.0) for name in names] for found in features])
    y, by = np.array(labels, dtype=float), np.array(share)

    def loss(w: np.ndarray) -> tuple[float, np.ndarray]:
        z = x @ w
        chance = 1 / (1 + np.exp(-z))
        total = float(by @ (np.logaddexp(0, z) - y * z)) + 0.5 * float(w @ w)
        return total, x.T @ (by * (chance - y)) + w

    found = minimize(loss, np.zeros(len(names)), jac=True, method="L-BFGS-B")
    return dict(zip(names, found.x.tolist(), strict=True))


def best_of(
    row: dict[str, Any], judge: str, models: Mapping[str, Mapping[str, float]]
) -> tuple[dict[str, Any], float]:
    """A question with what would be shown, and its probability."""
    ranked = as_ranked(row, judge, models["rank"])
    found, answer = answer_features(ranked, row["signs"]), models[answer_model(ranked)]
    chance = 1 / (1 + math.exp(-sum(answer.get(name, 0.0) * v for name, v in found.items())))
    best = is_right([ranked.blocks[0].block], row["right"])
    return {**row, "best": best, "shown": is_right(choose(ranked, chance), row["right"])}, chance


def report(judge: str, scored: Sequence[tuple[dict[str, Any], float]]) -> None:
    """Print what the models give, per kind of question."""
    groups: dict[str, list[tuple[dict[str, Any], float]]] = defaultdict(list)
    for row, chance in scored:
        kind = row["kind"] if row["set"] not in LARGE else row["set"]
        groups[kind if row["right"]["holds"] else f"{kind}, not answerable"].append((row, chance))
    head = ("best block right", "shown right", "any right", "questions", "likely", "likely, wrong")
    lines = [f"\n{judge}: {', '.join(head)}, mean probability\n"]
    for name, rows in sorted(groups.items()):
        likely = [(row, chance) for row, chance in rows if chance >= LIKELY]
        counts = (
            sum(row["best"] for row, _ in rows),
            sum(row["shown"] for row, _ in rows),
            sum(any(b["right"] for b in row["blocks"]) for row, _ in rows),
            len(rows),
            len(likely),
            sum(not row["shown"] for row, _ in likely),
        )
        figures = " ".join(f"{count:5}" for count in counts)
        lines.append(f"  {name:28} {figures}   {np.mean([c for _, c in rows]):.2f}\n")
    by_set: dict[str, list[tuple[float, bool]]] = defaultdict(list)
    for row, chance in scored:
        name = row["set"] if row["set"] in LARGE else "documentation"
        by_set[name].append((chance, bool(row["shown"])))
    for name, pairs in sorted(by_set.items()):
        found = assess([chance for chance, _ in pairs], [right for _, right in pairs])
        lines.append(f"  {name}: ECE {found.ece:.3f}, AUROC {found.auroc:.3f}\n")
    sys.stdout.writelines(lines)


def rounded(weights: Mapping[str, float]) -> dict[str, float]:
    """The weights as they are stored."""
    return {name: round(value, 4) for name, value in weights.items() if abs(value) >= 5e-4}


if __name__ == "__main__":
    main()
