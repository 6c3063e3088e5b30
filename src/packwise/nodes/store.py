"""Knowledge nodes in PostgreSQL, written and searched as one or a few tenants at a time.

Whoever logs in, all work is done as the application's role, which owns nothing and is subject
to row-level security. The tenants are set for one transaction, as a bound value.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from packwise.candidates import FUSIONS, Fusion
from packwise.errors import EmbedderMismatch, StoreError, StoreMissing, UsageError
from packwise.nodes.records import TEXT_FIELDS, FoundNode, KnowledgeNode
from packwise.nodes.schema import read_settings
from packwise.stores.base import Vectors
from packwise.stores.checks import question_vector
from packwise.stores.lifecycle import Closeable
from packwise.stores.postgres.connections import (
    Connection,
    PostgresPool,
    hide_password,
    is_postgres,
)
from packwise.stores.postgres.migrations import load_sql
from packwise.stores.postgres.rows import copy_rows, json_to_postgres, vector_literal

_MAX_RESULTS = 1000
_COLUMNS = ", ".join(f"k.{field.name}" for field in fields(KnowledgeNode))

Names = str | Sequence[str] | None
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class NodeWrite:
    """The result of writing nodes: their ids in the order given, and what changed."""

    ids: tuple[int, ...]
    added: int
    changed: int
    unchanged: int


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
        self._settings: dict[str, str] = {}
        self._pool = PostgresPool(
            url,
            size=pool_size,
            configure=partial(_set_role, self.location, statement_timeout_ms),
        )

    def settings(self) -> Mapping[str, str]:
        """What the tables were created with: dim, language, role, index, ranking."""
        if not self._settings:
            self._settings = self._pool.run(lambda c: read_settings(c, self.location))
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
        node_types: Names = None,
        datasets: Names = None,
    ) -> list[KnowledgeNode]:
        """The tenants' nodes that pass the filters, by id."""
        rows = self._fetch(
            tenants,
            f"SELECT {_COLUMNS} FROM knowledge_nodes AS k"
            " WHERE k.tenant_id = ANY (%(tenants)s::text[])"
            " AND (%(types)s::text[] = '{}' OR k.node_type = ANY (%(types)s::text[]))"
            " AND (%(datasets)s::text[] = '{}' OR k.dataset_name = ANY (%(datasets)s::text[]))"
            " ORDER BY k.node_id",
            _filters(node_types, datasets),
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
        fusion: Fusion = "weighted",
        exact: bool = False,
    ) -> list[FoundNode]:
        """The ``k`` best of the tenants' nodes that pass the filters, in one round trip.

        ``exact`` compares every vector instead of using the index.
        """
        if not 1 <= k <= _MAX_RESULTS:
            raise UsageError(f"k must be 1 to {_MAX_RESULTS}, not {k}")
        if fusion not in FUSIONS:
            raise UsageError(f"fusion must be one of {', '.join(FUSIONS)}, not {fusion!r}")
        if not (bm25_weight >= 0 and vector_weight >= 0 and bm25_weight + vector_weight > 0):
            raise UsageError("weights must be 0 or more, and not both 0")
        query = None
        if vector is not None:
            query = vector_literal(question_vector(vector, self.dim, self.location))
        rows = self._fetch(
            tenants,
            "SELECT s.combined_score, s.bm25_score, s.vector_score, s.keyword_score, s.final_score,"
            f" {_COLUMNS} FROM packwise_search_nodes(%(text)s, %(vector)s::vector,"
            " %(tenants)s::text[], %(types)s::text[], %(datasets)s::text[], %(k)s,"
            " %(bm25)s::float8, %(cosine)s::float8, %(fusion)s, %(exact)s) AS s"
            " JOIN knowledge_nodes AS k ON k.node_id = s.node_id"
            " ORDER BY s.final_score DESC, s.node_id",
            {
                **_filters(node_types, datasets),
                "text": json_to_postgres(text),
                "vector": query,
                "k": k,
                "bm25": bm25_weight,
                "cosine": vector_weight,
                "fusion": fusion,
                "exact": exact,
            },
        )
        return [FoundNode(KnowledgeNode(*row[5:]), *row[:5]) for row in rows]

    def write(
        self,
        nodes: Sequence[KnowledgeNode],
        vectors: Vectors | None,
        embedder_version: str = "",
        *,
        allow_mismatch: bool = False,
    ) -> NodeWrite:
        """Add nodes, or replace those of the same tenant and key: all of them or none.

        ``vectors`` has one row per node. Raises ``EmbedderMismatch`` if a tenant has vectors of
        another embedder, unless ``allow_mismatch``.
        """
        if not nodes:
            return NodeWrite((), 0, 0, 0)
        block = None if vectors is None else self._check_vectors(len(nodes), vectors)
        for node in nodes:
            _check_tenants([node.tenant_id])
            if not node.node_type:
                raise UsageError(f"the node {node.title!r} has no node_type")
        tenants = list(dict.fromkeys(node.tenant_id for node in nodes))
        rows = [
            (
                i,
                *(json_to_postgres(getattr(node, name)) for name in (*TEXT_FIELDS, "node_key")),
                json.dumps(json_to_postgres(node.metadata), ensure_ascii=False),
                None if block is None else vector_literal(block[i]),
                embedder_version,
                node.fingerprint,
            )
            for i, node in enumerate(replace(node, node_key=node.key) for node in nodes)
        ]

        def write(connection: Connection) -> NodeWrite:
            if block is not None and not allow_mismatch:
                self._check_embedder(connection, tenants, embedder_version)
            return _upsert(connection, rows)

        return self._as_tenants(tenants, write, retry=False)

    def known(self, tenant: str, keys: Sequence[str]) -> dict[str, tuple[str, str]]:
        """Fingerprint and embedder version of those of a tenant's nodes that have a vector."""
        rows = self._fetch(
            [tenant],
            "SELECT node_key, content_hash, embedder_version FROM knowledge_nodes"
            " WHERE tenant_id = ANY (%(tenants)s::text[]) AND node_key = ANY (%(keys)s::text[])"
            " AND embedding IS NOT NULL",
            {"keys": json_to_postgres(list(keys))},
        )
        return {key: (fingerprint, version) for key, fingerprint, version in rows}

    def delete(self, ids: Sequence[int], tenants: Sequence[str]) -> int:
        """Remove those of the nodes that belong to the tenants; how many there were."""

        def delete(connection: Connection) -> int:
            return connection.execute(
                "DELETE FROM knowledge_nodes WHERE node_id = ANY (%s::integer[])"
                " AND tenant_id = ANY (%s::text[])",
                ([i for i in ids if -(2**31) <= i < 2**31], list(tenants)),
            ).rowcount

        return self._as_tenants(tenants, delete, retry=False)

    def count(self, tenants: Sequence[str]) -> int:
        """How many nodes the tenants have."""
        ((count,),) = self._fetch(
            tenants,
            "SELECT coalesce(sum(t.nodes), 0)::bigint FROM knowledge_totals AS t"
            " JOIN knowledge_groups AS g USING (group_id)"
            " WHERE g.tenant_id = ANY (%(tenants)s::text[])",
            {},
        )
        return count

    def _fetch(
        self, tenants: Sequence[str], query: str, values: Mapping[str, Any]
    ) -> list[tuple[Any, ...]]:
        def fetch(connection: Connection) -> list[tuple[Any, ...]]:
            bound = {"tenants": list(tenants), **values}
            return connection.execute(query.encode(), bound).fetchall()

        return self._as_tenants(tenants, fetch)

    def _as_tenants(
        self, tenants: Sequence[str], work: Callable[[Connection], _T], *, retry: bool = True
    ) -> _T:
        """Do work that sees the rows of these tenants and no others."""
        names = _check_tenants(tenants)

        def in_transaction(connection: Connection) -> _T:
            # A read is one pipeline: begin, tenants, query and commit in one round trip.
            with connection.pipeline() if retry else nullcontext(), connection.transaction():
                connection.execute(
                    "SELECT set_config('packwise.tenants', %s::text[]::text, true)", (names,)
                )
                return work(connection)

        return self._pool.run(in_transaction, retry=retry)

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
                "SELECT embedder_version FROM knowledge_nodes"
                " WHERE tenant_id = %s AND embedding IS NOT NULL LIMIT 1",
                (tenant,),
            ).fetchone()
            if row is not None and row[0] != embedder_version:
                raise EmbedderMismatch(
                    f"tenant {tenant!r} of {self.location} has vectors of {row[0] or 'unknown'},"
                    f" not of {embedder_version or 'unknown'}",
                    fix="use that embedder, or allow the mismatch and write every node again",
                )


