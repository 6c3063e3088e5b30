"""Every knob: its name, environment variable, default, unit and reason, in one place.

A value comes from the caller (Python or command line), else from the environment,
else from the default here; ``Settings.origin`` says which.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, cast

from packwise.errors import SettingError

_TRUE = {"1", "on", "true", "yes"}
_FALSE = {"0", "off", "false", "no"}

PACKING_POLICIES = ("coverage", "seed", "baseline")


def knob(
    default: Any,
    env: str,
    reason: str,
    *,
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
) -> Any:
    """A field of ``Settings``; ``low``, ``high`` and ``choices`` bound its value."""
    meta = {"env": env, "reason": reason, "low": low, "high": high, "choices": choices}
    return field(default=default, metadata=meta)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The knobs, checked; build one with ``Settings.load``."""

    # Models
    embedder: str = knob(
        "bge-small-en-v1.5", "PACKWISE_EMBEDDER", "the embedder new stores are built with"
    )
    models_folder: str = knob(
        "", "PACKWISE_MODELS", "a folder with models, searched before the installed ones"
    )
    allow_hub: bool = knob(
        False, "PACKWISE_ALLOW_HUB", "let a missing model be fetched from the hub without asking"
    )
    threads: int = knob(
        0, "PACKWISE_THREADS", "cores the models may use; 0 means all this process has", low=0
    )

    # Chunking
    passage_tokens: int = knob(
        320,
        "PACKWISE_PASSAGE_TOKENS",
        "largest passage with its heading, in the embedder's tokens",
        low=32,
        high=8192,
    )
    passage_overlap: float = knob(
        0.125,
        "PACKWISE_PASSAGE_OVERLAP",
        "share of a passage repeated in the next",
        low=0,
        high=0.5,
    )

    # Retrieval
    k_base: int = knob(
        12, "RETRIEVAL_K_BASE", "candidates each leg brings before fusion", low=1, high=1000
    )
    vector_weight: float = knob(
        0.7, "HYBRID_VECTOR_WEIGHT", "weight of the vector leg", low=0, high=1
    )
    keyword_weight: float = knob(
        0.3, "HYBRID_KEYWORD_WEIGHT", "weight of the keyword leg", low=0, high=1
    )
    fusion: str = knob(
        "weighted", "PACKWISE_FUSION", "how the legs become one list", choices=("weighted", "rrf")
    )
    completion: bool = knob(
        True, "PACKWISE_COMPLETION", "let each leg score what only the other one found"
    )
    rrf_k: int = knob(60, "PACKWISE_RRF_K", "rank offset of reciprocal rank fusion", low=1)
    query_adaptive_weights: bool = knob(
        True, "QUERY_ADAPTIVE_WEIGHTS", "weigh the legs by the question's intent and their sureness"
    )
    graph_ranking: str = knob(
        "names",
        "PACKWISE_GRAPH_RANKING",
        "names leads from the best passages to those that share a name or are mentioned",
        choices=("names", "pagerank", "off"),
    )
    similarity_weight: float = knob(
        0.7, "PACKWISE_SIMILARITY_WEIGHT", "weight of similarity beside PageRank", low=0, high=1
    )
    pagerank_weight: float = knob(
        0.3,
        "PACKWISE_PAGERANK_WEIGHT",
        "weight of PageRank, with that graph ranking",
        low=0,
        high=1,
    )
    reranker: str = knob(
        "off",
        "RERANKER",
        "crossencoder reads question and passage together; mmr spreads the list out",
        choices=("crossencoder", "mmr", "off"),
    )
    rerank_pool: int = knob(
        24, "PACKWISE_RERANK_POOL", "candidates a reranker is given", low=1, high=1000
    )
    rerank_topk: int = knob(
        12, "RERANK_TOPK", "passages a reranked context is chosen from", low=1, high=1000
    )
    cross_encoder_weight: float = knob(
        0.2,
        "PACKWISE_CROSS_ENCODER_WEIGHT",
        "weight of the cross-encoder's score beside the first stage's",
        low=0,
        high=1,
    )
    mmr_alpha: float = knob(
        0.5, "MMR_ALPHA", "weight of relevance against novelty in mmr", low=0, high=1
    )
    query_cache: int = knob(
        256, "PACKWISE_QUERY_CACHE", "answers to searches kept in memory; 0 keeps none", low=0
    )
    query_cache_seconds: float = knob(
        60.0, "PACKWISE_QUERY_CACHE_SECONDS", "how long they are kept", low=0
    )

    # Answering
    context_confidence_threshold: float = knob(
        0.5,
        "CONTEXT_CONFIDENCE_THRESHOLD",
        "confidence below which a question is not answered from the store",
        low=0,
        high=1,
    )
    synthesis: str = knob(
        "auto",
        "PACKWISE_SYNTHESIS",
        "auto lets a configured language model write answers; off never sends anything",
        choices=("auto", "off"),
    )
    llm_url: str = knob(
        "", "PACKWISE_LLM_URL", "a server that speaks the OpenAI protocol; its key is no setting"
    )
    llm_model: str = knob(
        "", "PACKWISE_LLM_MODEL", "the model that writes answers; empty means claude-opus-4-6"
    )
    sentence_judge: str = knob(
        "embedder",
        "PACKWISE_SENTENCE_JUDGE",
        "what has a say, beside words, in which sentences make an extractive answer",
        choices=("embedder", "off"),
    )
    expansion: str = knob(
        "off",
        "PACKWISE_EXPANSION",
        "other phrasings of a question: by the language model, or from the store itself",
        choices=("off", "llm", "local"),
    )

    # Context packing
    context_candidates: int = knob(
        30, "PACKWISE_CONTEXT_CANDIDATES", "passages a context is chosen from", low=1, high=1000
    )
    context_token_budget: int = knob(
        8000, "CONTEXT_TOKEN_BUDGET", "most tokens a context may have", low=0
    )
    tokenizer_model: str = knob(
        "gpt-4o-2024-11-20", "TOKENIZER_MODEL", "the language model whose tokens are counted"
    )
    token_counts: str = knob(
        "local",
        "PACKWISE_TOKEN_COUNTS",
        "api asks Claude's own count of each context; local adds a stated margin instead",
        choices=("local", "api"),
    )
    packing_policy: str = knob(
        "coverage",
        "PACKWISE_PACKING_POLICY",
        "how passages are chosen; coverage holds the answer most often",
        choices=PACKING_POLICIES,
    )
    packing_per_doc_cap: int = knob(
        2, "PACKING_PER_DOC_CAP", "passages a document may give before they count less", low=1
    )
    packing_per_section_cap: int = knob(
        1, "PACKING_PER_SECTION_CAP", "passages a section may give, unless they continue", low=1
    )
    packing_novelty_alpha: float = knob(
        0.5,
        "PACKING_NOVELTY_ALPHA",
        "weight of novelty against relevance; 0 is relevance alone",
        low=0,
        high=1,
    )
    packing_answerability_bonus: float = knob(
        0.1,
        "PACKING_ANSWERABILITY_BONUS",
        "added to the score of what looks like an answer, times 0.5 to 1.5",
        low=0,
        high=1,
    )
    packing_token_price: float = knob(
        0.015,
        "PACKWISE_PACKING_TOKEN_PRICE",
        "share of the expected answer a thousand tokens must bring; 0 fills the budget",
        low=0,
    )
    packing_quality_threshold: float = knob(
        0.3,
        "PACKWISE_QUALITY_THRESHOLD",
        "section quality below which a passage is a stub",
        low=0,
        high=1,
    )
    section_reunification: bool = knob(
        True, "SECTION_REUNIFICATION", "attach the neighbours of a passage where it pays"
    )
    retrieval_trace: bool = knob(
        False, "RETRIEVAL_TRACE", "write the record of every packing to the trace folder"
    )
    trace_folder: str = knob(
        "", "PACKWISE_TRACE_FOLDER", "where those records go; empty means the cache folder"
    )

    @classmethod
    def load(cls, env: Mapping[str, str] | None = None, **overrides: Any) -> Settings:
        """Settings from overrides, then the environment, then the defaults.

        An override of ``None`` counts as not given. Raises ``SettingError`` on a value
        that its knob cannot take, naming the knob and what it takes.
        """
        environment = os.environ if env is None else env
        values: dict[str, Any] = {}
        for f in fields(cls):
            if overrides.get(f.name) is not None:
                values[f.name] = _checked(f.name, overrides[f.name], f.default, f.metadata)
            elif environment.get(f.metadata["env"], "") != "":
                variable = f.metadata["env"]
                values[f.name] = _checked(variable, environment[variable], f.default, f.metadata)
        unknown = overrides.keys() - {f.name for f in fields(cls)}
        if unknown:
            raise SettingError(
                f"no such setting: {', '.join(sorted(unknown))}", fix="packwise settings"
            )
        return cls(**values)


