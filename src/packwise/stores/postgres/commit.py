"""How a commit turns staged documents into the store's content, inside one transaction."""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from packwise.documents import Document
from packwise.errors import StoreError
from packwise.language.analyzer import ANALYZER, terms
from packwise.stores.entity_extraction import (
    current_rules,
    extraction_payload,
    update_entities,
)
from packwise.stores.lifecycle import CommitPlan
from packwise.stores.links import document_ranks
from packwise.stores.postgres.entity_rows import PostgresEntityTables, copy_rows
from packwise.stores.postgres.passages_schema import VECTOR_INDEX
from packwise.stores.postgres.state import State
from packwise.stores.postgres.text import given, held, held_list, held_map
from packwise.stores.postgres.vectors import literal
from packwise.stores.records import PassageRecord, groups, passage_of, unpack_payload

if TYPE_CHECKING:
    from packwise.stores.postgres.driver import Connection

INDEXED_PASSAGES = 5_000
"""From so many passages on there is an index of their vectors."""

_BATCH = 64
"""Documents taken over together."""

# What a link leads to: the document of that id, else the one at that URL, else the same
# for the link without its fragment. A document's link to itself leads nowhere.
_RESOLVE = """UPDATE packwise_links AS k SET target = t.target FROM (
    SELECT document, position, nullif(coalesce(
        (SELECT key FROM packwise_documents WHERE id = href),
        (SELECT key FROM packwise_documents WHERE url = href AND url <> '' ORDER BY id LIMIT 1),
        (SELECT key FROM packwise_documents WHERE id = page),
        (SELECT key FROM packwise_documents WHERE url = page AND url <> '' ORDER BY id LIMIT 1)
    ), document) AS target FROM packwise_links
) AS t WHERE t.document = k.document AND t.position = k.position
    AND t.target IS DISTINCT FROM k.target"""


def switch(
    connection: Connection,
    state: State,
    plan: CommitPlan,
    embedder: tuple[str, str, int],
    *,
    reembed: bool,
) -> None:
    """Move to the next generation: readers see all of it or nothing."""
    with connection.transaction():
        entities = PostgresEntityTables(connection)
        is_current = state.generation and state.rules == current_rules()
        before = entities.titles() if is_current else None
        if reembed:
            # Its dimension is the old embedder's.
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
            added += _take(connection, plan, plan.taken[at : at + _BATCH], embedder[1])
        connection.execute(_RESOLVE.encode())
        _rank(connection)
        update_entities(entities, before, added)
        if plan.prune:
            connection.execute("DELETE FROM packwise_staged")
        connection.execute(
            "DELETE FROM packwise_staged_vectors WHERE NOT EXISTS (SELECT FROM packwise_staged)"
        )
        connection.execute(
            "UPDATE packwise_store SET generation = generation + 1, token = %s, embedder = %s,"
            " embedder_version = %s, dim = %s, analyzer = %s, rules = %s, updated_at = now(),"
            " documents = (SELECT count(*) FROM packwise_documents),"
            " passages = (SELECT count(*) FROM packwise_passages),"
            " terms = (SELECT coalesce(sum(length), 0) FROM packwise_passages),"
            " links = (SELECT count(*) FROM packwise_links WHERE target IS NOT NULL)",
            (secrets.token_hex(8), *embedder, ANALYZER, current_rules()),
        )


def build_vector_index(connection: Connection, dim: int) -> None:
    """Make the index of the vectors, if there are enough of them and it is missing.

    Runs outside a transaction and keeps nobody waiting: searches compare vectors one by
    one until it is there.
    """
    row = connection.execute(
        "SELECT (SELECT count(*) FROM packwise_passages), to_regclass(%s) IS NOT NULL,"
        " (SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s))",
        (VECTOR_INDEX, VECTOR_INDEX),
    ).fetchone()
    assert row is not None
    passages, there, valid = row
    if there and not valid:
        # A build that was killed leaves one that no search may use.
        connection.execute(f"DROP INDEX {VECTOR_INDEX}".encode())
    if passages < INDEXED_PASSAGES or valid:
        return
    connection.execute("SET maintenance_work_mem = '512MB'")
    connection.execute(
        f"CREATE INDEX CONCURRENTLY {VECTOR_INDEX} ON packwise_passages"
        f" USING hnsw ((embedding::vector({int(dim)})) vector_cosine_ops)".encode()
    )


