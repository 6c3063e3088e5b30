"""Graph ranking over a pack's arrays of names."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from packwise.stores.knowledge import Key, integers
from packwise.stores.name_graph import (
    MOST_ENTITIES,
    MOST_PASSAGES,
    NameEdge,
    QuestionName,
    Surroundings,
)
from packwise.stores.pack.names import Array, Keys, NameTable, name_hash
from packwise.stores.pack.vectors import NO_ROWS

_NAMESAKES = 4
"""Rows that may have one hash."""


class _Entity(NamedTuple):
    """A known entity: its name, the passages that mention it, the documents it titles."""

    name: str
    passages: int
    titled: list[int]


class _Seed(NamedTuple):
    """A passage that rank may flow from, with its document and the entities it mentions."""

    key: int
    document: int
    title: str
    article: int
    mentions: Array


class NameArrays:
    """``NameGraph`` of a table of names.

    Beside it there may be a table of what changed since: documents and entities in it take the
    place of those in the first, and passages of ``removed`` (ascending) are gone.
    """

    def __init__(
        self, table: NameTable, recent: NameTable | None = None, removed: Keys = NO_ROWS
    ) -> None:
        self._table = table
        self._tables = (table,) if recent is None else (recent, table)
        self._removed = removed
        self._hidden: NDArray[np.bool_] | None = None
        if recent is not None:
            self._hidden = np.zeros(len(table.passages), dtype=bool)
            for keys in (removed, recent.passages):
                rows, there = _rows(table.passages, keys)
                self._hidden[rows[there]] = True

    def names(self, keys: Sequence[str]) -> Mapping[str, QuestionName]:
        found = self._named(keys)
        entities = self._entities(_distinct(found.values()))
        documents = _distinct(d for entity in entities.values() for d in entity.titled)
        articles, contents = self._articles(documents), self._contents(documents)
        return {
            key: QuestionName(
                number,
                key,
                frozenset(entities[number].titled),
                list(_to_articles(entities[number], -1, articles, contents)),
            )
            for key, number in found.items()
            if number in entities
        }

    def surroundings(
        self, passages: Sequence[Key], asked: Collection[str], places: int
    ) -> Mapping[Key, Surroundings]:
        seeds = list(self._seeds(passages))
        if not seeds:
            return {}
        entities = self._entities(_distinct(n for seed in seeds for n in seed.mentions.tolist()))
        articles = self._articles(_distinct(d for e in entities.values() for d in e.titled))
        followed = [
            self._followed(seed.mentions.tolist(), entities, articles, seed.article, asked)
            for seed in seeds
        ]
        every = sorted({number for numbers in followed for number in numbers})
        contents = self._contents(_distinct(d for n in every for d in entities[n].titled))
        # Passages of the seed's own article do not count, so there may be more.
        rare = [number for number in every if 1 < entities[number].passages <= 2 * places]
        mentioned = self._mentioned(rare)
        found: dict[Key, Surroundings] = {}
        for seed, numbers in zip(seeds, followed, strict=True):
            edges: list[NameEdge] = []
            for number in numbers:
                entity = entities[number]
                if entity.titled:
                    edges += _to_articles(entity, seed.article, articles, contents)
                others = [
                    passage
                    for passage, article in mentioned.get(number, ())
                    if article != seed.article
                ]
                if 0 < len(others) <= places:
                    edges.append(NameEdge(entity.name, others))
            held = frozenset(number for number in seed.mentions.tolist() if number in entities)
            found[seed.key] = Surroundings(seed.document, seed.title, held, edges)
        return found

    def _seeds(self, passages: Sequence[Key]) -> Iterator[_Seed]:
        """Those of these passages that are there."""
        keys = np.array(integers(passages), dtype=np.int64)
        if len(self._removed):
            keys = keys[~_rows(self._removed, keys)[1]]
        for table, rows, found in self._parts("passages", keys):
            homes = table.homes[rows].astype(np.int64)
            at, _ = _rows(table.documents, homes)
            for key, document, article, row, mentions in zip(
                found.tolist(),
                homes.tolist(),
                table.passage_articles[rows].tolist(),
                at.tolist(),
                table.lists_of("mentions", rows),
                strict=True,
            ):
                yield _Seed(key, document, table.text("titles", row), article, mentions)

    def _parts(self, column: str, keys: Array) -> Iterator[tuple[NameTable, Keys, Array]]:
        """The tables with the rows of these keys in a column, and the keys that are there. A
        key counts in the first table that has it."""
        for table in self._tables:
            rows, there = _rows(getattr(table, column), keys)
            yield table, rows[there], keys[there]
            keys = keys[~there]

    def _followed(
        self,
        mentioned: Iterable[int],
        entities: Mapping[int, _Entity],
        articles: Mapping[int, int],
        home: int,
        asked: Collection[str],
    ) -> list[int]:
        """The entities of a passage that lead to something new, the rarest first."""
        leading = [
            (entity.passages, entity.name, number)
            for number in mentioned
            if (entity := entities.get(number)) is not None
            and entity.name not in asked
            and not any(articles[document] == home for document in entity.titled)
        ]
        return [number for _, _, number in sorted(leading)[:MOST_ENTITIES]]

    def _named(self, names: Sequence[str]) -> dict[str, int]:
        """The entities of these names."""
        found: dict[str, int] = {}
        digests = np.array([name_hash(name) for name in names], dtype=np.uint64)
        newer: Array = NO_ROWS
        for table in self._tables:
            at, there = _rows(table.hashes, digests)
            for i in np.flatnonzero(there).tolist():
                # Two names may have one hash.
                alike = table.hashes[at[i] : at[i] + _NAMESAKES] == digests[i]
                for row in table.hashed[at[i] : at[i] + _NAMESAKES][alike].tolist():
                    number = table.entities[row : row + 1]
                    # By now an entity that was removed may have given its number to another.
                    if table.text("names", row) == names[i] and not _rows(newer, number)[1][0]:
                        found[names[i]] = int(number[0])
            newer = table.entities
        return found

    def _entities(self, numbers: Array) -> dict[int, _Entity]:
        """Those of these entities that are known."""
        found: dict[int, _Entity] = {}
        for table, rows, _ in self._parts("entities", numbers):
            known = rows[table.known[rows] > 0]
            for number, count, name, titled in zip(
                table.entities[known].tolist(),
                table.counts[known].tolist(),
                table.lists_of("names", known),
                table.lists_of("titled", known),
                strict=True,
            ):
                found[number] = _Entity(bytes(name).decode(), count, titled.tolist())
        return found

    def _articles(self, documents: Keys) -> dict[int, int]:
        """The article of each document."""
        found: dict[int, int] = {}
        for table, rows, keys in self._parts("documents", documents):
            found.update(zip(keys.tolist(), table.articles[rows].tolist(), strict=True))
        return found

    def _contents(self, documents: Keys) -> dict[int, list[int]]:
        """The first passages of each document, in reading order."""
        found: dict[int, list[int]] = {}
        for table, rows, keys in self._parts("documents", documents):
            lists = table.lists_of("contents", rows)
            for document, at in zip(keys.tolist(), lists, strict=True):
                found[document] = table.passages[at[:MOST_PASSAGES]].tolist()
        return found

    def _mentioned(self, numbers: Sequence[int]) -> dict[int, list[tuple[int, int]]]:
        """The passages that mention each entity, with their articles."""
        found: dict[int, list[tuple[int, int]]] = {number: [] for number in numbers}
        wanted = np.array(numbers, dtype=np.int64)
        for table in self._tables:
            rows, there = _rows(table.entities, wanted)
            lists = table.lists_of("mentioned", rows[there])
            for number, at in zip(wanted[there].tolist(), lists, strict=True):
                if table is self._table and self._hidden is not None:
                    at = at[~self._hidden[at]]
                passages = table.passages[at].tolist()
                articles = table.passage_articles[at].tolist()
                found[number] += zip(passages, articles, strict=True)
        if len(self._tables) > 1:
            for places in found.values():
                places.sort()
        return found


def _to_articles(
    entity: _Entity, here: int, articles: Mapping[int, int], contents: Mapping[int, list[int]]
) -> Iterator[NameEdge]:
    """An edge to each article that the entity titles, other than ``here``."""
    groups: dict[int, list[int]] = {}
    for document in entity.titled:
        if articles[document] != here:
            groups.setdefault(articles[document], []).extend(contents[document])
    for targets in groups.values():
        yield NameEdge(entity.name, targets, len(groups), entity.passages)


def _distinct(keys: Iterable[int]) -> Keys:
    return np.array(sorted(set(keys)), dtype=np.int64)


def _rows(keys: Array, wanted: Array) -> tuple[Keys, NDArray[np.bool_]]:
    """The row of each key, and whether it is there at all."""
    if len(keys) == 0:
        return np.zeros(len(wanted), dtype=np.int64), np.zeros(len(wanted), dtype=bool)
    rows = np.minimum(keys.searchsorted(wanted), len(keys) - 1)
    return rows, keys[rows] == wanted
