"""``manifest.json``: what a pack is, for people and programs that do not open it.

``pack.sqlite`` is authoritative: the manifest is written after it, by every build that changed
something, and a pack works without one.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, cast

from packwise import __version__
from packwise.errors import NotAStore, StoreMissing
from packwise.language.analyzer import ANALYZER
from packwise.stores.durable import PreparedFile
from packwise.stores.pack.database import PackState

MANIFEST = "manifest.json"
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


def prepare_manifest(folder: Path, manifest: Manifest) -> PreparedFile:
    """The manifest on the disk beside the old one; ``publish`` puts it in place."""
    content = json.dumps(asdict(manifest), indent=2, ensure_ascii=False) + "\n"
    return PreparedFile(folder / MANIFEST, content.encode())


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a pack. Raises ``StoreMissing`` where there is none, ``NotAStore`` where
    it cannot be understood."""
    path = folder / MANIFEST
    fix = f"packwise pack validate {folder}"
    try:
        content: Any = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise StoreMissing(f"there is no {path}", fix=fix) from error
    except (OSError, ValueError) as error:
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
