"""The part of a schema that a question needs, as the text of a text-to-SQL prompt.

The best columns come with their descriptions, then as many others as fit with their names and
types, then more descriptions: a name costs a few tokens, and a column that is missing cannot be
used at all. A column counts by its own rank and by its table: those of a table that fits, or that
fitting tables refer to, are needed though the question does not mention them. A table never comes
without its keys and the column that names its rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from packwise.errors import UsageError
from packwise.nodes.joins import JoinPath, direct_joins, join_paths, quoted, table_of
from packwise.nodes.records import FieldSpec

_DESCRIBED_FIRST = 8
"""Columns that are described before other columns are named; their tables are the best ones."""
_MAX_DESCRIPTION = 240
_TRIED_AT_THE_END = 24
"""Further columns and descriptions that are tried in what is left of the budget."""
_NAMING = re.compile(r"(?:name|title|label|subject)$", re.IGNORECASE)
"""A column that says to people which row it is."""
_TELLING = re.compile(r"(?:name|title|label|subject|description|text)$", re.IGNORECASE)
_DATED = re.compile(r"(?:timestamp|date|time)", re.IGNORECASE)
"""The type of a column that says when: "last night" and "in March" do not name it."""
_RANK_CONSTANT = 10
"""A column of rank r counts 1 / (this + r)."""
_BEST_OF_TABLE = 3
"""Columns that a table is judged by: the first counts whole, the second half, and so on."""
_REFERRED = 0.6
_GUESSED = 0.15
"""The part of a table's score that the tables it refers to get, by a key or by a guess."""
_OF_TABLE = 0.8
_TELLING_OF_TABLE = 0.5
_DATED_OF_TABLE = 1.0
"""The part of its table's score that any column gets, and what keys and names and what dates get
on top. All of these were chosen on BIRD and on the schemas of four programs."""
_SHORT_TYPES = (
    (re.compile(r"(timestamp|time)(\(\d\))? without time zone"), r"\1\2"),
    (re.compile(r"(timestamp|time)(\(\d\))? with time zone"), r"\1tz\2"),
    (re.compile(r"character varying"), "varchar"),
    (re.compile(r"character(?=\(|$|\[)"), "char"),
)

Step = tuple[int, bool]
"""A column by its rank: its name, or its description."""


@dataclass(frozen=True, slots=True)
class SchemaContext:
    """A text of at most ``budget`` tokens; ``fields`` are its columns, best first, ``left_out``
    the number of columns that did not fit."""

    question: str
    text: str
    tokens: int
    budget: int
    fields: tuple[FieldSpec, ...]
    joins: tuple[JoinPath, ...]
    left_out: int

    @property
    def tables(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(map(table_of, self.fields)))


def pack_schema(
    question: str, ranked: Sequence[FieldSpec], budget: int, count: Callable[[str], int]
) -> SchemaContext:
    """Pack columns, given best first, into a budget of tokens that ``count`` counts."""
    if budget < 1:
        raise UsageError(f"the budget must be at least 1 token, not {budget}")
    schema = _Schema(ranked)
    order = schema.order()
    first, others = order[:_DESCRIBED_FIRST], order[_DESCRIBED_FIRST:]
    steps: list[Step] = [
        (i, full) for part in (first, others) for full in (False, True) for i in part
    ]
    low, high = 0, len(steps)
    while low < high:
        middle = (low + high + 1) // 2
        if count(schema.text(steps[:middle])) <= budget:
            low = middle
        else:
            high = middle - 1
    chosen = steps[:low]
    for step in steps[low + 1 : low + 1 + _TRIED_AT_THE_END]:
        if not step[1] or (step[0], False) in chosen:
            more = [*chosen, step]
            if count(schema.text(more)) <= budget:
                chosen = more
    text = schema.text(chosen)
    named = {i for i, full in chosen if not full}
    kept = [schema.fields[i] for i in order if i in named]
    paths = tuple(join_paths(kept))
    return SchemaContext(
        question, text, count(text), budget, tuple(kept), paths, len(order) - len(kept)
    )


