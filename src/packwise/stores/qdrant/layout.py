"""How a store is laid out in Qdrant: its collections, its points, and filters on them.

NAME        an alias for the collection that readers see
NAME--1     a collection of passages (dense and sparse vectors), documents, entities and
            term statistics; a store embedded again gets the next number
NAME--build one point that says who is building, and one that counts point ids

A point that readers can see is never changed. Each is ``born`` in a generation and ``died`` in
one; a reader of generation g sees the points with born <= g < died. The state point, which a
commit writes last, says what g is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, TypeVar
from uuid import UUID

from qdrant_client import models

from packwise.documents import content_hash
from packwise.errors import StoreError
from packwise.stores.checks import EmbedderIdentity
from packwise.stores.qdrant.server import Address, CollectionMissing, QdrantServer

DENSE = "dense"
SPARSE = "terms"
STATE = 0
"""The id of the state point."""
NEVER = 1 << 60
"""The generation in which staged points are born and live points die."""

HNSW_M = 16
HNSW_EF_CONSTRUCT = 128
HNSW_EF_SEARCH = 128

_MOST_BYTES = 8 << 20
"""Per request; a server accepts 32 MB by default."""

Payload = dict[str, Any]
Fields = Sequence[str] | bool
"""The payload fields to return; ``True`` for all."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class QdrantState:
    """One generation of a store, as stored in its state point.

    ``weighed`` is the average passage length that the sparse vectors assume; ``terms`` counts
    all index terms, which gives the true average.
    """

    collection: str
    generation: int
    token: str
    embedder: str
    embedder_version: str
    dim: int
    documents: int = 0
    passages: int = 0
    links: int = 0
    unresolved: int = 0
    content_bytes: int = 0
    terms: int = 0
    weighed: float = 0.0
    analyzer: str = ""
    rules: str = ""
    created_at: str = ""
    updated_at: str = ""
    committed: float = 0.0

    @property
    def version(self) -> str:
        return f"{self.generation}-{self.token}"

    @property
    def average_length(self) -> float:
        return self.terms / max(self.passages, 1)

    @property
    def identity(self) -> EmbedderIdentity:
        return EmbedderIdentity(self.embedder, self.embedder_version, self.dim)

    def payload(self) -> Payload:
        return {"state": asdict(self)}

    @classmethod
    def read(cls, payload: Mapping[str, Any] | None) -> QdrantState | None:
        """The inverse of ``payload``; ``None`` if the payload holds no state."""
        fields = (payload or {}).get("state")
        return cls(**fields) if isinstance(fields, dict) else None


def tag(kind: str, *values: str | int) -> str:
    """A value in the one index by which points are found: 128 bits for a text of any length."""
    return str(UUID(content_hash(kind, *map(str, values))))


def make_collection(server: QdrantServer, address: Address, name: str, dim: int) -> None:
    """Create a collection with its vectors and payload indexes."""
    dense = models.VectorParams(
        size=dim,
        distance=models.Distance.COSINE,
        datatype=models.Datatype.FLOAT16,
        hnsw_config=models.HnswConfigDiff(m=HNSW_M, ef_construct=HNSW_EF_CONSTRUCT),
    )
    server.call(
        "create_collection",
        name,
        vectors_config={DENSE: dense},
        sparse_vectors_config={SPARSE: models.SparseVectorParams(modifier=models.Modifier.IDF)},
        shard_number=address.shards,
        replication_factor=address.replicas,
        on_disk_payload=True,
    )
    keyword = models.PayloadSchemaType.KEYWORD
    integers = models.IntegerIndexParams(
        type=models.IntegerIndexType.INTEGER, lookup=False, range=True
    )
    indexes: dict[str, Any] = {
        "tenant": models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True),
        **dict.fromkeys(("spaceId", "acl", "lang"), keyword),
        "tags": models.PayloadSchemaType.UUID,
        **dict.fromkeys(("born", "died", "orderIndex", "passage", "count"), integers),
    }
    for field, schema in indexes.items():
        # Operations are applied in order: once the last index exists, all do.
        server.call("create_payload_index", name, field, schema, wait=field == "count")


def make_build_collection(server: QdrantServer, address: Address) -> str:
    """Create the collection that belongs to the builds of a store, unless it exists."""
    name = f"{address.collection}--build"
    if server.call("collection_exists", name):
        return name
    # Every version of Qdrant accepts a vector of one dimension.
    vectors = {DENSE: models.VectorParams(size=1, distance=models.Distance.DOT)}
    replicas = address.replicas
    try:
        server.call("create_collection", name, vectors_config=vectors, replication_factor=replicas)
    except StoreError:
        # Either another build created it in the meantime, or it cannot be created.
        if not server.call("collection_exists", name):
            raise
    return name


def delete_collection(server: QdrantServer, name: str) -> None:
    """Delete a collection if it exists."""
    with suppress(CollectionMissing):
        server.call("delete_collection", name)


def has(*tags: str) -> list[Any]:
    """Conditions: a point has all of these tags."""
    return [
        models.FieldCondition(key="tags", match=models.MatchValue(value=value)) for value in tags
    ]


def has_any(tags: Iterable[str]) -> Any:
    """A condition: a point has one of these tags."""
    return models.FieldCondition(key="tags", match=models.MatchAny(any=list(tags)))


def within(field: str, **bounds: int) -> Any:
    """A condition: a number is within bounds (``gte``, ``gt``, ``lte``, ``lt``)."""
    return models.FieldCondition(key=field, range=models.Range(**bounds))


def visible(generation: int) -> list[Any]:
    """Conditions: a reader of this generation sees the point."""
    return [within("born", lte=generation), within("died", gt=generation)]


def all_of(*conditions: Any) -> models.Filter:
    """A filter: every condition holds."""
    return models.Filter(must=list(conditions))


def scroll(
    server: QdrantServer,
    collection: str,
    where: models.Filter,
    fields: Fields = True,
    *,
    vectors: Sequence[str] = (),
    page: int = 1000,
) -> Iterator[Any]:
    """All points that pass a filter, by id, fetched page by page."""
    offset: Any = None
    while True:
        records, offset = server.call(
            "scroll",
            collection,
            scroll_filter=where,
            limit=page,
            offset=offset,
            with_payload=fields,
            with_vectors=list(vectors) or False,
        )
        yield from records
        if offset is None:
            return


def upsert(server: QdrantServer, collection: str, points: Iterable[Any], most: int = 256) -> None:
    """Write points, in batches of a size that a server accepts."""
    batch: list[Any] = []
    size = 0
    for point in points:
        weight = 2 * len(point.payload.get("text", "")) + 8192
        if batch and (len(batch) >= most or size + weight > _MOST_BYTES):
            server.call("upsert", collection, batch, wait=True)
            batch, size = [], 0
        batch.append(point)
        size += weight
    if batch:
        server.call("upsert", collection, batch, wait=True)


def batched(values: Iterable[_T], size: int = 200) -> Iterator[list[_T]]:
    """Values in lists small enough for one request."""
    every_value = list(values)
    return (every_value[at : at + size] for at in range(0, len(every_value), size))
