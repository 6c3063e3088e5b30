"""Knowledge nodes in PostgreSQL: written and found as one tenant, or a few, at a time.

Whoever logs in, all work is done as the application's role, which owns nothing and which
row-level security holds for; the tenants are set for one transaction, as a bound value.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from packwise.candidates import FUSIONS, Fusion
from packwise.documents import content_hash
from packwise.errors import EmbedderMismatch, StoreError, StoreMissing, UsageError
from packwise.nodes.schema import (
    COMPONENT,
    VECTOR_INDEX,
    Index,
    NodesSchema,
    create_vector_index,
    nodes_migrations,
    read_settings,
)
from packwise.stores.base import Vectors
from packwise.stores.checks import question_vector
from packwise.stores.postgres.entity_rows import copy_rows
from packwise.stores.postgres.errors import speaking
from packwise.stores.postgres.migrations import migrate
from packwise.stores.postgres.pool import Pool
from packwise.stores.postgres.text import plain
from packwise.stores.postgres.vectors import literal

if TYPE_CHECKING:
    from packwise.stores.postgres.driver import Connection

FIELD = "field"
QA_EXAMPLE = "qa_example"
BANDS = ((0.85, "high"), (0.70, "good"), (0.50, "partial"))
MOST_RESULTS = 1000

_T = TypeVar("_T")
_COLUMNS = """k.node_id, k.tenant_id, k.dataset_name, k.node_type, k.node_key, k.title, k.summary,
    k.content_description, k.content, k.metadata, k.embedder_version"""
_INCOMING = (
    "(nth, tenant_id, dataset_name, node_type, node_key, title, summary, content_description,"
    " content, metadata, embedding, embedder_version, content_hash)"
)


def no_values() -> Mapping[str, Any]:
    """The default for a node's metadata."""
    return {}


def band(score: float) -> str:
    """What a combined score means in a word: ``high``, ``good``, ``partial`` or ``low``."""
    return next((word for least, word in BANDS if score >= least), "low")


@dataclass(frozen=True, slots=True)
class KnowledgeNode:
    """Something a tenant knows: a column of a table, a question with its SQL, a term.

    ``node_key`` is the writer's own name for it, unique within a tenant; a node without one
    is known by its content. ``node_id`` is the database's, once it is stored.
    """

    tenant_id: str
    node_type: str
    title: str = ""
    summary: str = ""
    content_description: str = ""
    content: str = ""
    dataset_name: str = ""
    metadata: Mapping[str, Any] = field(default_factory=no_values)
    node_key: str = ""
    node_id: int | None = None
    embedder_version: str = ""

    @property
    def embedded_text(self) -> str:
        """What is embedded: title, summary and description (the content where there is none).

        The content of an answered question is its SQL, which no question is like.
        """
        content = "" if self.node_type == QA_EXAMPLE else self.content
        parts = (self.title, self.summary, self.content_description or content)
        return " ".join(part for part in parts if part)

    @property
    def fingerprint(self) -> str:
        """Equal for nodes that say the same."""
        return content_hash(
            self.dataset_name,
            self.node_type,
            self.title,
            self.summary,
            self.content_description,
            self.content,
            json.dumps(plain(self.metadata), sort_keys=True, ensure_ascii=False),
        )


@dataclass(frozen=True, slots=True)
class FoundNode:
    """A node a search found, with every score it was given.

    bm25      raw BM25 among the nodes that were searched
    vector    cosine of question and node; ``None`` for a node without a vector
    keyword   ``bm25`` over the highest this question can reach (0..1)
    combined  weighted average of the cosine, clipped to 0..1, and ``keyword``
    final     what the list is sorted by
    """

    node: KnowledgeNode
    combined: float
    bm25: float = 0.0
    vector: float | None = None
    keyword: float = 0.0
    final: float = 0.0

    @property
    def band(self) -> str:
        return band(self.combined)


@dataclass(frozen=True, slots=True)
class Written:
    """What writing nodes did: their ids in the order given, and how many were what."""

    ids: tuple[int, ...]
    added: int
    changed: int
    unchanged: int