def _set_role(location: str, timeout_ms: int, connection: Connection) -> None:
    """Make a connection work as the application's role, after checking that it can be trusted
    with that."""
    from psycopg import errors, sql

    role = read_settings(connection, location)["role"]
    try:
        connection.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(role)))
    except errors.InsufficientPrivilege as error:
        raise StoreError(
            f"{location}: this user may not work as {role!r}",
            fix=f"GRANT {role} TO the user of the URL",
        ) from error
    row = connection.execute(
        "SELECT r.rolsuper OR r.rolbypassrls OR pg_has_role(c.relowner, 'USAGE')"
        " FROM pg_roles AS r, pg_class AS c"
        " WHERE r.rolname = current_user AND c.oid = 'knowledge_nodes'::regclass"
    ).fetchone()
    if row is None or row[0]:
        raise StoreError(
            f"{location}: the role {role!r} could see every tenant's rows",
            fix="take superuser, bypassrls and the ownership of the tables away from it",
        )
    if timeout_ms:
        connection.execute("SELECT set_config('statement_timeout', %s, false)", (str(timeout_ms),))


def _upsert(connection: Connection, rows: Sequence[Sequence[Any]]) -> NodeWrite:
    connection.execute(load_sql(__name__, "incoming"))
    copy_rows(connection, "packwise_incoming", rows)
    matching = (
        " FROM packwise_incoming AS i JOIN knowledge_nodes AS k"
        " ON k.tenant_id = i.tenant_id AND k.node_key = i.node_key"
    )
    stored, same = connection.execute(
        "SELECT count(*), count(*) FILTER (WHERE k.content_hash = i.content_hash"
        " AND k.embedder_version = i.embedder_version"
        f" AND (i.embedding IS NULL OR k.embedding = i.embedding)) {matching}".encode()
    ).fetchone() or (0, 0)
    connection.execute(load_sql(__name__, "upsert"))
    ids = connection.execute(f"SELECT k.node_id {matching} ORDER BY i.nth".encode()).fetchall()
    return NodeWrite(tuple(i for (i,) in ids), len(rows) - stored, stored - same, same)


def _filters(node_types: Names, datasets: Names) -> dict[str, Any]:
    named = {"types": node_types, "datasets": datasets}
    return {
        name: json_to_postgres([values] if isinstance(values, str) else list(values or ()))
        for name, values in named.items()
    }


def _check_tenants(tenants: Sequence[str]) -> list[str]:
    if isinstance(tenants, str) or not tenants:
        raise UsageError("name at least one tenant", fix="tenant_ids is a list of tenant ids")
    for tenant in tenants:
        if not tenant or tenant != json_to_postgres(tenant):
            raise UsageError(f"{tenant!r} cannot be a tenant id")
    return list(tenants)
