"""Writing a Kuzu database from any store: the whole of it into a new file, at once.

Rows go through files, table by table: Kuzu reads a file some fifty times faster than it
creates relationships by query.
"""

from __future__ import annotations

import csv
import json
import secrets
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from packwise.documents import Passage
from packwise.errors import StoreError
from packwise.language.names import title_aliases
from packwise.stores.base import Key, Store
from packwise.stores.checks import EmbedderIdentity
from packwise.stores.durable import sync_file, writing
from packwise.stores.extractions import extraction_payload
from packwise.stores.knowledge import Entity, Relation
from packwise.stores.kuzu.database import connect, open_database
from packwise.stores.kuzu.schema import FORMAT, create_index, own_schema
from packwise.stores.kuzu.table import KuzuState, state_text
from packwise.stores.lifecycle import utc_now
from packwise.stores.records import layout_text, links_text, sections_text
from packwise.stores.transfer import Content, contents

_BATCH = 500
_ALL = 1 << 30
_SMALL = 1000
_NULL = "packwise/null/6d1f"
"""What stands for no value in the files: nothing else must, least of all an empty text."""

_NODES = ("Article", "Section", "Entity", "Fact")
_RELATIONS = (
    "HAS_SECTION",
    "LINKS_TO",
    "MENTIONS",
    "HAS_ENTITY",
    "STATES",
    "HAS_FACT",
    "ENTITY_RELATION",
)