class _Schema:
    """The columns of a data set, best first, and the joins of its tables. Columns are numbered by
    rank."""

    def __init__(self, ranked: Sequence[FieldSpec]) -> None:
        unique: dict[tuple[str, str], FieldSpec] = {}
        for field in ranked:
            unique.setdefault((table_of(field), field.field_name), field)
        self.fields = list(unique.values())
        self.table = [table_of(field) for field in self.fields]
        self.members: dict[str, list[int]] = {}
        for i, table in enumerate(self.table):
            self.members.setdefault(table, []).append(i)
        number = {id(field): i for i, field in enumerate(self.fields)}
        joins = direct_joins(self.fields)
        self.joins = [(j, [number[id(f)] for pair in j.columns for f in pair]) for j in joins]
        self.declared = [_declaration(field) for field in self.fields]
        self.comments = [_comment(field) for field in self.fields]

    def order(self) -> list[int]:
        """The columns in the order in which they are taken."""
        order: dict[int, None] = {}
        seen: set[str] = set()
        for i in self._by_value():
            order.setdefault(i)
            table = self.table[i]
            if table not in seen:
                # With its first column comes what a table is identified, named and joined by.
                seen.add(table)
                order.update(dict.fromkeys(self._identifying(table)))
                for join, ends in self.joins:
                    if table in (join.one, join.other) and {join.one, join.other} <= seen:
                        order.update(dict.fromkeys(ends))
        return list(order)

    def _by_value(self) -> list[int]:
        """The columns by their own rank and the score of their table."""
        own = [1 / (_RANK_CONSTANT + rank) for rank in range(len(self.fields))]
        alone = {
            table: sum(own[i] / place for place, i in enumerate(best[:_BEST_OF_TABLE], start=1))
            for table, best in self.members.items()
        }
        scores = dict(alone)
        for one, other, inferred in {(j.one, j.other, j.inferred) for j, _ in self.joins}:
            scores[other] += (_GUESSED if inferred else _REFERRED) * alone[one]
            if inferred:
                scores[one] += _GUESSED * alone[other]

        def value(i: int) -> float:
            field, share = self.fields[i], _OF_TABLE
            if field.primary_key or _TELLING.search(field.field_name):
                share += _TELLING_OF_TABLE
            if _DATED.match(field.field_type):
                share += _DATED_OF_TABLE
            return own[i] + share * scores[self.table[i]]

        numbers = range(len(self.fields))
        return [*numbers[:_DESCRIBED_FIRST], *sorted(numbers, key=lambda i: (-value(i), i))]

    def text(self, steps: Sequence[Step]) -> str:
        """The chosen columns as ``CREATE TABLE`` statements."""
        described = {i for i, full in steps if full}
        tables: dict[str, list[int]] = {}
        for i in dict.fromkeys(i for i, _ in steps):
            tables.setdefault(self.table[i], []).append(i)
        kept = {i for members in tables.values() for i in members}
        held = [(join, ends) for join, ends in self.joins if kept.issuperset(ends)]
        # A key of one column is part of the column, other joins are listed at the end.
        references = {
            ends[0]: f" REFERENCES {join.other} ({quoted(join.columns[0][1].field_name)})"
            for join, ends in held
            if not join.inferred and len(ends) == 2
        }
        parts: list[str] = []
        for table, members in tables.items():
            keys = [self.fields[i].field_name for i in members if self.fields[i].primary_key]
            lines: list[str] = []
            plain: list[str] = []
            for i in members:
                key = " PRIMARY KEY" if self.fields[i].primary_key and len(keys) == 1 else ""
                column = f"{self.declared[i]}{key}{references.get(i, '')}"
                if i in described and self.comments[i]:
                    lines.append(f"  {column}, -- {self.comments[i]}")
                else:
                    plain.append(column)
            if len(keys) > 1:
                plain.append(f"PRIMARY KEY ({', '.join(map(quoted, keys))})")
            if plain:
                lines.append(f"  {', '.join(plain)}")
            else:
                lines[-1] = lines[-1].replace(", -- ", " -- ", 1)
            parts.append("\n".join([f"CREATE TABLE {table} (", *lines, ");"]))
        conditions = [join.condition for join, ends in held if ends[0] not in references]
        if conditions:
            parts.append("-- joins:\n" + "\n".join(f"-- {condition}" for condition in conditions))
        return "\n".join(parts)

    def _identifying(self, table: str) -> list[int]:
        """The primary key of a table, and the columns that name its rows: the plainest name,
        and the one that fits the question best."""
        members = self.members[table]
        naming = [i for i in members if _NAMING.search(self.fields[i].field_name)]
        plainest = sorted(naming, key=lambda i: len(self.fields[i].field_name))
        return [
            *(i for i in members if self.fields[i].primary_key),
            *dict.fromkeys((*plainest[:1], *naming[:1])),
        ]


def _declaration(field: FieldSpec) -> str:
    kind = field.field_type
    for pattern, short in _SHORT_TYPES:
        kind = pattern.sub(short, kind)
    return f"{quoted(field.field_name)} {kind}".rstrip()


def _comment(field: FieldSpec) -> str:
    """What is known of a column beyond its name."""
    text = re.sub(r"\s+", " ", field.description).strip()[:_MAX_DESCRIPTION]
    bare = [re.sub(r"[\W_]", "", words).lower() for words in (text, field.field_name)]
    texts = ["" if bare[0] == bare[1] else text]
    if field.sample_values:
        texts.append(f"e.g. {', '.join(field.sample_values[:3])}")
    return "; ".join(text for text in texts if text)
