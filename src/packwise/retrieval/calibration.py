"""The probability that a result list holds the answer, from signs in the list.

Similarity shows whether the passages are on the topic of the question, not whether they answer
it: a question with one wrong name is as similar as the right one. ``signs`` computes cheap
features that tell them apart, and a ``Calibration`` (a logistic regression) turns them into a
probability.

A pack may have its own calibration (``packwise calibrate``, kept in ``calibration.json`` beside
the manifest). All other stores use the default one, fitted on public data.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, cast

from packwise.candidates import Candidate, Scores
from packwise.documents import BlockKind, Passage, content_hash
from packwise.errors import DataError
from packwise.language.analyzer import FUNCTION_WORDS, terms
from packwise.language.compounds import parts
from packwise.language.detection import is_paired, main_script
from packwise.language.questions import QUESTION_TERMS, parse_question, question_words
from packwise.language.sentences import sentence_spans
from packwise.lazy_pattern import lazy_pattern
from packwise.reading.passage_reading import known_reading
from packwise.settings import data_folder
from packwise.stores.base import StoreInfo, TermStatistics
from packwise.stores.bm25 import idf
from packwise.stores.durable import open_regular
from packwise.stores.pack.folder import CALIBRATION, PackFolder

FORMAT = 1
_MOST_BYTES = 1 << 20
READ = 3
"""Passages whose text is read for signs."""

Signs = Mapping[str, float]

SIGNS: Mapping[str, str] = {
    "similarity": "best similarity, on the gate's scale",
    "similarity_gap": "best similarity minus the mean of the next five",
    "keyword": "best BM25 over its bound",
    "keyword_gap": "best BM25 over its bound minus the mean of the next five",
    "agreement": "one over the keyword rank of the vector leg's best passage",
    "unknown": "share of the question's words that no passage has",
    "held": "share of them that the first passage has, with its headings",
    "held_best": "share that the best of the first three passages has",
    "together": "share that one sentence of the first three has, with its headings",
    "together_first": "share that one sentence of the first passage has",
    "missing": "share of the rarest word that the first passage lacks",
    "names": "names and numbers in the question, up to four",
    "names_missing": "names and numbers that the best sentence lacks, up to three",
    "names_missing_first": "names and numbers that the first passage lacks, up to three",
    "phrases": "share of neighbouring words that are neighbours in a passage too",
    "negated": "1 when the question holds a negation",
    "length": "logarithm of the number of its words",
}
"""Every sign and its meaning. ``cross`` is added where a cross-encoder ran."""

CROSS = "cross"

_NEXT = 5
# The share of a question's words at which as many questions on the topic hold less as others hold
# more, in a store of _SMALL terms, and how it grows with each doubling: the more text, the more
# words any question shares with a passage. Chosen on the Declaration of Human Rights in German,
# Turkish and Arabic, Debian manuals in German, French and Russian and xquad-de for words; on such
# texts in Chinese for pairs of characters, which cross the borders of words.
_EVEN_WORDS, _MORE_WORDS = 0.24, 0.03
_EVEN_PAIRS, _MORE_PAIRS = 0.15, 0.035
_SMALL, _LARGE = 1000, 200_000
# An embedder of another language still knows many words of its own script. So much does its
# similarity count beside the words, from where it says nothing.
_MEANING, _NO_MEANING = 1.5, 0.54
_HIRAGANA = lazy_pattern("[\u3041-\u309f]")
_MOST_NAMES = 4
_MOST_MISSING = 3
_MOST_CHARACTERS = 6000
_ASKING = QUESTION_TERMS.union(*map(terms, "has have had were been can could would".split()))
# The first word of a question is capitalised for another reason.
_NAME = lazy_pattern(r"(?<=\s)[\"“(]?[A-Z][\w'’-]*|\b\d[\d,.]*+")
_NEGATION = lazy_pattern(
    r"\b(?:not|never|no|nor|none|neither|without|except|cannot)\b|n['’]t\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class LogisticModel:
    """A logistic regression over some signs, scaled by the means and scales of its fit."""

    signs: tuple[str, ...]
    means: tuple[float, ...]
    scales: tuple[float, ...]
    weights: tuple[float, ...]
    bias: float

    def probability(self, signs: Signs) -> float:
        """The probability for these signs, which must include all that the model weighs."""
        total = self.bias
        for name, mean, scale, weight in self.rows():
            total += weight * (signs[name] - mean) / scale
        return _logistic(total)

    def rows(self) -> Iterator[tuple[str, float, float, float]]:
        """Each sign with its mean, scale and weight."""
        return zip(self.signs, self.means, self.scales, self.weights, strict=True)


@dataclass(frozen=True, slots=True)
class Calibration:
    """How signs become a probability, and what is known of its error.

    The first of ``models`` whose signs are all present is used. From ``threshold`` on a
    question is answered; below ``refuse_below`` the answer is just as surely missing.
    ``answer_scale`` and ``answer_shift`` correct the log-odds that an answer is right.
    ``facts`` say when and on what it was fitted, and how well it did on unseen questions.
    """

    models: tuple[LogisticModel, ...]
    source: Literal["default", "pack"] = "pack"
    threshold: float = 0.5
    refuse_below: float = 0.5
    embedder_version: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    answer_scale: float = 1.0
    answer_shift: float = 0.0

    def answer_probability(self, probability: float) -> float:
        """The probability that an answer is right, corrected for this store."""
        if (self.answer_scale, self.answer_shift) == (1.0, 0.0) or not 0.0 < probability < 1.0:
            return probability
        odds = math.log(probability / (1.0 - probability))
        return _logistic(self.answer_scale * odds + self.answer_shift)

    def probability(self, signs: Signs) -> float | None:
        """The probability, or ``None`` if no model has all its signs."""
        for model in self.models:
            if all(name in signs for name in model.signs):
                return model.probability(signs)
        return None

    def as_dict(self) -> dict[str, Any]:
        """The calibration as it is stored."""
        return {
            "format": FORMAT,
            "source": self.source,
            "threshold": self.threshold,
            "refuse_below": self.refuse_below,
            "embedder_version": self.embedder_version,
            "answer_scale": self.answer_scale,
            "answer_shift": self.answer_shift,
            **self.facts,
            "models": [
                {
                    "bias": model.bias,
                    "signs": {
                        name: {"mean": mean, "scale": scale, "weight": weight}
                        for name, mean, scale, weight in model.rows()
                    },
                }
                for model in self.models
            ],
        }


def signs(
    question: str,
    scores: Sequence[Scores],
    hits: Sequence[Candidate],
    statistics: TermStatistics,
    lang: str = "",
) -> dict[str, float]:
    """The signs of one result list; empty unless both legs ran and found something.

    ``scores`` are those of every candidate, ``hits`` the first passages of the final list,
    ``statistics`` those of the question's terms, ``lang`` its language.
    """
    if not hits or not any(s.similarity is not None for s in scores):
        return {}
    if any(s.keyword is None for s in scores):
        return {}
    found = _of_scores(scores)
    # Of a question that may be in several languages, the first reading.
    lang = lang.partition(" ")[0]
    asking = _ASKING | question_words(lang)
    asked = [term for term in dict.fromkeys(terms(question, lang)) if term not in asking]
    asked = asked or list(dict.fromkeys(terms(question, lang)))
    rarity = {term: idf(statistics.passages, statistics.frequency.get(term, 0)) for term in asked}
    total = sum(rarity.values()) or 1.0
    shares = {term: value / total for term, value in rarity.items()}
    found["unknown"] = sum(
        share for term, share in shares.items() if not statistics.frequency.get(term, 0)
    )
    found["length"] = math.log1p(len(asked))
    found["negated"] = 1.0 if _NEGATION.search(question) else 0.0
    found.update(_of_texts(question, lang, asked, shares, hits[:READ]))
    crossed = [s.cross for s in (hit.scores for hit in hits) if s.cross is not None]
    if crossed:
        found[CROSS] = max(crossed)
    return found


def topic_similarity(
    question: str,
    hits: Sequence[Candidate],
    statistics: TermStatistics,
    lang: str,
    similarity: float | None = None,
) -> float:
    """How close the first passages are to a question by its words, on the gate's scale: for a
    language that the embedder does not read, and for an embedder whose scale is not known.

    It follows the share of the question's words that a passage holds, by rarity, and
    for words in Latin letters the best ``similarity`` too. 0.5 is where as many questions on the
    topic have less as others have more. Japanese endings and particles do not count.
    """
    lang = lang.partition(" ")[0]
    asked = list(parse_question(question, lang).weights)
    asked = [term for term in asked if not _HIRAGANA.search(term)] or asked
    if lang in ("", "en"):
        asked = [term for term in asked if term not in FUNCTION_WORDS] or asked
    known = {term for term, count in statistics.frequency.items() if count}
    # A single part of a word may be on another topic: "Druck" in "Buchdruck".
    read = ((term, parts(term, lang, known)) for term in asked)
    asked = [part for term, found in read for part in ((term,) if term in found else found)]
    paired = is_paired(question)
    rarity = {term: idf(statistics.passages, statistics.frequency.get(term, 0)) for term in asked}
    total = sum(rarity.values())
    near = 0.0
    for hit in hits[:READ] if total else ():
        held = set(terms(hit.passage.indexed_text, hit.passage.lang or lang))
        near = max(near, sum(rarity[term] for term in asked if term in held) / total)
    if similarity is not None and main_script(question) == "latin":
        near = min(1.0, max(0.0, near + _MEANING * (similarity - _NO_MEANING)))
    size = statistics.passages * statistics.average_length
    doublings = math.log2(min(max(size, _SMALL), _LARGE) / _SMALL)
    even = (_EVEN_PAIRS if paired else _EVEN_WORDS) + doublings * (
        _MORE_PAIRS if paired else _MORE_WORDS
    )
    return near / even / 2 if near < even else 0.5 + (near - even) / (1 - even) / 2


def _of_scores(scores: Sequence[Scores]) -> dict[str, float]:
    similarities = [s.similarity if s.similarity is not None else 0.0 for s in scores]
    keywords = [s.keyword or 0.0 for s in scores]
    nearest = max(range(len(scores)), key=similarities.__getitem__)
    above = sum(value > keywords[nearest] for value in keywords)
    return {
        "similarity": max(similarities),
        "similarity_gap": _gap(similarities),
        "keyword": max(keywords),
        "keyword_gap": _gap(keywords),
        "agreement": 1.0 / (1 + above),
    }


def _gap(values: list[float]) -> float:
    best, *rest = sorted(values, reverse=True)[: _NEXT + 1]
    return best - (sum(rest) / len(rest) if rest else 0.0)


def _of_texts(
    question: str,
    lang: str,
    asked: Sequence[str],
    shares: Mapping[str, float],
    hits: Sequence[Candidate],
) -> dict[str, float]:
    """Which words of the question the first passages hold, and which they lack."""
    names = [term for match in _NAME.finditer(question) for term in terms(match[0], lang)]
    wanted = {*shares, *names}
    asked_pairs = set(itertools.pairwise(asked))
    pairs: set[tuple[str, str]] = set()
    passages: list[frozenset[str]] = []
    sentences: list[Mapping[frozenset[str], float]] = []

    def share(held: frozenset[str]) -> float:
        return sum(value for term, value in shares.items() if term in held)

    for hit in hits:
        passage, spoken = hit.passage, hit.passage.lang
        headings = terms(" ".join((passage.doc_title, *passage.section_path)), spoken)
        above = frozenset(wanted.intersection(headings))
        text = passage.text[:_MOST_CHARACTERS]
        words: list[str] = []
        # Most sentences hold none of the words, and those that hold the same count as one.
        own: dict[frozenset[str], None] = {}
        for sentence in _sentences_with(wanted, text, passage):
            held = [""] if sentence is None else terms(sentence, spoken)
            words += held
            own[above.union(wanted.intersection(held))] = None
        passages.append(above.union(*own))
        sentences.append({held: share(held) for held in own or [above]})
        pairs |= asked_pairs.intersection(itertools.pairwise(words))
    best, together = max(
        (found for own in sentences for found in own.items()), key=lambda found: found[1]
    )
    first = passages[0]
    return {
        "held": share(first),
        "held_best": max(share(held) for held in passages),
        "together": together,
        "together_first": max(sentences[0].values()),
        "missing": max((value for term, value in shares.items() if term not in first), default=0.0),
        "names": float(min(_MOST_NAMES, len(names))),
        "names_missing": float(min(_MOST_MISSING, sum(n not in best for n in names))),
        "names_missing_first": float(min(_MOST_MISSING, sum(n not in first for n in names))),
        "phrases": len(pairs) / max(1, len(asked_pairs)),
    }


def _sentences_with(wanted: Iterable[str], text: str, passage: Passage) -> Iterator[str | None]:
    """The sentences of a passage, as far as its stored reading tells only those with one of the
    wanted terms; ``None`` for one or more that are left out before such a one."""
    reading = known_reading(passage)
    if reading is None:
        yield from (text[start:end] for start, end in sentence_spans(text))
        return
    prose = bool(passage.blocks) and all(b.kind is BlockKind.TEXT for b in passage.blocks)
    # The units of prose are its sentences.
    spans = reading.units if prose and len(text) == len(passage.text) else sentence_spans(text)
    past = [end for _, end in spans]
    read: dict[int, None] = {}
    for start, end in reading.units_with(wanted):
        at = bisect_right(past, start)
        while at < len(spans) and spans[at][0] < end:
            read[at] = None
            at += 1
    last = -1
    for at in sorted(read):
        if at > last + 1:
            yield None
        start, end = spans[at]
        yield text[start:end]
        last = at


@lru_cache(maxsize=1)
def default_calibration() -> Calibration:
    """The calibration of stores without their own, fitted on public data."""
    stored = Path(__file__).with_name("default_calibration.json").read_text("utf-8")
    return parse(json.loads(stored), "default_calibration.json")


def calibration_path(info: StoreInfo) -> Path:
    """The file of a store's own calibration: in a pack's folder, else in the home folder."""
    if info.kind == "pack":
        return Path(info.location) / CALIBRATION
    return data_folder() / "calibrations" / f"{content_hash(info.location)}.json"


def remove_calibration(info: StoreInfo) -> None:
    """Go back to the default calibration."""
    if info.kind == "pack":
        PackFolder(Path(info.location)).remove(CALIBRATION)
    else:
        calibration_path(info).unlink(missing_ok=True)


def load_calibration(info: StoreInfo) -> Calibration:
    """The store's own calibration, if it was fitted with the store's embedder, else the default.

    Raises ``DataError`` if the file is not a calibration.
    """
    path = calibration_path(info)
    try:
        with open_regular(path) as file:
            content: Any = json.loads(file.read(_MOST_BYTES))
    except (FileNotFoundError, NotADirectoryError):
        return default_calibration()
    except (OSError, ValueError, RecursionError) as error:
        raise _bad(path, str(error)) from error
    own = parse(content, str(path))
    if own.embedder_version != info.embedder_version:
        return default_calibration()
    return own


def parse(content: Any, name: str) -> Calibration:
    """A stored calibration; raises ``DataError`` if it is not one."""
    try:
        values = cast("dict[str, Any]", content)
        if values["format"] != FORMAT:
            raise _bad(name, f"its format is {values['format']!r}, not {FORMAT}")
        models = tuple(_model(model) for model in values["models"])
        known = (
            *("format", "source", "threshold", "refuse_below", "embedder_version", "models"),
            *("answer_scale", "answer_shift"),
        )
        return Calibration(
            models=models,
            source="default" if values["source"] == "default" else "pack",
            threshold=_number(values["threshold"]),
            refuse_below=_number(values["refuse_below"]),
            embedder_version=str(values["embedder_version"]),
            facts={key: value for key, value in values.items() if key not in known},
            answer_scale=_number(values.get("answer_scale", 1.0)),
            answer_shift=_number(values.get("answer_shift", 0.0)),
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise _bad(name, f"missing or invalid {error}") from error


def _model(content: Any) -> LogisticModel:
    weighed = cast("dict[str, dict[str, float]]", content["signs"])
    model = LogisticModel(
        signs=tuple(weighed),
        means=tuple(_number(w["mean"]) for w in weighed.values()),
        scales=tuple(_number(w["scale"]) for w in weighed.values()),
        weights=tuple(_number(w["weight"]) for w in weighed.values()),
        bias=_number(content["bias"]),
    )
    if not all(scale > 0 for scale in model.scales):
        raise ValueError("scale")
    return model


def _number(value: Any) -> float:
    """A number. A pack may come from someone else, so infinity raises ``ValueError``."""
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"number {number}")
    return number


def _logistic(odds: float) -> float:
    return 1.0 / (1.0 + math.exp(-odds)) if odds > -700 else 0.0


def _bad(path: Path | str, why: str) -> DataError:
    reason = " ".join(why.split())
    return DataError(
        f"{path} is not a calibration: {reason}",
        fix="packwise calibrate STORE GOLDENS, or remove the file",
    )
