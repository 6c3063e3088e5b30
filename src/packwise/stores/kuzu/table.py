"""What a reader keeps of a Kuzu database in memory: all but texts and vectors.

It is read once a state of the file. Sections of the earlier system carry no offsets and no
paths; both follow from their order and their levels.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from packwise.candidates import Filter
from packwise.documents import Passage, content_hash, passage_id
from packwise.errors import NotAStore
from packwise.stores.kuzu.database import Opened
from packwise.stores.kuzu.schema import FORMAT, INDEX
from packwise.stores.linking import index_urls
from packwise.stores.pack.rows import groups, storable
from packwise.stores.pagerank import pagerank

SEPARATOR = "\n\n"
"""What stands between the sections of an article whose text is put together from them."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Whose vectors a database holds; nothing is known of the earlier system's."""

    embedder: str = ""
    version: str = ""
    dim: int = 0


@dataclass(frozen=True, slots=True)
class State:
    """What a database is. ``own`` ones were written by Packwise."""

    own: bool
    version: str
    identity: Identity
    links: int = 0
    unresolved: int = 0
    rules: str = ""
    created_at: str = ""
    updated_at: str = ""


@dataclass(frozen=True, slots=True)
class DocumentRow:
    """A document without its text; ``article`` is what the database calls it."""

    id: str
    article: str
    title: str
    url: str
    lang: str
    source_hash: str
    metadata: Mapping[str, str]
    pagerank: float


@dataclass(frozen=True, slots=True)
class PassageRow:
    """A passage without its text; ``document`` is a row of the table."""

    key: str
    document: int
    position: int
    path: tuple[str, ...]
    start: int
    end: int
    content_hash: str
    url: str


@dataclass(frozen=True)
class Table:
    """Documents by id; passages by document and order."""

    state: State
    documents: tuple[DocumentRow, ...]
    passages: tuple[PassageRow, ...]

    @cached_property
    def document_rows(self) -> dict[str, int]:
        return {document.id: at for at, document in enumerate(self.documents)}

    @cached_property
    def articles(self) -> dict[str, int]:
        return {document.article: at for at, document in enumerate(self.documents)}

    @cached_property
    def urls(self) -> dict[str, str]:
        return index_urls((document.id, document.url) for document in self.documents)

    @cached_property
    def rows(self) -> dict[str, int]:
        return {passage.key: at for at, passage in enumerate(self.passages)}

    @cached_property
    def spans(self) -> list[tuple[int, int]]:
        """For each document the first and past-the-last row of its passages."""
        owners = np.array([passage.document for passage in self.passages], dtype=np.int64)
        every = np.arange(len(self.documents))
        starts = np.searchsorted(owners, every, side="left").tolist()
        ends = np.searchsorted(owners, every, side="right").tolist()
        return list(zip(starts, ends, strict=True))

    @cached_property
    def by_key(self) -> NDArray[np.int64]:
        """The rows in the order of their keys, in which equal scores are ranked."""
        return np.argsort(np.array([p.key for p in self.passages], dtype=object), kind="stable")

    def allowed(self, where: Filter) -> list[int]:
        """The rows a filter lets through."""
        passes = _document_filter(where)
        return [
            row
            for document, (start, end) in zip(self.documents, self.spans, strict=True)
            if passes(document)
            for row in range(start, end)
        ]

    def passage(self, row: int, text: str) -> Passage:
        """A passage, given its text."""
        found = self.passages[row]
        document = self.documents[found.document]
        passage = Passage(
            id=passage_id(document.id, found.position),
            document=document.id,
            doc_title=document.title,
            section_path=found.path,
            order_index=found.position,
            text=text,
            start=found.start,
            end=found.end,
            content_hash=found.content_hash,
            embedder_version=self.state.identity.version,
            url=found.url,
            lang=document.lang,
            metadata=document.metadata,
        )
        if passage.content_hash:
            return passage
        return replace(passage, content_hash=content_hash(passage.indexed_text))


def _document_filter(where: Filter) -> Callable[[DocumentRow], bool]:
    documents = {storable(name) for name in where.documents}
    prefix, lang = storable(where.path_prefix), storable(where.lang)
    named = {"tenant": where.tenant, "space": where.space, "node_type": where.node_type}
    wanted = {name: storable(value) for name, value in named.items() if value}
    wanted.update((storable(name), storable(value)) for name, value in where.metadata.items())
    mine = {storable(group.strip()) for group in where.acl}

    def passes(document: DocumentRow) -> bool:
        if documents and document.id not in documents:
            return False
        if not document.id.startswith(prefix) or (lang and document.lang != lang):
            return False
        if any(document.metadata.get(name) != value for name, value in wanted.items()):
            return False
        theirs = groups(document.metadata) if mine else []
        return not theirs or not mine.isdisjoint(theirs)

    return passes


def read_table(opened: Opened, declared: Identity) -> Table:
    """Read a database's table. ``declared`` says whose vectors a foreign one holds.

    Raises ``NotAStore`` on a database of another make.
    """
    tables = {row[1] for row in opened.rows("CALL SHOW_TABLES() RETURN *")}
    if not {"Article", "Section", "HAS_SECTION"} <= tables:
        raise NotAStore(
            f"{opened.path} is no pack: it has no tables Article, Section and HAS_SECTION",
            fix="name a pack.db, or a file that packwise wrote",
        )
    if "Packwise" in tables:
        return _own(opened)
    return _foreign(opened, declared, tables)


