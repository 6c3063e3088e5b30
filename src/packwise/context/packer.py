"""Packing: the passages that carry the answer, within a token budget, with a full record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from packwise.candidates import PACKING_POLICIES, Candidate
from packwise.context.baseline import fill_by_characters
from packwise.context.coverage import fill_by_coverage
from packwise.context.draft_context import Draft
from packwise.context.evidence import STRENGTHS, Strengths, term_weights, weigh
from packwise.context.layout import Layout, Part, Stretch
from packwise.context.policy_result import Judgement, Outcome
from packwise.context.pool import Reader, drop, prepare, unread
from packwise.context.seed_policy import fill_by_seed
from packwise.context.token_cost import CAUTION, MOST_CALLS, Scaled, api_count
from packwise.context.trace import Dropped, Knobs, PackingTrace, Reason, Selected
from packwise.errors import UsageError
from packwise.models.base import TokenCounter
from packwise.models.tokens import token_counter
from packwise.settings import Settings
from packwise.stores.base import Store

# A context this full by the API's count is not packed again for the rest.
_WELL_FILLED = 0.9


@dataclass(frozen=True, slots=True)
class PackedPassage:
    """One cited piece of a context.

    ``ids`` are the passages it is made of, in reading order, and ``id`` the best ranked of
    them. ``spans`` are the stretches of the document it shows: ``document.text[a:b]`` each.
    ``reduced`` says that sentences between or around them were left out. ``tokens`` counts
    the passage with its marker.
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

    def as_dict(self) -> dict[str, Any]:
        return {
            "marker": self.marker,
            "id": self.id,
            "ids": list(self.ids),
            "document": self.document,
            "title": self.title,
            "section_path": list(self.section_path),
            "url": self.url,
            "text": self.text,
            "spans": [list(span) for span in self.spans],
            "tokens": self.tokens,
            "score": round(self.score, 6),
            "reduced": self.reduced,
        }


