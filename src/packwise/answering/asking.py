"""From a question to an answer: the nine steps in their order.

    expansion (opt-in) -> search, cross-encoder, graph -> confidence gate -> documents
    -> quality filter and packing -> few-shot examples -> synthesis, or sentences

Whatever a language model is asked for can fail; the answer is then made without it and a line
in ``degraded`` says so.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from packwise.answering import synthesis
from packwise.answering.answer import (
    EXTRACTIVE,
    GATED,
    NOBODY,
    Answer,
    Citation,
)
from packwise.answering.evidence import Evidence, from_context
from packwise.answering.extractive import extract
from packwise.answering.few_shot import Example
from packwise.answering.knowledge import known_in
from packwise.answering.prompt import QUESTION_CHARACTERS, clean, synthesis_prompt
from packwise.answering.request import Request, Tools
from packwise.answering.synthesis import Written
from packwise.candidates import EXPANSIONS, Candidate
from packwise.context.layout import GAP, LINE_GAP
from packwise.context.packer import Context, pack
from packwise.context.trace_file import keep_trace
from packwise.errors import ModelError, SettingError, UsageError
from packwise.language.analyzer import terms
from packwise.models.base import CrossEncoder, Embedder, TokenCounter
from packwise.models.llm import NO_USAGE, LanguageModel, Usage
from packwise.models.tokens import token_counter
from packwise.retrieval.documents import Chosen, Scorer, best_articles, with_linked
from packwise.retrieval.expansion import clamp_results, expand, hit_terms, local_alternatives
from packwise.retrieval.pipeline import MOST_TERMS, Ranking
from packwise.trace import Trace

NO_SENTENCE = "The passages that were found hold no sentence that answers this."
NOT_COVERED = (
    "These documents do not cover the question: nothing in them is close enough to it "
    "(confidence {confidence}, at least {threshold} is needed)."
)
NOT_HELD = (
    "These documents probably do not hold the answer: the chance that it is in what was found is "
    "too small (confidence {confidence}, at least {threshold} is needed)."
)
NOTHING_FOUND = "These documents do not cover the question: nothing was found in them."


@dataclass(slots=True)
class _Progress:
    """What has come together so far for one question."""

    trace: Trace = field(default_factory=Trace)
    usage: Usage = NO_USAGE
    confidence: float = 0.0
    probability: float | None = None
    threshold: float = 0.0
    found: bool = False
    spoken: bool = False

    def refusal(self) -> str:
        """Why nobody answers. A calibrated confidence is a chance, another one closeness."""
        if not self.found:
            return NOTHING_FOUND
        sure, needed = self.confidence, self.threshold
        calibrated = self.probability is not None and sure == self.probability
        # Two figures that differ are never told as the same one.
        digits = next((n for n in (2, 3, 4) if f"{sure:.{n}f}" != f"{needed:.{n}f}"), 6)
        return (NOT_HELD if calibrated else NOT_COVERED).format(
            confidence=f"{sure:.{digits}f}", threshold=f"{needed:.{digits}f}"
        )

    def heard(self, pieces: Generator[str, None, Written]) -> Generator[str, None, Written]:
        """The pieces as they come; from the first on there is no taking back."""
        # Closed with the stream, so that who stops listening also hangs up.
        with contextlib.closing(pieces):
            while True:
                try:
                    piece = next(pieces)
                except StopIteration as end:
                    written: Written = end.value
                    return written
                self.spoken = True
                yield piece

    def degrade(self, line: str) -> None:
        if line not in self.trace.degraded:
            self.trace.degraded.append(line)


def ask(tools: Tools, question: str, request: Request) -> Answer:
    """The answer to a question. Raises ``UsageError`` on one that asks nothing."""
    steps = _Asking(tools, question, request).steps(streaming=False)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            answer: Answer = end.value
            return answer


def ask_stream(
    tools: Tools, question: str, request: Request
) -> Generator[str | Answer, None, None]:
    """The answer's text piece by piece as it is written, then the ``Answer`` itself.

    Should the language model break off, the answer that comes last is another than the
    pieces: what counts is the answer. A wrong question is refused at once, not at the first
    piece.
    """
    asking = _Asking(tools, question, request)

    def pieces() -> Generator[str | Answer, None, None]:
        answer = yield from asking.steps(streaming=True)
        yield answer

    return pieces()


class _Asking:
    """One question on its way."""

    def __init__(self, tools: Tools, question: str, request: Request) -> None:
        _check(question, request)
        self._tools = tools
        self._store = tools.store
        self._settings = tools.settings
        self._asked = clean(question)
        if not self._asked.strip():
            raise UsageError("the question is empty", fix="ask with at least one word")
        # What is longer is searched for with all its words, but read as a question only so far.
        self._question = self._asked[:QUESTION_CHARACTERS]
        self._request = request
        self._progress = _Progress(usage=request.spent)
        for line in request.notes:
            self._progress.degrade(line)

    def steps(self, *, streaming: bool) -> Generator[str, None, Answer]:
        model = self._model()
        ranking = self._search(model)
        self._progress.confidence = ranking.confidence
        self._progress.probability = ranking.probability
        self._progress.found = bool(ranking.hits)
        if not self._confident(ranking):
            return (yield from self._gated(model, streaming))
        candidates = self._documents(ranking)
        if model is not None:
            answer = yield from self._synthesis(model, candidates, streaming)
            if answer is not None:
                return answer
        answer = self._extract(candidates)
        if streaming and not self._progress.spoken:
            yield answer.text
        return answer

    def _model(self) -> LanguageModel | None:
        if not self._request.synthesis and self._request.expansion != "llm":
            return None
        if self._request.llm is not None:
            return self._request.llm
        try:
            return self._tools.llm()
        except ModelError as error:
            self._progress.degrade(f"no language model: {error}")
            return None

    def _search(self, model: LanguageModel | None) -> Ranking:
        depth = self._settings.context_candidates
        first = None
        alternatives: tuple[str, ...] = ()
        if self._request.expansion == "llm":
            with self._progress.trace.stage("expansion") as stage:
                if model is None:
                    self._progress.degrade("no query expansion: no language model is configured")
                else:
                    found = expand(self._asked, model)
                    self._progress.usage += found.usage
                    if found.degraded:
                        self._progress.degrade(found.degraded)
                    alternatives = found.alternatives
                stage.note(kind="llm", alternatives=list(alternatives))
        elif self._request.expansion == "local":
            with self._progress.trace.stage("expansion") as stage:
                first = self._tools.search(self._asked, depth, **self._how())
                known = self._store.term_statistics(hit_terms(first.hits))
                feedback = local_alternatives(self._question, first.hits, known)
                if feedback.terms:
                    alternatives = (f"{self._question} {feedback.text}",)
                stage.note(kind="local", alternatives=list(alternatives))
        if first is not None and not alternatives:
            ranking = first
        else:
            more: dict[str, Any] = {"alternatives": alternatives} if alternatives else {}
            ranking = self._tools.search(self._asked, depth, **self._how(), **more)
        trace = self._progress.trace
        trace.stages.extend(ranking.trace.stages)
        trace.dropped.extend(ranking.trace.dropped)
        for line in ranking.trace.degraded:
            self._progress.degrade(line)
        return ranking

    def _how(self) -> dict[str, Any]:
        request = self._request
        how: dict[str, Any] = {
            "mode": request.mode,
            "fusion": request.fusion,
            "where": request.where,
            "graph": request.graph,
            "rerank": request.rerank,
        }
        return {name: value for name, value in how.items() if value is not None}

    def _confident(self, ranking: Ranking) -> bool:
        threshold = self._threshold(ranking)
        self._progress.threshold = threshold
        with self._progress.trace.stage("gate") as stage:
            # What a graph query brought is an answer of the store, whatever the passages are.
            found = bool(ranking.hits) and ranking.confidence >= threshold
            passed = found or bool(self._request.findings)
            stage.note(confidence=round(ranking.confidence, 6), threshold=threshold, passed=passed)
        return passed

    def _threshold(self, ranking: Ranking) -> float:
        """The caller's own, else that of the store's calibration, else the setting."""
        for threshold in (self._request.threshold, ranking.threshold):
            if threshold is not None:
                return threshold
        return self._settings.context_confidence_threshold

    def _gated(self, model: LanguageModel | None, streaming: bool) -> Generator[str, None, Answer]:
        """Nothing in the store fits: the model answers from its own knowledge, or nobody does."""
        if model is not None and self._request.synthesis:
            with self._progress.trace.stage("synthesis") as stage:
                stage.note(model=model.name, minimal=True)
                try:
                    written = yield from self._written(model, None, [], streaming)
                except ModelError as error:
                    self._progress.degrade(f"no synthesis: {error}")
                else:
                    self._progress.usage += written.usage
                    for note in written.notes:
                        self._progress.degrade(note)
                    return self._answer(written.text, GATED, model.name)
        text = self._progress.refusal()
        if streaming and not self._progress.spoken:
            yield text
        return self._answer(text, GATED, NOBODY)

    def _documents(self, ranking: Ranking) -> tuple[Candidate, ...]:
        """Step 6, and the passages that were asked for beside what search found."""
        number = clamp_results(self._request.max_results)
        with self._progress.trace.stage("documents") as stage:
            if self._request.documents:
                chosen = best_articles(ranking.hits, num_docs=number)
                if self._request.mode != "keyword":
                    chosen = with_linked(
                        chosen,
                        self._asked,
                        store=self._store,
                        embedder=self._tools.embedder(),
                        settings=self._settings,
                        where=self._request.where,
                    )
            else:
                kept = ranking.hits[:number]
                chosen = Chosen(tuple(kept), len({hit.passage.document for hit in kept}))
            candidates = self._with_extra(chosen.candidates)
            stage.note(
                articles=chosen.articles,
                passages=len(candidates),
                joined=list(chosen.joined),
                extra=len(candidates) - len(chosen.candidates),
            )
        return candidates

    def _with_extra(self, candidates: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
        known = {hit.key for hit in candidates}
        keys = [key for key in dict.fromkeys(self._request.extra) if key not in known]
        if not keys:
            return candidates
        scorer = Scorer(
            self._asked, self._store, self._tools.embedder(), self._settings, self._request.where
        )
        # They were asked for by name: as good as the best that search found, in their order.
        best = max((hit.scores.final for hit in candidates), default=1.0)
        found = {hit.key: hit for hit in scorer.candidates(keys)}
        extra = [
            replace(found[key], scores=replace(found[key].scores, final=best))
            for key in keys
            if key in found
        ]
        return (*candidates, *extra)

    def _pack(
        self, candidates: Sequence[Candidate], counter: TokenCounter | None, budget: int | None
    ) -> Context:
        with self._progress.trace.stage("packing") as stage:
            context = pack(
                self._question,
                candidates,
                store=self._store,
                settings=self._settings,
                counter=counter,
                budget=budget,
                policy=self._request.policy,
            )
            stage.note(passages=len(context.passages), tokens=context.tokens, budget=context.budget)
        return replace(context, confidence=self._progress.confidence)

    def _synthesis(
        self, model: LanguageModel, candidates: Sequence[Candidate], streaming: bool
    ) -> Generator[str, None, Answer | None]:
        """The model's answer, or ``None`` when it is to be made without it."""
        if not self._request.synthesis:
            return None
        prepared = self._prepared(model, candidates, self._examples())
        if prepared is None:
            return None
        context, evidence, examples = prepared
        with self._progress.trace.stage("synthesis") as stage:
            stage.note(model=model.name, documents=len(evidence), examples=len(examples))
            try:
                written = yield from self._written(model, evidence, examples, streaming)
            except ModelError as error:
                self._progress.degrade(f"no synthesis, sentences of the documents: {error}")
                return None
        self._progress.usage += written.usage
        for note in written.notes:
            self._progress.degrade(note)
        return self._answer(
            written.text, self._request.query_type, model.name, context, candidates, written.cited
        )

    def _written(
        self,
        model: LanguageModel,
        evidence: Sequence[Evidence] | None,
        examples: Sequence[Example],
        streaming: bool,
    ) -> Generator[str, None, Written]:
        """The model's answer from the evidence, or without any from its own knowledge."""
        question, longest = self._question, self._request.max_tokens
        if evidence is None:
            if not streaming:
                return synthesis.synthesize_minimal(model, question, max_tokens=longest)
            pieces = synthesis.stream_minimal(model, question, max_tokens=longest)
        else:
            if not streaming:
                return synthesis.synthesize(model, question, evidence, examples, max_tokens=longest)
            pieces = synthesis.stream(model, question, evidence, examples, max_tokens=longest)
        return (yield from self._progress.heard(pieces))

    def _prepared(
        self, model: LanguageModel, candidates: Sequence[Candidate], examples: list[Example]
    ) -> tuple[Context, tuple[Evidence, ...], list[Example]] | None:
        """What is sent, within the budget: rules, examples, fences and all."""
        counter = self._counter(model)
        budget = self._request.budget
        budget = self._settings.context_token_budget if budget is None else budget
        room = budget
        while True:
            context = self._pack(candidates, counter, room)
            evidence = (*self._evidence(context, candidates), *self._findings(context))
            prompt = synthesis_prompt(self._question, evidence, examples)
            over = counter.count(prompt.system) + counter.count(prompt.user) - budget
            if over <= 0 and evidence:
                keep_trace(context.trace, self._settings)
                return context, evidence, examples
            if context.passages and over > 0:
                # Fewer passages also need fewer fences: not all of the excess is text.
                room = max(context.tokens - over, context.tokens // 2)
            elif examples:
                self._progress.degrade("no examples: the budget leaves no room for them")
                examples, room = [], budget
            else:
                self._progress.degrade(
                    f"no synthesis: a budget of {budget} tokens leaves no room for passages"
                )
                return None

    def _counter(self, model: LanguageModel) -> TokenCounter:
        try:
            return token_counter(model.name)
        except SettingError:
            # A model nobody published the tokens of: the configured counter has to do.
            return token_counter(self._settings.tokenizer_model)

    def _examples(self) -> list[Example]:
        if not self._request.few_shot or self._tools.few_shot is None:
            return []
        with self._progress.trace.stage("few_shot") as stage:
            try:
                examples = self._tools.few_shot(self._request.few_shot_path)
                found = examples.nearest(self._question, exclude=self._request.exclude)
            except ModelError as error:
                self._progress.degrade(f"no examples: {error}")
                return []
            stage.note(
                examples=[example.question for example in found], problems=list(examples.problems)
            )
        return found

    def _evidence(self, context: Context, candidates: Sequence[Candidate]) -> tuple[Evidence, ...]:
        scores = {hit.passage.id: hit.scores.combined for hit in candidates}
        return from_context(context, scores)

    def _findings(self, context: Context) -> tuple[Evidence, ...]:
        first = len(context.passages) + 1
        return tuple(
            Evidence(first + n, "", finding.title, finding.title, finding.text, 1.0)
            for n, finding in enumerate(self._request.findings)
        )

    def _extract(self, candidates: Sequence[Candidate]) -> Answer:
        context = self._pack(candidates, None, self._request.budget)
        keep_trace(context.trace, self._settings)
        with self._progress.trace.stage("extract") as stage:
            known = list(dict.fromkeys(terms(self._question)))[:MOST_TERMS]
            found = extract(
                self._question,
                [_without_gaps(item) for item in self._evidence(context, candidates)],
                statistics=self._store.term_statistics(known),
                cross_encoder=self._judge(),
                embedder=self._embedder_judge(),
            )
            stage.note(sentences=len(found.sentences), short=found.short is not None)
        if not context.passages:
            self._progress.degrade(f"a budget of {context.budget} tokens holds no passage")
        findings = self._findings(context)
        told = [f"{finding.text} [{finding.marker}]" for finding in findings]
        text = "\n\n".join(part for part in (*told, found.text) if part)
        return self._answer(
            text or NO_SENTENCE,
            self._request.query_type,
            EXTRACTIVE if text else NOBODY,
            context,
            candidates,
            (*(finding.marker for finding in findings), *found.cited),
        )

    def _judge(self) -> CrossEncoder | None:
        """The cross-encoder reads sentences too, where the search was asked to use it."""
        reranker = self._request.rerank or self._settings.reranker
        if reranker != "crossencoder" or self._tools.cross_encoder is None:
            return None
        try:
            return self._tools.cross_encoder()
        except ModelError as error:
            self._progress.degrade(f"no cross-encoder: {error}")
            return None

    def _embedder_judge(self) -> Embedder | None:
        if self._request.mode == "keyword" or self._settings.sentence_judge == "off":
            return None
        return self._tools.embedder()

    def _answer(
        self,
        text: str,
        query_type: str,
        answered_by: str,
        context: Context | None = None,
        candidates: Sequence[Candidate] = (),
        cited: Sequence[int] = (),
    ) -> Answer:
        citations: tuple[Citation, ...] = ()
        entities: tuple[str, ...] = ()
        facts: tuple[str, ...] = ()
        if context is not None:
            with self._progress.trace.stage("knowledge"):
                known = known_in(context, candidates, self._store, cited, self._request.where)
                entities, facts = known.entities, known.facts
            by_marker = {passage.marker: Citation.of(passage) for passage in context.passages}
            for item in self._findings(context):
                by_marker[item.marker] = Citation(
                    item.marker, "", (), "", item.title, (), "", item.text
                )
            citations = tuple(by_marker[marker] for marker in cited if marker in by_marker)
        return Answer(
            question=self._asked,
            text=text,
            query_type=query_type,
            answered_by=answered_by,
            citations=citations,
            entities=entities,
            facts=facts,
            usage=self._progress.usage,
            confidence=self._progress.confidence,
            probability=self._progress.probability,
            degraded=tuple(self._progress.trace.degraded),
            trace=self._progress.trace,
            context=context,
            cypher_query=None if query_type == GATED else self._request.cypher_query,
        )


def _without_gaps(item: Evidence) -> Evidence:
    """The passage with a border of paragraphs where sentences were left out."""
    text = item.text.replace(LINE_GAP, "\n\n").replace(GAP, "\n\n")
    return replace(item, text=text)


def _check(question: str, request: Request) -> None:
    if not question.strip():
        raise UsageError("the question is empty", fix="ask with at least one word")
    if request.expansion not in EXPANSIONS:
        raise UsageError(f"expansion is one of {', '.join(EXPANSIONS)}, not {request.expansion!r}")
    if request.budget is not None and request.budget < 0:
        raise UsageError(f"a token budget is 0 or more, not {request.budget}")
