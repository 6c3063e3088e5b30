"""What a reader keeps of a Kuzu database in memory: everything except texts and vectors.

It is read once per state of the file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from packwise.candidates import Filter
from packwise.documents import Passage, content_hash, passage_id
from packwise.errors import NotAStore
from packwise.stores.checks import EmbedderIdentity, storable
from packwise.stores.kuzu.database import DatabaseFile
from packwise.stores.kuzu.schema import FORMAT, FORMAT_WITHOUT_LAYOUTS, INDEX
from packwise.stores.links import index_urls
from packwise.stores.records import groups, read_layout


@dataclass(frozen=True, slots=True)
class KuzuState:
    """What a database is. Packwise wrote its ``own`` ones, agent-kgpacks the others."""

    own: bool
    version: str
    identity: EmbedderIdentity
    links: int = 0
    unresolved: int = 0
    rules: str = ""
    created_at: str = ""
    updated_at: str = ""


@dataclass(frozen=True, slots=True)
class KuzuDocument:
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
class KuzuPassage:
    """A passage without its text; ``document`` is a row of the table."""

    key: str
    document: int
    position: int
    path: tuple[str, ...]
    start: int
    end: int
    content_hash: str
    url: str
    layout: str = ""


@dataclass(frozen=True)
class Table:
    """Documents by id; passages by document and order."""

    state: KuzuState
    documents: tuple[KuzuDocument, ...]
    passages: tuple[KuzuPassage, ...]

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
            **read_layout(found.layout),
        )
        if passage.content_hash:
            return passage
        return replace(passage, content_hash=content_hash(passage.indexed_text))


def _document_filter(where: Filter) -> Callable[[KuzuDocument], bool]:
    documents = {storable(name) for name in where.documents}
    prefix, lang = storable(where.path_prefix), storable(where.lang)
    named = {"tenant": where.tenant, "space": where.space, "node_type": where.node_type}
    wanted = {name: storable(value) for name, value in named.items() if value}
    wanted.update((storable(name), storable(value)) for name, value in where.metadata.items())
    mine = {storable(group.strip()) for group in where.acl}

    def passes(document: KuzuDocument) -> bool:
        if documents and document.id not in documents:
            return False
        if not document.id.startswith(prefix) or (lang and document.lang != lang):
            return False
        if any(document.metadata.get(name) != value for name, value in wanted.items()):
            return False
        theirs = groups(document.metadata) if mine else []
        return not theirs or not mine.isdisjoint(theirs)

    return passes


def has_vector_index(file: DatabaseFile) -> bool:
    """Whether the database has its vector index."""
    return any(row[1] == INDEX for row in file.rows("CALL SHOW_INDEXES() RETURN *"))


def read_own_table(file: DatabaseFile) -> Table:
    """The table of a database that Packwise wrote."""
    ((made, text),) = file.rows("MATCH (p:Packwise) RETURN p.format, p.state")
    if made not in (FORMAT, FORMAT_WITHOUT_LAYOUTS):
        raise NotAStore(f"{file.path} has the format {made}", fix="use a newer packwise")
    fields = json.loads(text)
    identity = fields.pop("identity")
    fields["identity"] = EmbedderIdentity(
        identity["embedder"], identity["version"], identity["dim"]
    )
    state = KuzuState(own=True, **fields)
    documents = tuple(
        KuzuDocument(id, article, title, url, lang, source_hash, json.loads(metadata), rank)
        for id, article, title, url, lang, source_hash, metadata, rank in file.rows(
            "MATCH (a:Article) RETURN a.id, a.title, a.name, a.url, a.lang, a.source_hash,"
            " a.metadata, a.pagerank ORDER BY a.id"
        )
    )
    at = {document.id: row for row, document in enumerate(documents)}
    layout = "s.layout" if made == FORMAT else "''"
    rows = file.rows(
        "MATCH (a:Article)-[:HAS_SECTION]->(s:Section) RETURN a.id, s.section_id, s.position,"
        f" s.path, s.first, s.past, s.content_hash, s.url, {layout}"
    )
    passages = [
        KuzuPassage(key, at[id], position, tuple(json.loads(path)), *rest)
        for id, key, position, path, *rest in rows
    ]
    passages.sort(key=lambda passage: (passage.document, passage.position))
    return Table(state, documents, tuple(passages))


def state_text(state: KuzuState) -> str:
    """The state as an own database stores it."""
    fields = asdict(state)
    del fields["own"]
    name, version, dim = state.identity
    fields["identity"] = {"embedder": name, "version": version, "dim": dim}
    return json.dumps(fields)