def _take(
    connection: Connection,
    plan: CommitPlan,
    names: Sequence[str],
    embedder_version: str,
) -> list[int]:
    """Move documents out of the staging table; the keys of their passages."""
    rows = connection.execute(
        "SELECT id, source_hash, payload FROM packwise_staged WHERE id = ANY (%s::text[])"
        " ORDER BY id",
        (held_list(names),),
    ).fetchall()
    staged = [
        unpack_payload(given(name), given(source_hash), payload)
        for name, source_hash, payload in rows
    ]
    keys = _document_keys(connection, plan, [document for document, _, _ in staged])
    passage_keys = _keys(connection, "packwise_passages", sum(len(p) for _, p, _ in staged))
    vectors = _vectors(
        connection, [row.content_hash for _, p, _ in staged for row in p], embedder_version
    )
    passages: list[tuple[Any, ...]] = []
    postings: list[tuple[Any, ...]] = []
    extracted: list[tuple[Any, ...]] = []
    given_keys = iter(passage_keys)
    for document, places, extractions in staged:
        at: dict[int, int] = {}
        for row in places:
            key = at[row.position] = next(given_keys)
            frequency = Counter(terms(passage_of(document, row, "").indexed_text))
            length = frequency.total()
            passages.append(_passage(key, keys[document.id], document, row, length, vectors))
            postings += [(term, key, count, length) for term, count in frequency.items()]
        extracted += [
            (at[e.order_index], json.dumps(extraction_payload(e), ensure_ascii=False))
            for e in extractions
        ]
    copy_rows(
        connection,
        "packwise_passages",
        passages,
        "(key, document, position, section_path, first, past, content_hash, url, text, length,"
        " embedding)",
    )
    copy_rows(connection, "packwise_postings", postings, "(term, passage, frequency, length)")
    copy_rows(connection, "packwise_extractions", extracted, "(passage, payload)")
    connection.execute(
        "DELETE FROM packwise_staged WHERE id = ANY (%s::text[])", (held_list(names),)
    )
    return passage_keys


def _document_keys(
    connection: Connection, plan: CommitPlan, documents: Sequence[Document]
) -> dict[str, int]:
    """Write documents with their links; a changed one keeps its key, so that links to it
    stay whole."""
    new = [document for document in documents if document.id not in plan.stored]
    fresh = _keys(connection, "packwise_documents", len(new))
    keys = dict(zip((document.id for document in new), fresh, strict=True))
    columns = "(key, id, title, url, lang, source_hash, metadata, groups, sections, text)"
    copy_rows(connection, "packwise_documents", [(keys[d.id], *_document(d)) for d in new], columns)
    with connection.cursor() as cursor:
        cursor.executemany(
            "UPDATE packwise_documents SET id = %s, title = %s, url = %s, lang = %s,"
            " source_hash = %s, metadata = %s, groups = %s, sections = %s, text = %s"
            " WHERE key = %s",
            [
                (*(held(v) if isinstance(v, str) else v for v in _document(d)), plan.stored[d.id])
                for d in documents
                if d.id in plan.stored
            ],
        )
    keys.update((d.id, plan.stored[d.id]) for d in documents if d.id in plan.stored)
    links = [
        (keys[d.id], i, k.href, k.href.partition("#")[0], k.anchor, k.start, len(k.anchor), k.kind)
        for d in documents
        for i, k in enumerate(d.links)
    ]
    copy_rows(
        connection,
        "packwise_links",
        links,
        "(document, position, href, page, anchor, first, reach, kind)",
    )
    return keys


def _document(document: Document) -> tuple[Any, ...]:
    sections = [
        [
            held_list(s.path),
            s.level,
            s.start,
            s.end,
            [[b.kind.value, b.start, b.end] for b in s.blocks],
        ]
        for s in document.sections
    ]
    return (
        document.id,
        document.title,
        document.url,
        document.lang,
        document.source_hash,
        json.dumps(held_map(document.metadata)),
        held_list(groups(document.metadata)),
        json.dumps(sections),
        document.text,
    )


def _passage(
    key: int,
    document_key: int,
    document: Document,
    row: PassageRecord,
    length: int,
    vectors: dict[str, str],
) -> tuple[Any, ...]:
    if row.content_hash not in vectors:
        raise StoreError(f"{document.id}: passage {row.position} has no vector")
    return (
        key,
        document_key,
        row.position,
        held_list(row.section_path),
        row.start,
        row.end,
        row.content_hash,
        row.url,
        document.text[row.start : row.end],
        length,
        vectors[row.content_hash],
    )


def _vectors(connection: Connection, hashes: Sequence[str], version: str) -> dict[str, str]:
    rows = connection.execute(
        "SELECT content_hash, vector FROM packwise_staged_vectors"
        " WHERE embedder_version = %s AND content_hash = ANY (%s::text[])",
        (held(version), list(hashes)),
    )
    return {digest: literal(np.frombuffer(blob, dtype="<f4")) for digest, blob in rows}


def _keys(connection: Connection, table: str, count: int) -> list[int]:
    """New keys; none is ever given twice."""
    rows = connection.execute(
        "SELECT nextval(pg_get_serial_sequence(%s, 'key')) FROM generate_series(1, %s)",
        (table, count),
    )
    return [key for (key,) in rows]


def _rank(connection: Connection) -> None:
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
