"""How the tables of a data set can be joined: by their foreign keys, and by the names of their
columns where no foreign key is known."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

from packwise.nodes.records import FieldSpec

_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")
_RESERVED = frozenset(
    """
    all analyse analyze and any array as asc asymmetric authorization binary both case cast check
    collate collation column concurrently constraint create cross current_catalog current_date
    current_role current_schema current_time current_timestamp current_user default deferrable desc
    distinct do else end except false fetch for foreign freeze from full grant group having ilike in
    initially inner intersect into is isnull join lateral leading left like limit localtime
    localtimestamp natural not notnull null offset on only or order outer overlaps placing primary
    references returning right select session_user similar some symmetric system_user table
    tablesample then to trailing true union unique user using variadic verbose when where window
    with
    """.split()
)
"""Of PostgreSQL: ``SELECT * FROM user`` is the name of the role, not the table."""
_KEY_ENDINGS = ("id", "code", "key", "uuid", "number", "no")
_GUESSED_COST = 1.5
"""The cost of a join that is guessed from names; a declared one costs 1."""
_MAX_JOINS = 4
_PREFIXED = 3
"""The least number of columns whose common beginning counts as a prefix."""


@dataclass(frozen=True, slots=True)
class JoinPath:
    """Tables in the order in which they are joined, with one condition per step; ``inferred``
    if a step is guessed from the names of columns."""

    tables: tuple[str, ...]
    conditions: tuple[str, ...]
    inferred: bool = False

    @property
    def text(self) -> str:
        """The path as part of a SQL statement."""
        first, *others = self.tables
        joined = (f" JOIN {t} ON {c}" for t, c in zip(others, self.conditions, strict=True))
        return first + "".join(joined)


@dataclass(frozen=True, slots=True)
class Join:
    """A condition that joins two tables, and the columns it is made of."""

    one: str
    other: str
    condition: str
    columns: tuple[tuple[FieldSpec, FieldSpec], ...]
    inferred: bool


@lru_cache(10_000)
def quoted(name: str) -> str:
    """A name as SQL needs it: in quotes unless it is plain lower case and not reserved."""
    return (
        name
        if _PLAIN.fullmatch(name) and name not in _RESERVED
        else '"' + name.replace('"', '""') + '"'
    )


def table_of(field: FieldSpec) -> str:
    """The name of a field's table, with its schema unless that is ``public``."""
    return ".".join(map(quoted, _table(field)))


def join_paths(fields: Sequence[FieldSpec], tables: Iterable[str] = ()) -> list[JoinPath]:
    """The shortest way to join each two of the tables, through others if need be.

    ``fields`` are those of the whole data set; ``tables``, as ``table_of`` names them, are by
    default all of theirs. Pairs that cannot be joined are left out.
    """
    neighbours: dict[str, list[Join]] = {}
    for edge in direct_joins(fields):
        neighbours.setdefault(edge.one, []).append(edge)
        neighbours.setdefault(edge.other, []).append(edge)
    wanted = list(dict.fromkeys(tables or map(table_of, fields)))
    paths = (_shortest(neighbours, one, other) for one, other in combinations(wanted, 2))
    return [path for path in paths if path is not None]


def direct_joins(fields: Sequence[FieldSpec]) -> list[Join]:
    """The joins of two of the fields' tables: declared ones, then those guessed from names."""
    declared = _declared(fields)
    return [*declared, *_inferred(fields, declared)]


def _table(field: FieldSpec) -> tuple[str, ...]:
    return (field.table,) if field.schema in ("", "public") else (field.schema, field.table)


def _column(field: FieldSpec) -> str:
    return f"{table_of(field)}.{quoted(field.field_name)}"


def _condition(pairs: Iterable[tuple[FieldSpec, FieldSpec]]) -> str:
    return " AND ".join(f"{_column(one)} = {_column(other)}" for one, other in pairs)


