"""How a commit moves staged documents into the store, in one transaction."""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from packwise.documents import Document
from packwise.errors import StoreError
from packwise.language.analyzer import ANALYZER, terms
from packwise.stores.checks import EmbedderIdentity
from packwise.stores.entity_extraction import current_rules, update_entities
from packwise.stores.extractions import extraction_payload
from packwise.stores.lifecycle import CommitPlan
from packwise.stores.links import document_ranks
from packwise.stores.postgres.connections import Connection
from packwise.stores.postgres.entity_rows import PostgresEntityTables
from packwise.stores.postgres.migrations import load_sql
from packwise.stores.postgres.rows import (
    BuildState,
    copy_rows,
    from_postgres,
    list_to_postgres,
    to_postgres,
    vector_literal,
)
from packwise.stores.postgres.search import VECTOR_INDEX
from packwise.stores.records import block_rows, groups, passage_of, unpack_payload

INDEXED_PASSAGES = 5_000
"""The least number of passages whose vectors are indexed."""

_BATCH = 64
"""Documents that are written together."""


def apply_plan(
    connection: Connection,
    state: BuildState,
    plan: CommitPlan,
    embedder: EmbedderIdentity,
    *,
    reembed: bool,
) -> None:
    """Move to the next generation; readers see all of it or nothing."""
    with connection.transaction():
        entities = PostgresEntityTables(connection)
        is_current = state.generation and state.rules == current_rules()
        before = entities.titles() if is_current else None
        if reembed:
            # Its dimension is that of the previous embedder.
            connection.execute(f"DROP INDEX IF EXISTS {VECTOR_INDEX}".encode())
        gone = [*plan.removed, *plan.replaced]
        keys = [plan.stored[name] for name in gone]
        for table in (b"passages", b"links"):
            connection.execute(
                b"DELETE FROM packwise_" + table + b" WHERE document = ANY (%s::bigint[])", (keys,)
            )
        connection.execute(
            "DELETE FROM packwise_documents WHERE key = ANY (%s::bigint[])",
            ([plan.stored[name] for name in plan.removed],),
        )
        added: list[int] = []
        for at in range(0, len(plan.taken), _BATCH):
            added += _write_documents(
                connection, plan, plan.taken[at : at + _BATCH], embedder.version
            )
        connection.execute(load_sql(__name__, "resolve_links"))
        _write_pageranks(connection)
        update_entities(entities, before, added)
        if plan.prune:
            connection.execute("DELETE FROM packwise_staged")
        connection.execute(
            "DELETE FROM packwise_staged_vectors WHERE NOT EXISTS (SELECT FROM packwise_staged)"
        )
        connection.execute(
            load_sql(__name__, "next_generation"),
            (secrets.token_hex(8), *embedder, ANALYZER, current_rules()),
        )


def build_vector_index(connection: Connection, dim: int) -> None:
    """Create the vector index if it is missing and there are enough vectors.

    Runs outside a transaction and blocks no one: until it is there, searches scan all vectors.
    """
    passages, valid = connection.execute(
        "SELECT (SELECT count(*) FROM packwise_passages),"
        " (SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s))",
        (VECTOR_INDEX,),
    ).fetchone() or (0, None)
    if valid is False:
        # A build that was killed leaves an index that no search may use.
        connection.execute(f"DROP INDEX {VECTOR_INDEX}".encode())
    if passages < INDEXED_PASSAGES or valid:
        return
    connection.execute("SET maintenance_work_mem = '512MB'")
    connection.execute(
        f"CREATE INDEX CONCURRENTLY {VECTOR_INDEX} ON packwise_passages"
        f" USING hnsw ((embedding::vector({int(dim)})) vector_cosine_ops)".encode()
    )


