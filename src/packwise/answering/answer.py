"""What an answer is: how it is asked for, the passages it cites, its entities and facts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from packwise.answering.few_shot import FewShot
from packwise.candidates import (
    EVERYTHING,
    Candidate,
    Expansion,
    Filter,
    Fusion,
    GraphRanking,
    Mode,
    PackingPolicy,
    Reranker,
)
from packwise.context.packer import Context, PackedPassage
from packwise.documents import Passage
from packwise.language.key_matcher import phrases
from packwise.language.names import Kind
from packwise.language.untrusted import suspicions
from packwise.models.base import CrossEncoder, Embedder, SpanReader
from packwise.models.llm import NO_USAGE, LanguageModel, Usage
from packwise.retrieval.calibration import Calibration
from packwise.retrieval.documents import MAX_SECTIONS, MIN_RELEVANCE
from packwise.retrieval.ranking import Ranking
from packwise.settings import Settings
from packwise.stores.base import Key, Store
from packwise.stores.knowledge import Entity
from packwise.trace import Trace

VECTOR_SEARCH = "vector_search"
GATED = "confidence_gated_fallback"
GRAPH_QUERY = "graph_query"
CYPHER = "cypher"

EXTRACTIVE = "extractive"
NOT_ANSWERED = "none"

Certainty = Literal["likely", "unsure", "not covered"]

LIKELY = 0.75
"""From this probability on an answer is called likely."""
NOT_COVERED = 0.1
"""Below this probability no answer is shown."""

_NOT_COVERED = "These documents do not cover the question."
_CLOSEST = "Here is the closest passage, from {where}:"
_NOTHING_FOUND = "These documents do not cover the question: nothing was found in them."
_CLOSEST_CHARACTERS = 300

SYNTHESIS_MAX_TOKENS = 1024
MOST_ENTITIES = 20
_INSTRUCTIONS = frozenset(
    "press click enter choose run use see note please try remember consider".split()
)
"""Verbs that begin an instruction and hardly ever a name."""
MOST_FACTS = 20

_NEIGHBOURS = 2
"""How far from a passage packing attaches others to it."""


@dataclass(frozen=True, slots=True)
class Citation:
    """A passage that the answer cites as ``[marker]``.

    ``ids`` are the stored passages it consists of, ``id`` the best ranked of them. A finding of
    a graph query can be cited too; it has neither passages nor a document.
    """

    marker: int
    id: str
    ids: tuple[str, ...]
    document: str
    title: str
    section_path: tuple[str, ...]
    url: str
    text: str
    place: str = ""
    suspicious: tuple[str, ...] = ()

    @classmethod
    def of(cls, passage: PackedPassage) -> Citation:
        return cls(
            marker=passage.marker,
            id=passage.id,
            ids=passage.ids,
            document=passage.document,
            title=passage.title or passage.document,
            section_path=passage.section_path,
            url=passage.url,
            text=passage.text,
            place=passage.place,
            suspicious=passage.suspicious,
        )

    @classmethod
    def of_passage(cls, marker: int, passage: Passage) -> Citation:
        """A stored passage that is not in the context."""
        return cls(
            marker=marker,
            id=passage.id,
            ids=(passage.id,),
            document=passage.document,
            title=passage.doc_title or passage.document,
            section_path=passage.section_path,
            url=passage.url,
            text=passage.text,
            place=passage.place,
            suspicious=suspicions(passage.indexed_text),
        )

    def as_dict(self) -> dict[str, Any]:
        lists = ("ids", "section_path", "suspicious")
        return {**asdict(self), **{name: list(getattr(self, name)) for name in lists}}


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer with its sources and its trace.

    ``query_type`` is ``vector_search``, ``graph_query`` or ``cypher``, or
    ``confidence_gated_fallback`` when the store holds nothing on the question. ``answered_by``
    is the name of the language model, ``extractive`` for sentences of the documents, ``none``
    if there is no answer. ``degraded`` has one line for each step that failed or was skipped.

    ``probability`` is that of the answer being right, ``certainty`` the word for it: ``likely``,
    ``unsure``, or ``not covered`` if the store does not answer. ``confidence`` is that of the
    search, on the scale of the confidence gate, ``search_probability`` the calibrated chance
    that the search found the answer, if it is known.
    """

    question: str
    text: str
    query_type: str
    answered_by: str
    citations: tuple[Citation, ...] = ()
    entities: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    usage: Usage = NO_USAGE
    confidence: float = 0.0
    probability: float = 0.0
    search_probability: float | None = None
    degraded: tuple[str, ...] = ()
    trace: Trace | None = None
    context: Context | None = None
    cypher_query: str | None = None

    @property
    def certainty(self) -> Certainty:
        """How sure the answer is, in words that one can act on."""
        if self.query_type == GATED or self.answered_by == NOT_ANSWERED:
            return "not covered"
        return "likely" if self.probability >= LIKELY else "unsure"

    @property
    def sources(self) -> tuple[str, ...]:
        """The titles of the cited documents, each once, in the order of first use."""
        return tuple(dict.fromkeys(c.title for c in self.citations if c.document))

    def as_short_dict(self) -> dict[str, Any]:
        """The answer as ``packwise ask --json`` prints it: ``as_dict`` without the trace and the
        texts of the citations."""
        whole = self.as_dict()
        del whole["trace"]
        kept = ("marker", "id", "document", "title", "section_path", "url", "place")
        whole["citations"] = [{name: c[name] for name in kept} for c in whole["citations"]]
        return whole

    def as_dict(self) -> dict[str, Any]:
        """The answer as ``packwise ask --json --trace`` prints it."""
        trace = self.trace.as_dict() if self.trace is not None else {}
        trace["packing"] = self.context.trace.as_dict() if self.context is not None else None
        return {
            "answer": self.text,
            "sources": list(self.sources),
            "entities": list(self.entities),
            "facts": list(self.facts),
            "cypher_query": self.cypher_query,
            "query_type": self.query_type,
            "token_usage": self.usage.as_dict(),
            "probability": round(self.probability, 6),
            "certainty": self.certainty,
            "confidence": round(self.confidence, 6),
            "degraded": list(self.degraded),
            "citations": [citation.as_dict() for citation in self.citations],
            "answered_by": self.answered_by,
            "question": self.question,
            "trace": trace,
        }