def init_nodes(url: str, schema: NodesSchema) -> list[str]:
    """Make the tables for nodes, or bring them up to date; the steps that were taken.

    Raises ``EmbedderMismatch`` where they are there with another dimension.
    """
    pool = Pool(url)
    connection = pool.dedicated()
    try:
        with speaking(pool.location):
            done = migrate(connection, COMPONENT, nodes_migrations(schema), pool.location)
            there = read_settings(connection)
        if int(there["dim"]) != schema.dim:
            raise EmbedderMismatch(
                f"{pool.location} has nodes of {there['dim']} dimensions, not {schema.dim}",
                fix=f"packwise db init URL --dim {there['dim']}, or use another schema",
            )
        return done
    finally:
        connection.close()


def index_nodes(url: str, kind: Index | None = None) -> Index:
    """Make the vector index anew, without keeping readers or writers waiting; its kind.

    For ``ivfflat``, whose lists follow the number of rows, after the table has grown; for
    ``hnsw`` after a large load.
    """
    pool = Pool(url)
    connection = pool.dedicated()
    try:
        with speaking(pool.location):
            settings = read_settings(connection)
            if not settings:
                raise _missing(pool.location)
            chosen: Index = kind or ("ivfflat" if settings["index"] == "ivfflat" else "hnsw")
            connection.execute("SET maintenance_work_mem = '1GB'")
            connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {VECTOR_INDEX}".encode())
            create_vector_index(connection, chosen, concurrently=True)
            connection.execute(
                "UPDATE packwise_settings SET value = %s WHERE name = 'index'", (chosen,)
            )
            connection.execute(
                "VACUUM (ANALYZE) knowledge_nodes, knowledge_postings, knowledge_terms"
            )
        return chosen
    finally:
        connection.close()