def _declared(fields: Sequence[FieldSpec]) -> list[Join]:
    by_name = {".".join((*_table(f), f.field_name)).lower(): f for f in fields}
    keys: dict[tuple[str, str, str], list[tuple[FieldSpec, FieldSpec]]] = {}
    for field in fields:
        to = by_name.get(field.references.lower()) if field.references else None
        if to is not None:
            key = (table_of(field), table_of(to), field.foreign_key or field.field_name)
            keys.setdefault(key, []).append((field, to))
    return [
        Join(one, other, _condition(pairs), tuple(pairs), False)
        for (one, other, _), pairs in keys.items()
        if one != other
    ]


def _inferred(fields: Sequence[FieldSpec], declared: Sequence[Join]) -> list[Join]:
    """Joins of tables that share the name of a key, and of ``customer_id`` or ``customer`` with
    the key of ``customers``; only where no foreign key says more."""
    tables: dict[str, dict[str, FieldSpec]] = {}
    for field in fields:
        tables.setdefault(table_of(field), {})[_bare(field.field_name)] = field
    keys = {name: key for name, columns in tables.items() if (key := _single_key(columns))}
    # Of the tables whose key is called ``pathid``, it identifies the rows of ``path``.
    owners = {
        _bare(key.field_name): name
        for name, key in sorted(keys.items(), key=lambda item: _names_table(item[1]))
        if key.primary_key
    }
    named = {
        stem: name
        for name, key in keys.items()
        for stem in (_bare(key.table), _bare(key.table).removesuffix("s"))
    }
    joined = {frozenset((join.one, join.other)) for join in declared}
    found: list[Join] = []
    for one, columns in tables.items():
        prefix = _prefix(columns.values())
        for name, field in columns.items():
            other, to = None, None
            if name.endswith(_KEY_ENDINGS) and name not in _KEY_ENDINGS:
                other = owners.setdefault(name, one)
                to = tables[other][name]
            if other in (None, one) and field != keys.get(one):
                stem = _bare(field.field_name.removeprefix(prefix))
                other = named.get(stem) or named.get(stem.removesuffix("id"))
                to = keys[other] if other else None
            if other is None or to is None or frozenset((one, other)) in joined or other == one:
                continue
            joined.add(frozenset((one, other)))
            pair = (to, field) if _bare(to.field_name) == name else (field, to)
            ends = table_of(pair[0]), table_of(pair[1])
            found.append(Join(*ends, _condition([pair]), (pair,), True))
    return found


def _names_table(key: FieldSpec) -> bool:
    """Whether the name of a key begins with that of its table."""
    return _bare(key.field_name).startswith(_bare(key.table).removesuffix("s"))


@lru_cache(10_000)
def _bare(name: str) -> str:
    return re.sub(r"[\W_]", "", name).lower()


def _single_key(columns: dict[str, FieldSpec]) -> FieldSpec | None:
    """The column that identifies a row of the table."""
    keys = [field for field in columns.values() if field.primary_key]
    return keys[0] if len(keys) == 1 else None if keys else columns.get("id")


def _prefix(columns: Iterable[FieldSpec]) -> str:
    """What the names of all columns of a table begin with, as in ``rc_id`` and ``rc_title``."""
    names = [field.field_name for field in columns]
    prefix = names[0][: names[0].find("_") + 1]
    alike = len(names) >= _PREFIXED and all(name.startswith(prefix) for name in names)
    return prefix if alike else ""


def _shortest(neighbours: dict[str, list[Join]], start: str, end: str) -> JoinPath | None:
    """By Dijkstra's algorithm, over at most ``_MAX_JOINS`` joins."""
    queue: list[tuple[float, tuple[str, ...], tuple[str, ...], bool]] = [(0, (start,), (), False)]
    seen: set[str] = set()
    while queue:
        cost, tables, conditions, inferred = heapq.heappop(queue)
        at = tables[-1]
        if at == end:
            return JoinPath(tables, conditions, inferred)
        if at in seen or len(conditions) == _MAX_JOINS:
            continue
        seen.add(at)
        for edge in neighbours.get(at, ()):
            to = edge.other if edge.one == at else edge.one
            more = _GUESSED_COST if edge.inferred else 1
            step = (*tables, to), (*conditions, edge.condition), inferred or edge.inferred
            heapq.heappush(queue, (cost + more, *step))
    return None
