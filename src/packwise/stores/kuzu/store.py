"""A store in a Kuzu database: one that Packwise wrote, or a pack of the earlier system."""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from packwise import folders
from packwise.candidates import EVERYTHING, Filter
from packwise.documents import Block, BlockKind, Document, Link, Passage, Section, content_hash
from packwise.errors import NotAStore, StoreError, StoreMissing, UsageError
from packwise.language.analyzer import ANALYZER, terms
from packwise.stores.base import (
    DocumentSummary,
    Key,
    Match,
    StoreInfo,
    TermStatistics,
    Vectors,
)
from packwise.stores.checks import question_vector
from packwise.stores.context_managers import Closing
from packwise.stores.keyword_index import KeywordIndex, build, build_in_memory
from packwise.stores.knowledge import KnowledgeQueries, KnowledgeReader
from packwise.stores.kuzu.cypher import check_read_only
from packwise.stores.kuzu.database import Opened, stamp_of
from packwise.stores.kuzu.knowledge import KuzuKnowledge
from packwise.stores.kuzu.schema import INDEX
from packwise.stores.kuzu.table import SEPARATOR, Identity, Table, indexed, read_table
from packwise.stores.kuzu.writer import KuzuWriter
from packwise.stores.linking import target_of
from packwise.stores.pack.rows import normalised, storable
from packwise.stores.serialization import read_links, read_sections
from packwise.stores.transfer import Content

_T = TypeVar("_T")
_SPARE = 16
_ROUNDS = 4
_KEPT_ON_DISK = 2000
"""Passages from which on the keyword index is kept in the cache folder."""

_COSINE = "array_cosine_similarity({node}.embedding, CAST($question AS FLOAT[{dim}]))"


def open_kuzu(path: str | Path) -> KuzuStore:
    """Open a database for reading. Raises ``StoreMissing`` or ``NotAStore``."""
    store = create_or_open_kuzu(path)
    try:
        store.version()
    except BaseException:
        store.close()
        raise
    return store


def create_or_open_kuzu(path: str | Path) -> KuzuStore:
    """Open a database to build it, whether or not it is there yet."""
    text = str(path)
    if not text.strip():
        raise UsageError("kuzu: names no file", fix="write kuzu:PATH")
    file = Path(text).expanduser()
    if file.is_dir():
        inside = file / "pack.db"
        if not inside.is_file():
            raise NotAStore(f"{file} is a folder without a pack.db", fix="name the file itself")
        file = inside
    return KuzuStore(file)


class Snapshot:
    """One state of a database with all that was read of it so far."""

    def __init__(self, path: Path) -> None:
        self.opened = Opened(path)
        self._lock = threading.RLock()

    @cached_property
    def table(self) -> Table:
        with self._lock:
            return read_table(self.opened, _declared(self.opened.path))

    @cached_property
    def knowledge(self) -> KuzuKnowledge:
        return KuzuKnowledge(self.opened, self.table)

    @cached_property
    def keywords(self) -> KeywordIndex:
        with self._lock:
            return _keyword_index(self)

    @cached_property
    def indexed(self) -> bool:
        return indexed(self.opened)

    def texts(self, rows: Sequence[int]) -> dict[int, str]:
        """The texts of passages, by row."""
        keys = {self.table.passages[row].key: row for row in rows}
        found = self.opened.each(
            "UNWIND $values AS v MATCH (s:Section {section_id: v}) RETURN v, s.content", list(keys)
        )
        return {keys[key]: text or "" for key, text in found}


