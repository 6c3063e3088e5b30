"""``manifest.json``: what a pack is, for people and programs that do not open it.

``pack.sqlite`` is authoritative: the manifest is written after it, by every build that changed
something, and a pack works without one.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import Any, cast

from packwise import __version__
from packwise.errors import NotAStore, StoreError, StoreMissing
from packwise.language.analyzer import ANALYZER
from packwise.stores.durable import PreparedFile
from packwise.stores.pack.database import PackState
from packwise.stores.pack.folder import MANIFEST, PackFolder

FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The contents of ``manifest.json``; times are UTC in ISO 8601."""

    format: int = FORMAT
    version: str
    generation: int
    embedder: str
    embedder_version: str
    dim: int
    analyzer: str
    documents: int
    passages: int
    links: int
    created_at: str
    updated_at: str
    packwise: str

    @classmethod
    def of(cls, state: PackState) -> Manifest:
        """The manifest of a pack in this state."""
        return cls(
            version=state.index.version,
            generation=state.generation,
            embedder=state.embedder.name,
            embedder_version=state.embedder.version,
            dim=state.embedder.dim,
            analyzer=ANALYZER,
            documents=state.documents,
            passages=state.passages,
            links=state.links,
            created_at=state.created_at,
            updated_at=state.updated_at,
            packwise=__version__,
        )


def prepare_manifest(folder: PackFolder, manifest: Manifest) -> PreparedFile:
    """The manifest on the disk beside the old one; ``publish`` puts it in place."""
    content = json.dumps(asdict(manifest), indent=2, ensure_ascii=False) + "\n"
    return folder.prepare(MANIFEST, content)


def is_described(folder: PackFolder, state: PackState) -> bool:
    """Whether the manifest is there and is that of the pack's state."""
    try:
        return read_manifest(folder).version == state.index.version
    except StoreError:
        return False


def read_manifest(folder: PackFolder) -> Manifest:
    """The manifest of a pack. Raises ``StoreMissing`` where there is none, ``NotAStore`` where
    it cannot be understood."""
    path = folder.path / MANIFEST
    fix = f"packwise pack repair {folder}"
    try:
        content: Any = json.loads(folder.text(MANIFEST))
    except FileNotFoundError as error:
        raise StoreMissing(f"there is no {path}", fix=fix) from error
    except (OSError, ValueError, RecursionError) as error:
        raise NotAStore(f"cannot read {path}: {error}", fix=fix) from error
    if not isinstance(content, dict):
        raise NotAStore(f"{path} is not a manifest", fix=fix)
    values = cast("dict[str, Any]", content)
    named = {f.name: values.get(f.name) for f in fields(Manifest)}
    types = {f.name: {"int": int, "str": str}[str(f.type)] for f in fields(Manifest)}
    wrong = [name for name, value in named.items() if type(value) is not types[name]]
    if wrong:
        raise NotAStore(f"{path} lacks {', '.join(wrong)}", fix=fix)
    return Manifest(**cast("dict[str, Any]", named))
