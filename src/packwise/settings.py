"""Every setting: its name, environment variable, default, what it does and why it has that value.

A value comes from the caller (Python or the command line), else from the environment, else
from the default here; ``Settings.origin`` says which. Also the two folders Packwise keeps.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args, get_type_hints

from packwise.candidates import Expansion, Fusion, GraphRanking, PackingPolicy, Reranker
from packwise.errors import SettingError

PREFIX = "PACKWISE_"
OVERRIDE, DEFAULT = "override", "default"

_TRUE, _FALSE = {"1", "on", "true", "yes"}, {"0", "off", "false", "no"}


def setting(
    default: Any,
    variable: str,
    meaning: str,
    why: str,
    bounds: tuple[float | None, float | None] = (None, None),
) -> Any:
    """A field of ``Settings``; the type of the field says which texts it takes.

    ``variable`` is its environment variable. One without the prefix is the specification's
    name: it works as an alias, and the variable is the same name with the prefix.
    """
    env, alias = (variable, "") if variable.startswith(PREFIX) else (PREFIX + variable, variable)
    meta = {"env": env, "alias": alias, "meaning": meaning, "why": why, "bounds": bounds}
    return field(default=default, metadata=meta)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings, checked. Create one with ``Settings.load``."""

    # Models
    embedder: str = setting(
        "bge-small-en-v1.5",
        "PACKWISE_EMBEDDER",
        "the embedder that new stores are built with",
        "the best recall of the models that run at this speed on a CPU",
    )
    models_folder: str = setting(
        "",
        "PACKWISE_MODELS",
        "a folder with models, searched before the installed ones",
        "installed models need no folder",
    )
    allow_hub: bool = setting(
        False,
        "PACKWISE_ALLOW_HUB",
        "download a missing model from the hub without asking",
        "nothing uses the network unless you allow it",
    )
    threads: int = setting(
        0,
        "PACKWISE_THREADS",
        "cores the models may use; 0 means all cores of this process",
        "embedding is the slowest part of a build, and it scales with cores",
        bounds=(0, None),
    )

    # Reading and chunking
    allow_secrets: bool = setting(
        False,
        "PACKWISE_ALLOW_SECRETS",
        "also read documents that look like they hold private keys or tokens",
        "what is in a pack can be found by everyone who has it",
    )
    document_seconds: float = setting(
        300.0,
        "PACKWISE_DOCUMENT_SECONDS",
        "the most processor seconds to read and chunk one document; 0 for no limit",
        "a book of a thousand pages takes a tenth of it; a document that takes longer is an attack",
        bounds=(0, None),
    )
    passage_tokens: int = setting(
        320,
        "PACKWISE_PASSAGE_TOKENS",
        "largest passage with its heading, in the embedder's tokens",
        "a few paragraphs: enough to answer from, and well inside the embedder's window",
        bounds=(32, 8192),
    )
    passage_overlap: float = setting(
        0.125,
        "PACKWISE_PASSAGE_OVERLAP",
        "share of a passage that is repeated in the next one",
        "a sentence or two: an answer that crosses a border stays whole in one passage",
        bounds=(0, 0.5),
    )

    # Retrieval
    k_base: int = setting(
        12,
        "RETRIEVAL_K_BASE",
        "candidates per search leg before fusion; if you set it, also for contexts and answers",
        "the specification's value; contexts lose 1% of their answers with it, so they search "
        "deeper unless you set it",
        bounds=(1, 1000),
    )
    vector_weight: float = setting(
        0.7,
        "HYBRID_VECTOR_WEIGHT",
        "weight of the vector leg",
        "the specification's value, and the best mean nDCG@10 over six data sets",
        bounds=(0, 1),
    )
    keyword_weight: float = setting(
        0.3,
        "HYBRID_KEYWORD_WEIGHT",
        "weight of the keyword leg",
        "the rest of the vector weight",
        bounds=(0, 1),
    )
    fusion: Fusion = setting(
        "weighted",
        "PACKWISE_FUSION",
        "how the search legs become one list",
        "ranks better than rrf on the evaluated data sets",
    )
    completion: bool = setting(
        True,
        "PACKWISE_COMPLETION",
        "let each leg score the passages that only the other leg found",
        "a passage that one leg missed is unknown to it, not irrelevant",
    )
    query_adaptive_weights: bool = setting(
        True,
        "QUERY_ADAPTIVE_WEIGHTS",
        "weigh the legs by the question's intent and by how sure each leg is",
        "the specification's value; it helps most where one leg finds nothing",
    )
    graph_ranking: GraphRanking = setting(
        "names",
        "PACKWISE_GRAPH_RANKING",
        "names leads from the best passages to passages that share a name with them",
        "more recall on questions that need two articles, no loss elsewhere",
    )
    reranker: Reranker = setting(
        "off",
        "RERANKER",
        "crossencoder reads question and passage together; mmr spreads the list out",
        "a cross-encoder costs several times the search it improves",
    )
    rerank_pool: int = setting(
        24,
        "PACKWISE_RERANK_POOL",
        "candidates the reranker reads",
        "about a second on two cores; more candidates change little",
        bounds=(1, 1000),
    )
    rerank_topk: int = setting(
        12,
        "RERANK_TOPK",
        "passages a context is chosen from after reranking",
        "the specification's value",
        bounds=(1, 1000),
    )
    cross_encoder_weight: float = setting(
        0.2,
        "PACKWISE_CROSS_ENCODER_WEIGHT",
        "weight of the cross-encoder's score against that of the first stage",
        "alone it ranks worse where question and passage share few words",
        bounds=(0, 1),
    )
    mmr_alpha: float = setting(
        0.5,
        "MMR_ALPHA",
        "weight of relevance against novelty in mmr",
        "the specification's value",
        bounds=(0, 1),
    )
    query_cache: int = setting(
        256,
        "PACKWISE_QUERY_CACHE",
        "searches kept in memory for a minute; 0 keeps none",
        "enough for the repeats of a page or an agent, at a few megabytes",
        bounds=(0, None),
    )

    # Answering
    context_confidence_threshold: float = setting(
        0.5,
        "CONTEXT_CONFIDENCE_THRESHOLD",
        "confidence below which a question is not answered from the store",
        "the specification's value; a calibrated store brings its own unless you set this",
        bounds=(0, 1),
    )
    synthesis: Literal["auto", "off"] = setting(
        "auto",
        "PACKWISE_SYNTHESIS",
        "auto lets a configured language model write answers; off never sends anything",
        "a key in the environment is a request to use it",
    )
    llm_url: str = setting(
        "",
        "PACKWISE_LLM_URL",
        "a server that speaks the OpenAI protocol; its key is not a setting",
        "no server is contacted unless you name one",
    )
    llm_model: str = setting(
        "",
        "PACKWISE_LLM_MODEL",
        "the model that writes answers; empty means claude-opus-4-6",
        "the specification's model",
    )
    answer_judge: Literal["auto", "words"] = setting(
        "auto",
        "PACKWISE_ANSWER_JUDGE",
        "what reads the parts of an answer without a language model; auto: the cross-encoder",
        "it finds answers in other words than the question's; words alone is faster",
    )
    answer_reader: str = setting(
        "",
        "PACKWISE_ANSWER_READER",
        "a model that finds short answers: a folder, or a name in the Hugging Face cache",
        "optional: readers trained on SQuAD are larger than all other models together",
    )
    expansion: Expansion = setting(
        "off",
        "PACKWISE_EXPANSION",
        "other phrasings of a question: from the language model, or from the store itself",
        "llm sends the question to a server, and each phrasing is one more search",
    )

    # Context packing
    context_candidates: int = setting(
        30,
        "PACKWISE_CONTEXT_CANDIDATES",
        "passages a context is chosen from",
        "the answer is rarely further down, and packing stays within milliseconds",
        bounds=(1, 1000),
    )
    context_token_budget: int = setting(
        8000,
        "CONTEXT_TOKEN_BUDGET",
        "largest context, in tokens",
        "the specification's value",
        bounds=(0, None),
    )
    tokenizer_model: str = setting(
        "gpt-4o-2024-11-20",
        "TOKENIZER_MODEL",
        "the language model whose tokens are counted",
        "the specification's value; its tokenizer is public, so counts are exact",
    )
    token_counts: Literal["local", "api"] = setting(
        "local",
        "PACKWISE_TOKEN_COUNTS",
        "local counts Claude's tokens with a margin; api asks Claude for each context",
        "local needs no network and no key",
    )
    packing_policy: PackingPolicy = setting(
        "coverage",
        "PACKWISE_PACKING_POLICY",
        "how passages are chosen for a context",
        "its contexts contain the answer most often",
    )
    packing_per_doc_cap: int = setting(
        2,
        "PACKING_PER_DOC_CAP",
        "passages per document before further ones count less",
        "the specification's value; it keeps one long document from filling the context",
        bounds=(1, None),
    )
    packing_per_section_cap: int = setting(
        1,
        "PACKING_PER_SECTION_CAP",
        "passages per section, unless they continue each other",
        "the specification's value; passages of one section repeat each other",
        bounds=(1, None),
    )
    packing_novelty_alpha: float = setting(
        0.5,
        "PACKING_NOVELTY_ALPHA",
        "weight of novelty against relevance; 0 is relevance alone",
        "the specification's value",
        bounds=(0, 1),
    )
    packing_answerability_bonus: float = setting(
        0.1,
        "PACKING_ANSWERABILITY_BONUS",
        "added to the score of a passage that looks like an answer, times 0.5 to 1.5",
        "the specification's value; it decides between passages of similar score",
        bounds=(0, 1),
    )
    packing_token_price: float = setting(
        0.15,
        "PACKWISE_PACKING_TOKEN_PRICE",
        "share of the expected answer that 1000 tokens must add in a budget of 8000, twice that in "
        "one of 1000; 0 fills the budget",
        "a third less garbage at 1000 and 8000 tokens; chosen on the half tune of squad2, hotpotqa",
        bounds=(0, None),
    )
    packing_quality_threshold: float = setting(
        0.3,
        "PACKWISE_QUALITY_THRESHOLD",
        "section quality below which a passage is a stub",
        "the specification's value: it excludes stubs of under 20 words",
        bounds=(0, 1),
    )
    section_reunification: bool = setting(
        True,
        "SECTION_REUNIFICATION",
        "attach the neighbours of a passage where they add to the answer",
        "the specification's value; an answer may continue in the next passage",
    )
    retrieval_trace: bool = setting(
        False,
        "RETRIEVAL_TRACE",
        "write the trace of every packing to the trace folder",
        "the specification's value; traces contain questions and passages",
    )
    trace_folder: str = setting(
        "",
        "PACKWISE_TRACE_FOLDER",
        "the folder for those traces; empty means the cache folder",
        "traces can be deleted at any time",
    )

    # Web pages
    web_pages: int = setting(
        1000,
        "PACKWISE_WEB_PAGES",
        "the most pages that one URL may lead to",
        "enough for a documentation site; a prefix that is too short does not fill the disk",
        bounds=(1, None),
    )
    web_delay: float = setting(
        0.2,
        "PACKWISE_WEB_DELAY",
        "seconds between two requests; a longer Crawl-delay of robots.txt is kept",
        "five pages per second are no burden for a server",
        bounds=(0, 60),
    )
    web_private: bool = setting(
        False,
        "PACKWISE_WEB_PRIVATE",
        "also fetch from addresses that are not on the public internet",
        "a link must not lead into the network of the person who builds",
    )

    _origins: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def load(cls, env: Mapping[str, str] | None = None, **overrides: Any) -> Settings:
        """Settings from overrides, then the environment, then the defaults.

        An override of ``None`` counts as not given. Raises ``SettingError`` on an invalid
        value, naming the setting and the values it takes.
        """
        environment = os.environ if env is None else env
        values: dict[str, Any] = {}
        origins: dict[str, str] = {}
        for f in fields(cls):
            names = (f.metadata["env"], f.metadata["alias"])
            variable = next((name for name in names if environment.get(name)), None)
            if variable is not None and overrides.get(f.name) is None:
                values[f.name] = _checked(f, variable, environment[variable])
                origins[f.name] = variable
        return cls(**values)._with(origins, overrides)

    def override(self, **values: Any) -> Settings:
        """A copy with other values, checked as in ``load``; all other origins stay."""
        return self._with(self._origins, values)

    @property
    def context_depth(self) -> int:
        """Passages each leg finds for a context or an answer: ``k_base`` if it was set, else 0,
        which means as many as the context is chosen from."""
        return 0 if self.origin("k_base") == "default" else self.k_base

    def origin(self, name: str) -> str:
        """Where a value came from: ``override``, an environment variable's name or ``default``."""
        default = next(f.default for f in fields(self) if f.name == name)
        unknown = DEFAULT if getattr(self, name) == default else OVERRIDE
        return self._origins.get(name, unknown)

    def _with(self, origins: Mapping[str, str], overrides: Mapping[str, Any]) -> Settings:
        known = {f.name: f for f in fields(self)}
        if unknown := overrides.keys() - known.keys():
            raise SettingError(
                f"no such setting: {', '.join(sorted(unknown))}", fix="packwise settings"
            )
        given = {k: _checked(known[k], k, v) for k, v in overrides.items() if v is not None}
        copy = type(self)(**{**{name: getattr(self, name) for name in known}, **given})
        object.__setattr__(copy, "_origins", {**origins, **dict.fromkeys(given, OVERRIDE)})
        return copy