@dataclass(frozen=True, slots=True)
class Finding:
    """Text that does not come from a passage, which the answer may use and cite."""

    title: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRequest:
    """How to answer a question.

    max_results      articles the answer may use (1 to 20)
    budget           most tokens to send to the model, or in the context without one
    expansion        other phrasings: ``off``, from the language model, or from the store
    documents        step 6; without it the first ``max_results`` passages are used
    num_docs, max_sections, min_relevance
                     step 6: most articles (``None`` for ``max_results``), most sections of
                     each, and the least similarity of a linked article
    keep             which texts of passages are used, if there are any; ``None`` for all
    graph, rerank    as in ``Library.search``; ``None`` uses the settings
    few_shot         show the model examples, from ``few_shot_path`` or the pack's folder
    exclude          questions whose examples must not be shown
    threshold        confidence below which the store does not answer; ``None`` uses that of
                     the store's calibration, else the setting
    second_look      read the passages before refusing a question that is below the setting's
                     threshold, but not far off
    synthesis        let a language model write the answer, if there is one
    llm              that model; ``None`` uses the library's
    max_tokens       the longest answer it may write
    extra            passages to consider beside those that search finds; ``findings`` likewise
    notes, spent     lines for ``degraded`` and tokens used before answering
    """

    max_results: int = 5
    budget: int | None = None
    policy: PackingPolicy | None = None
    mode: Mode = "hybrid"
    fusion: Fusion | None = None
    where: Filter = EVERYTHING
    expansion: Expansion = "off"
    documents: bool = True
    num_docs: int | None = None
    max_sections: int = MAX_SECTIONS
    min_relevance: float = MIN_RELEVANCE
    keep: Callable[[str], bool] | None = None
    graph: GraphRanking | bool | None = None
    rerank: Reranker | None = None
    few_shot: bool = True
    few_shot_path: Path | None = None
    exclude: frozenset[str] = frozenset()
    threshold: float | None = None
    second_look: bool = True
    synthesis: bool = True
    llm: LanguageModel | None = None
    max_tokens: int = SYNTHESIS_MAX_TOKENS
    extra: tuple[Key, ...] = ()
    findings: tuple[Finding, ...] = ()
    query_type: str = VECTOR_SEARCH
    cypher_query: str | None = None
    notes: tuple[str, ...] = ()
    spent: Usage = NO_USAGE


@dataclass(frozen=True, slots=True)
class Tools:
    """What answering needs; the functions load what they return when first called."""

    store: Store
    settings: Settings
    search: Callable[..., Ranking]
    embedder: Callable[[], Embedder]
    llm: Callable[[], LanguageModel | None]
    few_shot: Callable[[Path | None], FewShot] | None = None
    cross_encoder: Callable[[], CrossEncoder] | None = None
    calibration: Callable[[], Calibration] | None = None
    span_reader: Callable[[], SpanReader | None] | None = None