def _write_documents(
    connection: Connection, plan: CommitPlan, names: Sequence[str], embedder_version: str
) -> list[int]:
    """Move documents out of the staging table; the keys of their passages."""
    rows = connection.execute(
        "SELECT id, source_hash, payload FROM packwise_staged WHERE id = ANY (%s::text[])"
        " ORDER BY id",
        (list_to_postgres(names),),
    ).fetchall()
    staged = [
        unpack_payload(from_postgres(name), from_postgres(source_hash), payload)
        for name, source_hash, payload in rows
    ]
    document_keys = _document_keys(connection, plan, [document for document, _, _ in staged])
    passage_keys = _new_keys(connection, "packwise_passages", sum(len(p) for _, p, _ in staged))
    vectors = _staged_vectors(
        connection, [row.content_hash for _, p, _ in staged for row in p], embedder_version
    )
    passages: list[tuple[Any, ...]] = []
    postings: list[tuple[Any, ...]] = []
    extracted: list[tuple[Any, ...]] = []
    unused_keys = iter(passage_keys)
    for document, passage_rows, extractions in staged:
        keys: dict[int, int] = {}
        for row in passage_rows:
            key = keys[row.position] = next(unused_keys)
            if row.content_hash not in vectors:
                raise StoreError(f"{document.id}: passage {row.position} has no vector")
            indexed = passage_of(document, row, "").indexed_text
            frequency = Counter(terms(indexed, document.lang))
            length = frequency.total()
            postings += [(term, key, count, length) for term, count in frequency.items()]
            passages.append(
                (
                    key,
                    document_keys[document.id],
                    row.position,
                    list_to_postgres(row.section_path),
                    row.start,
                    row.end,
                    row.content_hash,
                    row.url,
                    document.text[row.start : row.end],
                    length,
                    vectors[row.content_hash],
                    row.layout,
                )
            )
        extracted += [
            (keys[e.order_index], json.dumps(extraction_payload(e), ensure_ascii=False))
            for e in extractions
        ]
    copy_rows(
        connection,
        "packwise_passages",
        passages,
        "(key, document, position, section_path, first, past, content_hash, url, text, length,"
        " embedding, layout)",
    )
    copy_rows(connection, "packwise_postings", postings, "(term, passage, frequency, length)")
    copy_rows(connection, "packwise_extractions", extracted, "(passage, payload)")
    connection.execute(
        "DELETE FROM packwise_staged WHERE id = ANY (%s::text[])", (list_to_postgres(names),)
    )
    return passage_keys


def _document_keys(
    connection: Connection, plan: CommitPlan, documents: Sequence[Document]
) -> dict[str, int]:
    """Write documents with their links. A changed document keeps its key, and with it the links
    that lead to it."""
    new = [document for document in documents if document.id not in plan.stored]
    changed = {d.id: plan.stored[d.id] for d in documents if d.id in plan.stored}
    fresh = _new_keys(connection, "packwise_documents", len(new))
    keys = changed | dict(zip((document.id for document in new), fresh, strict=True))
    columns = "(key, id, title, url, lang, source_hash, metadata, groups, sections, text)"
    rows = [(keys[d.id], *_document_row(d)) for d in new]
    copy_rows(connection, "packwise_documents", rows, columns)
    with connection.cursor() as cursor:
        cursor.executemany(
            "UPDATE packwise_documents SET id = %s, title = %s, url = %s, lang = %s,"
            " source_hash = %s, metadata = %s, groups = %s, sections = %s, text = %s"
            " WHERE key = %s",
            [
                (*(to_postgres(v) if isinstance(v, str) else v for v in _document_row(d)), key)
                for d in documents
                if (key := changed.get(d.id)) is not None
            ],
        )
    links = [
        (keys[d.id], i, k.href, k.href.partition("#")[0], k.anchor, k.start, len(k.anchor), k.kind)
        for d in documents
        for i, k in enumerate(d.links)
    ]
    columns = "(document, position, href, page, anchor, first, reach, kind)"
    copy_rows(connection, "packwise_links", links, columns)
    return keys


def _document_row(document: Document) -> tuple[Any, ...]:
    """The columns of a document; ``copy_rows`` makes the texts fit to store."""
    sections = [
        [list_to_postgres(s.path), s.level, s.start, s.end, block_rows(s.blocks)]
        for s in document.sections
    ]
    metadata = {to_postgres(k): to_postgres(v) for k, v in document.metadata.items()}
    return (
        document.id,
        document.title,
        document.url,
        document.lang,
        document.source_hash,
        json.dumps(metadata),
        list_to_postgres(groups(document.metadata)),
        json.dumps(sections),
        document.text,
    )


def _staged_vectors(connection: Connection, hashes: Sequence[str], version: str) -> dict[str, str]:
    rows = connection.execute(
        "SELECT content_hash, vector FROM packwise_staged_vectors"
        " WHERE embedder_version = %s AND content_hash = ANY (%s::text[])",
        (to_postgres(version), list(hashes)),
    )
    return {digest: vector_literal(np.frombuffer(blob, dtype="<f4")) for digest, blob in rows}


def _new_keys(connection: Connection, table: str, count: int) -> list[int]:
    """Keys that were never used before."""
    rows = connection.execute(
        "SELECT nextval(pg_get_serial_sequence(%s, 'key')) FROM generate_series(1, %s)",
        (table, count),
    )
    return [key for (key,) in rows]


def _write_pageranks(connection: Connection) -> None:
    rows = connection.execute("SELECT key FROM packwise_documents ORDER BY key").fetchall()
    links = connection.execute(
        "SELECT DISTINCT document, target FROM packwise_links WHERE target IS NOT NULL"
    ).fetchall()
    ranks = document_ranks([key for (key,) in rows], links)
    connection.execute(
        "UPDATE packwise_documents AS d SET pagerank = r.rank FROM"
        " (SELECT unnest(%s::bigint[]) AS key, unnest(%s::float8[]) AS rank) AS r"
        " WHERE r.key = d.key AND d.pagerank <> r.rank",
        ([key for key, _ in ranks], [rank for _, rank in ranks]),
    )