_CHOICES = {name: get_args(kind) for name, kind in get_type_hints(Settings).items()}


def _checked(f: Field[Any], name: str, raw: Any) -> Any:
    """``raw`` as a value of the setting; ``name`` is what the caller called it."""
    default: Any = f.default
    low, high = f.metadata["bounds"]
    value: Any = _parsed(raw.strip(), default) if isinstance(raw, str) else raw
    if isinstance(default, float) and type(value) is int:
        value = float(value)
    takes, choices = "", _CHOICES[f.name]
    if type(value) is not type(default):
        kinds = {bool: "on or off", int: "a whole number", float: "a number", str: "text"}
        takes = kinds[type(default)]
    elif (low is not None and value < low) or (high is not None and value > high):
        takes = f"{low} to {high}" if high is not None else f"{low} or more"
    elif choices and value not in choices:
        takes = f"one of {', '.join(choices)}"
    if takes:
        raise SettingError(f"{name} takes {takes}, not {raw!r}", fix="packwise settings")
    return value


def _parsed(raw: str, default: Any) -> Any:
    """The text as a value of the default's type, or ``None`` if it is not one."""
    if isinstance(default, bool):
        return {**dict.fromkeys(_TRUE, True), **dict.fromkeys(_FALSE, False)}.get(raw.lower())
    if not isinstance(default, (int, float)):
        return raw
    try:
        number = type(default)(raw)
    except ValueError:
        return None
    return number if number == number else None


def data_folder() -> Path:
    """Where installed packs live: ``PACKWISE_HOME``, else the user's data folder."""
    return _folder("PACKWISE_HOME", "XDG_DATA_HOME", "~/.local/share")


def cache_folder() -> Path:
    """Files that can be deleted at any time: ``PACKWISE_CACHE``, else the user's cache folder."""
    return _folder("PACKWISE_CACHE", "XDG_CACHE_HOME", "~/.cache")


def _folder(variable: str, base: str, usual: str) -> Path:
    if given := os.environ.get(variable):
        return Path(given).expanduser()
    return Path(os.environ.get(base) or usual).expanduser() / "packwise"