@dataclass(frozen=True, slots=True)
class NumberedPassage:
    """A passage that an answer is made from and cites by its ``marker``, from 1.

    ``score`` is how well it fits the question, 0..1.
    """

    marker: int
    id: str
    title: str
    heading: str
    text: str
    score: float = 0.0


def from_context(context: Context, scores: Mapping[str, float]) -> tuple[NumberedPassage, ...]:
    """The passages of a context with their markers; ``scores`` are by passage id."""
    return tuple(
        NumberedPassage(
            marker=passage.marker,
            id=passage.id,
            title=passage.title or passage.document,
            heading=" > ".join(
                dict.fromkeys(
                    part
                    for part in (passage.title or passage.document, *passage.section_path)
                    if part
                )
            ),
            text=passage.text,
            # The best score of the stored passages; attached ones have none.
            score=max((scores[i] for i in passage.ids if i in scores), default=passage.score),
        )
        for passage in context.passages
    )


def titles_of(passages: Sequence[NumberedPassage], markers: Iterable[int]) -> tuple[str, ...]:
    """The titles of the documents with these markers, each once, in that order."""
    by_marker = {item.marker: item.title for item in passages}
    return tuple(dict.fromkeys(by_marker[m] for m in markers if m in by_marker))


def refusal(hits: Sequence[Candidate]) -> str:
    """What is said instead of an answer: that there is none, and the closest passage."""
    if not hits:
        return _NOTHING_FOUND
    passage = hits[0].passage
    where = " > ".join(
        dict.fromkeys([passage.doc_title or passage.document, *passage.section_path])
    )
    text = " ".join(passage.text.split())
    if len(text) > _CLOSEST_CHARACTERS:
        text = text[:_CLOSEST_CHARACTERS].rsplit(" ", 1)[0] + " …"
    return f"{_NOT_COVERED} {_CLOSEST.format(where=where)}\n\n> {text}"


def entities_and_facts(
    context: Context,
    candidates: Iterable[Candidate],
    store: Store,
    cited: Sequence[int] = (),
    where: Filter = EVERYTHING,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What the passages of a context mention and say, cited passages first.

    Entities that the question names come first, then those that most passages mention. A link
    counts as a mention of its target's title. With a filter, the target may be hidden from the
    caller, so only names in the text of the context are returned.
    """
    keys = _keys(context, {hit.passage.id: hit.key for hit in candidates}, store)
    first = [m for m in cited if m in keys] + [m for m in keys if m not in cited]
    ordered = list(dict.fromkeys(key for marker in first for key in keys[marker]))
    if not ordered:
        return (), ()
    entities = _entities(context.question, ordered, store)
    if where:
        text = context.text.casefold()
        entities = [name for name in entities if name.casefold() in text]
    return tuple(entities[:MOST_ENTITIES]), _facts(ordered, store)


def _keys(context: Context, known: Mapping[str, Key], store: Store) -> dict[int, list[Key]]:
    """The stored passages of each marker; attached ones are looked up."""
    by_id = dict(known)
    for entry in context.trace.selected:
        host = known.get(entry.attached_to or "")
        if entry.id not in by_id and host is not None:
            near = store.neighbours(host, _NEIGHBOURS, _NEIGHBOURS)
            by_id.update((passage.id, key) for key, passage in near)
    return {
        passage.marker: [by_id[name] for name in passage.ids if name in by_id]
        for passage in context.passages
    }


def _entities(question: str, keys: Sequence[Key], store: Store) -> list[str]:
    held = store.entities_of(keys)
    found: dict[str, Entity] = {}
    named: Counter[str] = Counter()
    for key in keys:
        for entity in held[key].entities if key in held else ():
            found.setdefault(entity.key, entity)
            named[entity.key] += 1
    asked = set(phrases(question))
    shown = (e for e in found.values() if e.key in asked or not _is_instruction(e))
    # Stable: entities with equal counts keep the order of the passages.
    ordered = sorted(shown, key=lambda e: (e.key not in asked, -named[e.key]))
    return [entity.label or entity.key for entity in ordered]


def _is_instruction(entity: Entity) -> bool:
    """Whether a capital only opened a sentence, as in "Press CTRL". Searches still use it."""
    first, _, rest = entity.key.partition(" ")
    return bool(rest) and entity.kind == Kind.NAME and first in _INSTRUCTIONS


def _facts(keys: Sequence[Key], store: Store) -> tuple[str, ...]:
    stored = store.facts_of(keys)
    texts = (" ".join(fact.text.split()) for key in keys for fact in stored.get(key, ()))
    return tuple(dict.fromkeys(texts))[:MOST_FACTS]
