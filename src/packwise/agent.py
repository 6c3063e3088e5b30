"""KnowledgeGraphAgent: the class of specifications 000 to 002, over any store.

    with KnowledgeGraphAgent("my-pack") as agent:
        print(agent.query("How long does a restore take?")["answer"])

Searching, packing and answering are done by ``packwise.Library``.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

from packwise.answering import synthesis
from packwise.answering.answer import (
    GATED,
    GRAPH_QUERY,
    SYNTHESIS_MAX_TOKENS,
    Answer,
    AnswerRequest,
    Finding,
)
from packwise.answering.cypher import ask_graph, examples_beside, load_cypher_examples
from packwise.answering.few_shot import ExampleFiles, FewShot, load_examples
from packwise.answering.source_text import TitleIndex, source_text
from packwise.candidates import Filter
from packwise.context.quality import QUALITY_THRESHOLD, exemption, quality, section_quality
from packwise.errors import ModelError, ModelMissing, UsageError
from packwise.language.analyzer import FUNCTION_WORDS
from packwise.language.words import words
from packwise.library import Library, open_library
from packwise.models.claude import ClaudeModel
from packwise.models.llm import SYNTHESIS_MODEL, LanguageModel, load_llm
from packwise.retrieval import paths
from packwise.retrieval.documents import MAX_SECTIONS, MIN_RELEVANCE, article_of, clamp_results
from packwise.retrieval.expansion import expand, quoted
from packwise.retrieval.pipeline import MOST_RESULTS
from packwise.settings import Settings

_FLAGS = (
    "enable_reranker",
    "enable_multidoc",
    "enable_fewshot",
    "enable_multi_query",
    "enable_cross_encoder",
)

_log = logging.getLogger("packwise")


class KnowledgeGraphAgent:
    """Answers questions from a store: a pack folder, a ``pack.db`` or its folder, an installed
    pack's name, or an address.

    ``anthropic_api_key`` is a key for Claude, by default the one in the environment. Without
    a key, or with ``PACKWISE_SYNTHESIS=off``, nothing is sent and answers consist of sentences
    from the documents. ``use_enhancements=False`` turns every ``enable_*`` off.
    ``few_shot_path`` replaces the examples in the pack's folder. ``cypher_pack_path`` is a file
    or a folder of questions with their Cypher, by default those beside a Kuzu pack: questions
    are then sent to the graph as well. ``num_docs`` (by default ``max_results``),
    ``max_sections`` and ``min_relevance`` are those of step 6. The agent never writes.

    ``enable_multi_query`` sends the question (its first 500 characters) to the Anthropic API
    for two other phrasings. Leave it off where questions must not leave the machine.

    A subclass may override the constants and the methods below; ``query`` uses them.
    """

    CONTENT_QUALITY_THRESHOLD: ClassVar[float] = QUALITY_THRESHOLD
    CONTEXT_CONFIDENCE_THRESHOLD: ClassVar[float] = 0.5
    STOP_WORDS: ClassVar[frozenset[str]] = FUNCTION_WORDS
    _offline: bool = False
    SYNTHESIS_MAX_TOKENS: ClassVar[int] = SYNTHESIS_MAX_TOKENS

    def __init__(
        self,
        db_path: str | Path,
        anthropic_api_key: str | None = None,
        read_only: bool = True,
        use_enhancements: bool = True,
        few_shot_path: str | Path | None = None,
        enable_reranker: bool = True,
        enable_multidoc: bool = True,
        enable_fewshot: bool = True,
        synthesis_model: str | None = None,
        cypher_pack_path: str | Path | None = None,
        enable_multi_query: bool = False,
        enable_cross_encoder: bool = False,
        *,
        num_docs: int | None = None,
        max_sections: int = MAX_SECTIONS,
        min_relevance: float = MIN_RELEVANCE,
    ) -> None:
        self.use_enhancements = use_enhancements
        self.enable_reranker = enable_reranker
        self.enable_multidoc = enable_multidoc
        self.enable_fewshot = enable_fewshot
        self.enable_multi_query = enable_multi_query
        self.enable_cross_encoder = enable_cross_encoder
        self.read_only = read_only
        if not use_enhancements:
            given = [name for name in _FLAGS if getattr(self, name)]
            _log.warning("use_enhancements is off: %s ignored", ", ".join(given) or "no flag is")
        if min(num_docs or 1, max_sections) < 1:
            raise UsageError("num_docs and max_sections are 1 or more")
        self.num_docs, self.max_sections, self.min_relevance = num_docs, max_sections, min_relevance
        settings = Settings.load(packing_quality_threshold=self.CONTENT_QUALITY_THRESHOLD)
        self.claude: Any = None
        self._other_model: LanguageModel | None = None
        self._offline = settings.synthesis == "off"
        self._notes: tuple[str, ...] = ()
        loaded = "" if self._offline else self._connect(anthropic_api_key, synthesis_model)
        self.synthesis_model = synthesis_model or loaded or SYNTHESIS_MODEL
        self._few_shot_path = Path(few_shot_path) if few_shot_path else None
        if self._few_shot_path:
            load_examples(few_shot_path=self._few_shot_path)
        self._sends_cypher = bool(cypher_pack_path)
        given = load_cypher_examples(Path(cypher_pack_path)) if cypher_pack_path else None
        self._library: Library | None = open_library(db_path, settings=settings)
        self._titles = TitleIndex(self._library.store)
        self._cypher = given or examples_beside(self._library.store)
        self._notes += tuple(f"Cypher examples: {line}" for line in self._cypher.problems)

    def query(self, question: str, max_results: int = 5) -> dict[str, Any]:
        """Answer from at most ``max_results`` articles (1 to 20), as ``Answer.as_dict`` does."""
        if self._sends_cypher or (self._cypher.items and self._llm() is not None):
            return self.graph_query(question, max_results=max_results)
        answer = self._answer(question, max_results)
        vector_query = getattr(self._opened().store, "vector_query", None)
        if vector_query is not None and not self._opened().keywords_only():
            answer = replace(answer, cypher_query=vector_query())
        return answer.as_dict()

    def semantic_search(self, query: str, top_k: int = 5) -> list[dict[str, Any]]:
        """The ``top_k`` articles nearest to a text, each with its best passage as ``content``.

        ``similarity`` is on the scale of the confidence gate; ``cosine`` is the raw cosine. In a
        store without usable vectors, it is the keyword score and ``cosine`` is ``None``.
        """
        library = self._opened()
        top_k = max(1, min(top_k, MOST_RESULTS))
        depth = min(MOST_RESULTS, max(20, 4 * top_k))
        while True:
            hits = library.search(query, depth, mode="vector", graph=False, rerank="off").hits
            found: dict[str, dict[str, Any]] = {}
            for hit in hits:
                passage, scores = hit.passage, hit.scores
                found.setdefault(
                    article_of(passage),
                    {
                        "title": passage.doc_title or passage.document,
                        "similarity": scores.similarity or scores.keyword or 0.0,
                        "content": passage.text,
                        "cosine": scores.vector,
                        "section": " > ".join(passage.section_path),
                        "place": passage.place,
                        "id": passage.id,
                        "document": passage.document,
                        "url": passage.url,
                    },
                )
            if len(found) >= top_k or len(hits) < depth or depth == MOST_RESULTS:
                ordered = sorted(found.values(), key=lambda row: -row["similarity"])
                return ordered[:top_k]
            depth = min(MOST_RESULTS, 2 * depth)

    def find_entity(self, entity_name: str) -> dict[str, Any] | None:
        """The entity of this name: its kind, its description and the articles it occurs in."""
        store = self._opened().store
        entity = paths.find_entity(store, entity_name)
        if entity is None:
            return None
        return {
            "name": entity.label or entity.key,
            "type": entity.kind,
            "properties": {"description": entity.description, "passages": entity.passages},
            "source_articles": paths.articles_of(store, entity),
        }

    def find_relationship_path(
        self, source: str, target: str, max_hops: int = 3
    ) -> list[dict[str, Any]]:
        """The shortest paths between two names, the most certain first; empty if there is none.

        A path follows extracted relations, links, mentions of titles and shared names.
        """
        store = self._opened().store
        first, last = paths.find_entity(store, source), paths.find_entity(store, target)
        if first is None or last is None:
            return []
        return [path.as_dict() for path in paths.find_paths(store, first, last, max_hops)]

    def get_entity_facts(self, entity_name: str) -> list[str]:
        """Facts that the documents state about a name, or about the article with that title."""
        return paths.facts_about(self._opened().store, entity_name)

    def graph_query(
        self, question: str, max_hops: int = 2, *, max_results: int = 5
    ) -> dict[str, Any]:
        """Answer a question from the paths between the entities it names.

        Returns the dictionary of ``query`` plus ``paths``, which have at most ``max_hops``
        steps. With ``cypher_pack_path``, a language model and a store that supports Cypher,
        the graph is queried in Cypher first.
        """
        store = self._opened().store
        examples = FewShot(self._cypher, self._opened().example_embedder())
        asked = ask_graph(store, question, self._llm(), examples if self._cypher.items else None)
        more: dict[str, Any] = {"cypher_query": asked.cypher, "spent": asked.usage}
        if self._sends_cypher and not hasattr(store, "cypher"):
            asked = replace(asked, degraded=("no Cypher: this store does not support it",))
        found: list[paths.EntityPath] = []
        if asked.findings:
            more |= {"findings": asked.findings, "query_type": asked.query_type}
        else:
            found = paths.paths_in_question(store, question, max_hops)
            lines = "\n".join(dict.fromkeys(f"{path}." for path in found))
            more |= {
                "findings": (Finding("The graph", lines),) if found else (),
                "extra": () if self._opened().keywords_only() else paths.passages_of(found),
                "query_type": GRAPH_QUERY,
                "notes": asked.degraded,
            }
        answer = self._answer(question, max_results, **more)
        return {**answer.as_dict(), "paths": [path.as_dict() for path in found]}

    def close(self) -> None:
        """Close the store and all connections; safe to call twice."""
        library, self._library = self._library, None
        if library is not None:
            library.close()
            model = self._llm()
            if model is not None:
                model.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _multi_query_retrieve(self, question: str, max_results: int = 5) -> list[dict[str, Any]]:
        """The articles that the question and two other phrasings of it find, best first.

        The question is sent to Claude Haiku; if that fails, it is searched alone. A search that
        fails is a warning in the log. ``max_results`` (1 to 20) applies to each search.
        """
        number = clamp_results(max_results)
        model = self._llm()
        phrasings = [question]
        if model is None:
            _log.warning("query expansion needs a language model; searching the question alone")
        else:
            phrasings += expand(question, model).alternatives

        def found(phrasing: str) -> list[dict[str, Any]]:
            try:
                return self.semantic_search(phrasing, top_k=number)
            except Exception as error:  # noqa: BLE001 - specification 001: it does not raise
                _log.warning("searching %s failed: %s", quoted(phrasing), error)
                return []

        with ThreadPoolExecutor(max_workers=len(phrasings)) as pool:
            rows = [row for rows in pool.map(found, phrasings) for row in rows]
        rows.sort(key=lambda row: -row["similarity"])
        best: dict[str, dict[str, Any]] = {}
        for row in rows:
            best.setdefault(row["title"], row)
        return list(best.values())

    def _vector_primary_retrieve(
        self, question: str, max_results: int = 5
    ) -> tuple[dict[str, Any] | None, float]:
        """Titles and results for a question, and the best similarity among them."""
        if self._on("enable_multi_query"):
            found = self._multi_query_retrieve(question, max_results=max_results)
        else:
            found = self.semantic_search(question, top_k=max_results)
        if not found:
            return None, 0.0
        titles = [row["title"] for row in found]
        results = {"sources": titles, "entities": [], "facts": [], "raw": found}
        return results, max(row["similarity"] for row in found)

    def _score_section_quality(self, content: str, question: str) -> float:
        """The quality of a section for a question, 0..1; 0 below 20 words."""
        if self.STOP_WORDS is FUNCTION_WORDS:
            return section_quality(content, question)
        found, wanted = words(content), set(words(question)) - self.STOP_WORDS
        return quality(len(found), len(wanted & set(found)), len(wanted))

    def _fetch_source_text(
        self, source_titles: list[str], max_articles: int = 5, question: str | None = None
    ) -> str:
        """The sections of these articles; with a question, only those of sufficient quality.

        When no section qualifies, the whole content of the articles is used.
        """

        return source_text(
            self._opened().store,
            self._titles,
            source_titles,
            max_articles=max_articles,
            keep=None if question is None else partial(self._worth, question),
        )

    def _build_synthesis_context(
        self,
        question: str,
        kg_results: Mapping[str, Any],
        query_plan: Mapping[str, Any] | None = None,
        few_shot_examples: Sequence[Mapping[str, Any]] | None = None,
    ) -> str:
        """The prompt for an answer from the articles that ``kg_results["sources"]`` names."""
        titles = [str(title) for title in kg_results.get("sources", ())]
        text = self._fetch_source_text(titles, question=question)
        facts = [str(line) for line in kg_results.get("facts", ())]
        return synthesis.article_prompt(question, titles, text, facts, few_shot_examples or ())

    def _synthesize_answer_minimal(self, question: str) -> str:
        """Claude's answer from its own knowledge; empty without one."""
        model = self._llm()
        if model is None:
            return ""
        try:
            written = synthesis.synthesize(
                model, question, None, max_tokens=self.SYNTHESIS_MAX_TOKENS
            )
        except ModelError as error:
            _log.warning("no synthesis: %s", error)
            return ""
        return written.text

    def _answer(self, question: str, max_results: int, **more: Any) -> Answer:
        """The answer, made with the methods that a subclass or a caller overrides."""
        if self._own("semantic_search", "_multi_query_retrieve", "_vector_primary_retrieve"):
            found, best = self._vector_primary_retrieve(question, max_results)
            titles = [str(title) for title in found["sources"]] if found else []
            documents = [name for title in titles for name in self._titles.documents(title)]
            # They decide which articles are used, and how sure that is.
            gate = self.CONTEXT_CONFIDENCE_THRESHOLD
            more |= {"where": Filter(documents=tuple(dict.fromkeys(documents)) or ("",))}
            more |= {"threshold": 0.0 if best >= gate else 2.0, "expansion": "off"}
        if self._own("_score_section_quality", "STOP_WORDS", "CONTENT_QUALITY_THRESHOLD"):
            more["keep"] = partial(self._worth, question)
        minimal = self._own("_synthesize_answer_minimal")
        written = self._own("_build_synthesis_context", "_fetch_source_text") and self._llm()
        if not (minimal or written):
            return self._ask(question, max_results, **more)
        answer = self._ask(question, max_results, **more, synthesis=False)
        if answer.query_type == GATED and minimal:
            text = self._synthesize_answer_minimal(question)
            return replace(answer, text=text or answer.text, answered_by=self.synthesis_model)
        if answer.query_type != GATED and written:
            results = {"sources": synthesis.titles_in(answer), "facts": answer.facts}
            plan, shown = {"type": answer.query_type}, self._shown_examples(question)
            prompt = self._build_synthesis_context(question, results, plan, shown)
            return synthesis.rewritten(answer, written, prompt, self.SYNTHESIS_MAX_TOKENS)
        return self._ask(question, max_results, **more)

    def _shown_examples(self, question: str) -> list[dict[str, Any]]:
        library = self._opened()
        if not self._on("enable_fewshot"):
            return []
        files = ExampleFiles(library.info().location, library.example_embedder)
        return [asdict(example) for example in files(self._few_shot_path).nearest(question)]

    def _own(self, *names: str) -> bool:
        """Whether a subclass, or a caller on this agent, overrides one of these."""
        below = type(self).__mro__[: type(self).__mro__.index(KnowledgeGraphAgent)]
        return any(name in vars(owner) for owner in (self, *below) for name in names)

    def _worth(self, question: str, text: str) -> bool:
        worth = self._score_section_quality(text, question)
        return worth >= self.CONTENT_QUALITY_THRESHOLD or exemption(text, question) is not None

    def _ask(self, question: str, max_results: int, **more: Any) -> Answer:
        model = self._llm()
        expands = self._on("enable_multi_query")
        notes = (*more.pop("notes", ()), *self._notes)
        if expands and self._offline:
            notes += ("no query expansion: PACKWISE_SYNTHESIS is off",)
        defaults: dict[str, Any] = {
            "expansion": "llm" if expands and not self._offline else "off",
            "threshold": self._own_threshold(),
            "second_look": False,
            "synthesis": model is not None,
        }
        request = AnswerRequest(
            max_results=max_results,
            num_docs=self.num_docs,
            max_sections=self.max_sections,
            min_relevance=self.min_relevance,
            notes=notes,
            graph=None if self._on("enable_reranker") else False,
            rerank="crossencoder" if self._on("enable_cross_encoder") else "off",
            documents=self._on("enable_multidoc"),
            few_shot=self._on("enable_fewshot"),
            few_shot_path=self._few_shot_path,
            max_tokens=self.SYNTHESIS_MAX_TOKENS,
            llm=model,
            **{**defaults, **more},
        )
        return self._opened().answer(question, request)

    def _own_threshold(self) -> float | None:
        """A threshold that a subclass or a caller set; else the store's or the setting."""
        own = self.CONTEXT_CONFIDENCE_THRESHOLD
        return own if own != 0.5 or self._own("CONTEXT_CONFIDENCE_THRESHOLD") else None

    def _on(self, flag: str) -> bool:
        return self.use_enhancements and bool(getattr(self, flag))

    def _connect(self, api_key: str | None, model_name: str | None) -> str:
        """Set up the language model; its name, or empty without one."""
        try:
            model = load_llm(api_key=api_key, model=model_name)
        except ModelMissing as error:
            if api_key:
                raise
            self._notes += (f"no language model: {error}",)
            return ""
        if isinstance(model, ClaudeModel):
            self.claude = model.client
        else:
            self._other_model = model
        return model.name if model is not None else ""

    def _llm(self) -> LanguageModel | None:
        """The current language model; callers may put another client in ``claude``."""
        if self._offline:
            return None
        if self.claude is not None:
            return ClaudeModel(self.claude, self.synthesis_model)
        return self._other_model

    def _opened(self) -> Library:
        if self._library is None:
            raise UsageError("the agent is closed", fix="create a new KnowledgeGraphAgent")
        return self._library
