"""Knowledge nodes in PostgreSQL, written and searched as one or a few tenants at a time.

For every login, all work is done as the application's role, which owns nothing and is subject
to row-level security; a login that is bound to tenants works as itself. Role, tenants, search path
and timeout are set for one transaction: nothing stays behind in a session that a pooler shares.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from packwise.candidates import FUSIONS, Fusion
from packwise.errors import EmbedderMismatch, StoreError, StoreMissing, UsageError
from packwise.nodes.records import (
    TEXT_FIELDS,
    FoundNode,
    KnowledgeNode,
    NodeGroup,
    NodeWrite,
    metadata_json,
    problem_of,
)
from packwise.nodes.schema import check_version, read_settings
from packwise.nodes.transactions import (
    OpenedNodes,
    become_able_to_read,
    check_role,
    check_tenants,
    enter,
    take_turns,
)
from packwise.stores.base import Vectors
from packwise.stores.checks import question_vector
from packwise.stores.lifecycle import Closeable
from packwise.stores.postgres.connections import (
    Connection,
    PostgresPool,
    can_pipeline,
    hide_password,
    is_postgres,
)
from packwise.stores.postgres.migrations import load_sql, raw_sql
from packwise.stores.postgres.rows import copy_rows, json_to_postgres, vector_literal

if TYPE_CHECKING:
    from psycopg.sql import Composed

MAX_RESULTS = 1000
_COLUMNS = ", ".join(f"k.{field.name}" for field in fields(KnowledgeNode))
_FILTER = (
    "k.tenant_id = ANY (%(tenants)s::text[])"
    " AND (%(types)s::text[] = '{{}}' OR k.node_type = ANY (%(types)s::text[]))"
    " AND (%(datasets)s::text[] = '{{}}' OR k.dataset_name = ANY (%(datasets)s::text[]))"
    " AND (%(ids)s::integer[] IS NULL OR k.node_id = ANY (%(ids)s::integer[]))"
    " AND (%(keys)s::text[] IS NULL OR k.node_key = ANY (%(keys)s::text[]))"
)

Names = str | Sequence[str] | None
_T = TypeVar("_T")


def has_nodes(url: str, tenant: str) -> bool:
    """Whether to search a STORE for this tenant's nodes: it has some, or no passages instead."""
    if not is_postgres(url):
        return False
    from packwise.stores.postgres.store import PostgresStore

    nodes, passages = NodeStore(url, pool_size=1), PostgresStore(url, pool_size=1)
    with suppress(StoreMissing), nodes, passages:
        return nodes.count([tenant]) > 0 or not passages.has_passages()
    return False


