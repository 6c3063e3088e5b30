"""Nodes from a file of JSON lines into PostgreSQL.

Every line is checked before the first is written, so a file with a bad line changes nothing.
Then whole batches are written, each at once; the same call goes on where one was stopped,
for what is stored already is neither embedded nor written again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from packwise.errors import DataError, SourceError, UsageError
from packwise.models.base import Embedder
from packwise.nodes.store import KnowledgeNode, NodeStore
from packwise.stores.base import Vectors

BATCH = 512

_TEXTS = (
    "tenant_id",
    "dataset_name",
    "node_type",
    "title",
    "summary",
    "content_description",
    "content",
)
_NAMES = {*_TEXTS, "id", "node_key", "metadata", "embedding"}


@dataclass(frozen=True, slots=True)
class Line:
    """A node as its line gives it; ``vector`` where the line brings one."""

    number: int
    node: KnowledgeNode
    vector: Vectors | None


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What an import did; ``embedded`` counts the nodes that needed a vector."""

    lines: int
    added: int
    changed: int
    unchanged: int
    embedded: int


def read_lines(
    path: Path, *, tenant: str = "", dataset: str = "", dim: int | None = None
) -> Iterator[Line]:
    """The nodes of a file. ``tenant`` and ``dataset`` stand in where a line names none.

    Raises ``DataError`` with the number of the first line that is wrong, ``SourceError`` on a
    file that cannot be read.
    """
    try:
        with path.open(encoding="utf-8-sig") as file:
            for number, text in enumerate(file, start=1):
                if text.strip():
                    try:
                        yield _line(number, json.loads(text), tenant, dataset, dim)
                    except (ValueError, UsageError) as error:
                        reason = error.msg if isinstance(error, json.JSONDecodeError) else error
                        raise DataError(
                            f"{path.name} line {number}: {reason}", fix="mend or remove that line"
                        ) from None
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SourceError(f"{path} is not UTF-8 text") from error


def import_nodes(
    store: NodeStore,
    path: Path,
    embedder: Callable[[], Embedder],
    *,
    tenant: str = "",
    dataset: str = "",
    progress: Callable[[int, int], None] | None = None,
) -> ImportReport:
    """Make the store hold the nodes of a file. ``embedder`` is called when a node needs a
    vector; ``progress`` hears (lines done, lines in all)."""
    total = sum(1 for _ in read_lines(path, tenant=tenant, dataset=dataset, dim=store.dim))
    if total == 0:
        raise DataError(f"{path.name} holds no nodes", fix="give a file of one node a line")
    done = added = changed = embedded = 0
    for batch in _batches(read_lines(path, tenant=tenant, dataset=dataset, dim=store.dim)):
        for lines, version in _missing(store, batch, embedder):
            vectors, fresh = _vectors(lines, embedder)
            written = store.write([line.node for line in lines], vectors, version)
            added, changed = added + written.added, changed + written.changed
            embedded += fresh
        done += len(batch)
        if progress is not None:
            progress(done, total)
    return ImportReport(total, added, changed, total - added - changed, embedded)


def _line(number: int, row: Any, tenant: str, dataset: str, dim: int | None) -> Line:
    if not isinstance(row, dict):
        raise ValueError("a node is a JSON object")
    unknown = sorted(row.keys() - _NAMES)
    if unknown:
        raise ValueError(f"a node has no field {unknown[0]!r}; put it into metadata")
    for name in _TEXTS:
        if not isinstance(row.get(name, ""), str):
            raise ValueError(f"{name} is not text")
    metadata = row.get("metadata", {})
    if not isinstance(metadata, dict):
        raise ValueError("metadata is not an object")
    key = row.get("node_key", row.get("id", ""))
    if not isinstance(key, (str, int)):
        raise ValueError("id is neither text nor a number")
    texts: dict[str, str] = {name: row.get(name, "") for name in _TEXTS}
    node = KnowledgeNode(
        tenant_id=texts["tenant_id"] or tenant,
        dataset_name=texts["dataset_name"] or dataset,
        node_type=texts["node_type"],
        title=texts["title"],
        summary=texts["summary"],
        content_description=texts["content_description"],
        content=texts["content"],
        metadata=metadata,
        node_key=str(key),
    )
    for name in ("tenant_id", "node_type"):
        if not getattr(node, name):
            raise ValueError(f"the node has no {name}")
    if not node.embedded_text.strip():
        raise ValueError("the node has no text")
    return Line(number, node, _given_vector(row.get("embedding"), dim))


def _given_vector(value: Any, dim: int | None) -> Vectors | None:
    if value is None:
        return None
    try:
        vector = np.asarray(value, dtype=np.float32)
    except (TypeError, ValueError):
        raise ValueError("embedding is not a list of numbers") from None
    if vector.ndim != 1 or (dim is not None and len(vector) != dim):
        raise ValueError(f"embedding has shape {vector.shape}, not ({dim},)")
    if not np.isfinite(vector).all() or not vector.any():
        raise ValueError("embedding is all zero or holds a number that is not finite")
    return vector


def _batches(lines: Iterator[Line]) -> Iterator[list[Line]]:
    batch: list[Line] = []
    for line in lines:
        batch.append(line)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _missing(
    store: NodeStore, batch: Sequence[Line], embedder: Callable[[], Embedder]
) -> Iterator[tuple[list[Line], str]]:
    """The lines that are not stored as they are, by tenant, with whose vectors they get."""
    by_tenant: dict[str, list[Line]] = {}
    for line in batch:
        by_tenant.setdefault(line.node.tenant_id, []).append(line)
    for tenant, lines in by_tenant.items():
        known = store.known(tenant, [line.node.node_key or line.node.fingerprint for line in lines])
        for given in (True, False):
            part = [line for line in lines if (line.vector is not None) == given]
            if part:
                version = "" if given else embedder().version
                left = [line for line in part if not _is_stored(line, known, version)]
                if left:
                    yield left, version


def _is_stored(line: Line, known: Mapping[str, tuple[str, str]], version: str) -> bool:
    fingerprint = line.node.fingerprint
    # A given vector may have changed without its text: only the database can tell.
    return line.vector is None and known.get(line.node.node_key or fingerprint) == (
        fingerprint,
        version,
    )


def _vectors(lines: Sequence[Line], embedder: Callable[[], Embedder]) -> tuple[Vectors, int]:
    given = [line.vector for line in lines if line.vector is not None]
    if given:
        return np.stack(given), 0
    return embedder().embed_passages([line.node.embedded_text for line in lines]), len(lines)
