"""Rows of PostgreSQL as passages and documents, and values on their way into the database."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, NamedTuple

from packwise.documents import Document, Link, Passage, Section, passage_id
from packwise.errors import StoreMissing
from packwise.stores.base import Vectors
from packwise.stores.checks import EmbedderIdentity, storable
from packwise.stores.postgres.connections import Connection
from packwise.stores.postgres.schemas import SchemaPath
from packwise.stores.records import read_blocks, read_layout

PASSAGE_COLUMNS = """p.key, p.position, p.section_path, p.first, p.past, p.content_hash, p.url,
    p.text, d.id, d.title, d.url, d.lang, d.metadata,
    (SELECT layout FROM (SELECT p.*) AS own_columns)"""
# Where no build has added the column yet, ``layout`` above is that of ``without_layout``.
PASSAGE_TABLES = """(SELECT '' AS layout) AS without_layout CROSS JOIN
    packwise_passages AS p JOIN packwise_documents AS d ON d.key = p.document"""

_ESCAPE = "\ufdd0"  # a code point reserved for a program's own use
_ESCAPED = {ord("\0"): f"{_ESCAPE}0", ord(_ESCAPE): f"{_ESCAPE}1"}


def to_postgres(text: str) -> str:
    """The text without lone surrogates and with NUL escaped, neither of which PostgreSQL takes.

    Works character by character, so prefixes and equality are preserved.
    """
    text = storable(text)
    return text.translate(_ESCAPED) if "\0" in text or _ESCAPE in text else text


def from_postgres(text: str) -> str:
    """The inverse of ``to_postgres``."""
    if _ESCAPE not in text:
        return text
    return text.replace(f"{_ESCAPE}0", "\0").replace(f"{_ESCAPE}1", _ESCAPE)


def list_to_postgres(values: Iterable[str]) -> list[str]:
    """``to_postgres`` of each text."""
    return [to_postgres(value) for value in values]


def map_from_postgres(values: Mapping[str, str]) -> dict[str, str]:
    """``from_postgres`` of keys and values."""
    return {from_postgres(name): from_postgres(value) for name, value in values.items()}


def json_to_postgres(value: Any) -> Any:
    """A JSON value whose texts PostgreSQL takes; NUL becomes the replacement character."""
    if isinstance(value, str):
        return storable(value).replace("\0", "\ufffd")
    if isinstance(value, Mapping):
        return {json_to_postgres(str(k)): json_to_postgres(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_to_postgres(item) for item in value]
    return value


def vector_literal(vector: Vectors) -> str:
    """A vector as pgvector reads it."""
    return f"[{','.join(map(str, vector.tolist()))}]"


def copy_rows(
    connection: Connection, table: str, rows: Sequence[Sequence[Any]], columns: str = ""
) -> None:
    """Write rows with COPY; texts pass through ``to_postgres``."""
    if not rows:
        return
    with connection.cursor().copy(f"COPY {table} {columns} FROM STDIN".encode()) as copy:
        for row in rows:
            copy.write_row([to_postgres(v) if isinstance(v, str) else v for v in row])


def read_passage(row: Sequence[Any], embedder_version: str) -> tuple[int, Passage]:
    """A passage with its key, from ``PASSAGE_COLUMNS``."""
    key, position, path, first, past, digest, own_url, text, *of_document, layout = row
    doc, title, url, lang, metadata = of_document
    document = from_postgres(doc)
    return key, Passage(
        id=passage_id(document, position),
        document=document,
        doc_title=from_postgres(title),
        section_path=tuple(map(from_postgres, path)),
        order_index=position,
        text=from_postgres(text),
        start=first,
        end=past,
        content_hash=digest,
        embedder_version=embedder_version,
        url=from_postgres(url if own_url is None else own_url),
        lang=from_postgres(lang),
        metadata=map_from_postgres(metadata),
        **read_layout(from_postgres(layout)),
    )


def read_link(href: str, anchor: str, first: int, target: str | None, kind: str) -> Link:
    """A link from its columns."""
    to = None if target is None else from_postgres(target)
    return Link(from_postgres(href), from_postgres(anchor), first, to, from_postgres(kind))


def read_document(row: Sequence[Any], links: Sequence[Link]) -> Document:
    """A document from its columns."""
    *texts, metadata, sections = row
    name, title, url, lang, source_hash, text = map(from_postgres, texts)
    return Document(
        id=name,
        title=title,
        text=text,
        sections=tuple(
            Section(
                tuple(map(from_postgres, path)),
                level,
                read_blocks(blocks),
                start,
                end,
            )
            for path, level, start, end, blocks in sections
        ),
        links=tuple(links),
        url=url,
        lang=lang,
        metadata=map_from_postgres(metadata),
        source_hash=source_hash,
    )


@dataclass(frozen=True, slots=True)
class BuildState:
    """What the last finished build left; ``generation`` is 0 before the first one.

    ``terms`` is the number of index terms of all passages, with repetitions.
    """

    generation: int
    token: str
    embedder: str
    embedder_version: str
    dim: int
    analyzer: str
    rules: str
    documents: int
    passages: int
    links: int
    terms: int
    created_at: datetime
    updated_at: datetime

    @property
    def version(self) -> str:
        return f"{self.generation}-{self.token}"

    @property
    def identity(self) -> EmbedderIdentity:
        return EmbedderIdentity(self.embedder, self.embedder_version, self.dim)

    @property
    def average_length(self) -> float:
        return self.terms / self.passages if self.passages else 0.0


class StoreSnapshot(NamedTuple):
    """A connection in a transaction, and the state of the store that it sees."""

    connection: Connection
    state: BuildState


def read_state(connection: Connection) -> BuildState:
    """The state of the store; its tables must exist."""
    columns = ", ".join(field.name for field in fields(BuildState))
    row = connection.execute(f"SELECT {columns} FROM packwise_store".encode()).fetchone()
    assert row is not None
    return BuildState(*row)


def finished_state(connection: Connection, location: str, path: SchemaPath) -> BuildState:
    """The state of a finished build; the transaction then works in its schema. Raises
    ``StoreMissing`` where there is none."""
    from psycopg import errors, sql

    fix = f"packwise build SOURCE --out {location}"
    if not path.exists:
        raise StoreMissing(f"{location}: there is no schema {path.schema!r}", fix=fix)
    query = sql.SQL("SELECT {}, set_config('search_path', %s, true) FROM {}").format(
        sql.SQL(", ").join(sql.Identifier(field.name) for field in fields(BuildState)),
        path.name("packwise_store"),
    )
    try:
        row = connection.execute(query, (path.search_path,)).fetchone()
    except errors.UndefinedTable:
        row = None
    if row is None or (state := BuildState(*row[:-1])).generation == 0:
        raise StoreMissing(f"{location} holds no passages", fix=fix)
    return state
