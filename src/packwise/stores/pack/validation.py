"""Whether a pack is whole: every law its readers rely on, checked row by row."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np

from packwise.errors import NotAStore, PackwiseError, StoreError, StoreMissing
from packwise.stores.pack.database import (
    DATABASE,
    PackState,
    check_pack,
    connect_reader,
    finished_state,
    schema_version,
)
from packwise.stores.pack.index import index_problems
from packwise.stores.pack.manifest import Manifest, read_manifest
from packwise.stores.pack.schema import KNOWLEDGE_SCHEMA

_MOST_NAMED = 5
_COMPARED = "version generation embedder embedder_version dim documents passages links".split()


def validate(path: str | Path) -> list[str]:
    """What is wrong with a pack, one line each; an empty list for a sound one.

    Raises ``StoreMissing`` or ``NotAStore`` where there is no pack to check.
    """
    folder = Path(path)
    try:
        with closing(connect_reader(folder)) as connection:
            check_pack(connection, folder)
            connection.execute("BEGIN")
            return list(_problems(connection, folder))
    except (StoreMissing, NotAStore):
        raise
    except StoreError as error:
        return [error.message]
    except sqlite3.DatabaseError as error:
        return [f"{DATABASE} is damaged: {error}"]


def _problems(connection: sqlite3.Connection, folder: Path) -> Iterator[str]:
    damage = [line for (line,) in connection.execute("PRAGMA integrity_check(5)") if line != "ok"]
    if damage:
        yield from (f"{DATABASE} is damaged: {line}" for line in damage)
        return
    state = finished_state(connection, folder)
    yield from _foreign_keys(connection)
    yield from _counts(connection, state)
    yield from _offsets(connection)
    yield from _vectors(connection, state)
    yield from _ranks(connection)
    yield from _entities(connection)
    yield from index_problems(folder, state.index)
    yield from _manifest(folder, state)


def _foreign_keys(connection: sqlite3.Connection) -> Iterator[str]:
    broken: dict[tuple[str, str], int] = {}
    for table, _, parent, _ in connection.execute("PRAGMA foreign_key_check"):
        broken[table, parent] = broken.get((table, parent), 0) + 1
    for (table, parent), rows in broken.items():
        yield f"{rows} rows of {table} refer to rows of {parent} that are not there"


def _counts(connection: sqlite3.Connection, state: PackState) -> Iterator[str]:
    counted = {
        "documents": ("documents", state.documents),
        "passages": ("passages", state.passages),
        "links": ("links WHERE target IS NOT NULL", state.links),
    }
    for name, (table, expected) in counted.items():
        (found,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
        if found != expected:
            yield f"{DATABASE} counts {expected} {name} but holds {found}"


def _offsets(connection: sqlite3.Connection) -> Iterator[str]:
    """Every passage, section and block is where it says it is in its document's text."""
    wrong: list[str] = []
    for key, name, packed in connection.execute("SELECT key, id, text FROM documents ORDER BY id"):
        try:
            text = zlib.decompress(packed).decode()
        except (zlib.error, UnicodeDecodeError) as error:
            yield f"the text of document {name} cannot be read: {error}"
            continue
        passages = connection.execute(
            "SELECT first, past, text FROM passages WHERE document = ?", (key,)
        )
        sections = connection.execute(
            "SELECT first, past, blocks FROM sections WHERE document = ?", (key,)
        )
        spans = [
            span
            for first, past, blocks in sections
            for span in [(first, past), *((a, b) for _, a, b in json.loads(blocks))]
        ]
        if any(text[first:past] != own for first, past, own in passages) or any(
            not 0 <= first <= past <= len(text) for first, past in spans
        ):
            wrong.append(name)
    if wrong:
        named = ", ".join(wrong[:_MOST_NAMED])
        more = f" and {len(wrong) - _MOST_NAMED} more" if len(wrong) > _MOST_NAMED else ""
        yield f"offsets do not fit the text of {named}{more}"


def _vectors(connection: sqlite3.Connection, state: PackState) -> Iterator[str]:
    strangers = sizes = values = 0
    rows = connection.execute(
        "SELECT v.vector, v.embedder = k.embedder, v.content_hash = p.content_hash"
        " FROM passages AS p JOIN vectors AS v ON v.key = p.vector, pack AS k"
    )
    for blob, same_embedder, same_content in rows:
        strangers += not (same_embedder and same_content)
        if not isinstance(blob, bytes) or len(blob) != 2 * state.embedder.dim:
            sizes += 1
        elif not np.isfinite(np.frombuffer(blob, dtype="<f2")).all():
            values += 1
    if strangers:
        yield f"{strangers} passages have the vector of another embedder or another text"
    if sizes:
        yield f"{sizes} vectors do not have {state.embedder.dim} dimensions"
    if values:
        yield f"{values} vectors hold numbers that are not finite"


def _ranks(connection: sqlite3.Connection) -> Iterator[str]:
    documents, ranked, total = connection.execute(
        "SELECT (SELECT count(*) FROM documents), count(*), coalesce(sum(pagerank), 0) FROM ranks"
    ).fetchone()
    if ranked != documents:
        yield f"{ranked} of {documents} documents have a PageRank"
    elif documents and abs(total - 1.0) > 1e-6:
        yield f"the PageRank of all documents sums to {total:.6f}, not to 1"


def _entities(connection: sqlite3.Connection) -> Iterator[str]:
    if schema_version(connection) < KNOWLEDGE_SCHEMA:
        return
    (wrong,) = connection.execute(
        "SELECT count(*) FROM entities AS e WHERE passages <>"
        " (SELECT count(*) FROM mentions WHERE entity = e.key)"
    ).fetchone()
    if wrong:
        yield f"{wrong} entities do not count the passages that mention them"


def _manifest(folder: Path, state: PackState) -> Iterator[str]:
    try:
        manifest = read_manifest(folder)
    except PackwiseError as error:
        yield error.message
        return
    expected = Manifest.of(state)
    for name in _COMPARED:
        said, held = getattr(manifest, name), getattr(expected, name)
        if said != held:
            yield f"manifest.json says {name} {said}, pack.sqlite {held}"
