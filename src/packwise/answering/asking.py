"""From a question to an answer: the nine steps in their order.

    expansion (opt-in) -> search -> confidence gate -> cross-encoder, graph -> documents
    -> quality filter and packing -> few-shot examples -> synthesis, or blocks

Every call to a language model can fail. The answer is then made without it, and a line in
``degraded`` says so.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Sequence
from dataclasses import replace
from functools import partial

from packwise.answering import evidence, synthesis
from packwise.answering.answer import (
    EXTRACTIVE,
    GATED,
    NOT_ANSWERED,
    NOT_COVERED,
    Answer,
    AnswerRequest,
    Citation,
    NumberedPassage,
    Tools,
    entities_and_facts,
    from_context,
    refusal,
)
from packwise.answering.blocks import SourcePassage
from packwise.answering.extractive import ExtractedAnswer, extract
from packwise.answering.few_shot import FewShotExample
from packwise.answering.named_rows import names_row
from packwise.answering.synthesis import WrittenAnswer
from packwise.candidates import EXPANSIONS, Candidate
from packwise.context.packer import Context, pack
from packwise.errors import ModelError, SettingError, UsageError
from packwise.language.untrusted import clean
from packwise.models.base import TokenCounter
from packwise.models.llm import LanguageModel
from packwise.models.tokens import token_counter
from packwise.retrieval.documents import MAX_SECTIONS, NUM_DOCS, clamp_results
from packwise.retrieval.expansion import expand, feedback_terms, hit_terms
from packwise.retrieval.ranking import Ranking
from packwise.stores import languages
from packwise.stores.base import one_state
from packwise.trace import Trace

NOTHING = ExtractedAnswer()
_FAR_OFF = 0.25
"""Below this confidence a question is refused without reading a passage."""
_WORTH_SHOWING = 0.25
"""How likely it must then be that the answer is right."""
NO_BLOCK = "The passages that were found hold nothing that answers this."


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
        cleaned = clean(question)
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
        if self._is_refused(ranking):
            for hit in ranking.hits:
                self._trace.drop(hit.passage.id, "gate", "below_threshold")
            return (yield from self._gated(model, refusal(ranking.hits), streaming))
        with self._trace.stage("documents") as stage, one_state(self._store):
            candidates = evidence.choose(
                self._tools, self._full_question, self._options, ranking, stage
            )
        kept = {hit.key for hit in candidates}
        for hit in ranking.hits:
            if hit.key not in kept:
                self._trace.drop(hit.passage.id, "documents", "not_chosen")
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
        number = clamp_results(self._options.max_results)
        return self._tools.search(
            self._full_question,
            max(self._settings.context_candidates, number * MAX_SECTIONS),
            depth=self._settings.context_depth * number // NUM_DOCS,
            gated=True,
            # A finding of the graph is an answer of the store, whatever the passages are.
            threshold=0.0 if self._options.findings else self._options.threshold,
            **given,
        )

    def _is_refused(self, ranking: Ranking) -> bool:
        """Whether the store does not answer. A question that is not close enough to any passage is
        refused at once if it is far off and names no row of a table; otherwise the passages are
        read first: terse notes look unlike the questions that they answer."""
        if not ranking.refused or self._options.findings:
            return False
        set_by = self._settings.origin("context_confidence_threshold")
        strict = self._options.threshold is not None or set_by != "default"
        calibrated = ranking.confidence == ranking.probability
        wanted = self._options.second_look and not strict and not calibrated
        passages = evidence.sources(self._store, ranking.hits) if wanted else []
        far_off = ranking.confidence < _FAR_OFF and not names_row(passages, self._question)
        if not wanted or far_off:
            return True
        with self._trace.stage("reading") as stage:
            found = self._read(passages)
            passed = found.probability >= _WORTH_SHOWING
            stage.note(probability=round(found.probability, 6), passed=passed)
        return not passed

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
                    stage.error = type(error).__name__
                    self._degrade(f"no synthesis: {error}")
                else:
                    stage.note(**written.usage.as_dict())
                    return self._answer(written.text, GATED, model.name)
        if streaming and not self._streamed:
            yield refusal
        return self._answer(refusal, GATED, NOT_ANSWERED)

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
                stage.error = type(error).__name__
                self._degrade(f"no synthesis, sentences of the documents: {error}")
                return None
            stage.note(**written.usage.as_dict())
        # The model's answer is likely where the documents clearly hold one.
        found = self._best_blocks(context, candidates)
        kind, by = self._options.query_type, model.name
        return self._answer(written.text, kind, by, context, candidates, written.cited, found)

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
            scores = {hit.passage.id: hit.scores.combined for hit in candidates}
            passages = (*from_context(context, scores), *self._findings(context))
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
            self._degrade(*(f"examples: {problem}" for problem in examples.problems))
            stage.note(examples=[example.question for example in found])
        return found

    def _findings(self, context: Context) -> tuple[NumberedPassage, ...]:
        return tuple(
            NumberedPassage(marker, "", finding.title, finding.title, finding.text, 1.0)
            for marker, finding in enumerate(self._options.findings, len(context.passages) + 1)
        )

    def _extract(self, candidates: Sequence[Candidate]) -> Answer:
        context = self._pack(candidates, None, self._options.budget)
        context.save_trace(self._settings, self._trace)
        found = self._best_blocks(context, candidates)
        if not context.passages:
            self._degrade(f"a budget of {context.budget} tokens holds no passage")
        findings = self._findings(context)
        judged = found.blocks and not findings and self._options.threshold is None
        if judged and found.probability < NOT_COVERED and not self._is_unread():
            assert self._ranking is not None
            return self._answer(refusal(self._ranking.hits), GATED, NOT_ANSWERED)
        quoted = [f"{finding.text} [{finding.marker}]" for finding in findings]
        text = "\n\n".join(part for part in (*quoted, found.text) if part)
        return self._answer(
            text or NO_BLOCK,
            self._options.query_type,
            EXTRACTIVE if text else NOT_ANSWERED,
            context,
            candidates,
            (*(finding.marker for finding in findings), *found.cited),
            found,
        )

    def _best_blocks(self, context: Context, candidates: Sequence[Candidate]) -> ExtractedAnswer:
        """The parts of the context that answer best, and how likely they are right."""
        findings = len(self._options.findings)
        assert self._ranking is not None
        read = evidence.with_further_sections(candidates, self._ranking, self._options)
        with self._trace.stage("extract") as stage, one_state(self._store):
            found = self._read(
                evidence.sources(self._store, read, context, findings, self._question)
            )
            stage.note(
                blocks=[block.kind.value for block in found.blocks],
                short=found.short is not None,
                best_short=found.unsure_short.text if found.unsure_short else "",
                probability=round(found.probability, 6),
            )
        if self._tools.calibration is None:
            return found
        own = self._tools.calibration()
        return replace(found, probability=own.answer_probability(found.probability))

    def _is_unread(self) -> bool:
        """Whether the embedder does not read the question's language: only the gate judges it."""
        model = self._store.info().embedder
        return languages.unread_language(self._question, self._store, model) != ""

    def _read(self, passages: Sequence[SourcePassage]) -> ExtractedAnswer:
        where = self._options.where
        known = languages.question_terms(self._question, self._store, where)
        load = partial(evidence.reading_model, self._question, self._store, self._degrade)
        judged = self._options.mode != "keyword" and self._settings.answer_judge != "words"
        return extract(
            self._question,
            passages,
            signs=self._ranking.signs if self._ranking else {},
            statistics=languages.visible_statistics(self._store, known, where),
            cross_encoder=load(self._tools.cross_encoder, "cross-encoder") if judged else None,
            lang=languages.language_of(self._question, self._store),
            span_reader=load(self._tools.span_reader, "span reader"),
        )

    def _answer(
        self,
        text: str,
        query_type: str,
        answered_by: str,
        context: Context | None = None,
        candidates: Sequence[Candidate] = (),
        cited: Sequence[int] = (),
        found: ExtractedAnswer = NOTHING,
    ) -> Answer:
        assert self._ranking is not None
        citations: tuple[Citation, ...] = ()
        entities: tuple[str, ...] = ()
        facts: tuple[str, ...] = ()
        if context is not None:
            with self._trace.stage("knowledge"), one_state(self._store):
                entities, facts = entities_and_facts(
                    context, candidates, self._store, cited, self._options.where
                )
            citations = evidence.citations_of(context, self._findings(context), found.blocks, cited)
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
            search_probability=self._ranking.probability,
            probability=1.0 if self._options.findings and context else found.probability,
            degraded=tuple(self._trace.degraded),
            trace=self._trace,
            context=context,
            cypher_query=self._options.cypher_query,
        )
