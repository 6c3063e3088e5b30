"""What each leg is worth in a store, measured on the store itself.

A build takes sentences out of some passages and searches for them. How often each leg finds the
passage that is left shows which one to trust: an English embedder finds nothing in Thai, and
numbers and codes are found by their words. The profile is kept per language, because one pack
may hold several. It also measures the scale of an embedder that the model table does not know:
the cosines of questions from elsewhere, and of sentences on the passages they come from.

The profile of a pack lies beside its manifest, that of another store in the home folder. A store
without one is searched as if it had never been measured.
"""

from __future__ import annotations

import json
import math
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from packwise.documents import Passage, content_hash
from packwise.errors import MALFORMED, DataError
from packwise.language.analyzer import terms
from packwise.language.sentences import sentence_spans
from packwise.models.base import Embedder, OnEmbedded, Vectors
from packwise.models.onnx import spread
from packwise.models.table import known_model
from packwise.settings import data_folder
from packwise.stores.base import DocumentSummary, Key, Match, Store, StoreInfo, WriteSummary
from packwise.stores.bm25 import K1, B, idf
from packwise.stores.durable import PreparedFile, open_regular, writing
from packwise.stores.pack.folder import PROFILE

_MOST_BYTES = 16 << 20
RULES = "probe-3"
"""The version of how a store is measured; a profile by other rules is not used."""

FEWEST_PROBES = 12
"""With fewer, chance decides which leg is ahead."""

_USUAL_PROBES = 40
_MOST_PROBES = 120
_PASSAGES_PER_PROBE = 20
"""Beyond 800 passages, so that measuring stays a small part of embedding them."""

_MOST_LANGUAGES = 8
_SENTENCE = (20, 400)
_FEWEST_TERMS = 4
_FOUND = 10
"""A passage further down than this counts as not found."""

_HOLDS = 0.8
"""A passage with this share of a sentence's terms holds the sentence."""

_CHANGED = 0.2
"""A store is measured again when more of its documents than this share have changed."""

# Questions from many fields; few of them can be on the topic of any one store.
_ELSEWHERE = (
    "How long should sourdough rest before baking?",
    "Which planet has the most moons?",
    "What did the treaty say about fishing rights?",
    "How do I change a bicycle tyre?",
    "Who painted the ceiling of the chapel?",
    "What is the boiling point of ethanol?",
    "When does the museum open on Sundays?",
    "Which vaccine is given to newborn children?",
    "How are interest rates set by a central bank?",
    "Why do leaves turn red in autumn?",
    "What is the offside rule in football?",
    "How do I declare a variable in a shell script?",
    "Which key is the symphony written in?",
    "How far apart should tomato plants be?",
    "What is the capital of Mongolia?",
    "Who is liable for damage to a rented flat?",
)
# Where the two measured cosines lie on the scale of the confidence gate: those of bge-small,
# whose scale is known, were .525 and .765 (models/table.py).
_ELSEWHERE_AT, _OWN_AT = 0.211, 0.638


@dataclass(frozen=True, slots=True)
class LegProfile:
    """How the legs did in one language.

    vector, keyword  mean reciprocal rank of the passages whose sentences were asked
    best, spread     median and standard deviation of the best cosine of these sentences
    scale            the usual spread of the embedder's cosines; the one above if it is not known
    """

    probes: int
    vector: float
    keyword: float
    best: float
    spread: float
    scale: float

    @property
    def keyword_lead(self) -> float:
        """The logarithm of how much more the keyword leg finds; one probe is added to both."""
        return math.log((self.probes * self.keyword + 1.0) / (self.probes * self.vector + 1.0))


@dataclass(frozen=True, slots=True)
class Profile:
    """What was measured. ``changed`` counts the documents that changed since. ``gate`` has the
    knots (cosine, similarity) of an embedder without a scale of its own."""

    embedder_version: str
    languages: Mapping[str, LegProfile]
    gate: tuple[tuple[float, float], ...] = ()
    changed: int = 0
    rules: str = RULES

    def legs(self, lang: str) -> LegProfile | None:
        """The legs in a language, else in the store as a whole."""
        return self.languages.get(lang) or self.languages.get("")


class _Probe(NamedTuple):
    key: Key
    passage: Passage
    sentence: str
    rest: Passage


@dataclass(slots=True)
class _Measured:
    vector: list[float] = field(default_factory=list[float])
    keyword: list[float] = field(default_factory=list[float])
    best: list[float] = field(default_factory=list[float])

    def add(self, other: _Measured) -> None:
        self.vector += other.vector
        self.keyword += other.keyword
        self.best += other.best

    def profile(self, scale: float | None) -> LegProfile:
        spread = round(max(float(np.std(self.best)), 0.01), 4)
        return LegProfile(
            probes=len(self.best),
            vector=round(float(np.mean(self.vector)), 4),
            keyword=round(float(np.mean(self.keyword)), 4),
            best=round(float(np.median(self.best)), 4),
            spread=spread,
            scale=scale or spread,
        )


