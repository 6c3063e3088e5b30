"""The store of a data set, built once and kept in the cache until its inputs change."""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import packwise
from packwise.errors import DataError, StoreError, StoreMissing
from packwise.evaluation.data import DataSet
from packwise.language.names import RULES
from packwise.models.embedder import load_embedder
from packwise.retrieval.profile import load_profile, update_profile
from packwise.settings import Settings, cache_folder
from packwise.stores.base import WriteSummary
from packwise.stores.locate import open_store

if TYPE_CHECKING:
    from packwise.packs.build import Progress

# The code that decides what a store contains. Its bytes are part of the key: a changed chunker
# must never be measured on the passages of the old one.
BUILD_CODE = (
    *("documents.py", "sources", "language", "chunking.py", "guard.py"),
    "stores/pack/sql",
)


def store_path(dataset: DataSet, settings: Settings) -> Path:
    """Where the data set's store is kept, whether or not it exists yet.

    The name has a hash of all that decides the content: the corpus, the embedder, the chunking
    settings and the code that makes passages. Raises ``DataError`` without a corpus.
    """
    files = [dataset.corpus] if dataset.corpus else [path for _, path in dataset.texts]
    if not files:
        raise DataError(
            f"{dataset.folder} has no corpus.jsonl to build a store from", fix="add --store STORE"
        )
    digest = hashlib.blake2b(digest_size=8)
    for path in files:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    inputs = (
        *(path.name for path in files),
        load_embedder(settings.embedder, settings).version,
        str(settings.passage_tokens),
        str(settings.passage_overlap),
        RULES,
        _code_hash(),
    )
    for part in inputs:
        digest.update(b"\0" + part.encode())
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", dataset.name).strip("-.") or "data"
    return cache_folder() / "eval" / f"{name[:48]}-{digest.hexdigest()}"


def cached_store(
    dataset: DataSet,
    settings: Settings,
    progress: AbstractContextManager[Progress] | None = None,
) -> Path:
    """The data set's store, built now if it does not exist yet.

    ``progress`` is entered only if there is something to build. An interrupted build resumes.
    Where another evaluation builds it, this one waits. Raises what a build raises.
    """
    from filelock import FileLock

    place = store_path(dataset, settings)
    if _exists(place, settings):
        return place
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"cannot keep stores in {place.parent}: {error.strerror}", fix="set PACKWISE_CACHE"
        ) from error
    with FileLock(f"{place}.lock"):
        if not _exists(place, settings):
            with progress or nullcontext() as shown:
                _build(dataset, place, settings, shown)
    return place


def _exists(place: Path, settings: Settings) -> bool:
    try:
        with open_store(str(place)) as store:
            # One that an earlier Packwise built may not have been measured.
            if load_profile(store.info()) is None:
                embedder = load_embedder(settings.embedder, settings)
                update_profile(store, embedder, WriteSummary(0, 0, 0, 0, 0))
    except StoreMissing:
        return False
    return True


def _build(dataset: DataSet, place: Path, settings: Settings, progress: Progress | None) -> None:
    from packwise.packs.build import build_pack

    if dataset.corpus is not None:
        build_pack([str(dataset.folder)], str(place), settings=settings, progress=progress)
        return
    with tempfile.TemporaryDirectory() as scratch:
        # As a corpus, so that the offsets of the spans stay right.
        with (Path(scratch) / "corpus.jsonl").open("w", encoding="utf-8") as corpus:
            for identity, path in dataset.texts:
                text = path.read_bytes().decode("utf-8")
                title = identity.replace("_", " ").capitalize()
                corpus.write(json.dumps({"_id": identity, "title": title, "text": text}) + "\n")
        build_pack([scratch], str(place), settings=settings, progress=progress)


def _code_hash() -> str:
    digest = hashlib.blake2b(digest_size=16)
    package = Path(packwise.__file__).parent
    for name in BUILD_CODE:
        place = package / name
        for path in sorted(place.glob("*.[ps]*")) if place.is_dir() else [place]:
            digest.update(path.read_bytes())
    return digest.hexdigest()
