"""KnowledgeGraphAgent: the class of specifications 000 to 002, over any store.

    with KnowledgeGraphAgent("my-pack") as agent:
        print(agent.query("How long does a restore take?")["answer"])

Searching, packing and answering are done by ``packwise.Library``.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from pathlib import Path
from typing import Any, ClassVar, Self

from packwise.answering import synthesis
from packwise.answering.answer import (
    GRAPH_QUERY,
    SYNTHESIS_MAX_TOKENS,
    Answer,
    AnswerRequest,
    Finding,
    NumberedPassage,
)
from packwise.answering.cypher import ask_graph, cypher_examples
from packwise.answering.few_shot import FewShot, FewShotExample
from packwise.answering.source_text import TitleIndex, source_text
from packwise.context.passage_features import QUALITY_THRESHOLD, exemption, section_quality
from packwise.errors import ModelError, ModelMissing, UsageError
from packwise.language.analyzer import FUNCTION_WORDS
from packwise.library import Library, open_library
from packwise.models.claude import ClaudeModel
from packwise.models.llm import SYNTHESIS_MODEL, LanguageModel, load_llm
from packwise.retrieval import paths
from packwise.retrieval.documents import article_of, clamp_results
from packwise.retrieval.expansion import expand
from packwise.retrieval.graph import entities_in_question
from packwise.retrieval.pipeline import MOST_RESULTS
from packwise.settings import Settings
from packwise.stores.base import Key

_FLAGS = (
    "enable_reranker",
    "enable_multidoc",
    "enable_fewshot",
    "enable_multi_query",
    "enable_cross_encoder",
)
_MOST_NAMES = 3
_MOST_PATH_PASSAGES = 12

_log = logging.getLogger("packwise")


class KnowledgeGraphAgent:
    """Answers questions from a store: a pack folder, an installed pack's name, or an address.

    ``anthropic_api_key`` is a key for Claude, by default the one in the environment. Without
    a key, answers consist of sentences from the documents. ``use_enhancements=False`` turns
    every ``enable_*`` off. ``few_shot_path`` replaces the examples in the pack's folder.
    ``cypher_pack_path`` is a file or a folder of questions with their Cypher: questions are
    then sent to the graph as well. The agent never writes, whatever ``read_only`` says.

    ``enable_multi_query`` sends the question (its first 500 characters) to the Anthropic API
    for two other phrasings. Leave it off where questions must not leave the machine.
    """

    CONTENT_QUALITY_THRESHOLD: ClassVar[float] = QUALITY_THRESHOLD
    CONTEXT_CONFIDENCE_THRESHOLD: ClassVar[float] = 0.5
    STOP_WORDS: ClassVar[frozenset[str]] = FUNCTION_WORDS
    SYNTHESIS_MAX_TOKENS: ClassVar[int] = SYNTHESIS_MAX_TOKENS

    def __init__(
        self,
        db_path: str | Path,
        anthropic_api_key: str | None = None,
        read_only: bool = True,
        use_enhancements: bool = True,
        few_shot_path: str | None = None,
        enable_reranker: bool = True,
        enable_multidoc: bool = True,
        enable_fewshot: bool = True,
        synthesis_model: str | None = None,
        cypher_pack_path: str | None = None,
        enable_multi_query: bool = False,
        enable_cross_encoder: bool = False,
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
        self.claude: Any = None
        self._other_model: LanguageModel | None = None
        self._no_model = ""
        loaded = self._connect(anthropic_api_key, synthesis_model)
        self.synthesis_model = synthesis_model or loaded or SYNTHESIS_MODEL
        self._few_shot_path = Path(few_shot_path) if few_shot_path else None
        self._cypher_pack_path = Path(cypher_pack_path) if cypher_pack_path else None
        self._cypher: FewShot | None = None
        settings = Settings.load(packing_quality_threshold=self.CONTENT_QUALITY_THRESHOLD)
        self._library: Library | None = open_library(db_path, settings=settings)
        self._titles = TitleIndex(self._library.store)

    def query(self, question: str, max_results: int = 5) -> dict[str, Any]:
        """Answer a question from at most ``max_results`` articles (1 to 20).

        Returns a dictionary with ``answer``, ``sources``, ``entities``, ``facts``,
        ``cypher_query``, ``query_type``, ``token_usage``, ``confidence``, ``degraded``,
        ``citations``, ``answered_by``, ``question`` and ``trace``.
        """
        if self._cypher_pack_path is not None:
            return self.graph_query(question, max_results=max_results)
        return self._ask(question, max_results).as_dict()

    def semantic_search(self, query: str, top_k: int = 5) -> list[dict[str, Any]]:
        """The ``top_k`` articles nearest to a text, each with its best passage as ``content``.

        ``similarity`` is on the scale of the confidence gate; ``cosine`` is the raw cosine.
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
                        "similarity": scores.similarity or 0.0,
                        "content": passage.text,
                        "cosine": scores.vector,
                        "section": " > ".join(passage.section_path),
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
        asked = ask_graph(store, question, self._llm(), self._cypher_examples())
        more: dict[str, Any] = {"cypher_query": asked.cypher, "spent": asked.usage}
        found: list[paths.EntityPath] = []
        if asked.findings:
            more |= {"findings": asked.findings, "query_type": asked.query_type}
        else:
            found = self._paths(question, max_hops)
            lines = "\n".join(dict.fromkeys(f"{path}." for path in found))
            more |= {
                "findings": (Finding("The graph", lines),) if found else (),
                "extra": _passages_of(found),
                "query_type": GRAPH_QUERY,
                "notes": asked.degraded,
            }
        answer = self._ask(question, max_results, **more)
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

        The question is sent to Claude Haiku; if that fails, it is searched alone.
        ``max_results`` (1 to 20) applies to each search.
        """
        number = clamp_results(max_results)
        model = self._llm()
        phrasings = [question]
        if model is None:
            _log.warning("query expansion needs a language model; searching the question alone")
        else:
            phrasings += expand(question, model).alternatives
        with ThreadPoolExecutor(max_workers=len(phrasings)) as pool:
            jobs = [pool.submit(self.semantic_search, q, top_k=number) for q in phrasings]
            found = [job.result() for job in jobs]
        rows = sorted((row for rows in found for row in rows), key=lambda row: -row["similarity"])
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
        return section_quality(content, question)

    def _fetch_source_text(
        self, source_titles: list[str], max_articles: int = 5, question: str | None = None
    ) -> str:
        """The sections of these articles; with a question, only those of sufficient quality.

        When no section qualifies, the whole content of the articles is used.
        """

        def keep(text: str) -> bool:
            assert question is not None
            worth = self._score_section_quality(text, question)
            return worth >= self.CONTENT_QUALITY_THRESHOLD or exemption(text, question) is not None

        return source_text(
            self._opened().store,
            self._titles,
            source_titles,
            max_articles=max_articles,
            keep=None if question is None else keep,
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
        evidence = (
            [NumberedPassage(1, "", ", ".join(titles), ", ".join(titles), text)] if text else []
        )
        known = [str(line) for line in kg_results.get("facts", ())]
        if known:
            evidence.append(
                NumberedPassage(len(evidence) + 1, "", "Facts", "Facts", "\n".join(known))
            )
        examples = [
            FewShotExample(str(row.get("question", "")), str(row.get("answer", "")))
            for row in few_shot_examples or ()
        ]
        return synthesis.synthesis_prompt(question, evidence, examples).user

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

    def _ask(self, question: str, max_results: int, **more: Any) -> Answer:
        if self._no_model:
            more["notes"] = (*more.get("notes", ()), self._no_model)
        request = AnswerRequest(
            max_results=max_results,
            expansion="llm" if self._on("enable_multi_query") else "off",
            graph=None if self._on("enable_reranker") else False,
            rerank="crossencoder" if self._on("enable_cross_encoder") else "off",
            documents=self._on("enable_multidoc"),
            few_shot=self._on("enable_fewshot"),
            few_shot_path=self._few_shot_path,
            threshold=self._own_threshold(),
            max_tokens=self.SYNTHESIS_MAX_TOKENS,
            llm=self._llm(),
            synthesis=self._llm() is not None,
            **more,
        )
        return self._opened().answer(question, request)

    def _own_threshold(self) -> float | None:
        """A threshold that a subclass or a caller set; else the store's or the setting."""
        name = "CONTEXT_CONFIDENCE_THRESHOLD"
        own: float = getattr(self, name)
        below = type(self).__mro__[: type(self).__mro__.index(KnowledgeGraphAgent)]
        given = own != 0.5 or any(name in vars(owner) for owner in (self, *below))
        return own if given else None

    def _on(self, flag: str) -> bool:
        return self.use_enhancements and bool(getattr(self, flag))

    def _paths(self, question: str, max_hops: int) -> list[paths.EntityPath]:
        store = self._opened().store
        named = entities_in_question(question, store)[:_MOST_NAMES]
        return [
            path
            for source, target in combinations(named, 2)
            for path in paths.find_paths(store, source, target, max_hops, most=2)
        ]

    def _cypher_examples(self) -> FewShot | None:
        """The examples of ``cypher_pack_path``, read once."""
        if self._cypher_pack_path is None or not hasattr(self._opened().store, "cypher"):
            return None
        if self._cypher is None:
            self._cypher = cypher_examples(self._cypher_pack_path, self._opened().embedder)
        return self._cypher

    def _connect(self, api_key: str | None, model_name: str | None) -> str:
        """Set up the language model; its name, or empty without one."""
        try:
            model = load_llm(api_key=api_key, model=model_name)
        except ModelMissing as error:
            if api_key:
                raise
            self._no_model = f"no language model: {error}"
            return ""
        if isinstance(model, ClaudeModel):
            self.claude = model.client
        else:
            self._other_model = model
        return model.name if model is not None else ""

    def _llm(self) -> LanguageModel | None:
        """The current language model; callers may put another client in ``claude``."""
        if self.claude is not None:
            return ClaudeModel(self.claude, self.synthesis_model)
        return self._other_model

    def _opened(self) -> Library:
        if self._library is None:
            raise UsageError("the agent is closed", fix="create a new KnowledgeGraphAgent")
        return self._library


def _passages_of(found: Sequence[paths.EntityPath]) -> tuple[Key, ...]:
    """The passages that support the steps of paths."""
    keys = (step.place.key for path in found for step in path.steps if step.place is not None)
    return tuple(dict.fromkeys(keys))[:_MOST_PATH_PASSAGES]
