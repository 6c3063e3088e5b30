"""A store in a Kuzu database: one that Packwise wrote, or a pack of agent-kgpacks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from packwise.candidates import EVERYTHING, Filter
from packwise.documents import Document, Link, Passage, content_hash
from packwise.errors import NotAStore, StoreMissing, UsageError
from packwise.language.analyzer import ANALYZER, terms
from packwise.stores.base import DocumentSummary, Key, Match, StoreInfo, TermStatistics, Vectors
from packwise.stores.checks import EmbedderIdentity, normalised, question_vector, storable
from packwise.stores.keyword_index import KeywordIndex
from packwise.stores.knowledge import KnowledgeQueries, KnowledgeReader
from packwise.stores.kuzu import kgpacks
from packwise.stores.kuzu.cypher import check_bound, check_read_only
from packwise.stores.kuzu.database import DatabaseFile, stamp_of
from packwise.stores.kuzu.keywords import keyword_index
from packwise.stores.kuzu.knowledge import KuzuKnowledge, read_own_entities
from packwise.stores.kuzu.schema import INDEX
from packwise.stores.kuzu.table import KuzuState, Table, has_vector_index, read_own_table
from packwise.stores.kuzu.writer import KuzuWriter
from packwise.stores.languages import LanguageCounts
from packwise.stores.lifecycle import BuildableStore
from packwise.stores.links import target_of
from packwise.stores.locate import opened
from packwise.stores.records import read_links, read_sections
from packwise.stores.transfer import Content

_T = TypeVar("_T")
_SPARE = 16
_OLD_CATALOG = "catalog.kz"
_ROUNDS = 4

_SECTIONS = "UNWIND $values AS v MATCH (s:Section {section_id: v}) RETURN v, "
_COSINE = "array_cosine_similarity({node}.embedding, CAST($question AS FLOAT[{dim}]))"


def open_kuzu(path: str | Path) -> KuzuStore:
    """Open a database for reading. Raises ``StoreMissing`` or ``NotAStore``."""
    store = create_or_open_kuzu(path)
    return opened(store, store.version)


def create_or_open_kuzu(path: str | Path) -> KuzuStore:
    """Open a database to build it, whether or not it exists."""
    text = str(path)
    if not text.strip():
        raise UsageError("kuzu: names no file", fix="write kuzu:PATH")
    file = Path(text).expanduser()
    if file.is_dir() and not (file / _OLD_CATALOG).exists():
        file = file / "pack.db"
        if not file.exists():
            raise NotAStore(f"{file.parent} is a folder without a pack.db", fix="name the file")
    if file.is_dir():
        raise NotAStore(
            f"{file} is a database of Kuzu before 0.11, which later versions cannot read",
            fix="run EXPORT DATABASE with that version and IMPORT DATABASE with Kuzu 0.11",
        )
    return KuzuStore(file)


class KuzuSnapshot:
    """One state of a database with all that was read of it so far."""

    def __init__(self, path: Path) -> None:
        self.file = DatabaseFile(path)
        self._lock = threading.RLock()

    @cached_property
    def table(self) -> Table:
        if not {"Article", "Section", "HAS_SECTION"} <= self.file.tables:
            raise NotAStore(
                f"{self.file.path} is not a pack: it has no tables Article, Section and"
                " HAS_SECTION",
                fix="name a pack.db, or a file that packwise wrote",
            )
        with self._lock:
            own = "Packwise" in self.file.tables
            return read_own_table(self.file) if own else kgpacks.read_table(self.file)

    @cached_property
    def knowledge(self) -> KuzuKnowledge:
        read = read_own_entities if self.table.state.own else kgpacks.read_entities
        return KuzuKnowledge(self.file, self.table, read)

    @cached_property
    def keywords(self) -> KeywordIndex:
        with self._lock:
            return keyword_index(self.table, self._indexed_terms)

    @cached_property
    def has_vector_index(self) -> bool:
        return has_vector_index(self.file)

    def row(self, key: Key) -> int | None:
        return self.table.rows.get(key) if isinstance(key, str) else None

    def texts(self, rows: Iterable[int]) -> dict[int, str]:
        """The texts of passages, by row."""
        keys = {self.table.passages[row].key: row for row in rows}
        found = self.file.each(_SECTIONS + "s.content", list(keys))
        return {keys[key]: text or "" for key, text in found}

    def passages(self, rows: Sequence[int]) -> list[tuple[Key, Passage]]:
        texts = self.texts(rows)
        return [(self.table.passages[r].key, self.table.passage(r, texts[r])) for r in rows]

    def documents(self, rows: Sequence[int]) -> dict[int, Document]:
        table = self.table
        if not table.state.own:
            return {row: kgpacks.read_document(self.file, table, row) for row in rows}
        found = self.file.each(
            "UNWIND $values AS v MATCH (a:Article {title: v})"
            " RETURN v, a.text, a.sections, a.links",
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
                    Link(href, anchor, start, self._target(href, about.id), kind)
                    for href, anchor, start, kind in read_links(links)
                ),
                url=about.url,
                lang=about.lang,
                metadata=about.metadata,
                source_hash=about.source_hash,
            )
        return documents

    def cosines(self, question: Vectors, rows: Sequence[int]) -> list[list[Any]]:
        """Key and cosine of each of these passages, worked out by the database."""
        return self.file.each(
            _SECTIONS + _COSINE.format(node="s", dim=self.table.state.identity.dim),
            [self.table.passages[row].key for row in rows],
            {"question": question.tolist()},
        )

    def _indexed_terms(self) -> Iterator[tuple[int, Sequence[str]]]:
        order = self.table.by_key
        for at in range(0, len(order), 1000):
            passages = self.passages(order[at : at + 1000].tolist())
            for rank, (_, passage) in enumerate(passages, start=at):
                yield rank, terms(passage.indexed_text, passage.lang)

    def _target(self, href: str, source: str) -> str | None:
        return target_of(href, source, self.table.document_rows, self.table.urls)


class KuzuStore(BuildableStore, KnowledgeReader):
    """One database. Safe to use from several threads; sees a finished build at the next call."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._snapshot: KuzuSnapshot | None = None
        self._languages = LanguageCounts()

    def version(self) -> str:
        with self._current() as snapshot:
            return snapshot.table.state.version

    def languages(self) -> Mapping[str, int]:
        with self._current() as snapshot:
            table = snapshot.table
            return self._languages.of(
                table.state.version, lambda: (document.lang for document in table.documents)
            )

    def info(self) -> StoreInfo:
        with self._current() as snapshot:
            table, state = snapshot.table, snapshot.table.state
            return StoreInfo(
                location=f"kuzu:{self._path}",
                kind="kuzu",
                version=state.version,
                embedder=state.identity.name,
                embedder_version=state.identity.version,
                dim=state.identity.dim,
                documents=len(table.documents),
                passages=len(table.passages),
                links=state.links,
                size_bytes=self._path.stat().st_size,
                details={
                    "made_by": "packwise" if state.own else "agent-kgpacks",
                    "analyzer": ANALYZER,
                    "vector_index": INDEX if snapshot.has_vector_index else "none",
                    "unresolved_links": str(state.unresolved),
                    "created_at": state.created_at,
                    "updated_at": state.updated_at,
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
            rows = _rows(snapshot, where, among)
            if k <= 0 or not snapshot.table.passages or (rows is not None and not rows):
                return []
            if rows is None and snapshot.has_vector_index and question.any():
                return _nearest(snapshot, question, k)
            wanted = range(len(snapshot.table.passages)) if rows is None else rows
            return _best(snapshot.cosines(question, wanted), k)

    def keyword_search(
        self,
        terms: Sequence[str],
        k: int,
        where: Filter = EVERYTHING,
        among: Sequence[Key] | None = None,
    ) -> list[Match]:
        with self._current() as snapshot:
            table = snapshot.table
            rows = _rows(snapshot, where, among)
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
            rows = [snapshot.row(key) for key in keys]
            found = dict(snapshot.passages([r for r in dict.fromkeys(rows) if r is not None]))
            return [found.get(key) for key in keys]

    def vectors(self, keys: Sequence[Key]) -> Vectors:
        with self._current() as snapshot:
            rows = np.zeros((len(keys), snapshot.table.state.identity.dim), dtype=np.float32)
            wanted = [key for key in dict.fromkeys(keys) if isinstance(key, str)]
            found: dict[Any, Any] = dict(snapshot.file.each(_SECTIONS + "s.embedding", wanted))
            for at, key in enumerate(keys):
                if found.get(key) is not None:
                    rows[at] = found[key]
            return normalised(rows)

    def neighbours(self, key: Key, before: int = 1, after: int = 1) -> list[tuple[Key, Passage]]:
        with self._current() as snapshot:
            row = snapshot.row(key)
            if row is None:
                return []
            start, end = snapshot.table.spans[snapshot.table.passages[row].document]
            earlier = range(max(start, row - max(before, 0)), row)
            later = range(row + 1, min(end, row + 1 + max(after, 0)))
            return snapshot.passages([*earlier, *later])

    def document(self, document_id: str) -> Document | None:
        with self._current() as snapshot:
            row = snapshot.table.document_rows.get(storable(document_id))
            return None if row is None else snapshot.documents([row])[row]

    def document_passages(self, document_id: str) -> list[tuple[Key, Passage]]:
        with self._current() as snapshot:
            row = snapshot.table.document_rows.get(storable(document_id))
            return [] if row is None else snapshot.passages(range(*snapshot.table.spans[row]))

    def documents(self) -> Iterator[DocumentSummary]:
        with self._current() as snapshot:
            table = snapshot.table
        for document, (start, end) in zip(table.documents, table.spans, strict=True):
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
        found = (self.document(name) for name in dict.fromkeys(document_ids))
        return [
            (document.id, link)
            for document in found
            if document is not None
            for link in document.links
            if link.target is not None
        ]

    def pagerank(self, document_ids: Sequence[str]) -> Mapping[str, float]:
        with self._current() as snapshot:
            table, rows = snapshot.table, snapshot.table.document_rows
            names = (storable(name) for name in dict.fromkeys(document_ids))
            return {name: table.documents[rows[name]].pagerank for name in names if name in rows}

    def contents(self, document_ids: Sequence[str]) -> Mapping[str, Content]:
        """Many documents at once, each with its passages and vectors."""
        found: dict[str, Content] = {}
        with self._current() as snapshot:
            table = snapshot.table
            rows = [table.document_rows.get(storable(name)) for name in document_ids]
            documents = snapshot.documents([row for row in rows if row is not None])
            passages = snapshot.passages([at for r in documents for at in range(*table.spans[r])])
            keys = [key for key, _ in passages]
            vectors = dict(zip(keys, self.vectors(keys), strict=True))
            extracted = self.extractions(keys)
            held = {key: (passage, vectors[key]) for key, passage in passages}
            for row, document in documents.items():
                own = [table.passages[at].key for at in range(*table.spans[row])]
                read = tuple(extracted[key] for key in own if key in extracted)
                links = tuple(replace(link, target=None) for link in document.links)
                document = replace(document, links=links)
                if read and not table.state.own:
                    # Nothing else shows that agent-kgpacks has read an article again.
                    digest = content_hash(document.source_hash, *map(repr, read))
                    document = replace(document, source_hash=digest)
                block = np.array([held[key][1] for key in own], dtype=np.float32)
                found[document.id] = Content(
                    document,
                    tuple(held[key][0] for key in own),
                    block.reshape(len(own), table.state.identity.dim),
                    read,
                )
        return found

    def cypher(
        self, query: str, parameters: Mapping[str, Any] | None = None, timeout_s: float = 10.0
    ) -> list[dict[str, Any]]:
        """Run a Cypher query that only reads; its rows by column name.

        Put values into ``parameters``, written ``$name`` in the query. Raises ``UsageError``
        on a query that could write or lacks a value, ``StoreError`` on one that fails or takes
        longer than ``timeout_s`` seconds.
        """
        check_read_only(query)
        check_bound(query, parameters or {})
        with self._current() as snapshot:
            return snapshot.file.records(query, parameters or {}, timeout_s)

    def vector_query(self) -> str | None:
        """The Cypher that finds the nearest passages; ``None`` without a vector index."""
        with self._current() as snapshot:
            return _nearest_query(snapshot) if snapshot.has_vector_index else None

    def query_knowledge(self, read: Callable[[KnowledgeQueries], _T]) -> _T:
        with self._current() as snapshot:
            return read(snapshot.knowledge)

    def _writer(self, embedder: EmbedderIdentity, allow_mismatch: bool) -> KuzuWriter:
        return KuzuWriter(self._path, self, embedder, allow_mismatch=allow_mismatch)

    def state(self) -> KuzuState | None:
        """What the database is; ``None`` where there is none yet."""
        try:
            with self._current() as snapshot:
                return snapshot.table.state
        except StoreMissing:
            return None

    def close(self) -> None:
        with self._lock:
            snapshot, self._snapshot = self._snapshot, None
        if snapshot is not None:
            snapshot.file.retire()

    @contextmanager
    def _current(self) -> Generator[KuzuSnapshot]:
        """The file as it is now, for as long as it is held."""
        with self._lock:
            stamp = stamp_of(self._path)
            snapshot = self._snapshot
            if snapshot is None or snapshot.file.stamp != stamp:
                fresh = KuzuSnapshot(self._path)
                self._snapshot = fresh
                if snapshot is not None:
                    snapshot.file.retire()
                snapshot = fresh
            using = snapshot.file.used()
            using.__enter__()
        try:
            yield snapshot
        finally:
            using.__exit__(None, None, None)


def _rows(snapshot: KuzuSnapshot, where: Filter, among: Sequence[Key] | None) -> list[int] | None:
    """The rows a search may find; ``None`` for all."""
    if among is None:
        return snapshot.table.allowed(where) if where else None
    chosen = {row for row in map(snapshot.row, among) if row is not None}
    return sorted(chosen & set(snapshot.table.allowed(where)) if where else chosen)


def _nearest_query(snapshot: KuzuSnapshot) -> str:
    cosine = _COSINE.format(node="node", dim=snapshot.table.state.identity.dim)
    return (
        f"CALL QUERY_VECTOR_INDEX('Section', '{INDEX}', $question, $depth, efs := 400)"
        f" RETURN node.section_id, {cosine}"
    )


def _nearest(snapshot: KuzuSnapshot, question: Vectors, k: int) -> list[Match]:
    """What the vector index finds, with the same cosines that any other search gives."""
    total = len(snapshot.table.passages)
    depth = min(k + _SPARE, total)
    for attempt in range(_ROUNDS + 1):
        rows = snapshot.file.rows(
            _nearest_query(snapshot),
            {"question": question.tolist(), "depth": depth},
        )
        matches = _best(rows, depth)
        if len(matches) < depth and depth == total:
            # The graph has parts that a walk does not reach: few enough to compare them all.
            return _best(snapshot.cosines(question, range(total)), k)
        tied = len(matches) > k and matches[-1].score == matches[k - 1].score
        if depth == total or not tied or attempt == _ROUNDS:
            return matches[:k]
        depth = min(depth * 4, total)
    raise AssertionError("unreachable")


def _best(found: Iterable[Sequence[Any]], k: int) -> list[Match]:
    matches = [Match(key, float(score or 0.0)) for key, score in found]
    return sorted(matches, key=lambda match: (-match.score, str(match.key)))[:k]
