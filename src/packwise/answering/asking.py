"""From a question to an answer: the nine steps in their order.

    expansion (opt-in) -> search, cross-encoder, graph -> confidence gate -> documents
    -> quality filter and packing -> few-shot examples -> synthesis, or sentences

Every call to a language model can fail. The answer is then made without it, and a line in
``degraded`` says so.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Sequence
from dataclasses import replace

from packwise.answering import synthesis
from packwise.answering.answer import (
    EXTRACTIVE,
    GATED,
    NOT_ANSWERED,
    Answer,
    AnswerRequest,
    Citation,
    NumberedPassage,
    Tools,
    entities_and_facts,
    from_context,
    refusal,
)
from packwise.answering.extractive import extract
from packwise.answering.few_shot import FewShotExample
from packwise.answering.synthesis import WrittenAnswer
from packwise.candidates import EXPANSIONS, Candidate
from packwise.context.markdown import GAP, LINE_GAP
from packwise.context.packer import Context, pack
from packwise.errors import ModelError, SettingError, UsageError
from packwise.language.analyzer import terms
from packwise.models.base import CrossEncoder, TokenCounter
from packwise.models.llm import LanguageModel
from packwise.models.tokens import token_counter
from packwise.retrieval.documents import ChosenPassages, best_articles, clamp_results, with_linked
from packwise.retrieval.expansion import expand, feedback_terms, hit_terms
from packwise.retrieval.fusion import MOST_TERMS, PassageScorer
from packwise.retrieval.pipeline import Ranking
from packwise.trace import Trace

NO_SENTENCE = "The passages that were found hold no sentence that answers this."


def ask(tools: Tools, question: str, options: AnswerRequest) -> Answer:
    """The answer to a question. Raises ``UsageError`` on an empty question."""
    *_, answer = _AskRun(tools, question, options).pieces(streaming=False)
    assert isinstance(answer, Answer)
    return answer


def ask_stream(
    tools: Tools, question: str, options: AnswerRequest
) -> Generator[str | Answer, None, None]:
    """The answer's text piece by piece as it is written, then the ``Answer`` itself.

    If the language model fails midway, the final answer differs from the pieces; the answer is
    what counts. An invalid question raises at once, not at the first piece.
    """
    return _AskRun(tools, question, options).pieces(streaming=True)


class _AskRun:
    """The steps for one question."""

    def __init__(self, tools: Tools, question: str, options: AnswerRequest) -> None:
        cleaned = synthesis.clean(question)
        if not cleaned.strip():
            raise UsageError("the question is empty", fix="ask with at least one word")
        if options.expansion not in EXPANSIONS:
            choices = ", ".join(EXPANSIONS)
            raise UsageError(f"expansion is one of {choices}, not {options.expansion!r}")
        if options.budget is not None and options.budget < 0:
            raise UsageError(f"a token budget is 0 or more, not {options.budget}")
        self._tools = tools
        self._store = tools.store
        self._settings = tools.settings
        self._full_question = cleaned
        # All of a longer text is searched, but only its beginning is read as a question.
        self._question = cleaned[: synthesis.QUESTION_CHARACTERS]
        self._options = options
        self._trace = Trace()
        self._usage = options.spent
        self._ranking: Ranking | None = None
        self._streamed = False
        self._degrade(*options.notes)

    def pieces(self, *, streaming: bool) -> Generator[str | Answer, None, None]:
        answer = yield from self._steps(streaming)
        yield answer

    def _steps(self, streaming: bool) -> Generator[str, None, Answer]:
        model = self._model()
        ranking = self._ranking = self._search(model)
        refusal = self._refusal(ranking)
        if refusal is not None:
            for hit in ranking.hits:
                self._trace.drop(hit.passage.id, "gate", "below_threshold")
            return (yield from self._gated(model, refusal, streaming))
        candidates = self._documents(ranking)
        if model is not None and self._options.synthesis:
            answer = yield from self._synthesis(model, candidates, streaming)
            if answer is not None:
                return answer
        answer = self._extract(candidates)
        if streaming and not self._streamed:
            yield answer.text
        return answer

    def _degrade(self, *lines: str) -> None:
        self._trace.degraded = list(dict.fromkeys([*self._trace.degraded, *lines]))

    def _model(self) -> LanguageModel | None:
        if not self._options.synthesis and self._options.expansion != "llm":
            return None
        try:
            return self._options.llm or self._tools.llm()
        except ModelError as error:
            self._degrade(f"no language model: {error}")
            return None

    def _search(self, model: LanguageModel | None) -> Ranking:
        first, alternatives = None, ()
        if self._options.expansion != "off":
            with self._trace.stage("expansion") as stage:
                if self._options.expansion == "llm":
                    alternatives = self._phrasings(model)
                else:
                    first = self._rank()
                    known = self._store.term_statistics(hit_terms(first.hits))
                    added = feedback_terms(self._question, first.hits, known)
                    if added:
                        alternatives = (f"{self._question} {' '.join(added)}",)
                stage.note(kind=self._options.expansion, alternatives=list(alternatives))
        ranking = self._rank(alternatives) if first is None or alternatives else first
        self._trace.stages.extend(ranking.trace.stages)
        self._trace.dropped.extend(ranking.trace.dropped)
        self._degrade(*ranking.trace.degraded)
        return ranking

    def _phrasings(self, model: LanguageModel | None) -> tuple[str, ...]:
        if model is None:
            self._degrade("no query expansion: no language model is configured")
            return ()
        expanded = expand(self._full_question, model)
        self._usage += expanded.usage
        if expanded.degraded:
            self._degrade(expanded.degraded)
        return expanded.alternatives

    def _rank(self, alternatives: tuple[str, ...] = ()) -> Ranking:
        names = ("mode", "fusion", "where", "graph", "rerank")
        given = {name: getattr(self._options, name) for name in names}
        given = {name: value for name, value in given.items() if value is not None}
        if alternatives:
            given["alternatives"] = alternatives
        depth = self._settings.context_candidates
        return self._tools.search(self._full_question, depth, **given)

    def _refusal(self, ranking: Ranking) -> str | None:
        """Why the store does not answer; ``None`` if the question passes the confidence gate."""
        # The caller's threshold, else that of the store's calibration, else the setting.
        given = (self._options.threshold, ranking.threshold)
        usual = self._settings.context_confidence_threshold
        threshold = next((value for value in given if value is not None), usual)
        with self._trace.stage("gate") as stage:
            # A finding of the graph is an answer of the store, whatever the passages are.
            found = bool(ranking.hits) and ranking.confidence >= threshold
            passed = found or bool(self._options.findings)
            stage.note(confidence=round(ranking.confidence, 6), threshold=threshold, passed=passed)
        return None if passed else refusal(ranking, threshold)

    def _gated(
        self, model: LanguageModel | None, refusal: str, streaming: bool
    ) -> Generator[str, None, Answer]:
        """The store holds nothing on the question: the model answers from its own knowledge."""
        if model is not None and self._options.synthesis:
            with self._trace.stage("synthesis") as stage:
                stage.note(model=model.name, minimal=True)
                try:
                    written = yield from self._written(model, None, [], streaming)
                except ModelError as error:
                    self._degrade(f"no synthesis: {error}")
                else:
                    return self._answer(written.text, GATED, model.name)
        if streaming and not self._streamed:
            yield refusal
        return self._answer(refusal, GATED, NOT_ANSWERED)

    def _documents(self, ranking: Ranking) -> tuple[Candidate, ...]:
        """Step 6, and the passages that the caller adds to those of the search."""
        number = clamp_results(self._options.max_results)
        with self._trace.stage("documents") as stage:
            if not self._options.documents:
                first = ranking.hits[:number]
                chosen = ChosenPassages(first, len({hit.passage.document for hit in first}))
            else:
                chosen = best_articles(ranking.hits, num_docs=number)
                if self._options.mode != "keyword":
                    chosen = with_linked(
                        chosen,
                        self._full_question,
                        store=self._store,
                        embedder=self._tools.embedder(),
                        settings=self._settings,
                        where=self._options.where,
                    )
            candidates = self._with_extra(chosen.candidates)
            stage.note(
                articles=chosen.articles,
                passages=len(candidates),
                joined=list(chosen.joined),
                extra=len(candidates) - len(chosen.candidates),
            )
        kept = {hit.key for hit in candidates}
        for hit in ranking.hits:
            if hit.key not in kept:
                self._trace.drop(hit.passage.id, "documents", "not_chosen")
        return candidates

    def _with_extra(self, candidates: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
        known = {hit.key for hit in candidates}
        keys = [key for key in dict.fromkeys(self._options.extra) if key not in known]
        if not keys:
            return candidates
        embedder, where = self._tools.embedder(), self._options.where
        scorer = PassageScorer.of_question(
            self._full_question, self._store, embedder, self._settings, where
        )
        # The caller asked for them: they rank with the best that search found, in their order.
        best = max((hit.scores.final for hit in candidates), default=1.0)
        found = {hit.key: hit for hit in scorer.candidates(keys)}
        extra = [found[key] for key in keys if key in found]
        return (*candidates, *(replace(e, scores=replace(e.scores, final=best)) for e in extra))

    def _pack(
        self, candidates: Sequence[Candidate], counter: TokenCounter | None, budget: int | None
    ) -> Context:
        with self._trace.stage("packing") as stage:
            context = pack(
                self._question,
                candidates,
                store=self._store,
                settings=self._settings,
                counter=counter,
                budget=budget,
                policy=self._options.policy,
            )
            stage.note(passages=len(context.passages), tokens=context.tokens, budget=context.budget)
        return replace(context, confidence=self._ranking.confidence if self._ranking else 0.0)

    def _synthesis(
        self, model: LanguageModel, candidates: Sequence[Candidate], streaming: bool
    ) -> Generator[str, None, Answer | None]:
        """The model's answer, or ``None`` if the answer must be made without it."""
        prepared = self._prepared(model, candidates, self._examples())
        if prepared is None:
            return None
        context, passages, examples = prepared
        with self._trace.stage("synthesis") as stage:
            stage.note(model=model.name, documents=len(passages), examples=len(examples))
            try:
                written = yield from self._written(model, passages, examples, streaming)
            except ModelError as error:
                self._degrade(f"no synthesis, sentences of the documents: {error}")
                return None
        return self._answer(
            written.text, self._options.query_type, model.name, context, candidates, written.cited
        )

    def _written(
        self,
        model: LanguageModel,
        passages: Sequence[NumberedPassage] | None,
        examples: Sequence[FewShotExample],
        streaming: bool,
    ) -> Generator[str, None, WrittenAnswer]:
        """The model's answer from the passages, or from its own knowledge if they are ``None``."""
        longest = self._options.max_tokens
        if streaming:
            pieces = synthesis.stream(model, self._question, passages, examples, max_tokens=longest)
            written = yield from self._relay(pieces)
        else:
            written = synthesis.synthesize(
                model, self._question, passages, examples, max_tokens=longest
            )
        self._usage += written.usage
        self._degrade(*written.notes)
        return written

    def _relay(
        self, pieces: Generator[str, None, WrittenAnswer]
    ) -> Generator[str, None, WrittenAnswer]:
        """The pieces as they come; they cannot be taken back."""
        # Closing the stream also ends the call to the model.
        with contextlib.closing(pieces):
            while True:
                try:
                    piece = next(pieces)
                except StopIteration as end:
                    written: WrittenAnswer = end.value
                    return written
                self._streamed = True
                yield piece

    def _prepared(
        self, model: LanguageModel, candidates: Sequence[Candidate], examples: list[FewShotExample]
    ) -> tuple[Context, tuple[NumberedPassage, ...], list[FewShotExample]] | None:
        """What to send: the whole prompt fits the budget, with rules, examples and fences."""
        try:
            counter = token_counter(model.name)
        except SettingError:  # The tokens of this model are not published.
            counter = token_counter(self._settings.tokenizer_model)
        budget = self._options.budget
        budget = self._settings.context_token_budget if budget is None else budget
        room = budget
        while True:
            context = self._pack(candidates, counter, room)
            passages = (*self._passages(context, candidates), *self._findings(context))
            prompt = synthesis.synthesis_prompt(self._question, passages, examples)
            over = counter.count(prompt.system) + counter.count(prompt.user) - budget
            if over <= 0 and passages:
                context.save_trace(self._settings, self._trace)
                return context, passages, examples
            if context.passages and over > 0:
                # Fewer passages also need fewer fences: not all of the excess is text.
                room = max(context.tokens - over, context.tokens // 2)
            elif examples:
                self._degrade("no examples: the budget leaves no room for them")
                examples, room = [], budget
            else:
                self._degrade(
                    f"no synthesis: a budget of {budget} tokens leaves no room for passages"
                )
                return None

    def _examples(self) -> list[FewShotExample]:
        if not self._options.few_shot or self._tools.few_shot is None:
            return []
        with self._trace.stage("few_shot") as stage:
            try:
                examples = self._tools.few_shot(self._options.few_shot_path)
                found = examples.nearest(self._question, exclude=self._options.exclude)
            except ModelError as error:
                self._degrade(f"no examples: {error}")
                return []
            stage.note(
                examples=[example.question for example in found], problems=list(examples.problems)
            )
        return found

    def _passages(
        self, context: Context, candidates: Sequence[Candidate]
    ) -> tuple[NumberedPassage, ...]:
        return from_context(context, {hit.passage.id: hit.scores.combined for hit in candidates})

    def _findings(self, context: Context) -> tuple[NumberedPassage, ...]:
        return tuple(
            NumberedPassage(marker, "", finding.title, finding.title, finding.text, 1.0)
            for marker, finding in enumerate(self._options.findings, len(context.passages) + 1)
        )

    def _extract(self, candidates: Sequence[Candidate]) -> Answer:
        context = self._pack(candidates, None, self._options.budget)
        context.save_trace(self._settings, self._trace)
        with self._trace.stage("extract") as stage:
            known = list(dict.fromkeys(terms(self._question)))[:MOST_TERMS]
            # Sentences that were left out are a paragraph border.
            passages = [
                replace(item, text=item.text.replace(LINE_GAP, "\n\n").replace(GAP, "\n\n"))
                for item in self._passages(context, candidates)
            ]
            by_words = self._options.mode == "keyword" or self._settings.sentence_judge == "off"
            found = extract(
                self._question,
                passages,
                statistics=self._store.term_statistics(known),
                cross_encoder=self._cross_encoder(),
                embedder=None if by_words else self._tools.embedder(),
            )
            stage.note(sentences=len(found.sentences), short=found.short is not None)
        if not context.passages:
            self._degrade(f"a budget of {context.budget} tokens holds no passage")
        findings = self._findings(context)
        quoted = [f"{finding.text} [{finding.marker}]" for finding in findings]
        text = "\n\n".join(part for part in (*quoted, found.text) if part)
        return self._answer(
            text or NO_SENTENCE,
            self._options.query_type,
            EXTRACTIVE if text else NOT_ANSWERED,
            context,
            candidates,
            (*(finding.marker for finding in findings), *found.cited),
        )

    def _cross_encoder(self) -> CrossEncoder | None:
        """The cross-encoder reads sentences too, if the search uses it."""
        reranker = self._options.rerank or self._settings.reranker
        if reranker != "crossencoder" or self._tools.cross_encoder is None:
            return None
        try:
            return self._tools.cross_encoder()
        except ModelError as error:
            self._degrade(f"no cross-encoder: {error}")
            return None

    def _answer(
        self,
        text: str,
        query_type: str,
        answered_by: str,
        context: Context | None = None,
        candidates: Sequence[Candidate] = (),
        cited: Sequence[int] = (),
    ) -> Answer:
        assert self._ranking is not None
        citations: tuple[Citation, ...] = ()
        entities: tuple[str, ...] = ()
        facts: tuple[str, ...] = ()
        if context is not None:
            with self._trace.stage("knowledge"):
                entities, facts = entities_and_facts(
                    context, candidates, self._store, cited, self._options.where
                )
            quoted = [Citation.of(passage) for passage in context.passages]
            quoted += [
                Citation(item.marker, "", (), "", item.title, (), "", item.text)
                for item in self._findings(context)
            ]
            by_marker = {citation.marker: citation for citation in quoted}
            citations = tuple(by_marker[marker] for marker in cited if marker in by_marker)
        return Answer(
            question=self._full_question,
            text=text,
            query_type=query_type,
            answered_by=answered_by,
            citations=citations,
            entities=entities,
            facts=facts,
            usage=self._usage,
            confidence=self._ranking.confidence,
            probability=self._ranking.probability,
            degraded=tuple(self._trace.degraded),
            trace=self._trace,
            context=context,
            cypher_query=None if query_type == GATED else self._options.cypher_query,
        )