def measure(store: Store, embedder: Embedder, threads: int = 1) -> Profile:
    """Measure a store; the profile of a store without enough sentences has no languages."""
    by_language: dict[str, list[DocumentSummary]] = {}
    for summary in store.documents():
        by_language.setdefault(summary.lang, []).append(summary)
    largest = sorted(by_language, key=lambda lang: -_passages(by_language[lang]))[:_MOST_LANGUAGES]
    languages: dict[str, LegProfile] = {}
    model = known_model(embedder.name)
    scale = model.cosine_spread if model else None
    whole = _Measured()
    for lang in largest:
        found = _measured(store, embedder, list(_probes(store, by_language[lang])), threads)
        if len(found.best) >= FEWEST_PROBES:
            languages[lang] = found.profile(scale)
        whole.add(found)
    if len(whole.best) >= FEWEST_PROBES:
        languages[""] = whole.profile(scale)
    gate: tuple[tuple[float, float], ...] = ()
    if embedder.similarity(1.0) is None and "" in languages:
        gate = _gate(store, embedder, languages[""].best)
    return Profile(embedder.version, languages, gate)


def _passages(documents: Sequence[DocumentSummary]) -> int:
    return sum(document.passages for document in documents)


def _probes(store: Store, documents: Sequence[DocumentSummary]) -> Iterator[_Probe]:
    """Sentences of passages at even steps, each with the passage that is left without it."""
    wanted = min(_MOST_PROBES, max(_USUAL_PROBES, _passages(documents) // _PASSAGES_PER_PROBE))
    return islice(_candidates(store, documents, wanted), wanted)


def _candidates(
    store: Store, documents: Sequence[DocumentSummary], wanted: int
) -> Iterator[_Probe]:
    # Twice as many steps as probes, since some passages have no sentence to spare.
    every = max(1.0, _passages(documents) / (2 * wanted))
    at, due = 0, 0.0
    for document in documents:
        past = at + document.passages
        if past > due:
            passages = store.document_passages(document.id)
            while due < past and int(due) - at < len(passages):
                key, passage = passages[int(due) - at]
                due += every
                probe = _probe(key, passage)
                if probe is not None:
                    yield probe
        at = past


def _probe(key: Key, passage: Passage) -> _Probe | None:
    text = passage.text
    spans = [s for s in sentence_spans(text) if _SENTENCE[0] <= s[1] - s[0] <= _SENTENCE[1]]
    if len(spans) < 2:
        return None
    start, end = spans[zlib.crc32(text.encode(errors="replace")) % len(spans)]
    sentence = text[start:end]
    if len(set(terms(sentence, passage.lang))) < _FEWEST_TERMS:
        return None
    rest = replace(passage, text=f"{text[:start]}{text[end:]}".strip())
    return _Probe(key, passage, sentence, rest)


def _measured(
    store: Store, embedder: Embedder, probes: Sequence[_Probe], threads: int
) -> _Measured:
    if not probes:
        return _Measured()
    left = embedder.embed_passages([probe.rest.indexed_text for probe in probes])
    found: list[tuple[float, float, float]] = [(0.0, 0.0, 0.0)] * len(probes)

    def ask(at: int) -> None:
        found[at] = _asked(store, embedder, probes[at], left[at])

    spread(range(len(probes)), ask, min(threads, len(probes)))
    return _Measured(*map(list, zip(*found, strict=True)))


def _asked(
    store: Store, embedder: Embedder, probe: _Probe, left: Vectors
) -> tuple[float, float, float]:
    """What one sentence shows: the reciprocal ranks of the legs, and the best cosine."""
    question = embedder.embed_query(probe.sentence)
    own = float(question @ left)
    better = _better(store, probe, own, store.vector_search(question, 2 * _FOUND))
    vector, best = _reciprocal_rank(own, better), max(own, *better, 0.0)
    asked = list(dict.fromkeys(terms(probe.sentence, probe.passage.lang)))
    own = _bm25(store, asked, probe)
    better = _better(store, probe, own, store.keyword_search(asked, 2 * _FOUND))
    return vector, _reciprocal_rank(own, better), best


def _better(store: Store, probe: _Probe, own: float, matches: Sequence[Match]) -> list[float]:
    """The scores above ``own`` of matches that do not hold the sentence. Another version of the
    passage, as in a page and its source, holds it in nearly the same words."""
    above = [match for match in matches if match.score > own and match.key != probe.key]
    passages = store.passages([match.key for match in above])
    asked = set(terms(probe.sentence, probe.passage.lang))
    return [
        match.score
        for match, passage in zip(above, passages, strict=True)
        if passage is not None
        and len(asked & set(terms(passage.text, passage.lang))) < _HOLDS * len(asked)
    ]


def _reciprocal_rank(own: float, better: Sequence[float]) -> float:
    rank = 1 + len(better)
    return 1.0 / rank if own > 0 and rank <= _FOUND else 0.0


def _bm25(store: Store, asked: Sequence[str], probe: _Probe) -> float:
    """The score that the rest of the passage would have in the store."""
    statistics = store.term_statistics(asked)
    counts = Counter(terms(probe.rest.indexed_text, probe.rest.lang))
    length = sum(counts.values()) / max(statistics.average_length, 1e-9)
    return sum(
        idf(statistics.passages, statistics.frequency.get(term, 0))
        * (K1 + 1.0)
        * counts[term]
        / (counts[term] + K1 * (1.0 - B + B * length))
        for term in asked
        if counts[term]
    )


def _gate(store: Store, embedder: Embedder, own: float) -> tuple[tuple[float, float], ...]:
    """Knots from cosines to the scale of the confidence gate; none where the two cosines do not
    differ, because then no scale would tell the store's topics from others."""
    best = [_best(store, embedder.embed_query(question)) for question in _ELSEWHERE]
    elsewhere = max(0.01, float(np.median(best)))
    if own - elsewhere < 0.05 or own >= 1.0:
        return ()
    return ((0.0, 0.0), (round(elsewhere, 4), _ELSEWHERE_AT), (own, _OWN_AT), (1.0, 1.0))


def _best(store: Store, question: Vectors) -> float:
    return max((match.score for match in store.vector_search(question, 1)), default=0.0)


class GaugedEmbedder:
    """An embedder of unknown scale, with the scale that a store's profile measured for it."""

    def __init__(self, embedder: Embedder, gate: Sequence[tuple[float, float]]) -> None:
        self._embedder = embedder
        self._cosines = [cosine for cosine, _ in gate]
        self._similarities = [similarity for _, similarity in gate]

    @property
    def name(self) -> str:
        return self._embedder.name

    @property
    def version(self) -> str:
        return self._embedder.version

    @property
    def dim(self) -> int:
        return self._embedder.dim

    @property
    def window(self) -> int:
        return self._embedder.window

    def embed_passages(self, texts: Sequence[str], progress: OnEmbedded | None = None) -> Vectors:
        return self._embedder.embed_passages(texts, progress)

    def embed_query(self, text: str) -> Vectors:
        return self._embedder.embed_query(text)

    def token_spans(self, text: str) -> list[tuple[int, int]]:
        return self._embedder.token_spans(text)

    def similarity(self, cosine: float) -> float:
        return float(np.interp(cosine, self._cosines, self._similarities))


def update_profile(
    store: Store, embedder: Embedder, changes: WriteSummary, threads: int = 1
) -> None:
    """Measure a store after a build, if it has no profile or much of it has changed."""
    info = store.info()
    known = load_profile(info)
    new = changes.added + changes.changed + changes.removed
    if known is not None and known.changed + new <= _CHANGED * info.documents:
        if new:
            _save(info, replace(known, changed=known.changed + new))
        return
    _save(info, measure(store, embedder, threads))


def copy_profile(origin: StoreInfo, copy: StoreInfo) -> None:
    """Give a copy of a store, with the same vectors, the profile of the original."""
    profile = load_profile(origin)
    if profile is not None:
        _save(copy, profile)


def profile_path(info: StoreInfo) -> Path:
    """The file of a store's profile: in a pack's folder, else in the home folder."""
    if info.kind == "pack":
        return Path(info.location) / PROFILE
    return data_folder() / "profiles" / f"{content_hash(info.location)}.json"


def load_profile(info: StoreInfo) -> Profile | None:
    """The profile of a store; ``None`` if there is none of its embedder and these rules.

    Raises ``DataError`` if the file is not a profile.
    """
    path = profile_path(info)
    try:
        with open_regular(path) as file:
            content: Any = json.loads(file.read(_MOST_BYTES))
        if content["rules"] != RULES or content["embedder_version"] != info.embedder_version:
            return None
        return Profile(
            embedder_version=str(content["embedder_version"]),
            languages={
                str(lang): _legs(cast("dict[str, Any]", values))
                for lang, values in content["languages"].items()
            },
            gate=tuple((float(x), float(y)) for x, y in content["gate"]),
            changed=int(content["changed"]),
        )
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, *MALFORMED) as error:
        reason = " ".join(str(error).split())
        raise DataError(f"{path} is not a profile: {reason}", fix=f"remove {path}") from error


def _legs(values: dict[str, Any]) -> LegProfile:
    """What was measured. A pack may come from someone else: what no measurement gives raises
    ``ValueError`` or ``TypeError``."""
    legs = LegProfile(**values)
    shares = (legs.vector, legs.keyword, abs(legs.best))
    spreads = (legs.spread, legs.scale)
    if not (
        type(legs.probes) is int
        and 0 <= legs.probes < 1 << 40
        and all(0 <= share <= 2 for share in shares)
        and all(1e-6 < spread <= 2 for spread in spreads)
    ):
        raise ValueError("a number is out of range")
    return legs


def _save(info: StoreInfo, profile: Profile) -> None:
    path = profile_path(info)
    with writing(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        content = json.dumps(asdict(profile), indent=2, ensure_ascii=False)
        PreparedFile(path, f"{content}\n".encode()).publish()
