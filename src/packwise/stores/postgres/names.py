"""Graph ranking in PostgreSQL: what one hop reads comes in one round trip."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from packwise.stores.knowledge import EntityId, Key, KnowledgeReader, Row, integers
from packwise.stores.name_graph import MOST_PASSAGES, KnowledgeGraph, QuestionName, Surroundings
from packwise.stores.postgres.connections import Connection
from packwise.stores.postgres.migrations import load_sql
from packwise.stores.postgres.rows import from_postgres, list_to_postgres

_T = TypeVar("_T")
Run = Callable[[Callable[[Connection], list[Any]]], list[Any]]
"""Runs a query in a transaction of the store."""


class PostgresNames:
    """``NameGraph`` of a database."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def names(self, keys: Sequence[str]) -> Mapping[str, QuestionName]:
        return KnowledgeGraph(self._around(names=keys)).names(keys)

    def surroundings(
        self, passages: Sequence[Key], asked: Collection[str], places: int
    ) -> Mapping[Key, Surroundings]:
        around = self._around(passages=passages, asked=asked, places=2 * places)
        return KnowledgeGraph(around).surroundings(passages, asked, places)

    def _around(
        self,
        names: Sequence[str] = (),
        passages: Sequence[Key] = (),
        asked: Collection[str] = (),
        places: int = 0,
    ) -> _Fetched:
        values = {
            "names": list_to_postgres(names),
            "passages": list(dict.fromkeys(integers(passages))),
            "asked": list_to_postgres(asked),
            "places": places,
            "most": MOST_PASSAGES,
        }
        query = load_sql(__name__, "names")
        return _Fetched(self._run(lambda connection: connection.execute(query, values).fetchall()))


class _Fetched(KnowledgeReader):
    """Rows that were read at once, as ``KnowledgeQueries``; what was not read is not there."""

    def __init__(self, rows: Iterable[Sequence[Any]]) -> None:
        self._rows: dict[str, list[Row]] = defaultdict(list)
        for kind, *numbers, name, title, _ in rows:
            self._rows[kind].append((*numbers, from_postgres(name), from_postgres(title)))

    def query_knowledge(self, read: Callable[[Any], _T]) -> _T:
        return read(self)

    def entities(self, keys: Sequence[str]) -> Iterable[Row]:
        wanted = set(keys)
        rows = (row for row in self._rows["entity"] if row[3] in wanted)
        return [(key, name, "", "", "", passages) for key, passages, _, name, _ in rows]

    def titles(self, entities: Sequence[EntityId]) -> Iterable[Row]:
        wanted = set(entities)
        rows = (row for row in self._rows["title"] if row[0] in wanted)
        return [(entity, document, title) for entity, _, _, document, title in rows]

    def places(self, passages: Sequence[Key]) -> Iterable[Row]:
        return [(key, document, title) for key, _, _, document, title in self._rows["place"]]

    def mentioned(self, passages: Sequence[Key]) -> Iterable[Row]:
        return [
            (passage, key, name, "", "", "", number)
            for passage, key, number, name, _ in self._rows["mentioned"]
        ]

    def mentioning(self, entities: Sequence[EntityId], most: int) -> Iterable[Row]:
        wanted = set(entities)
        rows = (row for row in self._rows["mentioning"] if row[0] in wanted)
        return [(entity, key, document, title) for entity, key, _, document, title in rows]

    def first_passages(self, documents: Sequence[str], most: int) -> Iterable[Row]:
        wanted = set(documents)
        rows = (row for row in self._rows["first"] if row[3] in wanted)
        return [(document, key) for key, _, _, document, _ in rows]
