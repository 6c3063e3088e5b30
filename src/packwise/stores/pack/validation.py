"""Whether a pack is whole: every law its readers rely on, checked row by row."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np

from packwise.errors import NotAStore, PackwiseError, StoreError, StoreMissing
from packwise.stores.pack.checksums import changed_files
from packwise.stores.pack.database import (
    PackState,
    check_pack,
    connect_reader,
    deadline,
    finished_state,
    schema_version,
)
from packwise.stores.pack.folder import DATABASE, MANIFEST, PackFolder
from packwise.stores.pack.index import index_problems
from packwise.stores.pack.manifest import Manifest, read_manifest
from packwise.stores.pack.rows import expand
from packwise.stores.pack.schema import (
    CHECKED_COLUMNS,
    CHECKSUM_SCHEMA,
    KNOWLEDGE_SCHEMA,
    row_checksum,
)
from packwise.stores.records import read_blocks

_SECONDS = 60.0
_BYTES_PER_SECOND = 1 << 20
"""How slow a check may be before it is taken for one that never ends."""

_MOST_NAMED = 5
_COMPARED = "version generation embedder embedder_version dim documents passages links".split()


def validate(path: str | Path) -> list[str]:
    """What is wrong with a pack, one line each; an empty list for a sound one.

    Raises ``StoreMissing`` or ``NotAStore`` where there is no pack to check.
    """
    folder = PackFolder(Path(path))
    try:
        with closing(connect_reader(folder)) as connection:
            size = folder.database.stat().st_size
            with deadline(connection, _SECONDS + size / _BYTES_PER_SECOND):
                check_pack(connection, folder)
                connection.execute("BEGIN")
                return list(_problems(connection, folder))
    except (StoreMissing, NotAStore):
        raise
    except StoreError as error:
        return [error.message]
    except sqlite3.DatabaseError as error:
        return [f"{DATABASE} is damaged: {error}"]


def _problems(connection: sqlite3.Connection, folder: PackFolder) -> Iterator[str]:
    damage = [line for (line,) in connection.execute("PRAGMA integrity_check(5)") if line != "ok"]
    if damage:
        yield from (f"{DATABASE} is damaged: {line}" for line in damage)
        return
    state = finished_state(connection, folder)
    found = [
        *_foreign_keys(connection),
        *_counts(connection, state),
        *_rows(connection),
        *_offsets(connection),
        *_vectors(connection, state),
        *_ranks(connection),
        *_entities(connection),
    ]
    yield from found
    yield from index_problems(folder.indexes, state.index)
    wrong = list(_manifest(folder, state))
    yield from wrong
    for line in changed_files(folder):
        named = {DATABASE: found, MANIFEST: wrong}.get(line.split()[0])
        if not named:  # One line is enough.
            yield line


def _rows(connection: sqlite3.Connection) -> Iterator[str]:
    """Every row of the tables with checksums has the one that was written with it."""
    if schema_version(connection) < CHECKSUM_SCHEMA:
        return
    connection.create_function("row_checksum", -1, row_checksum, deterministic=True)
    for table, columns in CHECKED_COLUMNS.items():
        wrong = f"SELECT key FROM {table} WHERE checksum IS NOT row_checksum({columns})"
        try:
            rows = connection.execute(f"{wrong} ORDER BY key").fetchmany(_MOST_NAMED + 1)
        except sqlite3.OperationalError as error:
            if "user-defined function" not in str(error):
                raise
            raise StoreError(f"the table {table} holds text that is not UTF-8") from error
        keys = [str(key) for (key,) in rows]
        if keys:
            more = " and more" if len(keys) > _MOST_NAMED else ""
            yield f"the checksum differs for {table} {', '.join(keys[:_MOST_NAMED])}{more}"


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
    unreadable = 0
    for key, name, packed in connection.execute("SELECT key, id, text FROM documents ORDER BY id"):
        try:
            text = expand(packed)
        except (ValueError, TypeError) as error:
            yield f"the text of document {name} cannot be read: {error}"
            unreadable += 1
            if unreadable == _MOST_NAMED:  # Each of them may take a second to expand.
                yield "the texts of further documents were not checked"
                return
            continue
        passages = connection.execute(
            "SELECT first, past, text FROM passages WHERE document = ?", (key,)
        )
        sections = connection.execute(
            "SELECT first, past, blocks FROM sections WHERE document = ?", (key,)
        )
        try:
            spans = [
                span
                for first, past, blocks in sections
                for span in [
                    (first, past),
                    *((b.start, b.end) for b in read_blocks(json.loads(blocks))),
                ]
            ]
            fits = all(text[first:past] == own for first, past, own in passages) and all(
                0 <= first <= past <= len(text) for first, past in spans
            )
        except (ValueError, TypeError, RecursionError):
            fits = False
        if not fits:
            wrong.append(str(name))
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


def _manifest(folder: PackFolder, state: PackState) -> Iterator[str]:
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
