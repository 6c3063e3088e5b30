"""A model in a folder of its own: its configuration files say how it is used.

Read are the files of sentence-transformers (``modules.json``, ``1_Pooling/config.json``,
``sentence_bert_config.json``, ``config_sentence_transformers.json``), of transformers
(``config.json``, ``tokenizer_config.json``) and of model2vec. What they leave open is known by the
model's name, or has to be stated.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from packwise.errors import ModelError, ModelMissing
from packwise.file_hashes import remembered
from packwise.models.locate import (
    LocatedModel,
    download_folder,
    hub_snapshots,
)
from packwise.models.naming import EmbedderName, EmbedderOptions
from packwise.models.table import (
    MODELS,
    Family,
    ModelBuild,
    ModelFile,
    ModelSpec,
    Pooling,
    family_of,
    find_model,
)
from packwise.settings import Settings

if TYPE_CHECKING:
    from packwise.models.download import Received

WEIGHTS = (
    *("onnx/model_quantized.onnx", "onnx/model_int8.onnx", "onnx/model.onnx"),
    *("model_quantized.onnx", "model_int8.onnx", "model_optimized.onnx", "model.onnx"),
)
"""Where the graph is looked for. On a CPU, 8-bit weights are several times faster."""

CONFIGURATION = (
    *("modules.json", "config.json", "tokenizer_config.json", "special_tokens_map.json"),
    *("sentence_bert_config.json", "config_sentence_transformers.json", "1_Pooling/config.json"),
)

_EXPORT = "optimum-cli export onnx --model MODEL FOLDER, or name a file with ?file="
_SAVE = "AutoTokenizer.from_pretrained(MODEL).save_pretrained(FOLDER)"
_USUAL_WINDOW = 512
_NO_LIMIT = 1_000_000
"""``model_max_length`` from here on means that the tokenizer knows none."""

_POOLING_FLAGS: dict[str, Pooling] = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_lasttoken": "last",
}
# Their position table starts with the padding token's own rows.
_OFFSET_POSITIONS = ("roberta", "xlm-roberta", "camembert", "mpnet")


def read_folder(folder: Path, named: EmbedderName, origin: str) -> LocatedModel:
    """The model in a folder, used as its files and the name's options say.

    Raises ``ModelMissing`` when weights or tokenizer are not there, ``ModelError`` when the
    files describe a model that Packwise cannot use.
    """
    try:
        return _read(folder, named, origin)
    except OSError as error:
        raise ModelError(f"cannot read {folder}: {error.strerror or error}") from error


def find_embedder(named: EmbedderName, settings: Settings) -> LocatedModel:
    """The embedder that is not in the table: a folder, or a hub name found on this machine.

    It is downloaded only if ``settings.allow_hub`` allows it. Raises ``ModelMissing`` when it
    is not there, ``UsageError`` for a name that cannot be a folder or on the hub.
    """
    for folder, origin in _places(named, settings):
        if folder.is_dir():
            # A path is remembered in full: the store may be opened from elsewhere.
            base = str(folder) if origin == "folder" else named.base
            return read_folder(folder, replace(named, base=base), origin)
    if named.is_hub_name and settings.allow_hub:
        return get_embedder(named)
    if named.is_hub_name:
        raise ModelMissing(
            f"the embedder {named.base} is not on this machine",
            fix=f"packwise models get {named.base}",
        )
    if named.is_path:
        raise ModelMissing(
            f"the embedder {named.base} is not there",
            fix="name its folder in PACKWISE_EMBEDDER, or put it into the folder PACKWISE_MODELS",
        )
    find_model(named.base, "embedder")
    raise AssertionError("the table has no such row")


def get_embedder(named: EmbedderName, received: Received | None = None) -> LocatedModel:
    """The embedder of a hub name, downloaded; what is already there is not sent again."""
    from packwise.models.download import download_repository

    folder = download_folder(named.base)
    download_repository(named.base, folder, received)
    return read_folder(folder, named, "downloaded")


def _places(named: EmbedderName, settings: Settings) -> Iterator[tuple[Path, str]]:
    yield named.folder, "folder"
    if settings.models_folder:
        top = Path(settings.models_folder).expanduser()
        if not named.is_path:
            yield top / named.base, "PACKWISE_MODELS"
        yield top / named.folder.name, "PACKWISE_MODELS"
    if named.is_hub_name:
        for snapshot in hub_snapshots(named.base):
            yield snapshot, "Hugging Face cache"
        yield download_folder(named.base), "downloaded"


def apply(model: ModelSpec, options: EmbedderOptions) -> ModelSpec:
    """The model with what the options state; another use has another scale."""
    stated: dict[str, Any] = {
        key: value
        for key in ("pooling", "query_prefix", "passage_prefix", "window", "dim")
        if (value := getattr(options, key)) not in (None, 0)
    }
    return replace(model, **stated, gate_map=None) if stated else model


def _read(folder: Path, named: EmbedderName, origin: str) -> LocatedModel:
    options = named.options
    config = _object(folder / "config.json")
    static = static_folder(folder)
    names = WEIGHTS if static is None else (f"{static}model.safetensors",)
    weights = _present(folder, (options.file,) if options.file else names, _EXPORT)
    tokenizer = _present(folder, (f"{static or ''}tokenizer.json",), _SAVE)
    extra = [p.relative_to(folder).as_posix() for p in _more_weights(folder / weights)]
    files = (weights, tokenizer, *extra)
    hashed = [ModelFile(file, remembered((folder / file).resolve())) for file in files]
    build = ModelBuild(hashed[0], hashed[1], tuple(hashed[2:]))
    known = (m for m in MODELS if m.kind == "embedder" and build.weights in _weights_of(m, weights))
    model = next(known, None) or _described(folder, named, config, static=static is not None)
    return LocatedModel(apply(model, options), build, folder, origin, str(named))


def _weights_of(model: ModelSpec, path: str) -> list[ModelFile]:
    """The weights of a model of the table, wherever a folder has them."""
    return [build.weights._replace(path=path) for build in model.builds]


def _described(
    folder: Path, named: EmbedderName, config: Mapping[str, Any], *, static: bool
) -> ModelSpec:
    """The model as its configuration and its name describe it."""
    family = family_of(named.base, folder.name, str(config.get("_name_or_path", "")))
    asked, stored = _prompts(folder, family)
    return ModelSpec(
        name=named.base.rstrip("/").rpartition("/")[2] or folder.name,
        aliases=(),
        kind="embedder",
        pooling="static" if static else _pooling(folder) or family.pooling or "none",
        dim=0,
        window=_window(folder, config),
        query_prefix=asked,
        passage_prefix=stored,
    )


def static_folder(folder: Path) -> str | None:
    """Where a static embedder has its files below the folder, as a prefix; ``None`` for others."""
    place = _modules(folder).get("StaticEmbedding")
    if place is None and _object(folder / "config.json").get("model_type") != "model2vec":
        return None
    return f"{place}/" if place and place != "." else ""


def _present(folder: Path, names: Sequence[str], fix: str) -> str:
    found = next((name for name in names if (folder / name).is_file()), None)
    if found is None:
        raise ModelMissing(f"{folder} has no {' or '.join(names[:3])}", fix=fix)
    return found


def _more_weights(weights: Path) -> list[Path]:
    """The files that large graphs keep their weights in."""
    return sorted(p for p in weights.parent.glob(f"{weights.name}[_.]data*") if p.is_file())


def _modules(folder: Path) -> dict[str, str]:
    """The modules of sentence-transformers by kind, with their folders."""
    listed = _json(folder / "modules.json")
    modules: dict[str, str] = {}
    for entry in cast("list[Any]", listed if isinstance(listed, list) else []):
        if isinstance(entry, dict):
            module = cast("dict[str, Any]", entry)
            modules[str(module.get("type", "")).rpartition(".")[2]] = str(module.get("path") or ".")
    return modules


def _pooling(folder: Path) -> Pooling | None:
    modules = _modules(folder)
    if "Dense" in modules:
        # Only a graph that ends in the sentence's own vector includes that layer.
        return "none"
    said = _object(folder / modules.get("Pooling", "1_Pooling") / "config.json")
    flags = [key for key, on in said.items() if key.startswith("pooling_mode_") and on is True]
    if not flags:
        return None
    if len(flags) > 1 or flags[0] not in _POOLING_FLAGS:
        raise ModelError(
            f"{folder} pools by {' and '.join(flags)}, which Packwise does not know",
            fix="name one of cls, mean, max, last with ?pooling=",
        )
    return _POOLING_FLAGS[flags[0]]


def _prompts(folder: Path, family: Family) -> tuple[str, str]:
    """What is put before a question and before a passage."""
    said = _object(folder / "config_sentence_transformers.json")
    prompts = said.get("prompts")
    known = cast("dict[str, Any]", prompts) if isinstance(prompts, dict) else {}
    usual = known.get(str(said.get("default_prompt_name"))) or ""
    asked = _first(known, ("query",)) or usual or family.query_prefix
    stored = _first(known, ("document", "passage", "corpus")) or usual or family.passage_prefix
    return str(asked), str(stored)


def _first(prompts: Mapping[str, Any], keys: Iterable[str]) -> str:
    return next((str(prompts[key]) for key in keys if prompts.get(key)), "")


def _window(folder: Path, config: Mapping[str, Any]) -> int:
    said = _object(folder / "sentence_bert_config.json").get("max_seq_length")
    if _is_length(said):
        return cast("int", said)
    positions = config.get("max_position_embeddings")
    if _is_length(positions) and config.get("model_type") in _OFFSET_POSITIONS:
        positions = cast("int", positions) - 1 - int(config.get("pad_token_id") or 1)
    limit = _object(folder / "tokenizer_config.json").get("model_max_length")
    lengths = [cast("int", length) for length in (positions, limit) if _is_length(length)]
    return min(lengths, default=_USUAL_WINDOW)


def _is_length(value: object) -> bool:
    return isinstance(value, (int, float)) and 1 <= value < _NO_LIMIT


def _object(path: Path) -> dict[str, Any]:
    value = _json(path)
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _json(path: Path) -> object:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ModelError(f"{path} is not JSON: {error}", fix="download the model again") from error
