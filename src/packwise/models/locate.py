"""Where a model's files are on this machine, and that they are the right ones.

Looked at in this order: a folder the caller names, ``PACKWISE_MODELS``, the installed carrier
package, the local Hugging Face cache, what was downloaded before. The network is used only
where the caller or a setting allows it.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from packwise.errors import ModelCorrupt, ModelError, ModelMissing, SettingError
from packwise.models.integrity import remembered_sha256, sha256_of
from packwise.models.table import MODELS, Build, Model, ModelFile
from packwise.settings import Settings, cache_folder

if TYPE_CHECKING:
    from packwise.models.download import Received


@dataclass(frozen=True, slots=True)
class Found:
    """A model on this machine: a folder that holds all files of a build, bytes checked."""

    model: Model
    build: Build
    folder: Path
    origin: str

    @property
    def weights(self) -> Path:
        """The file with the graph or the table of vectors."""
        return self.folder / self.build.weights.path

    @property
    def tokenizer(self) -> Path:
        """The tokenizer's file."""
        return self.folder / self.build.tokenizer.path


@dataclass(frozen=True, slots=True)
class _Place:
    """A folder that may hold the model, and what mends it when its bytes are wrong.

    A ``shared`` folder may rightly hold something else under the same file names: another
    model of the table, or another revision.
    """

    folder: Path
    origin: str
    builds: tuple[Build, ...]
    mend: str
    shared: bool = False


def locate(model: Model, settings: Settings, *, folder: Path | None = None) -> Found | None:
    """The model on this machine, or ``None``; never touches the network.

    Raises ``ModelCorrupt`` when a place holds the model's files with other bytes, and
    ``ModelMissing`` when the named ``folder`` does not hold it.
    """
    if folder is not None:
        place = _Place(folder, "folder", model.builds, f"replace the files in {folder}")
        found = _look(model, place)
        if found is None:
            first = model.carrier.build.files
            raise ModelMissing(
                f"{folder} does not hold {model.name}",
                fix=f"put {' and '.join(f.path for f in first)} there",
            )
        return found
    for place in (*_installed(model, settings), _downloaded(model)):
        found = _look(model, place)
        if found is not None:
            return found
    return None


def obtain(
    model: Model,
    settings: Settings,
    *,
    folder: Path | None = None,
    received: Received | None = None,
) -> Found:
    """The model, fetched from the hub where ``settings.allow_hub`` says so.

    Raises ``ModelMissing`` with the command that gets it.
    """
    found = locate(model, settings, folder=folder)
    if found is not None:
        return found
    if settings.allow_hub:
        return get(model, settings, received=received)
    raise missing(model)


def missing(model: Model) -> ModelMissing:
    """What to raise when a model is not here: it names the commands that bring it."""
    return ModelMissing(
        f"the model {model.name} is not on this machine",
        fix=f"pip install '{model.carrier.requirement}', or: packwise models get {model.name}",
    )


def get(model: Model, settings: Settings, *, received: Received | None = None) -> Found:
    """The model, downloaded unless it is installed; a broken download is mended."""
    for place in _installed(model, settings):
        found = _look(model, place)
        if found is not None:
            return found
    from packwise.models.download import download

    place = _downloaded(model)
    download(model, place.folder, received)
    found = _look(model, place)
    assert found is not None, "a finished download is complete"
    return found


def verify(found: Found) -> None:
    """Read all files again and compare; raises ``ModelCorrupt``."""
    for file in found.build.files:
        path = found.folder / file.path
        if sha256_of(path) != file.sha256:
            raise _corrupt(found.model, path, file, f"replace the files in {found.folder}")


def _installed(model: Model, settings: Settings) -> Iterator[_Place]:
    yield from _models_folder(model, settings)
    yield from _carrier(model)
    yield from _hub_cache(model)


def _models_folder(model: Model, settings: Settings) -> Iterator[_Place]:
    if not settings.models_folder:
        return
    top = Path(settings.models_folder).expanduser()
    if not top.is_dir():
        raise SettingError(
            f"PACKWISE_MODELS names {top}, which is not a folder", fix="unset PACKWISE_MODELS"
        )
    for name in (model.name, *model.aliases):
        folder = top / name
        yield _Place(folder, "PACKWISE_MODELS", model.builds, f"replace the files in {folder}")
    mend = f"replace the files in {top}"
    yield _Place(top, "PACKWISE_MODELS", model.builds, mend, shared=True)


def _carrier(model: Model) -> Iterator[_Place]:
    carrier = model.carrier
    # Only the top-level name is looked up: a dotted one would import the parent package.
    spec = importlib.util.find_spec(carrier.package)
    mend = f"pip install --force-reinstall '{carrier.requirement}'"
    for location in (spec.submodule_search_locations or ()) if spec else ():
        folder = Path(location) / carrier.folder
        yield _Place(folder, f"package {carrier.package}", (carrier.build,), mend)


def _hub_cache(model: Model) -> Iterator[_Place]:
    repository = _hub_cache_folder() / f"models--{model.hub.repository.replace('/', '--')}"
    snapshots = repository / "snapshots"
    try:
        revision = (repository / "refs" / model.hub.revision).read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        revision = model.hub.revision
    try:
        names = sorted(path.name for path in snapshots.iterdir())
    except OSError:
        return
    for name in sorted(names, key=lambda n: n != revision):
        folder = snapshots / name
        pinned = name == model.hub.revision
        mend = f"delete {folder} and fetch it again"
        yield _Place(folder, "Hugging Face cache", (model.hub.build,), mend, shared=not pinned)


def _hub_cache_folder() -> Path:
    environment = os.environ
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if environment.get(variable):
            return Path(environment[variable]).expanduser()
    home = environment.get("HF_HOME")
    if home:
        return Path(home).expanduser() / "hub"
    base = environment.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "huggingface" / "hub"


def _downloaded(model: Model) -> _Place:
    folder = cache_folder() / "models" / model.name
    return _Place(folder, "downloaded", (model.hub.build,), f"packwise models get {model.name}")


def _look(model: Model, place: _Place) -> Found | None:
    """The model in this place; ``None`` when it is not there or not all there."""
    for build in place.builds:
        if not all((place.folder / file.path).is_file() for file in build.files):
            continue
        try:
            wrong = _first_wrong(build, place)
            if wrong is None:
                return Found(model, build, place.folder, place.origin)
            elsewhere = place.shared and _is_something_else(model, place, build)
        except OSError as error:
            raise ModelError(
                f"cannot read {model.name} in {place.folder}: {error.strerror or error}",
                fix=place.mend,
            ) from error
        if not elsewhere:
            raise _corrupt(model, place.folder / wrong.path, wrong, place.mend)
    return None


def _first_wrong(build: Build, place: _Place) -> ModelFile | None:
    for file in build.files:
        if remembered_sha256(place.folder / file.path) != file.sha256:
            return file
    return None


def _is_something_else(model: Model, place: _Place, build: Build) -> bool:
    """Whether a shared place rightly holds other bytes under this build's file names."""
    if place.origin == "Hugging Face cache":
        return True
    digest = remembered_sha256(place.folder / build.weights.path)
    others = (other for other in MODELS if other is not model)
    return any(digest == known.weights.sha256 for other in others for known in other.builds)


def _corrupt(model: Model, path: Path, file: ModelFile, mend: str) -> ModelCorrupt:
    return ModelCorrupt(
        f"{path} is not the {model.name} expected: its SHA-256 is not {file.sha256[:12]}...",
        fix=mend,
    )