def write_database(
    source: Store, path: Path, *, created_at: str = "", rules: str = ""
) -> KuzuState:
    """Write all that a store holds to ``path``, replacing what was there at once.

    ``rules`` names the rules by which the source found its entities, if known.
    A section of the database is a passage of the store. Articles that share a title get their
    document's id added.
    """
    with writing(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
        try:
            state = _Export(source, folder).run(created_at, rules)
            sync_file(folder / _DATABASE)
            (folder / _DATABASE).replace(path)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        sync_file(path.parent)
    return state


_DATABASE = "new.db"


class _Rows:
    """The rows of every table, on their way into it."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._counts: Counter[str] = Counter()
        self._paths = {name: folder / f"{name}.csv" for name in (*_NODES, *_RELATIONS)}
        self._writers: dict[str, Any] = {}
        for name, path in self._paths.items():
            file = stack.enter_context(path.open("w", encoding="utf-8", newline=""))
            self._writers[name] = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n")

    def add(self, table: str, *values: Any) -> None:
        self._writers[table].writerow(values)
        self._counts[table] += 1

    def loads(self) -> Iterator[str]:
        """The statements that read the files, once they are closed."""
        for name in (*_NODES, *_RELATIONS):
            if self._counts[name]:
                place = str(self._paths[name].absolute()).replace("\\", "\\\\").replace("'", "\\'")
                yield (
                    f"COPY {name} FROM '{place}' (HEADER=false, QUOTE='\"', ESCAPE='\"',"
                    f" PARALLEL=false, NULL_STRINGS=['{_NULL}'])"
                )


class _Export:
    def __init__(self, source: Store, folder: Path) -> None:
        self._source = source
        self._folder = folder
        self._articles: dict[str, str] = {}
        self._titles: dict[str, str] = {}
        self._sections: dict[Key, str] = {}

    def run(self, created_at: str, rules: str) -> KuzuState:
        info = self._source.info()
        names = self._name_articles()
        with ExitStack() as stack:
            rows = _Rows(self._folder, stack)
            for at in range(0, len(names), _BATCH):
                self._write_documents(rows, names[at : at + _BATCH])
            self._write_links(rows, names)
            self._write_knowledge(rows, names)
        state = KuzuState(
            own=True,
            version=secrets.token_hex(8),
            identity=EmbedderIdentity(info.embedder, info.embedder_version, info.dim),
            links=info.links,
            unresolved=int(info.details.get("unresolved_links", "0")),
            rules=rules,
            created_at=created_at or utc_now(),
            updated_at=utc_now(),
        )
        self._fill(rows, state, info.passages)
        return state

    def _fill(self, rows: _Rows, state: KuzuState, passages: int) -> None:
        """Make the database of the rows."""
        path = self._folder / _DATABASE
        engine, database = open_database(path, read_only=False)
        try:
            # Kuzu's threads wait for one another by spinning, which only a long build repays.
            connection = connect(engine, database, threads=1 if passages < _SMALL else 0)
            try:
                for statement in (*own_schema(max(state.identity.dim, 1)), *rows.loads()):
                    connection.execute(statement)
                connection.execute(
                    "CREATE (:Packwise {format: $format, state: $state})",
                    {"format": FORMAT, "state": state_text(state)},
                )
                if passages:
                    connection.execute(create_index())
                connection.execute("CHECKPOINT")
            finally:
                connection.close()
        except RuntimeError as error:
            reason = " ".join(str(error).split())[:300]
            raise StoreError(f"cannot write the database: {reason}") from error
        finally:
            with suppress(RuntimeError):
                database.close()

    def _name_articles(self) -> list[str]:
        """Give every document a title of its own; their ids, in order."""
        summaries = list(self._source.documents())
        shared = Counter(summary.title for summary in summaries)
        taken = {title for title, count in shared.items() if count == 1}
        for summary in summaries:
            title = summary.title
            if not title or shared[title] > 1:
                title = f"{title} ({summary.id})".strip()
                while title in taken:
                    title += "'"
                taken.add(title)
            self._articles[summary.id] = title
            self._titles[summary.id] = summary.title
        return [summary.id for summary in summaries]

    def _write_documents(self, rows: _Rows, names: Sequence[str]) -> None:
        ranks = self._source.pagerank(names)
        found = 0
        for content in contents(self._source, names):
            document = content.document
            article = self._articles[document.id]
            found += 1
            rows.add(
                "Article",
                article,
                document.metadata.get("category", ""),
                len(document.text.split()),
                document.id,
                document.title,
                document.url,
                document.lang,
                document.source_hash,
                json.dumps(dict(document.metadata), ensure_ascii=False),
                document.text,
                sections_text(document),
                links_text(document),
                ranks.get(document.id, 0.0),
            )
            self._write_passages(rows, content, article)
        if found != len(names):
            raise StoreError("documents disappeared while they were exported", fix="export again")

    def _write_passages(self, rows: _Rows, content: Content, article: str) -> None:
        read = {extraction.order_index: extraction for extraction in content.extractions}
        for passage, vector in zip(content.passages, content.vectors.tolist(), strict=True):
            extraction = read.get(passage.order_index)
            name = _section_id(passage)
            rows.add(
                "Section",
                name,
                passage.header or passage.doc_title,
                passage.text,
                f"[{','.join(map(repr, vector))}]",
                max(len(passage.section_path), 1),
                len(passage.text.split()),
                passage.order_index,
                json.dumps(list(passage.section_path), ensure_ascii=False),
                passage.start,
                passage.end,
                passage.content_hash,
                passage.url,
                json.dumps(extraction_payload(extraction), ensure_ascii=False)
                if extraction
                else "",
                layout_text(passage),
            )
            rows.add("HAS_SECTION", article, name, passage.order_index)

    def _write_links(self, rows: _Rows, names: Sequence[str]) -> None:
        seen: set[tuple[str, str, str]] = set()
        for source, link in self._source.links(names):
            if link.target in self._articles:
                row = (self._articles[source], self._articles[link.target], link.kind)
                if row not in seen:
                    seen.add(row)
                    rows.add("LINKS_TO", *row)

    def _write_knowledge(self, rows: _Rows, names: Sequence[str]) -> None:
        entities: dict[str, Entity] = {}
        about: dict[str, None] = {}
        for at in range(0, len(names), _BATCH):
            batch = names[at : at + _BATCH]
            keys = self._keys(batch)
            self._write_mentions(rows, keys, entities)
            about.update(dict.fromkeys(self._write_facts(rows, keys)))
            for name in batch:
                about.update(dict.fromkeys(title_aliases(self._titles[name])))
        wanted = [key for key in about if key not in entities]
        for at in range(0, len(wanted), _BATCH):
            entities.update(self._source.entities_named(wanted[at : at + _BATCH]))
        for entity in entities.values():
            titled = [[titled.document, titled.title] for titled in entity.titled]
            rows.add(
                "Entity",
                entity.key,
                entity.label,
                entity.kind,
                entity.description,
                entity.passages,
                json.dumps(titled, ensure_ascii=False),
            )
        self._write_relations(rows, list(entities))

    def _keys(self, names: Sequence[str]) -> list[Key]:
        """The keys of the passages of documents; what each is called here is noted."""
        found: list[Key] = []
        for keys in self._source.passages_of(names, _ALL).values():
            found += keys
        for key, passage in zip(found, self._source.passages(found), strict=True):
            if passage is not None:
                self._sections[key] = _section_id(passage)
        return found

    def _write_mentions(
        self, rows: _Rows, keys: Sequence[Key], entities: dict[str, Entity]
    ) -> None:
        held_by: dict[tuple[str, str], None] = {}
        for key, found in self._source.entities_of(keys).items():
            article = self._articles[found.place.document]
            for position, entity in enumerate(found.entities):
                entities[entity.key] = entity
                held_by[article, entity.key] = None
                rows.add("MENTIONS", self._sections[key], entity.key, position)
        for article, name in held_by:
            rows.add("HAS_ENTITY", article, name)

    def _write_facts(self, rows: _Rows, keys: Sequence[Key]) -> list[str]:
        """Write what passages state; the keys of what they state it about."""
        about: list[str] = []
        for key, facts in self._source.facts_of(keys).items():
            for position, fact in enumerate(facts):
                name = f"{self._sections[key]}/{position}"
                about.append(fact.about)
                rows.add("Fact", name, fact.text, fact.about, position)
                rows.add("STATES", self._sections[key], name)
                rows.add("HAS_FACT", self._articles[fact.place.document], name)
        return about

    def _write_relations(self, rows: _Rows, keys: Sequence[str]) -> None:
        seen: set[Relation] = set()
        positions: Counter[Key] = Counter()
        for at in range(0, len(keys), _BATCH):
            for relation in self._source.relations_of(keys[at : at + _BATCH], _ALL):
                if relation in seen:
                    continue
                seen.add(relation)
                place = relation.place.key
                rows.add(
                    "ENTITY_RELATION",
                    relation.source,
                    relation.target,
                    relation.relation,
                    relation.context,
                    self._sections[place],
                    positions[place],
                )
                positions[place] += 1


def _section_id(passage: Passage) -> str:
    """The content is part of it, so that a key never comes to mean another text."""
    return f"{passage.id}@{passage.content_hash[:12]}"