class NodeStore:
    """Nodes of one database. Safe to use from several threads."""

    def __init__(self, url: str, *, pool_size: int = 8, statement_timeout_ms: int = 0) -> None:
        self._timeout = statement_timeout_ms
        self._settings: dict[str, str] = {}
        self._pool = Pool(url, size=pool_size, prepare=self._prepare)

    @property
    def location(self) -> str:
        return self._pool.location

    def settings(self) -> Mapping[str, str]:
        """What the tables were made with: dim, language, role, index, ranking."""
        if not self._settings:
            self._pool.run(lambda _: None)
        return dict(self._settings)

    @property
    def dim(self) -> int:
        """The dimension of the vectors."""
        return int(self.settings()["dim"])

    def close(self) -> None:
        """Close the connections; closing again does nothing."""
        self._pool.close()

    def get(
        self,
        tenants: Sequence[str],
        *,
        node_types: Sequence[str] = (),
        datasets: Sequence[str] = (),
        most: int | None = None,
    ) -> list[KnowledgeNode]:
        """The tenants' nodes that pass the filters, by id."""

        def fetch(connection: Connection) -> list[KnowledgeNode]:
            rows = connection.execute(
                f"SELECT {_COLUMNS} FROM knowledge_nodes AS k"
                " WHERE k.tenant_id = ANY (%(tenants)s::text[])"
                " AND (%(types)s::text[] = '{}' OR k.node_type = ANY (%(types)s::text[]))"
                " AND (%(datasets)s::text[] = '{}' OR k.dataset_name = ANY (%(datasets)s::text[]))"
                " ORDER BY k.node_id LIMIT %(most)s".encode(),
                {
                    "tenants": list(tenants),
                    "types": plain(list(node_types)),
                    "datasets": plain(list(datasets)),
                    "most": most,
                },
            ).fetchall()
            return [_node(row) for row in rows]

        return self._as_tenants(tenants, fetch)

    def nearest(
        self,
        vector: Vectors | Sequence[float],
        tenants: Sequence[str],
        *,
        k: int,
        threshold: float = -1.0,
        node_types: Sequence[str] = (),
        datasets: Sequence[str] = (),
    ) -> list[FoundNode]:
        """The ``k`` nodes of highest cosine, best first, none below ``threshold``."""
        found = self.search("", vector, tenants, k=k, node_types=node_types, datasets=datasets)
        return [hit for hit in found if hit.vector is not None and hit.vector >= threshold]

    def search(
        self,
        text: str,
        vector: Vectors | Sequence[float] | None,
        tenants: Sequence[str],
        *,
        k: int,
        node_types: Sequence[str] = (),
        datasets: Sequence[str] = (),
        bm25_weight: float = 0.4,
        vector_weight: float = 0.6,
        fusion: Fusion = "weighted",
        exact: bool = False,
    ) -> list[FoundNode]:
        """The ``k`` best of the tenants' nodes; filters are part of the search itself.

        Both legs and the nodes come in one round trip. ``exact`` compares every vector.
        """
        if not 1 <= k <= MOST_RESULTS:
            raise UsageError(f"k is 1 to {MOST_RESULTS}, not {k}")
        if fusion not in FUSIONS:
            raise UsageError(f"fusion is one of {', '.join(FUSIONS)}, not {fusion!r}")
        if not (bm25_weight >= 0 and vector_weight >= 0 and bm25_weight + vector_weight > 0):
            raise UsageError("the weights are 0 or more, and not both 0")
        asked = (
            None if vector is None else literal(question_vector(vector, self.dim, self.location))
        )
        values = {
            "text": plain(text),
            "vector": asked,
            "tenants": list(tenants),
            "types": plain(list(node_types)),
            "datasets": plain(list(datasets)),
            "k": k,
            "bm25": bm25_weight,
            "cosine": vector_weight,
            "fusion": fusion,
            "exact": exact,
        }
        query = (
            "SELECT s.bm25_score, s.vector_score, s.keyword_score, s.combined_score,"
            f" s.final_score, {_COLUMNS} FROM packwise_search_nodes(%(text)s, %(vector)s::vector,"
            " %(tenants)s::text[], %(types)s::text[], %(datasets)s::text[], %(k)s,"
            " %(bm25)s::float8, %(cosine)s::float8, %(fusion)s, %(exact)s) AS s"
            " JOIN knowledge_nodes AS k ON k.node_id = s.node_id"
            " ORDER BY s.final_score DESC, s.node_id"
        ).encode()

        def look(connection: Connection) -> list[tuple[Any, ...]]:
            return connection.execute(query, values).fetchall()

        return [
            FoundNode(_node(row), combined, bm25, cosine, keyword, final)
            for bm25, cosine, keyword, combined, final, *row in self._as_tenants(tenants, look)
        ]

    def write(
        self,
        nodes: Sequence[KnowledgeNode],
        vectors: Vectors | None,
        embedder_version: str = "",
        *,
        allow_mismatch: bool = False,
    ) -> Written:
        """Add nodes, or replace those of the same tenant and key; all of them or none.

        ``vectors`` has a row a node. Raises ``EmbedderMismatch`` when a tenant has vectors of
        another embedder, unless ``allow_mismatch``.
        """
        if not nodes:
            return Written((), 0, 0, 0)
        block = None if vectors is None else self._block(len(nodes), vectors)
        keyed = [_keyed(node) for node in nodes]
        tenants = list(dict.fromkeys(node.tenant_id for node in keyed))
        rows = [
            (
                nth,
                *_texts(node),
                json.dumps(plain(node.metadata), ensure_ascii=False),
                None if block is None else literal(block[nth]),
                embedder_version,
                node.fingerprint,
            )
            for nth, node in enumerate(keyed)
        ]

        def put(connection: Connection) -> Written:
            if block is not None and not allow_mismatch:
                self._check_embedder(connection, tenants, embedder_version)
            return _upsert(connection, rows)

        return self._as_tenants(tenants, put, retry=False)

    def known(self, tenant: str, keys: Sequence[str]) -> dict[str, tuple[str, str]]:
        """Fingerprint and embedder version of those of a tenant's nodes that have a vector."""

        def fetch(connection: Connection) -> dict[str, tuple[str, str]]:
            rows = connection.execute(
                "SELECT node_key, content_hash, embedder_version FROM knowledge_nodes"
                " WHERE tenant_id = %s AND node_key = ANY (%s::text[]) AND embedding IS NOT NULL",
                (tenant, plain(list(keys))),
            )
            return {key: (digest, version) for key, digest, version in rows}

        return self._as_tenants([tenant], fetch)

    def delete(self, ids: Sequence[int], tenants: Sequence[str]) -> int:
        """Remove nodes; how many of these ids were the tenants'."""

        def remove(connection: Connection) -> int:
            return connection.execute(
                "DELETE FROM knowledge_nodes WHERE node_id = ANY (%s::integer[])"
                " AND tenant_id = ANY (%s::text[])",
                ([i for i in ids if -(2**31) <= i < 2**31], list(tenants)),
            ).rowcount

        return self._as_tenants(tenants, remove, retry=False)

    def count(self, tenants: Sequence[str]) -> int:
        """How many nodes the tenants have."""

        def total(connection: Connection) -> int:
            row = connection.execute(
                "SELECT coalesce(sum(t.nodes), 0)::bigint FROM knowledge_totals AS t"
                " JOIN knowledge_groups AS g USING (group_id)"
                " WHERE g.tenant_id = ANY (%s::text[])",
                (list(tenants),),
            ).fetchone()
            return row[0] if row else 0

        return self._as_tenants(tenants, total)

    def _as_tenants(
        self, tenants: Sequence[str], work: Callable[[Connection], _T], *, retry: bool = True
    ) -> _T:
        """Do work that sees these tenants' rows and no others."""
        names = _checked_tenants(tenants)

        def whole(connection: Connection) -> _T:
            # A read travels in one pipeline: opening, tenants, question and end together.
            with connection.pipeline() if retry else nullcontext(), connection.transaction():
                connection.execute(
                    "SELECT set_config('packwise.tenants', %s::text[]::text, true)", (names,)
                )
                return work(connection)

        return self._pool.run(whole, retry=retry)

    def _prepare(self, connection: Connection) -> None:
        from psycopg import errors, sql

        settings = read_settings(connection)
        if not settings:
            raise _missing(self.location)
        try:
            connection.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(settings["role"])))
        except errors.InsufficientPrivilege as error:
            raise StoreError(
                f"{self.location}: this user may not work as {settings['role']!r}",
                fix=f"GRANT {settings['role']} TO the user of the URL",
            ) from error
        row = connection.execute(
            "SELECT r.rolsuper OR r.rolbypassrls OR pg_has_role(c.relowner, 'USAGE')"
            " FROM pg_roles AS r, pg_class AS c"
            " WHERE r.rolname = current_user AND c.oid = 'knowledge_nodes'::regclass"
        ).fetchone()
        if row is None or row[0]:
            raise StoreError(
                f"{self.location}: the role {settings['role']!r} could see every tenant's rows",
                fix="take from it: superuser, bypassrls and the ownership of the tables",
            )
        if self._timeout:
            connection.execute(
                "SELECT set_config('statement_timeout', %s, false)", (str(self._timeout),)
            )
        self._settings = settings

    def _block(self, rows: int, vectors: Vectors) -> Vectors:
        block = np.asarray(vectors, dtype=np.float32)
        if block.shape != (rows, self.dim):
            raise EmbedderMismatch(
                f"{rows} nodes of {self.location} need vectors of shape ({rows}, {self.dim}),"
                f" not {block.shape}",
                fix=f"use an embedder of {self.dim} dimensions",
            )
        lengths = np.linalg.norm(block, axis=1, keepdims=True)
        if not np.isfinite(block).all() or not lengths.all():
            raise StoreError("a node's vector is all zero or holds a number that is not finite")
        return block / lengths

    def _check_embedder(
        self, connection: Connection, tenants: Sequence[str], embedder_version: str
    ) -> None:
        for tenant in tenants:
            row = connection.execute(
                "SELECT embedder_version FROM knowledge_nodes"
                " WHERE tenant_id = %s AND embedding IS NOT NULL LIMIT 1",
                (tenant,),
            ).fetchone()
            if row is not None and row[0] != embedder_version:
                raise EmbedderMismatch(
                    f"tenant {tenant!r} of {self.location} has vectors of {row[0] or 'unknown'},"
                    f" not of {embedder_version or 'unknown'}",
                    fix="use that embedder, or allow the mismatch and write every node anew",
                )


