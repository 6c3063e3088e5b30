"""How a store lies in Qdrant: its collections, its points, and what every point carries.

NAME        an alias for the collection that readers see
NAME--1     a collection: passages (dense and sparse vectors), documents, what is told of
            entities, term statistics; a store embedded anew gets the next number
NAME--build one point that says who is building, and one that counts point ids

Points are never changed under a reader's eyes. Each is ``born`` in a generation and has
``died`` in one; a reader of generation g sees those with born <= g < died, and the state
point, which a commit writes last, says what g is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any
from uuid import UUID

from packwise.documents import content_hash
from packwise.errors import StoreError
from packwise.stores.qdrant.address import Address
from packwise.stores.qdrant.server import Server

DENSE = "dense"
SPARSE = "terms"
STATE = 0
NEVER = 1 << 60
"""The generation in which what is staged is born and what is alive dies."""

HNSW_M = 16
HNSW_EF_CONSTRUCT = 128
HNSW_EF_SEARCH = 128

Payload = dict[str, Any]


@dataclass(frozen=True, slots=True)
class State:
    """One generation of a store, as its state point tells it.

    ``weighed`` is the average length that the sparse vectors assume; ``terms`` counts all
    index terms, so that the true average is known too.
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

    def payload(self) -> Payload:
        """What the state point carries; it is no part of any generation."""
        return {"state": asdict(self)}

    @classmethod
    def read(cls, payload: Mapping[str, Any] | None) -> State | None:
        """The state in a payload, if it is one."""
        fields = (payload or {}).get("state")
        return cls(**fields) if isinstance(fields, dict) else None


def build_collection(name: str) -> str:
    """The collection that belongs to the builds of a store."""
    return f"{name}--build"


def tag(kind: str, *values: str | int) -> str:
    """A value in the one index by which points are found: 128 bits, whatever the text."""
    return str(UUID(content_hash(kind, *map(str, values))))


def make_collection(server: Server, address: Address, name: str, dim: int) -> None:
    """Create a collection with its vectors and payload indexes."""
    from qdrant_client import models

    server.call(
        lambda client: client.create_collection(
            name,
            vectors_config={
                DENSE: models.VectorParams(
                    size=dim,
                    distance=models.Distance.COSINE,
                    datatype=models.Datatype.FLOAT16,
                    hnsw_config=models.HnswConfigDiff(m=HNSW_M, ef_construct=HNSW_EF_CONSTRUCT),
                )
            },
            sparse_vectors_config={SPARSE: models.SparseVectorParams(modifier=models.Modifier.IDF)},
            shard_number=address.shards,
            replication_factor=address.replicas,
            on_disk_payload=True,
        )
    )
    keyword = models.KeywordIndexType.KEYWORD
    integer = models.IntegerIndexType.INTEGER
    ranges = models.IntegerIndexParams(type=integer, lookup=False, range=True)
    indexes: dict[str, Any] = {
        "tenant": models.KeywordIndexParams(type=keyword, is_tenant=True),
        "spaceId": models.PayloadSchemaType.KEYWORD,
        "acl": models.PayloadSchemaType.KEYWORD,
        "lang": models.PayloadSchemaType.KEYWORD,
        "tags": models.PayloadSchemaType.UUID,
        "born": ranges,
        "died": ranges,
        "orderIndex": ranges,
        "passage": ranges,
        "count": ranges,
    }
    *most, last = indexes.items()
    for field, schema in most:
        server.call(
            lambda client, f=field, s=schema: client.create_payload_index(name, f, s, wait=False)
        )
    # Operations are applied in order: once the last index is there, all are.
    server.call(lambda client: client.create_payload_index(name, *last, wait=True))


def make_build_collection(server: Server, address: Address, name: str) -> None:
    """Create the collection of the builds, where it is not there yet."""
    from qdrant_client import models

    build = build_collection(name)
    if server.call(lambda client: client.collection_exists(build)):
        return
    # A vector of one dimension: every Qdrant takes a collection with one.
    one = models.VectorParams(size=1, distance=models.Distance.DOT)
    try:
        server.call(
            lambda client: client.create_collection(
                build, vectors_config={DENSE: one}, replication_factor=address.replicas
            )
        )
    except StoreError:
        # Another build made it in the meantime, or it could not be made.
        if not server.call(lambda client: client.collection_exists(build)):
            raise


def has(*tags: str) -> list[Any]:
    """Conditions: a point has all of these tags."""
    from qdrant_client import models

    return [
        models.FieldCondition(key="tags", match=models.MatchValue(value=value)) for value in tags
    ]


def has_any(tags: Iterable[str]) -> Any:
    """A condition: a point has one of these tags."""
    from qdrant_client import models

    return models.FieldCondition(key="tags", match=models.MatchAny(any=list(tags)))


def within(field: str, **bounds: int) -> Any:
    """A condition: a number is within bounds (``gte``, ``gt``, ``lte``, ``lt``)."""
    from qdrant_client import models

    return models.FieldCondition(key=field, range=models.Range(**bounds))


def visible(generation: int) -> list[Any]:
    """Conditions: a reader of this generation sees the point."""
    return [within("born", lte=generation), within("died", gt=generation)]


def is_visible(payload: Mapping[str, Any], generation: int) -> bool:
    """The same, of a payload in hand."""
    return payload.get("born", NEVER) <= generation < payload.get("died", 0)


def every(conditions: Sequence[Any], unless: Sequence[Any] = ()) -> Any:
    """All of these conditions must hold, and none of ``unless``."""
    from qdrant_client import models

    return models.Filter(must=list(conditions), must_not=list(unless) or None)


def scroll(
    server: Server,
    collection: str,
    where: Any,
    fields: Sequence[str] | bool = True,
    *,
    vectors: Sequence[str] = (),
    page: int = 1000,
) -> Iterable[Any]:
    """All points that pass a filter, by id, page by page."""
    offset: Any = None
    while True:
        records, offset = server.call(
            lambda client, start=offset: client.scroll(
                collection,
                scroll_filter=where,
                limit=page,
                offset=start,
                with_payload=list(fields) if not isinstance(fields, bool) else fields,
                with_vectors=list(vectors) or False,
            )
        )
        yield from records
        if offset is None:
            return