class KuzuStore(Closing, KnowledgeReader):
    """One database. Safe to use from several threads; sees a finished build at the next call."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._snapshot: Snapshot | None = None

    def version(self) -> str:
        """What changes whenever the content does."""
        with self._current() as snapshot:
            return snapshot.table.state.version

    def info(self) -> StoreInfo:
        with self._current() as snapshot:
            table = snapshot.table
            return StoreInfo(
                location=f"kuzu:{self._path}",
                kind="kuzu",
                version=table.state.version,
                embedder=table.state.identity.embedder,
                embedder_version=table.state.identity.version,
                dim=table.state.identity.dim,
                documents=len(table.documents),
                passages=len(table.passages),
                links=table.state.links,
                size_bytes=self._path.stat().st_size,
                details={
                    "made_by": "packwise" if table.state.own else "the earlier system",
                    "analyzer": ANALYZER,
                    "vector_index": INDEX if snapshot.indexed else "none",
                    "unresolved_links": str(table.state.unresolved),
                    "created_at": table.state.created_at,
                    "updated_at": table.state.updated_at,
                },
            )

    def vector_search(
        self,
        vector: Vectors,
        k: int,
        where: Filter = EVERYTHING,
        among: Sequence[Key] | None = None,
    ) -> list[Match]:
        with self._current() as snapshot:
            dim = snapshot.table.state.identity.dim
            question = question_vector(vector, dim, f"kuzu:{self._path}")
            rows = _rows(snapshot.table, where, among)
            if k <= 0 or not snapshot.table.passages or (rows is not None and not rows):
                return []
            if rows is None and snapshot.indexed and question.any():
                return self._nearest(snapshot, question, k)
            wanted = range(len(snapshot.table.passages)) if rows is None else rows
            return _best(_cosines(snapshot, question, wanted), k)

    def keyword_search(
        self,
        terms: Sequence[str],
        k: int,
        where: Filter = EVERYTHING,
        among: Sequence[Key] | None = None,
    ) -> list[Match]:
        with self._current() as snapshot:
            table = snapshot.table
            rows = _rows(table, where, among)
            if rows is not None and not rows:
                return []
            # The index knows passages by their rank among the keys, as ties go by key.
            ranks = np.empty(len(table.passages), dtype=np.int64)
            ranks[table.by_key] = np.arange(len(table.passages))
            allowed = None if rows is None else np.sort(ranks[np.array(rows, dtype=np.int64)])
            found, scores = snapshot.keywords.best(terms, k, allowed)
            keys = [table.passages[int(table.by_key[rank])].key for rank in found]
            return [Match(key, score) for key, score in zip(keys, scores.tolist(), strict=True)]

    def term_statistics(self, terms: Sequence[str]) -> TermStatistics:
        with self._current() as snapshot:
            return snapshot.keywords.statistics(terms)

    def passages(self, keys: Sequence[Key]) -> list[Passage | None]:
        with self._current() as snapshot:
            rows = [snapshot.table.rows.get(key) if isinstance(key, str) else None for key in keys]
            texts = snapshot.texts([row for row in dict.fromkeys(rows) if row is not None])
            return [None if r is None else snapshot.table.passage(r, texts[r]) for r in rows]

    def vectors(self, keys: Sequence[Key]) -> Vectors:
        """The stored vectors of these keys, one row each, L2-normalised; the row of a key
        that is gone is all zero."""
        with self._current() as snapshot:
            dim = snapshot.table.state.identity.dim
            rows = np.zeros((len(keys), dim), dtype=np.float32)
            wanted = [key for key in dict.fromkeys(keys) if isinstance(key, str)]
            query = "UNWIND $values AS v MATCH (s:Section {section_id: v}) RETURN v, s.embedding"
            found: dict[Any, Any] = dict(snapshot.opened.each(query, wanted))
            for at, key in enumerate(keys):
                if found.get(key) is not None:
                    rows[at] = found[key]
            return normalised(rows)

    def neighbours(self, key: Key, before: int = 1, after: int = 1) -> list[tuple[Key, Passage]]:
        with self._current() as snapshot:
            row = snapshot.table.rows.get(key) if isinstance(key, str) else None
            if row is None:
                return []
            start, end = snapshot.table.spans[snapshot.table.passages[row].document]
            rows = [
                *range(max(start, row - max(before, 0)), row),
                *range(row + 1, min(end, row + 1 + max(after, 0))),
            ]
            return _with_texts(snapshot, rows)

    def document(self, document_id: str) -> Document | None:
        with self._current() as snapshot:
            row = snapshot.table.document_rows.get(storable(document_id))
            return None if row is None else _documents(snapshot, [row])[row]

    def document_passages(self, document_id: str) -> list[tuple[Key, Passage]]:
        with self._current() as snapshot:
            row = snapshot.table.document_rows.get(storable(document_id))
            return [] if row is None else _with_texts(snapshot, range(*snapshot.table.spans[row]))

    def documents(self) -> Iterator[DocumentSummary]:
        """All documents, by id, as they were when the first one was asked for."""
        with self._current() as snapshot:
            table = snapshot.table
        for row, document in enumerate(table.documents):
            start, end = table.spans[row]
            yield DocumentSummary(
                id=document.id,
                title=document.title,
                url=document.url,
                lang=document.lang,
                source_hash=document.source_hash,
                passages=end - start,
                pagerank=document.pagerank,
                metadata=document.metadata,
            )

    def links(self, document_ids: Sequence[str]) -> list[tuple[str, Link]]:
        found: list[tuple[str, Link]] = []
        for name in dict.fromkeys(document_ids):
            document = self.document(name)
            if document is not None:
                found += [(document.id, link) for link in document.links if link.target is not None]
        return found

    def pagerank(self, document_ids: Sequence[str]) -> Mapping[str, float]:
        with self._current() as snapshot:
            rows = snapshot.table.document_rows
            names = [storable(name) for name in dict.fromkeys(document_ids)]
            return {
                name: snapshot.table.documents[rows[name]].pagerank
                for name in names
                if name in rows
            }

    def contents(self, document_ids: Sequence[str]) -> Mapping[str, Content]:
        """Many documents at once, each with its passages and vectors."""
        found: dict[str, Content] = {}
        with self._current() as snapshot:
            table = snapshot.table
            rows = [table.document_rows.get(storable(name)) for name in document_ids]
            documents = _documents(snapshot, [row for row in rows if row is not None])
            spans = {row: range(*table.spans[row]) for row in documents}
            every = [at for span in spans.values() for at in span]
            texts = snapshot.texts(every)
            keys = [table.passages[at].key for at in every]
            vectors = dict(zip(every, self.vectors(keys), strict=True))
            read = self.extractions(keys)
            for row, document in documents.items():
                span = spans[row]
                block = np.array([vectors[at] for at in span], dtype=np.float32)
                told = tuple(read[k] for at in span if (k := table.passages[at].key) in read)
                document = _unresolved(document)
                if told and not table.state.own:
                    # Nothing else tells that the earlier system has read an article again.
                    digest = content_hash(document.source_hash, *map(repr, told))
                    document = replace(document, source_hash=digest)
                found[document.id] = Content(
                    document,
                    tuple(table.passage(at, texts[at]) for at in span),
                    block.reshape(len(span), table.state.identity.dim),
                    told,
                )
        return found

    def cypher(
        self, query: str, parameters: Mapping[str, Any] | None = None, timeout_s: float = 10.0
    ) -> list[dict[str, Any]]:
        """Run a Cypher query that only reads; its rows by column name.

        Values belong into ``parameters``, written ``$name`` in the query. Raises
        ``UsageError`` on a query that could write, ``StoreError`` on one that fails or takes
        longer than ``timeout_s`` seconds.
        """
        check_read_only(query)
        with self._current() as snapshot:
            return snapshot.opened.records(query, parameters or {}, timeout_s)

    def query_knowledge(self, read: Callable[[KnowledgeQueries], _T]) -> _T:
        with self._current() as snapshot:
            return read(snapshot.knowledge)

    def writer(
        self, *, embedder: str, embedder_version: str, dim: int, allow_mismatch: bool = False
    ) -> KuzuWriter:
        """Start a build. Raises ``EmbedderMismatch`` when the store's vectors come from
        another embedder, ``StoreBusy`` when another build is running, ``StoreError`` on a
        pack of the earlier system, which is only read."""
        if dim < 1:
            raise UsageError(f"an embedder has at least 1 dimension, not {dim}")
        identity = Identity(embedder, embedder_version, dim)
        return KuzuWriter(self._path, self, identity, allow_mismatch=allow_mismatch)

    def state(self) -> Any:
        """What the database is; ``None`` where there is none yet."""
        try:
            with self._current() as snapshot:
                return snapshot.table.state
        except StoreMissing:
            return None

    def close(self) -> None:
        """Let go of the file; closing again does nothing."""
        with self._lock:
            snapshot, self._snapshot = self._snapshot, None
        if snapshot is not None:
            snapshot.opened.retire()

    @contextmanager
    def _current(self) -> Generator[Snapshot]:
        """The file as it is now, for as long as it is held."""
        with self._lock:
            stamp = stamp_of(self._path)
            snapshot = self._snapshot
            if snapshot is None or snapshot.opened.stamp != stamp:
                fresh = Snapshot(self._path)
                self._snapshot = fresh
                if snapshot is not None:
                    snapshot.opened.retire()
                snapshot = fresh
            using = snapshot.opened.used()
            using.__enter__()
        try:
            yield snapshot
        finally:
            using.__exit__(None, None, None)

    def _nearest(self, snapshot: Snapshot, question: Vectors, k: int) -> list[Match]:
        """What the vector index finds, with the same cosines that any other search gives."""
        total = len(snapshot.table.passages)
        dim = snapshot.table.state.identity.dim
        depth = min(k + _SPARE, total)
        for attempt in range(_ROUNDS + 1):
            rows = snapshot.opened.rows(
                f"CALL QUERY_VECTOR_INDEX('Section', '{INDEX}', $question, $depth, efs := 400)"
                f" RETURN node.section_id, {_COSINE.format(node='node', dim=dim)}",
                {"question": question.tolist(), "depth": depth},
            )
            matches = _best(((key, score) for key, score in rows), depth)
            if len(matches) < depth and depth == total:
                # The graph has parts that a walk does not reach: few enough to look at them all.
                return _best(_cosines(snapshot, question, range(total)), k)
            tied = len(matches) > k and matches[-1].score == matches[k - 1].score
            if depth == total or not tied or attempt == _ROUNDS:
                return matches[:k]
            depth = min(depth * 4, total)
        raise AssertionError("unreachable")


def _rows(table: Table, where: Filter, among: Sequence[Key] | None) -> list[int] | None:
    """The rows a search may find; ``None`` for all."""
    if among is None:
        return table.allowed(where) if where else None
    chosen = {table.rows[key] for key in among if isinstance(key, str) and key in table.rows}
    if where:
        chosen &= set(table.allowed(where))
    return sorted(chosen)


def _cosines(
    snapshot: Snapshot, question: Vectors, rows: Sequence[int]
) -> Iterator[tuple[str, float]]:
    """The cosine of each of these passages, worked out by the database."""
    dim = snapshot.table.state.identity.dim
    keys = [snapshot.table.passages[row].key for row in rows]
    found = snapshot.opened.each(
        "UNWIND $values AS v MATCH (s:Section {section_id: v})"
        f" RETURN v, {_COSINE.format(node='s', dim=dim)}",
        keys,
        {"question": question.tolist()},
    )
    return ((key, score) for key, score in found)


def _best(found: Iterator[tuple[str, float]], k: int) -> list[Match]:
    matches = [Match(key, float(score or 0.0)) for key, score in found]
    return sorted(matches, key=lambda match: (-match.score, str(match.key)))[:k]


def _with_texts(snapshot: Snapshot, rows: Sequence[int]) -> list[tuple[Key, Passage]]:
    texts = snapshot.texts(rows)
    table = snapshot.table
    return [(table.passages[row].key, table.passage(row, texts[row])) for row in rows]


def _documents(snapshot: Snapshot, rows: Sequence[int]) -> dict[int, Document]:
    """Documents by row, with their texts."""
    table = snapshot.table
    if not table.state.own:
        return {row: _foreign_document(snapshot, row) for row in rows}
    found = snapshot.opened.each(
        "UNWIND $values AS v MATCH (a:Article {title: v}) RETURN v, a.text, a.sections, a.links",
        [table.documents[row].article for row in rows],
    )
    documents: dict[int, Document] = {}
    for article, text, sections, links in found:
        row = table.articles[article]
        about = table.documents[row]
        documents[row] = Document(
            id=about.id,
            title=about.title,
            text=text,
            sections=read_sections(sections),
            links=tuple(
                Link(
                    href,
                    anchor,
                    start,
                    target_of(href, about.id, table.document_rows, table.urls),
                    kind,
                )
                for href, anchor, start, kind in read_links(links)
            ),
            url=about.url,
            lang=about.lang,
            metadata=about.metadata,
            source_hash=about.source_hash,
        )
    return documents


def _unresolved(document: Document) -> Document:
    return replace(document, links=tuple(replace(k, target=None) for k in document.links))


def _foreign_document(snapshot: Snapshot, row: int) -> Document:
    """An article put together from its sections."""
    found = snapshot.table.documents[row]
    rows = snapshot.opened.rows(
        "MATCH (a:Article {title: $title})-[h:HAS_SECTION]->(s:Section)"
        " RETURN s.section_id, s.title, s.level, s.content ORDER BY h.section_index, s.section_id",
        {"title": found.article},
    )
    paths = {p.key: p.path for p in snapshot.table.passages[slice(*snapshot.table.spans[row])]}
    sections: list[Section] = []
    parts: list[str] = []
    start = 0
    for key, title, level, content in rows:
        text = content or ""
        end = start + len(text)
        block = Block(BlockKind.TEXT, start, end)
        path = paths.get(key, (title,) if title and title != found.article else ())
        sections.append(Section(path, max(int(level or 1), 1), (block,), start, end))
        parts.append(text)
        start = end + len(SEPARATOR)
    text = SEPARATOR.join(parts)
    return Document(
        id=found.id,
        title=found.title,
        text=text,
        sections=tuple(sections),
        links=tuple(_foreign_links(snapshot, found.article)),
        metadata=found.metadata,
        source_hash=content_hash(found.title, text),
    )


def _foreign_links(snapshot: Snapshot, article: str) -> Iterator[Link]:
    tables = {row[1] for row in snapshot.opened.rows("CALL SHOW_TABLES() RETURN *")}
    if "LINKS_TO" not in tables:
        return
    for target, kind in snapshot.opened.rows(
        "MATCH (a:Article {title: $title})-[l:LINKS_TO]->(b:Article)"
        " RETURN DISTINCT b.title, l.link_type ORDER BY b.title",
        {"title": article},
    ):
        yield Link(target, target=None if target == article else target, kind=kind or "link")


def _declared(path: Path) -> Identity:
    """Whose vectors a pack of the earlier system holds, where a file beside it says so."""
    manifest = path.with_name("manifest.json")
    try:
        fields = json.loads(manifest.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return Identity()
    names = ("embedding_model", "embedder", "model")
    found = next((fields[name] for name in names if isinstance(fields.get(name), str)), "")
    return Identity(embedder=found.rpartition("/")[2])


def _keyword_index(snapshot: Snapshot) -> KeywordIndex:
    """The keyword index of a state: made in memory, or kept in the cache where it is large."""
    table = snapshot.table
    ranks = np.arange(len(table.passages), dtype=np.int64)
    if len(table.passages) < _KEPT_ON_DISK:
        return build_in_memory(_indexed_terms(snapshot), ranks)
    name = content_hash(str(table.state.version), ANALYZER, str(len(table.passages)))
    folder = folders.cache() / "kuzu" / name
    if not folder.is_dir():
        _build_on_disk(snapshot, folder)
    try:
        return KeywordIndex.open(folder, ranks)
    except (ValueError, OSError):
        shutil.rmtree(folder, ignore_errors=True)
        _build_on_disk(snapshot, folder)
        return KeywordIndex.open(folder, ranks)


def _build_on_disk(snapshot: Snapshot, folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=".keywords-", dir=folder.parent))
    try:
        build(scratch, _indexed_terms(snapshot))
        scratch.rename(folder)
    except OSError as error:
        if not folder.is_dir():
            raise StoreError(
                f"cannot keep a keyword index in {folder}: {error.strerror}"
            ) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _indexed_terms(snapshot: Snapshot) -> Iterator[tuple[int, Sequence[str]]]:
    order: NDArray[np.int64] = snapshot.table.by_key
    for at in range(0, len(order), 1000):
        rows = order[at : at + 1000].tolist()
        texts = snapshot.texts(rows)
        for rank, row in enumerate(rows, start=at):
            yield rank, terms(snapshot.table.passage(row, texts[row]).indexed_text)