class NodeStore(Closeable):
    """The nodes of one database. Safe to use from several threads."""

    def __init__(self, url: str, *, pool_size: int = 8, statement_timeout_ms: int = 0) -> None:
        self.location = hide_password(url)
        self._timeout = statement_timeout_ms
        self._opened: OpenedNodes | None = None
        self._pool = PostgresPool(url, size=pool_size, configure=self._configure)

    def settings(self) -> Mapping[str, str]:
        """What the tables were created with: dim, language, role, index, ranking."""
        return dict(self._open().settings)

    def _configure(self, connection: Connection) -> None:
        """Find out where and as which role a connection works, and check the role."""
        path = self._pool.schema_path(connection)
        with connection.transaction():
            become_able_to_read(connection, path, self.location)
            settings = read_settings(connection, self.location, path)
            check_version(connection, self.location, path)
            bound = connection.execute(
                raw_sql("SELECT session_user::text FROM {} WHERE role_name = session_user").format(
                    path.name("knowledge_bindings")
                )
            ).fetchone()
            opened = OpenedNodes(path, settings, bound[0] if bound else settings["role"])
            check_role(connection, opened, self.location)
        self._opened = opened

    def _open(self) -> OpenedNodes:
        """Where the tables are; every connection has found that out."""
        if self._opened is None:
            self._pool.run(lambda _: None)
        assert self._opened is not None
        return self._opened

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
        node_types: Names = None,
        datasets: Names = None,
        keys: Sequence[str] | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> list[KnowledgeNode]:
        """The tenants' nodes that pass the filters, by id; ``limit`` of them after ``offset``."""
        if offset < 0 or (limit is not None and limit < 0):
            raise UsageError("limit and offset must be 0 or more")
        rows = self._fetch(
            tenants,
            f"SELECT {_COLUMNS} FROM {{nodes}} AS k WHERE {_FILTER}"
            " ORDER BY k.node_id LIMIT %(limit)s OFFSET %(offset)s",
            {
                **_filters(node_types, datasets, keys=keys),
                "limit": None if limit is None else min(limit, 2**62),
                "offset": min(offset, 2**62),
            },
        )
        return [KnowledgeNode(*row) for row in rows]

    def search(
        self,
        text: str,
        vector: Vectors | Sequence[float] | None,
        tenants: Sequence[str],
        *,
        k: int,
        node_types: Names = None,
        datasets: Names = None,
        bm25_weight: float = 0.4,
        vector_weight: float = 0.6,
        min_score: float = 0.0,
        fusion: Fusion = "weighted",
        exact: bool = False,
    ) -> list[FoundNode]:
        """The ``k`` best of the tenants' nodes that pass the filters, in one round trip.

        ``min_score`` is the least ``score`` of a result. ``exact`` compares every vector instead
        of using the index.
        """
        if not 1 <= k <= MAX_RESULTS:
            raise UsageError(f"k must be 1 to {MAX_RESULTS}, not {k}")
        if fusion not in FUSIONS:
            raise UsageError(f"fusion must be one of {', '.join(FUSIONS)}, not {fusion!r}")
        if not (
            bm25_weight >= 0 and vector_weight >= 0 and 0 < bm25_weight + vector_weight < 1e300
        ):
            raise UsageError("weights must be finite, 0 or more, and not both 0")
        if not 0 <= min_score <= 1:
            raise UsageError(f"min_score must be 0 to 1, not {min_score}")
        query = None
        if vector is not None:
            query = vector_literal(question_vector(vector, self.dim, self.location))
        rows = self._fetch(
            tenants,
            "SELECT s.combined_score, s.bm25_score, s.vector_score, s.keyword_score, s.final_score,"
            f" s.relevance, {_COLUMNS} FROM {{search}}(%(text)s, %(vector)s::vector,"
            " %(tenants)s::text[], %(types)s::text[], %(datasets)s::text[], %(k)s,"
            " %(bm25)s::float8, %(cosine)s::float8, %(least)s::float8, %(fusion)s, %(exact)s) AS s"
            " JOIN {nodes} AS k ON k.node_id = s.node_id"
            " ORDER BY s.final_score DESC, s.node_id",
            {
                **_filters(node_types, datasets),
                "text": json_to_postgres(text),
                "vector": query,
                "k": k,
                "bm25": bm25_weight,
                "cosine": vector_weight,
                "least": min_score,
                "fusion": fusion,
                "exact": exact,
            },
        )
        return [FoundNode(KnowledgeNode(*row[6:]), *row[:6]) for row in rows]

    def write(
        self,
        nodes: Sequence[KnowledgeNode],
        vectors: Vectors | None,
        embedder_version: str = "",
        *,
        allow_mismatch: bool = False,
    ) -> NodeWrite:
        """Add nodes, or replace those of the same tenant, data set and key: all of them or none.

        ``vectors`` has one row per node. Raises ``EmbedderMismatch`` if a tenant has vectors of
        another embedder, unless ``allow_mismatch``.
        """
        if not nodes:
            return NodeWrite((), 0, 0, 0)
        block = None if vectors is None else self._check_vectors(len(nodes), vectors)
        for node in nodes:
            check_tenants([node.tenant_id])
            if reason := problem_of(node):
                raise UsageError(reason)
        tenants = list(dict.fromkeys(node.tenant_id for node in nodes))
        rows = [
            (
                i,
                *(json_to_postgres(getattr(node, name)) for name in (*TEXT_FIELDS, "node_key")),
                metadata_json(node.metadata),
                None if block is None else vector_literal(block[i]),
                embedder_version,
                node.fingerprint,
            )
            for i, node in enumerate(replace(node, node_key=node.key) for node in nodes)
        ]

        def write(connection: Connection) -> NodeWrite:
            if block is not None and not allow_mismatch:
                self._check_embedder(connection, tenants, embedder_version)
            return self._upsert(connection, rows)

        return self._as_tenants(tenants, write, retry=False)

    def known(self, tenant: str, keys: Sequence[str]) -> dict[tuple[str, str], tuple[str, str]]:
        """Fingerprint and embedder version of those of a tenant's nodes that have a vector, by
        data set and key."""
        rows = self._fetch(
            [tenant],
            "SELECT dataset_name, node_key, content_hash, embedder_version FROM {nodes}"
            " WHERE tenant_id = ANY (%(tenants)s::text[]) AND node_key = ANY (%(keys)s::text[])"
            " AND embedding IS NOT NULL",
            {"keys": json_to_postgres(list(keys))},
        )
        return {(dataset, key): (found, version) for dataset, key, found, version in rows}

    def without_vectors(self, tenants: Sequence[str], limit: int) -> list[KnowledgeNode]:
        """Some of the tenants' nodes that have a text but no vector."""
        rows = self._fetch(
            tenants,
            f"SELECT {_COLUMNS} FROM {{nodes}} AS k WHERE k.tenant_id = ANY (%(tenants)s::text[])"
            " AND k.embedding IS NULL AND k.title || k.summary || k.content_description"
            " || CASE WHEN k.node_type = 'qa_example' THEN '' ELSE k.content END ~ '\\S'"
            " ORDER BY k.node_id LIMIT %(limit)s",
            {"limit": limit},
        )
        return [KnowledgeNode(*row) for row in rows]

    def set_vectors(
        self, nodes: Sequence[KnowledgeNode], vectors: Vectors, embedder_version: str
    ) -> int:
        """Give stored nodes of one tenant their vectors; how many. A node whose text another
        client has changed since it was read, or that has a vector by now, is left as it is."""
        block = self._check_vectors(len(nodes), vectors)
        values = {
            "ids": [node.node_id for node in nodes],
            "texts": json_to_postgres([node.embedded_text for node in nodes]),
            "vectors": [vector_literal(row) for row in block],
            "version": embedder_version,
        }
        query = self._sql(
            "UPDATE {nodes} AS k SET embedding = i.vector::vector, embedder_version = %(version)s"
            " FROM unnest(%(ids)s::integer[], %(texts)s::text[], %(vectors)s::text[])"
            " AS i (node_id, text, vector) WHERE k.node_id = i.node_id AND k.embedding IS NULL"
            " AND {embedded}(k) = i.text"
        )
        tenants = [nodes[0].tenant_id]

        def write(connection: Connection) -> int:
            self._check_embedder(connection, tenants, embedder_version)
            return connection.execute(query, values).rowcount

        return self._as_tenants(tenants, write, retry=False)

    def delete(
        self,
        ids: Sequence[int] | None,
        tenants: Sequence[str],
        *,
        node_types: Names = None,
        datasets: Names = None,
        keys: Sequence[str] | None = None,
    ) -> int:
        """Remove those of the nodes that belong to the tenants and pass the filters; how many
        there were."""
        values = {"tenants": list(tenants), **_filters(node_types, datasets, ids, keys)}
        # Rows are locked in the order in which writers lock them.
        query = self._sql(
            "DELETE FROM {nodes} WHERE node_id = ANY (ARRAY(SELECT k.node_id FROM {nodes} AS k"
            f" WHERE {_FILTER} ORDER BY k.tenant_id, k.dataset_name, k.node_key FOR UPDATE))"
        )
        return self._as_tenants(
            tenants, lambda connection: connection.execute(query, values).rowcount, retry=False
        )

    def count(
        self, tenants: Sequence[str], *, node_types: Names = None, datasets: Names = None
    ) -> int:
        """How many nodes the tenants have that pass the filters."""
        ((count,),) = self._fetch(
            tenants,
            "SELECT coalesce(sum(t.nodes), 0)::bigint FROM {totals} AS t"
            " JOIN {groups} AS g USING (group_id)"
            " WHERE g.tenant_id = ANY (%(tenants)s::text[])"
            " AND (%(types)s::text[] = '{{}}' OR g.node_type = ANY (%(types)s::text[]))"
            " AND (%(datasets)s::text[] = '{{}}' OR g.dataset_name = ANY (%(datasets)s::text[]))",
            _filters(node_types, datasets),
        )
        return count

    def groups(self, tenants: Sequence[str]) -> list[NodeGroup]:
        """How many nodes the tenants have, by data set and type."""
        rows = self._fetch(
            tenants,
            "SELECT g.tenant_id, g.dataset_name, g.node_type, sum(t.nodes)::bigint,"
            " sum(t.vectors)::bigint FROM {totals} AS t JOIN {groups} AS g USING (group_id)"
            " WHERE g.tenant_id = ANY (%(tenants)s::text[]) GROUP BY 1, 2, 3"
            " HAVING sum(t.nodes) > 0 ORDER BY 1, 2, 3",
            {},
        )
        return [NodeGroup(*row) for row in rows]

    def _fetch(
        self, tenants: Sequence[str], query: str, values: Mapping[str, Any]
    ) -> list[tuple[Any, ...]]:
        statement = self._sql(query)

        def fetch(connection: Connection) -> list[tuple[Any, ...]]:
            bound = {"tenants": list(tenants), **values}
            return connection.execute(statement, bound).fetchall()

        return self._as_tenants(tenants, fetch)

    def _sql(self, query: str) -> Composed:
        """A query with the tables and functions that it names, each with its schema."""
        name = self._open().path.name
        return raw_sql(query).format(
            nodes=name("knowledge_nodes"),
            groups=name("knowledge_groups"),
            totals=name("knowledge_totals"),
            search=name("packwise_search_nodes"),
            embedded=name("packwise_embedded_text"),
        )

    def _as_tenants(
        self, tenants: Sequence[str], work: Callable[[Connection], _T], *, retry: bool = True
    ) -> _T:
        """Do work that sees the rows of these tenants and no others."""
        names = check_tenants(tenants)
        opened = self._open()

        def in_transaction(connection: Connection) -> _T:
            # A read is one pipeline: begin, tenants, query and commit in one round trip.
            at_once = retry and can_pipeline(connection)
            with connection.pipeline() if at_once else nullcontext(), connection.transaction():
                enter(connection, opened, names, self._timeout)
                if not retry:
                    take_turns(connection, opened)
                return work(connection)

        return self._pool.run(in_transaction, retry=retry)

    def _upsert(self, connection: Connection, rows: Sequence[Sequence[Any]]) -> NodeWrite:
        nodes = self._open().path.name("knowledge_nodes")
        connection.execute(load_sql(__name__, "incoming", nodes=nodes))
        copy_rows(connection, "pg_temp.packwise_incoming", rows)
        written = connection.execute(load_sql(__name__, "upsert", nodes=nodes)).fetchall()
        added = sum(new for (new,) in written)
        ids = connection.execute(
            self._sql(
                "SELECT k.node_id FROM pg_temp.packwise_incoming AS i JOIN {nodes} AS k"
                " USING (tenant_id, dataset_name, node_key) ORDER BY i.nth"
            )
        ).fetchall()
        changed = len(written) - added
        return NodeWrite(tuple(i for (i,) in ids), added, changed, len(rows) - added - changed)

    def _check_vectors(self, rows: int, vectors: Vectors) -> Vectors:
        """The vectors, L2-normalised."""
        block = np.asarray(vectors, dtype=np.float32)
        if block.shape != (rows, self.dim):
            raise EmbedderMismatch(
                f"{rows} nodes of {self.location} need vectors of shape ({rows}, {self.dim}),"
                f" not {block.shape}",
                fix=f"use an embedder of {self.dim} dimensions",
            )
        lengths = np.linalg.norm(block, axis=1, keepdims=True)
        if not np.isfinite(block).all() or not lengths.all():
            raise StoreError("a node's vector is all zero or contains a number that is not finite")
        return block / lengths

    def _check_embedder(
        self, connection: Connection, tenants: Sequence[str], embedder_version: str
    ) -> None:
        for tenant in tenants:
            row = connection.execute(
                self._sql(
                    "SELECT embedder_version FROM {nodes}"
                    " WHERE tenant_id = %s AND embedding IS NOT NULL LIMIT 1"
                ),
                (tenant,),
            ).fetchone()
            if row is not None and row[0] != embedder_version:
                raise EmbedderMismatch(
                    f"tenant {tenant!r} of {self.location} has vectors of {row[0] or 'unknown'},"
                    f" not of {embedder_version or 'unknown'}",
                    fix="use that embedder, or allow the mismatch and write every node again",
                )


def _filters(
    node_types: Names,
    datasets: Names,
    ids: Sequence[int] | None = None,
    keys: Sequence[str] | None = None,
) -> dict[str, Any]:
    named = {"types": node_types, "datasets": datasets}
    return {
        name: json_to_postgres([values] if isinstance(values, str) else list(values or ()))
        for name, values in named.items()
    } | {
        "ids": None if ids is None else [i for i in ids if -(2**31) <= i < 2**31],
        "keys": None if keys is None else json_to_postgres(list(keys)),
    }
