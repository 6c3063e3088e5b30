"""Vector and keyword search over the passages, with a ``Filter`` as part of the query.

Values that a caller gave are bound, never part of the SQL text.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from packwise.candidates import Filter
from packwise.stores import bm25
from packwise.stores.base import Key, Match, Vectors
from packwise.stores.checks import after_prefix
from packwise.stores.knowledge import integers
from packwise.stores.postgres.migrations import load_sql, raw_sql
from packwise.stores.postgres.rows import (
    StoreSnapshot,
    list_to_postgres,
    to_postgres,
    vector_literal,
)

VECTOR_INDEX = "packwise_passages_embedding"
EXACT_PASSAGES = 5_000
"""Up to this many passages, an exact scan is as fast as the index."""


def _condition(where: Filter, among: Sequence[Key] | None) -> tuple[str, dict[str, Any]]:
    """What a passage ``p`` must fulfil to be found: SQL, and its bound values."""
    values: dict[str, Any] = {}
    parts: list[str] = []

    def require(part: str, **bound: Any) -> None:
        parts.append(part)
        values.update(bound)

    if where.documents:
        require("d.id = ANY (%(documents)s::text[])", documents=list_to_postgres(where.documents))
    if where.path_prefix:
        prefix = to_postgres(where.path_prefix)
        require("d.id >= %(prefix)s", prefix=prefix)
        past = after_prefix(prefix)
        if past is not None:
            require("d.id < %(past)s", past=past)
    if where.lang:
        require("d.lang = %(lang)s", lang=to_postgres(where.lang))
    named = {"tenant": where.tenant, "space": where.space, "node_type": where.node_type}
    pairs = [(name, value) for name, value in named.items() if value]
    for i, (name, value) in enumerate([*pairs, *where.metadata.items()]):
        pair = json.dumps({to_postgres(name): to_postgres(value)})
        require(f"d.metadata @> %(metadata{i})s::jsonb", **{f"metadata{i}": pair})
    if where.acl:
        groups = list_to_postgres(group.strip() for group in where.acl)
        require("(d.groups = '{}' OR d.groups && %(acl)s::text[])", acl=groups)
    sql = "true"
    if parts:
        documents = f"SELECT d.key FROM packwise_documents AS d WHERE {' AND '.join(parts)}"
        sql = f"p.document IN ({documents})"
    if among is not None:
        sql += " AND p.key = ANY (%(among)s::bigint[])"
        values["among"] = integers(among)
    return sql, values


def search_vectors(
    at: StoreSnapshot, vector: Vectors, k: int, where: Filter, among: Sequence[Key] | None
) -> list[Match]:
    """The ``k`` passages of highest cosine, by the index where there are many."""
    condition, values = _condition(where, among)
    values |= {"vector": vector_literal(vector), "k": k}
    allowed = raw_sql(condition)
    found: list[tuple[Any, ...]] = []
    if among is None and vector.any() and _is_large(at, condition, values, where):
        at.connection.execute(
            "SELECT set_config('hnsw.iterative_scan', 'strict_order', true),"
            " set_config('hnsw.ef_search', %s, true)",
            (str(min(1000, max(100, k))),),
        )
        query = load_sql(__name__, "nearest_indexed", condition=allowed, dim=at.state.dim)
        found = at.connection.execute(query, values).fetchall()
    if len(found) < k:
        query = load_sql(__name__, "nearest", condition=allowed)
        found = at.connection.execute(query, values).fetchall()
    return [Match(key, 1.0 - distance) for key, distance in found]


def _is_large(at: StoreSnapshot, condition: str, values: dict[str, Any], where: Filter) -> bool:
    """Whether the search covers enough passages to use the approximate index."""
    if at.state.passages <= EXACT_PASSAGES:
        return False
    row = at.connection.execute(
        "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)", (VECTOR_INDEX,)
    ).fetchone()
    if row is None or not row[0]:
        return False
    if not where:
        return True
    (count,) = at.connection.execute(
        f"SELECT count(*) FROM (SELECT 1 FROM packwise_passages AS p WHERE {condition}"
        f" LIMIT {EXACT_PASSAGES + 1}) AS allowed".encode(),
        values,
    ).fetchone() or (0,)
    return count > EXACT_PASSAGES


def search_keywords(
    at: StoreSnapshot, terms: Sequence[str], k: int, where: Filter, among: Sequence[Key] | None
) -> list[Match]:
    """The ``k`` passages of highest BM25."""
    condition, values = _condition(where, among)
    query = load_sql(
        __name__,
        "bm25",
        join=raw_sql("JOIN packwise_passages AS p ON p.key = x.passage" if where else ""),
        condition=raw_sql(condition.replace("p.key", "x.passage")),
    )
    values |= {
        "terms": list_to_postgres(dict.fromkeys(terms)),
        "k": k,
        "k1": bm25.K1,
        "b": bm25.B,
        "passages": at.state.passages,
        "average": at.state.average_length or 1.0,
    }
    return [Match(key, score) for key, score in at.connection.execute(query, values)]