def _upsert(connection: Connection, rows: Sequence[Sequence[Any]]) -> Written:
    connection.execute(
        "CREATE TEMP TABLE packwise_incoming (nth integer, tenant_id text, dataset_name text,"
        " node_type text, node_key text, title text, summary text, content_description text,"
        " content text, metadata jsonb, embedding vector, embedder_version text,"
        " content_hash text) ON COMMIT DROP"
    )
    copy_rows(connection, "packwise_incoming", rows, _INCOMING)
    before = connection.execute(
        "SELECT count(*), count(*) FILTER (WHERE k.content_hash = i.content_hash"
        " AND k.embedder_version = i.embedder_version"
        " AND (i.embedding IS NULL OR k.embedding = i.embedding))"
        " FROM packwise_incoming AS i JOIN knowledge_nodes AS k"
        " ON k.tenant_id = i.tenant_id AND k.node_key = i.node_key"
    ).fetchone()
    assert before is not None
    there, same = before
    # The last of several lines with one key is the one that counts.
    connection.execute(
        """INSERT INTO knowledge_nodes AS k (tenant_id, dataset_name, node_type, node_key, title,
            summary, content_description, content, metadata, embedding, embedder_version,
            content_hash)
        SELECT tenant_id, dataset_name, node_type, node_key, title, summary, content_description,
            content, metadata, embedding, embedder_version, content_hash
        FROM (SELECT DISTINCT ON (tenant_id, node_key) * FROM packwise_incoming
            ORDER BY tenant_id, node_key, nth DESC) AS last_of_key ORDER BY nth
        ON CONFLICT (tenant_id, node_key) DO UPDATE SET dataset_name = excluded.dataset_name,
            node_type = excluded.node_type, title = excluded.title, summary = excluded.summary,
            content_description = excluded.content_description, content = excluded.content,
            metadata = excluded.metadata, embedding = excluded.embedding,
            embedder_version = excluded.embedder_version, content_hash = excluded.content_hash
        WHERE k.content_hash <> excluded.content_hash
            OR k.embedder_version <> excluded.embedder_version
            OR (excluded.embedding IS NOT NULL AND k.embedding IS DISTINCT FROM excluded.embedding)
        """
    )
    ids = connection.execute(
        "SELECT k.node_id FROM packwise_incoming AS i JOIN knowledge_nodes AS k"
        " ON k.tenant_id = i.tenant_id AND k.node_key = i.node_key ORDER BY i.nth"
    ).fetchall()
    return Written(tuple(i for (i,) in ids), len(rows) - there, there - same, same)


