"""Packing: the passages that hold the answer, within a token budget, with a full trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from packwise.candidates import PACKING_POLICIES, Candidate, Results
from packwise.context.api_token_counts import pack_by_api_count
from packwise.context.candidate_pool import (
    DEFAULT_PARAMS,
    EntryBuilder,
    EntryValue,
    RelevanceParams,
    build_pool,
    estimate_relevance,
    term_weights,
    unread_entries,
)
from packwise.context.coverage_policy import select_by_coverage
from packwise.context.layout import ContextDraft, Excerpt, Layout
from packwise.context.reference_policies import lay_out_by_characters, select_by_seed
from packwise.context.selection import PolicyInput, PolicyResult
from packwise.context.trace import (
    Cap,
    Dropped,
    DropReason,
    PackingTrace,
    json_value,
)
from packwise.documents import joined_places
from packwise.errors import UsageError, expect
from packwise.language.untrusted import suspicions
from packwise.models.base import TokenCounter
from packwise.models.tokens import token_counter
from packwise.reading.passage_reading import clauses_of
from packwise.settings import Settings
from packwise.stores.base import Store, one_state
from packwise.stores.languages import language_of
from packwise.trace import Trace


@dataclass(frozen=True, slots=True)
class PackedPassage:
    """One cited piece of a context.

    ``ids`` are the passages it is made of, in reading order, and ``id`` the best ranked of
    them. ``spans`` are the parts of the document it shows: ``document.text[a:b]`` each.
    ``reduced`` says that sentences between or around them were left out. ``tokens`` counts
    the passage with its marker. ``suspicious`` says why its text may be addressed to the model
    that reads it (``language.untrusted``).
    """

    marker: int
    id: str
    ids: tuple[str, ...]
    document: str
    title: str
    section_path: tuple[str, ...]
    url: str
    text: str
    spans: tuple[tuple[int, int], ...]
    tokens: int
    score: float
    reduced: bool
    place: str = ""
    suspicious: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return {name: json_value(getattr(self, name)) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Context(Results[PackedPassage]):
    """A context for one question: its text has ``tokens`` tokens, at most ``budget``.

    It is a sequence of its passages.

    ``confidence`` is that of the search that found the candidates, ``probability`` the
    calibrated chance that the answer is among them, where it is known.
    """

    question: str
    text: str
    tokens: int
    budget: int
    passages: tuple[PackedPassage, ...]
    trace: PackingTrace
    confidence: float = 0.0
    probability: float | None = None

    def __str__(self) -> str:
        return self.text

    def results(self) -> tuple[PackedPassage, ...]:
        """The passages."""
        return self.passages

    def to_dicts(self) -> list[dict[str, Any]]:
        """The passages as ``packwise context --json`` prints them."""
        return [passage.as_dict() for passage in self.passages]

    def caption(self) -> str:
        """The question, for the HTML view."""
        return f"{self.question} ({self.tokens} of {self.budget} tokens)"

    def as_dict(self) -> dict[str, Any]:
        """The context as ``packwise context --json`` prints it."""
        return {
            "question": self.question,
            "text": self.text,
            "tokens": self.tokens,
            "budget": self.budget,
            "passages": self.to_dicts(),
            "trace": self.trace.as_dict(),
            "confidence": round(self.confidence, 6),
            "probability": None if self.probability is None else round(self.probability, 6),
        }

    def save_trace(self, settings: Settings, search: Trace | None = None) -> None:
        """Write the trace, and that of the search, to disk if ``RETRIEVAL_TRACE`` is on."""
        if settings.retrieval_trace:
            self.trace.save(settings, search)


def pack(
    question: str,
    candidates: Sequence[Candidate],
    *,
    store: Store,
    settings: Settings,
    counter: TokenCounter | None = None,
    budget: int | None = None,
    policy: str | None = None,
    relevance_params: RelevanceParams = DEFAULT_PARAMS,
) -> Context:
    """Pack the candidates for a question into a context of at most ``budget`` tokens.

    The tokens are those of the text as returned, with titles, markers and line breaks, as
    ``counter`` counts them (by default that of ``settings.tokenizer_model``; if
    ``settings.token_counts`` is ``api``, the model's own count). No text is shown twice. No
    sentence is cut, unless none fits: then clauses of the best passage are shown. Every
    candidate that is not in has one reason in the trace, and equal input gives an equal
    trace. Raises ``UsageError`` for a budget below 0 or an unknown policy.
    """
    budget = settings.context_token_budget if budget is None else budget
    policy = policy or settings.packing_policy
    expect(budget, int, "a token budget is a whole number")
    if budget < 0:
        raise UsageError(f"a token budget is 0 or more, not {budget}")
    if policy not in PACKING_POLICIES:
        raise UsageError(f"policy is one of {', '.join(PACKING_POLICIES)}, not {policy!r}")

    builder = EntryBuilder(question, settings, language_of(question, store))

    def pack_with(by: TokenCounter) -> Context:
        packing = _Packing(builder, store, by, settings, budget, policy)
        with one_state(store):
            if policy == "baseline":
                return packing.by_characters(candidates)
            return packing.by_policy(candidates, relevance_params)

    if counter is None and settings.token_counts == "api":
        return pack_by_api_count(pack_with, settings.tokenizer_model, budget)
    return pack_with(counter or token_counter(settings.tokenizer_model))


@dataclass(frozen=True, slots=True)
class _Packing:
    """One call of ``pack``."""

    builder: EntryBuilder
    store: Store
    counter: TokenCounter
    settings: Settings
    budget: int
    policy: str

    def by_policy(self, candidates: Sequence[Candidate], params: RelevanceParams) -> Context:
        """Select from what is neither stub nor duplicate."""
        pool = build_pool(self.builder, candidates)
        weights = term_weights(self.builder.question, self.store)
        relevance = estimate_relevance(pool.entries, weights, params)
        select = select_by_seed if self.policy == "seed" else select_by_coverage
        given = PolicyInput(
            self.builder, pool, relevance, self.store, self.counter, self.settings, self.budget
        )
        result = select(given)
        layout, tokens = self._within_budget(result.draft)
        warnings: list[str] = []
        if pool.entries and not layout.excerpts:
            # Something is better than nothing: the best passage by clauses instead of sentences.
            first, *others = pool.entries
            entries = (first._replace(reading=clauses_of(first.passage)), *others)
            relevance = estimate_relevance(entries, weights, params)
            given = replace(given, pool=replace(pool, entries=entries), relevance=relevance)
            result = select(given)
            layout, tokens = self._within_budget(result.draft)
            said = "only clauses of the best passage are" if layout.excerpts else "nothing is"
            warnings.append(f"no sentence fits a budget of {self.budget} tokens: {said} shown")
        draft = result.draft
        return self._context(
            layout,
            tokens,
            {draft.entries[i].id: result.values[i] for i in draft.selected()},
            sorted((*pool.dropped, *result.skipped, *_dropped(result)), key=lambda one: one.rank),
            method=result.method,
            unfiltered=pool.unfiltered,
            caps=result.caps,
            warnings=warnings,
            piece_tokens=draft.piece_tokens(),
        )

    def by_characters(self, candidates: Sequence[Candidate]) -> Context:
        """Select by an estimate, as earlier systems did."""
        entries, copies = unread_entries(candidates)
        layout = lay_out_by_characters(entries, self.counter, self.budget)
        left = entries[len(layout.excerpts) :]
        dropped = [*copies, *(entry.dropped(DropReason.OVER_BUDGET) for entry in left)]
        return self._context(
            layout,
            self.counter.count(layout.text),
            {},
            sorted(dropped, key=lambda one: one.rank),
            method="characters",
            unfiltered=True,
            piece_tokens=self.counter.count_many(layout.pieces),
        )

    def _within_budget(self, draft: ContextDraft) -> tuple[Layout, int]:
        """The layout of a draft and its tokens, counted on the text as a whole.

        The pieces were counted one by one. Should a tokenizer count the whole as more, the
        picks of lowest value per token are removed until the text fits.
        """
        while True:
            layout = draft.layout()
            tokens = self.counter.count(layout.text) if layout.pieces else 0
            if tokens <= self.budget:
                return layout, tokens
            draft.remove_lowest()

    def _context(
        self,
        layout: Layout,
        tokens: int,
        values: Mapping[str, EntryValue],
        dropped: Sequence[Dropped],
        *,
        method: str,
        unfiltered: bool,
        piece_tokens: Sequence[int],
        caps: Sequence[Cap] = (),
        warnings: Sequence[str] = (),
    ) -> Context:
        selected = tuple(
            part.entry.selected(marker, added, shown, values.get(part.entry.id, EntryValue()))
            for marker, excerpt in enumerate(layout.excerpts, start=1)
            for part, added, shown in zip(
                excerpt.parts, self.counter.count_many(excerpt.added), excerpt.shown, strict=True
            )
        )
        trace = PackingTrace(
            question=self.builder.question,
            question_kind=self.builder.kind.value,
            policy=self.policy,
            method=method,
            tokenizer=self.counter.name,
            exact=self.counter.exact,
            budget=self.budget,
            tokens=tokens,
            header_tokens=max(0, tokens - sum(one.tokens for one in selected)),
            coverage=min(1.0, sum((one.value for one in selected), 0.0)),
            unfiltered=unfiltered,
            settings=_packing_settings(self.settings),
            selected=selected,
            dropped=tuple(dropped),
            caps=tuple(caps),
            warnings=(*warnings, *_suspicion_lines(layout.excerpts)),
        )
        passages = tuple(
            _packed_passage(marker, excerpt, piece_tokens[place])
            for marker, (excerpt, place) in enumerate(
                zip(layout.excerpts, layout.blocks, strict=True), start=1
            )
        )
        return Context(trace.question, layout.text, tokens, self.budget, passages, trace)


def _suspicion_lines(excerpts: Sequence[Excerpt]) -> list[str]:
    return [
        f"passage [{marker}] may be addressed to the model that reads it: {', '.join(reasons)}"
        for marker, excerpt in enumerate(excerpts, start=1)
        if (reasons := _suspicious(excerpt))
    ]


def _dropped(result: PolicyResult) -> list[Dropped]:
    dropped: list[Dropped] = []
    for i, entry in enumerate(result.draft.entries):
        if entry.attached_to is None and not result.draft.units[i]:
            reason, of = result.reasons.get(i, (DropReason.OVER_BUDGET, None))
            value = result.values[i]
            numbers = {"novelty": value.novelty, "mass": value.mass, "tokens": value.cost}
            dropped.append(entry.dropped(reason, of, **numbers))
    return dropped


def _packed_passage(marker: int, excerpt: Excerpt, tokens: int) -> PackedPassage:
    # An attached neighbour has its host's rank and no score of its own.
    best = min(
        (part.entry for part in excerpt.parts),
        key=lambda entry: (entry.rank, entry.attached_to is not None),
    )
    passage = excerpt.parts[0].entry.passage
    return PackedPassage(
        marker=marker,
        id=best.id,
        ids=tuple(part.entry.id for part in excerpt.parts),
        document=passage.document,
        title=passage.doc_title,
        section_path=passage.section_path,
        url=passage.url,
        text=excerpt.text,
        spans=excerpt.spans,
        tokens=tokens,
        score=best.final,
        reduced=excerpt.reduced,
        place=joined_places(part.entry.passage.place for part in excerpt.parts),
        suspicious=_suspicious(excerpt),
    )


def _suspicious(excerpt: Excerpt) -> tuple[str, ...]:
    texts = (part.entry.passage.indexed_text for part in excerpt.parts)
    return tuple(dict.fromkeys(reason for text in texts for reason in suspicions(text)))


def _packing_settings(settings: Settings) -> dict[str, Any]:
    return {
        "per_document_cap": settings.packing_per_doc_cap,
        "per_section_cap": settings.packing_per_section_cap,
        "novelty_alpha": settings.packing_novelty_alpha,
        "answerability_bonus": settings.packing_answerability_bonus,
        "reunification": settings.section_reunification,
        "token_price": settings.packing_token_price,
        "quality_threshold": settings.packing_quality_threshold,
    }