@dataclass(frozen=True, slots=True)
class Context:
    """A context for one question: its text has ``tokens`` tokens, at most ``budget``.

    ``confidence`` is that of the search the candidates came from, ``probability`` the
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

    def as_dict(self) -> dict[str, Any]:
        """The context as ``packwise context --json`` prints it."""
        return {
            "question": self.question,
            "text": self.text,
            "tokens": self.tokens,
            "budget": self.budget,
            "passages": [passage.as_dict() for passage in self.passages],
            "trace": self.trace.as_dict(),
            "confidence": round(self.confidence, 6),
            "probability": None if self.probability is None else round(self.probability, 6),
        }


def pack(
    question: str,
    candidates: Sequence[Candidate],
    *,
    store: Store,
    settings: Settings,
    counter: TokenCounter | None = None,
    budget: int | None = None,
    policy: str | None = None,
    strengths: Strengths = STRENGTHS,
) -> Context:
    """Pack the candidates for a question into a context of at most ``budget`` tokens.

    The tokens are those of the text as returned, with titles, markers and line breaks, by
    ``counter`` (of ``settings.tokenizer_model``, if none is given; with
    ``settings.token_counts`` at ``api`` by the model's own count). No sentence is cut and
    no text is shown twice. Every candidate that is not in has one reason in the trace, and
    equal input gives an equal trace. ``strengths`` say where the answer is expected. Raises
    ``UsageError`` for a budget below 0 or a policy that does not exist.
    """
    budget = settings.context_token_budget if budget is None else budget
    policy = policy or settings.packing_policy
    if budget < 0:
        raise UsageError(f"a token budget is 0 or more, not {budget}")
    if policy not in PACKING_POLICIES:
        raise UsageError(f"policy is one of {', '.join(PACKING_POLICIES)}, not {policy!r}")

    def packed(by: TokenCounter) -> Context:
        packing = _Packing(question, store, by, settings, budget, strengths)
        if policy == "baseline":
            return packing.by_characters(candidates)
        return packing.by_policy(policy, candidates)

    if counter is None and settings.token_counts == "api":
        return _by_api(packed, settings.tokenizer_model, budget)
    return packed(counter or token_counter(settings.tokenizer_model))


def _by_api(packed: Callable[[TokenCounter], Context], model: str, budget: int) -> Context:
    """A context within the budget by the API's own count of its text."""
    with api_count(model) as count:
        return _by_count(packed, count, model, budget)


def _by_count(
    packed: Callable[[TokenCounter], Context],
    count: Callable[[str], int],
    model: str,
    budget: int,
) -> Context:
    estimate = token_counter(model)
    context = packed(estimate)
    for _ in range(MOST_CALLS):
        if not context.text:
            break
        tokens = count(context.text)
        ratio = tokens / max(1, token_counter("o200k_base").count(context.text))
        full = isinstance(estimate, Scaled) or tokens >= budget * _WELL_FILLED
        if tokens <= budget and full:
            return _counted(context, tokens)
        # Too much, or a margin so careful that more of the answer may fit.
        estimate = Scaled(model, token_counter("o200k_base"), ratio * CAUTION)
        again = packed(estimate)
        if again.text == context.text and tokens <= budget:
            return _counted(context, tokens)
        context = again
    return packed(token_counter(model))


def _counted(context: Context, tokens: int) -> Context:
    trace = replace(context.trace, tokens=tokens, exact=True)
    return replace(context, tokens=tokens, trace=trace)


class _Packing:
    """One call of ``pack``."""

    def __init__(
        self,
        question: str,
        store: Store,
        counter: TokenCounter,
        settings: Settings,
        budget: int,
        strengths: Strengths,
    ) -> None:
        self._strengths = strengths
        self._question = question
        self._store = store
        self._counter = counter
        self._settings = settings
        self._budget = budget
        self._reader = Reader(question, settings)

    def by_policy(self, policy: str, candidates: Sequence[Candidate]) -> Context:
        """Choose from what is neither stub nor duplicate."""
        pool = prepare(self._reader, candidates, self._settings)
        weights = term_weights(self._question, self._store)
        evidence = weigh(pool.entries, weights, self._strengths)
        fill = fill_by_seed if policy == "seed" else fill_by_coverage
        outcome = fill(
            self._reader, pool, evidence, self._store, self._counter, self._settings, self._budget
        )
        layout, tokens = self._within_budget(outcome.draft)
        draft = outcome.draft
        judgements = {draft.entries[i].id: outcome.judgements[i] for i in draft.chosen()}
        selected = self._selected(layout, judgements)
        return self._context(
            layout,
            PackingTrace(
                question=self._question,
                kind=self._reader.kind.value,
                policy=policy,
                method=outcome.method,
                tokenizer=self._counter.name,
                exact=self._counter.exact,
                budget=self._budget,
                tokens=tokens,
                header_tokens=max(0, tokens - sum(s.tokens for s in selected)),
                coverage=min(1.0, sum(s.value for s in selected)),
                unfiltered=pool.unfiltered,
                knobs=_knobs(self._settings),
                selected=selected,
                dropped=tuple(
                    sorted((*pool.dropped, *outcome.aside, *_dropped(outcome)), key=_by_rank)
                ),
                caps=outcome.caps,
            ),
        )

    def by_characters(self, candidates: Sequence[Candidate]) -> Context:
        """Choose by an estimate, as the systems before did."""
        entries = unread(candidates)
        layout = fill_by_characters(entries, self._counter, self._budget)
        selected = self._selected(layout, {})
        tokens = self._counter.count(layout.text)
        return self._context(
            layout,
            PackingTrace(
                question=self._question,
                kind=self._reader.kind.value,
                policy="baseline",
                method="characters",
                tokenizer=self._counter.name,
                exact=self._counter.exact,
                budget=self._budget,
                tokens=tokens,
                header_tokens=max(0, tokens - sum(s.tokens for s in selected)),
                coverage=0.0,
                unfiltered=True,
                knobs=_knobs(self._settings),
                selected=selected,
                dropped=tuple(
                    drop(entry, Reason.OVER_BUDGET) for entry in entries[len(layout.stretches) :]
                ),
                caps=(),
            ),
        )

    def _within_budget(self, draft: Draft) -> tuple[Layout, int]:
        """The layout of a draft and its tokens, counted on the text as a whole.

        The pieces were counted one by one; should a tokenizer count their sum as more, the
        steps of lowest worth per token go until the text fits.
        """
        while True:
            layout = draft.layout()
            tokens = self._counter.count(layout.text) if layout.pieces else 0
            if tokens <= self._budget:
                return layout, tokens
            draft.take_back(draft.lowest())

    def _selected(
        self, layout: Layout, judgements: Mapping[str, Judgement]
    ) -> tuple[Selected, ...]:
        return tuple(
            _selected(part, marker, tokens, shown, judgements.get(part.entry.id, Judgement()))
            for marker, stretch in enumerate(layout.stretches, start=1)
            for part, tokens, shown in zip(
                stretch.parts,
                self._counter.count_many(stretch.shares),
                stretch.shown,
                strict=True,
            )
        )

    def _context(self, layout: Layout, trace: PackingTrace) -> Context:
        counts = self._counter.count_many([layout.pieces[i] for i in layout.blocks])
        passages = tuple(
            _packed(marker, stretch, tokens)
            for marker, (stretch, tokens) in enumerate(
                zip(layout.stretches, counts, strict=True), start=1
            )
        )
        return Context(self._question, layout.text, trace.tokens, self._budget, passages, trace)


def _selected(part: Part, marker: int, tokens: int, shown: int, judgement: Judgement) -> Selected:
    entry = part.entry
    return Selected(
        id=entry.id,
        document=entry.passage.document,
        marker=marker,
        tokens=tokens,
        rank=entry.rank,
        scores=entry.scores,
        quality=entry.quality,
        spared=entry.spared.value if entry.spared else None,
        bonus=entry.answer.bonus,
        features=entry.answer.features,
        novelty=judgement.novelty,
        mass=judgement.mass,
        value=judgement.value,
        units=shown,
        of_units=len(entry.reading.units),
        attached_to=entry.attached_to,
        span=(entry.passage.start, entry.passage.end),
    )


def _by_rank(dropped: Dropped) -> int:
    return dropped.rank


def _dropped(outcome: Outcome) -> list[Dropped]:
    dropped: list[Dropped] = []
    for i, entry in enumerate(outcome.draft.entries):
        if entry.attached_to is None and not outcome.draft.units[i]:
            reason, of = outcome.reasons.get(i, (Reason.OVER_BUDGET, None))
            judged = outcome.judgements[i]
            dropped.append(drop(entry, reason, of, judged.novelty, judged.mass, judged.cost))
    return dropped


def _packed(marker: int, stretch: Stretch, tokens: int) -> PackedPassage:
    # A neighbour that was attached stands at its host's rank without a score of its own.
    best = min(
        (part.entry for part in stretch.parts),
        key=lambda entry: (entry.rank, entry.attached_to is not None),
    )
    passage = stretch.passage
    return PackedPassage(
        marker=marker,
        id=best.id,
        ids=tuple(part.entry.id for part in stretch.parts),
        document=passage.document,
        title=passage.doc_title,
        section_path=passage.section_path,
        url=passage.url,
        text=stretch.text,
        spans=stretch.spans,
        tokens=tokens,
        score=best.final,
        reduced=stretch.reduced,
    )


def _knobs(settings: Settings) -> Knobs:
    return Knobs(
        per_document_cap=settings.packing_per_doc_cap,
        per_section_cap=settings.packing_per_section_cap,
        novelty_alpha=settings.packing_novelty_alpha,
        answerability_bonus=settings.packing_answerability_bonus,
        reunification=settings.section_reunification,
        token_price=settings.packing_token_price,
        quality_threshold=settings.packing_quality_threshold,
    )