def _node(row: Iterable[Any]) -> KnowledgeNode:
    (node_id, tenant, dataset, kind, key, title, summary, description, content, metadata, by) = row
    return KnowledgeNode(
        tenant_id=tenant,
        node_type=kind,
        title=title,
        summary=summary,
        content_description=description,
        content=content,
        dataset_name=dataset,
        metadata=metadata,
        node_key=key,
        node_id=node_id,
        embedder_version=by,
    )


def _keyed(node: KnowledgeNode) -> KnowledgeNode:
    """The node with a key, checked."""
    _checked_tenants([node.tenant_id])
    if not node.node_type:
        raise UsageError(f"the node {node.title!r} has no node_type")
    return node if node.node_key else replace(node, node_key=node.fingerprint)


def _texts(node: KnowledgeNode) -> list[str]:
    texts = (
        node.tenant_id,
        node.dataset_name,
        node.node_type,
        node.node_key,
        node.title,
        node.summary,
        node.content_description,
        node.content,
    )
    return [plain(text) for text in texts]


def _checked_tenants(tenants: Sequence[str]) -> list[str]:
    if isinstance(tenants, str) or not tenants:
        raise UsageError("name at least one tenant", fix="tenant_ids is a list of tenant ids")
    for tenant in tenants:
        if not tenant or tenant != plain(tenant):
            raise UsageError(f"{tenant!r} cannot be a tenant id")
    return list(tenants)


def _missing(location: str) -> StoreMissing:
    return StoreMissing(
        f"{location} has no tables for knowledge nodes", fix="packwise db init URL --dim 384"
    )