def indexed(opened: Opened) -> bool:
    """Whether the database has its vector index."""
    return any(row[1] == INDEX for row in opened.rows("CALL SHOW_INDEXES() RETURN *"))


def _own(opened: Opened) -> Table:
    ((made, text),) = opened.rows("MATCH (p:Packwise) RETURN p.format, p.state")
    if made != FORMAT:
        raise NotAStore(f"{opened.path} has the format {made}", fix="use a newer packwise")
    fields = json.loads(text)
    fields["identity"] = Identity(**fields["identity"])
    state = State(own=True, **fields)
    documents = tuple(
        DocumentRow(id, article, title, url, lang, source_hash, json.loads(metadata), rank)
        for id, article, title, url, lang, source_hash, metadata, rank in opened.rows(
            "MATCH (a:Article) RETURN a.id, a.title, a.name, a.url, a.lang, a.source_hash,"
            " a.metadata, a.pagerank ORDER BY a.id"
        )
    )
    at = {document.id: row for row, document in enumerate(documents)}
    rows = opened.rows(
        "MATCH (a:Article)-[:HAS_SECTION]->(s:Section) RETURN a.id, s.section_id, s.position,"
        " s.path, s.first, s.past, s.content_hash, s.url"
    )
    passages = [
        PassageRow(key, at[id], position, tuple(json.loads(path)), first, past, digest, url)
        for id, key, position, path, first, past, digest, url in rows
    ]
    return Table(state, documents, _sorted(passages))


def _foreign(opened: Opened, declared: Identity, tables: set[str]) -> Table:
    dim = vector_dimension(opened)
    columns = {row[1] for row in opened.rows("CALL TABLE_INFO('Article') RETURN *")}
    category = "a.category" if "category" in columns else "''"
    titles = opened.rows(f"MATCH (a:Article) RETURN a.title, {category} ORDER BY a.title")
    at = {title: row for row, (title, _) in enumerate(titles)}
    links = opened.rows(
        "MATCH (a:Article)-[:LINKS_TO]->(b:Article) RETURN DISTINCT a.title, b.title"
        if "LINKS_TO" in tables
        else "RETURN '' AS a, '' AS b LIMIT 0"
    )
    pairs = np.array([(at[a], at[b]) for a, b in links if a != b], dtype=np.int64).reshape(-1, 2)
    ranks = pagerank(len(titles), pairs[:, 0], pairs[:, 1]).tolist()
    documents = tuple(
        DocumentRow(
            id=title,
            article=title,
            title=title.replace("_", " "),
            url="",
            lang="",
            source_hash="",
            metadata={"category": kind} if kind else {},
            pagerank=rank,
        )
        for (title, kind), rank in zip(titles, ranks, strict=True)
    )
    rows = opened.rows(
        "MATCH (a:Article)-[h:HAS_SECTION]->(s:Section) RETURN a.title, s.section_id, s.title,"
        " s.level, s.content, s.embedding IS NOT NULL, h.section_index"
        " ORDER BY a.title, h.section_index, s.section_id"
    )
    inode, changed, size = opened.stamp
    return Table(
        State(
            own=False,
            version=content_hash(str(inode), str(changed), str(size))[:16],
            identity=replace(declared, dim=dim),
            links=len(pairs),
        ),
        documents,
        _laid_out(rows, at),
    )


def _laid_out(rows: Sequence[Sequence[object]], at: Mapping[str, int]) -> tuple[PassageRow, ...]:
    """Sections with the offsets and headings that their order and levels give them."""
    passages: list[PassageRow] = []
    document, start, position = -1, 0, 0
    stack: list[tuple[int, str]] = []
    for article, key, title, level, text, embedded, _ in rows:
        if at[str(article)] != document:
            document, start, position, stack = at[str(article)], 0, 0, []
        depth = level if isinstance(level, int) else 1
        stack = [(d, name) for d, name in stack if d < depth]
        if title and title != article:
            stack.append((depth, str(title)))
        # Kuzu's own size() counts what a reader sees as one letter, not characters.
        end = start + len(str(text or ""))
        if embedded:
            path = tuple(name for _, name in stack)
            passages.append(PassageRow(str(key), document, position, path, start, end, "", ""))
        start = end + len(SEPARATOR)
        position += 1
    return tuple(passages)


def _sorted(passages: list[PassageRow]) -> tuple[PassageRow, ...]:
    return tuple(sorted(passages, key=lambda passage: (passage.document, passage.position)))


def vector_dimension(opened: Opened) -> int:
    """How many dimensions the stored vectors have; 0 where there are none."""
    for row in opened.rows("CALL TABLE_INFO('Section') RETURN *"):
        if row[1] == "embedding":
            _, bracket, size = str(row[2]).partition("[")
            if bracket and size.rstrip("]").isdigit():
                return int(size.rstrip("]"))
            found = opened.rows(
                "MATCH (s:Section) WHERE s.embedding IS NOT NULL RETURN size(s.embedding) LIMIT 1"
            )
            return int(found[0][0]) if found else 0
    raise NotAStore(
        f"{opened.path} is no pack: its sections have no embedding",
        fix="name a pack.db whose sections were embedded",
    )
