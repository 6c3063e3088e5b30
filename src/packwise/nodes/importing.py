"""Imports nodes from a file of JSON lines.

Every line is checked before the first is written, so a file with a bad line changes nothing.
Batches are then written whole. What is already stored is neither embedded nor written again, so
an import that was stopped continues where it was.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import NoneType
from typing import Any, cast

import numpy as np

from packwise.errors import DataError, SourceError
from packwise.models.base import Embedder
from packwise.nodes.records import TEXT_FIELDS, KnowledgeNode, problem_of
from packwise.nodes.store import NodeStore
from packwise.stores.base import Vectors

_BATCH = 512
_FIELDS = {*TEXT_FIELDS, "id", "node_key", "metadata", "embedding"}


@dataclass(frozen=True, slots=True)
class NodeLine:
    """A line of the file: a node, and its vector if the line has one."""

    node: KnowledgeNode
    vector: Vectors | None


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What an import did; ``repeated`` is the number of lines that a later line of the same
    tenant, data set and id replaces, ``embedded`` that of the nodes that needed a vector."""

    lines: int
    added: int
    changed: int
    unchanged: int
    repeated: int
    embedded: int


def read_lines(
    path: Path, *, tenant: str = "", dataset: str = "", dim: int | None = None
) -> Iterator[NodeLine]:
    """The nodes of a file. ``tenant`` and ``dataset`` apply to lines that name none.

    Raises ``DataError`` with the number of the first wrong line, ``SourceError`` for a file that
    cannot be read.
    """
    try:
        with path.open(encoding="utf-8-sig") as file:
            for number, text in enumerate(file, start=1):
                if text.strip():
                    try:
                        row = json.loads(text)
                        node = parse_node(row, tenant, dataset)
                        yield NodeLine(node, _parse_vector(row.get("embedding"), dim))
                    except ValueError as error:
                        reason = error.msg if isinstance(error, json.JSONDecodeError) else error
                        raise DataError(
                            f"{path.name} line {number}: {reason}", fix="correct or remove it"
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
    """Import the nodes of a file. ``embedder`` is called if a node needs a vector; ``progress``
    is called with the lines done and the lines in all."""

    def lines() -> Iterator[tuple[int, NodeLine]]:
        return enumerate(read_lines(path, tenant=tenant, dataset=dataset, dim=store.dim))

    # The last line of an id counts, in whichever batch it is.
    last = {line.node.identity: i for i, line in lines()}
    if not last:
        raise DataError(f"{path.name} contains no nodes", fix="write one node per line")
    total = max(last.values()) + 1
    done = added = changed = embedded = 0
    remaining = (line for i, line in lines() if last[line.node.identity] == i)
    while batch := list(islice(remaining, _BATCH)):
        for part, version in _not_stored(store, batch, embedder):
            nodes = [line.node for line in part]
            vectors = [line.vector for line in part if line.vector is not None]
            if not vectors:
                embedded += len(part)
                vectors = embedder().embed_passages([node.embedded_text for node in nodes])
            written = store.write(nodes, np.asarray(vectors), version)
            added, changed = added + written.added, changed + written.changed
        done += len(batch)
        if progress is not None:
            progress(done, len(last))
    unchanged = len(last) - added - changed
    return ImportReport(total, added, changed, unchanged, total - len(last), embedded)


def parse_node(row: Any, tenant: str = "", dataset: str = "") -> KnowledgeNode:
    """A node from a dictionary. ``tenant`` and ``dataset`` apply if it names none, ``None`` is
    an empty text. Raises ``ValueError``."""
    if not isinstance(row, Mapping):
        raise ValueError("a node is a JSON object")
    given = {str(name): value for name, value in cast("Mapping[Any, Any]", row).items()}
    unknown = sorted(given.keys() - _FIELDS)
    if unknown:
        raise ValueError(f"a node has no field {unknown[0]!r}; put it into metadata")
    texts: dict[str, Any] = {
        name: "" if given.get(name) is None else given[name] for name in TEXT_FIELDS
    }
    for name, text in texts.items():
        if not isinstance(text, str):
            raise ValueError(f"{name} is not text")
    metadata = given.get("metadata")
    if not isinstance(metadata, (Mapping, NoneType)):
        raise ValueError("metadata is not an object")
    key = next((given[name] for name in ("node_key", "id") if given.get(name) is not None), "")
    if not isinstance(key, (str, int)) or isinstance(key, bool):
        raise ValueError("id is neither text nor a number")
    texts["tenant_id"] = texts["tenant_id"] or tenant
    texts["dataset_name"] = texts["dataset_name"] or dataset
    if not texts["tenant_id"]:
        raise ValueError("the node has no tenant_id")
    node = KnowledgeNode(**texts, metadata=dict(metadata or {}), node_key=str(key))
    if reason := problem_of(node):
        raise ValueError(reason)
    if not node.embedded_text.strip():
        raise ValueError("the node has no text")
    return node


def _parse_vector(value: Any, dim: int | None) -> Vectors | None:
    if value is None:
        return None
    try:
        vector = np.asarray(value, dtype=np.float32)
    except (TypeError, ValueError):
        raise ValueError("embedding is not a list of numbers") from None
    if vector.ndim != 1 or (dim is not None and len(vector) != dim):
        raise ValueError(f"embedding has shape {vector.shape}, not ({dim},)")
    if not np.isfinite(vector).all() or not vector.any():
        raise ValueError("embedding is all zero or contains a number that is not finite")
    return vector


def _not_stored(
    store: NodeStore, batch: Sequence[NodeLine], embedder: Callable[[], Embedder]
) -> Iterator[tuple[list[NodeLine], str]]:
    """The lines to write, by tenant, with the version of the embedder of their vectors."""
    by_tenant: dict[str, list[NodeLine]] = {}
    for line in batch:
        by_tenant.setdefault(line.node.tenant_id, []).append(line)
    for tenant, lines in by_tenant.items():
        # A vector of a line may have changed without its text: only the database can tell.
        if given := [line for line in lines if line.vector is not None]:
            yield given, ""
        if others := [line.node for line in lines if line.vector is None]:
            version = embedder().version
            known = store.known(tenant, [node.key for node in others])
            new = [n for n in others if known.get(n.identity[1:]) != (n.fingerprint, version)]
            if new:
                yield [NodeLine(node, None) for node in new], version
