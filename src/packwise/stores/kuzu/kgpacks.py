"""Reading databases of agent-kgpacks, which are never written to.

They tie entities and facts to whole articles. An entity counts as mentioned by those sections
that contain its name, else by the first section, and a fact is about its article.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from packwise.documents import Block, BlockKind, Document, Link, Section, content_hash
from packwise.errors import NotAStore
from packwise.language.names import name_key
from packwise.stores.checks import EmbedderIdentity
from packwise.stores.knowledge import Entity, TitledDocument
from packwise.stores.kuzu.database import DatabaseFile
from packwise.stores.kuzu.knowledge import EntityData
from packwise.stores.kuzu.table import KuzuDocument, KuzuPassage, KuzuState, Table
from packwise.stores.links import pagerank

SEPARATOR = "\n\n"
"""What stands between the sections of an article when its text is put together from them."""


def read_table(file: DatabaseFile) -> Table:
    """The table of a database of agent-kgpacks.

    Its sections have no offsets and no paths; both follow from their order and levels.
    """
    tables = file.tables
    dim = _vector_dimension(file)
    columns = {row[1] for row in file.rows("CALL TABLE_INFO('Article') RETURN *")}
    category = "a.category" if "category" in columns else "''"
    titles = file.rows(f"MATCH (a:Article) RETURN a.title, {category} ORDER BY a.title")
    at = {title: row for row, (title, _) in enumerate(titles)}
    links = file.rows(
        "MATCH (a:Article)-[:LINKS_TO]->(b:Article) RETURN DISTINCT a.title, b.title"
        if "LINKS_TO" in tables
        else "RETURN '' AS a, '' AS b LIMIT 0"
    )
    pairs = np.array([(at[a], at[b]) for a, b in links if a != b], dtype=np.int64).reshape(-1, 2)
    ranks = pagerank(len(titles), pairs[:, 0], pairs[:, 1]).tolist()
    documents = tuple(
        KuzuDocument(
            id=title,
            article=title,
            title=title,
            url="",
            lang="",
            source_hash="",
            metadata={"category": kind} if kind else {},
            pagerank=rank,
        )
        for (title, kind), rank in zip(titles, ranks, strict=True)
    )
    rows = file.rows(
        "MATCH (a:Article)-[h:HAS_SECTION]->(s:Section) RETURN a.title, s.section_id, s.title,"
        " s.level, s.content, s.embedding IS NOT NULL, h.section_index"
        " ORDER BY a.title, h.section_index, s.section_id"
    )
    inode, changed, size = file.stamp
    return Table(
        KuzuState(
            own=False,
            version=content_hash(str(inode), str(changed), str(size))[:16],
            identity=_declared(file.path)._replace(dim=dim),
            links=len(pairs),
        ),
        documents,
        _laid_out(rows, at),
    )


def _laid_out(rows: Sequence[Sequence[object]], at: Mapping[str, int]) -> tuple[KuzuPassage, ...]:
    """Sections with the offsets and headings that their order and levels give them."""
    passages: list[KuzuPassage] = []
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
            passages.append(KuzuPassage(str(key), document, position, path, start, end, "", ""))
        start = end + len(SEPARATOR)
        position += 1
    return tuple(passages)


def _vector_dimension(file: DatabaseFile) -> int:
    for row in file.rows("CALL TABLE_INFO('Section') RETURN *"):
        if row[1] == "embedding":
            _, bracket, size = str(row[2]).partition("[")
            if bracket and size.rstrip("]").isdigit():
                return int(size.rstrip("]"))
            found = file.rows(
                "MATCH (s:Section) WHERE s.embedding IS NOT NULL RETURN size(s.embedding) LIMIT 1"
            )
            return int(found[0][0]) if found else 0
    raise NotAStore(
        f"{file.path} is not a pack: its sections have no embedding",
        fix="name a pack.db whose sections were embedded",
    )


def read_document(file: DatabaseFile, table: Table, row: int) -> Document:
    """An article put together from its sections."""
    found = table.documents[row]
    rows = file.rows(
        "MATCH (a:Article {title: $title})-[h:HAS_SECTION]->(s:Section)"
        " RETURN s.section_id, s.title, s.level, s.content ORDER BY h.section_index, s.section_id",
        {"title": found.article},
    )
    paths = {p.key: p.path for p in table.passages[slice(*table.spans[row])]}
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
    # An article without sections has only its own text, which some packs keep.
    text = SEPARATOR.join(parts) if rows else _content(file, found.article)
    return Document(
        id=found.id,
        title=found.title,
        text=text,
        sections=tuple(sections),
        links=tuple(_links(file, found.article)),
        metadata=found.metadata,
        source_hash=content_hash(found.title, text),
    )


def _content(file: DatabaseFile, article: str) -> str:
    columns = {row[1] for row in file.rows("CALL TABLE_INFO('Article') RETURN *")}
    if "content" not in columns:
        return ""
    query = "MATCH (a:Article {title: $title}) RETURN a.content"
    return file.rows(query, {"title": article})[0][0] or ""


def _links(file: DatabaseFile, article: str) -> Iterator[Link]:
    if "LINKS_TO" not in file.tables:
        return
    for target, kind in file.rows(
        "MATCH (a:Article {title: $title})-[l:LINKS_TO]->(b:Article)"
        " RETURN DISTINCT b.title, l.link_type ORDER BY b.title",
        {"title": article},
    ):
        yield Link(target, target=None if target == article else target, kind=kind or "link")


def _declared(path: Path) -> EmbedderIdentity:
    """The embedder named in the manifest beside the database, if there is one."""
    manifest = path.with_name("manifest.json")
    try:
        fields = json.loads(manifest.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return EmbedderIdentity()
    names = ("embedding_model", "embedder", "model")
    found = next((fields[name] for name in names if isinstance(fields.get(name), str)), "")
    return EmbedderIdentity(found.rpartition("/")[2])


def read_entities(file: DatabaseFile, table: Table) -> EntityData:
    """What a database of agent-kgpacks says about entities."""
    known = EntityData()
    if {"Entity", "HAS_ENTITY"} <= file.tables:
        _add_entities(file, table, known)
    if {"Fact", "HAS_FACT"} <= file.tables:
        for article, text in file.rows(
            "MATCH (a:Article)-[:HAS_FACT]->(f:Fact) RETURN a.title, f.content"
            " ORDER BY a.title, f.fact_id"
        ):
            start, end = table.spans[table.articles[article]]
            about = name_key(table.documents[table.articles[article]].title)
            if start < end and text:
                known.facts.setdefault(start, []).append((about, text))
    if {"Entity", "ENTITY_RELATION"} <= file.tables:
        for source, relation, target, context in file.rows(
            "MATCH (a:Entity)-[r:ENTITY_RELATION]->(b:Entity)"
            " RETURN a.name, r.relation, b.name, r.context ORDER BY a.name, b.name, r.relation"
        ):
            one, other = name_key(source), name_key(target)
            naming = known.mentioning.get(one) or known.mentioning.get(other)
            if one in known.by_key and other in known.by_key and naming:
                found = known.relations.setdefault(min(naming), [])
                found.append((one, relation or "", other, context or ""))
    _add_titles(table, known)
    return known


def _add_entities(file: DatabaseFile, table: Table, known: EntityData) -> None:
    held: dict[str, list[tuple[str, str]]] = {}
    for article, name, kind, description in file.rows(
        "MATCH (a:Article)-[:HAS_ENTITY]->(e:Entity) RETURN a.title, e.name, e.type, e.description"
        " ORDER BY a.title, e.entity_id"
    ):
        key = name_key(name or "")
        if key:
            held.setdefault(article, []).append((key, name.casefold()))
            entity = Entity(key, key, kind or "", 0, (), name, description or "")
            known.by_key.setdefault(key, entity)
    for article, names in held.items():
        start, end = table.spans[table.articles[article]]
        if start == end:
            continue
        texts = dict(
            file.rows(
                "MATCH (a:Article {title: $title})-[:HAS_SECTION]->(s:Section)"
                " RETURN s.section_id, s.content",
                {"title": article},
            )
        )
        folded = {row: texts[table.passages[row].key].casefold() for row in range(start, end)}
        for key, name in dict(names).items():
            rows = [row for row, text in folded.items() if name in text] or [start]
            for row in rows:
                known.mention(row, key)
    for key, rows in known.mentioning.items():
        known.by_key[key] = known.by_key[key]._replace(passages=len(rows))


def _add_titles(table: Table, known: EntityData) -> None:
    for document in table.documents:
        key = name_key(document.title)
        if not key:
            continue
        entity = known.by_key.get(key) or Entity(key, key, "title", 0, (), document.title)
        titled = (*entity.titled, TitledDocument(document.id, document.title))
        known.by_key[key] = entity._replace(titled=titled)