def _checked(name: str, raw: Any, default: Any, meta: Mapping[str, Any]) -> Any:
    """``raw`` as the type of ``default``, within the knob's bounds."""
    assert default is not MISSING
    value: Any = raw
    if isinstance(raw, str):
        value = _parsed(name, raw.strip(), default)
    elif isinstance(default, float) and isinstance(raw, int) and not isinstance(raw, bool):
        value = float(raw)
    if type(value) is not type(default):
        raise SettingError(f"{name} takes {_kind(default)}, not {raw!r}", fix="packwise settings")
    low, high = cast("float | None", meta["low"]), cast("float | None", meta["high"])
    if (low is not None and value < low) or (high is not None and value > high):
        bounds = f"{low} to {high}" if high is not None else f"{low} or more"
        raise SettingError(f"{name} takes {bounds}, not {raw!r}", fix="packwise settings")
    choices = cast("tuple[str, ...]", meta["choices"])
    if choices and value not in choices:
        raise SettingError(
            f"{name} takes one of {', '.join(choices)}, not {raw!r}", fix="packwise settings"
        )
    return value


def _parsed(name: str, raw: str, default: Any) -> Any:
    if isinstance(default, bool):
        if raw.lower() in _TRUE:
            return True
        if raw.lower() in _FALSE:
            return False
    elif isinstance(default, (int, float)):
        try:
            number = type(default)(raw)
        except ValueError:
            number = None
        if number is not None and number == number:
            return number
    else:
        return raw
    raise SettingError(f"{name} takes {_kind(default)}, not {raw!r}", fix="packwise settings")


def _kind(default: Any) -> str:
    if isinstance(default, bool):
        return "on or off"
    return {int: "a whole number", float: "a number", str: "text"}[type(default)]
