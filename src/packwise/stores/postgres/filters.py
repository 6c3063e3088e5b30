"""A ``Filter`` as SQL over the tables of passages. What a caller gave is bound, never
spliced in."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from packwise.candidates import Filter
from packwise.stores.checks import after_prefix
from packwise.stores.postgres.text import held, held_list


@dataclass(frozen=True, slots=True)
class Condition:
    """Conditions on ``packwise_documents AS d``, with their values by name."""

    sql: str = "true"
    values: dict[str, Any] = field(default_factory=dict[str, Any])


def condition(where: Filter) -> Condition:
    """What a document must fulfil to pass a filter."""
    parts: list[str] = []
    values: dict[str, Any] = {}

    def require(part: str, **bound: Any) -> None:
        parts.append(part)
        values.update(bound)

    if where.documents:
        require("d.id = ANY (%(documents)s::text[])", documents=held_list(where.documents))
    if where.path_prefix:
        prefix = held(where.path_prefix)
        require("d.id >= %(prefix)s", prefix=prefix)
        past = after_prefix(prefix)
        if past is not None:
            require("d.id < %(past)s", past=past)
    if where.lang:
        require("d.lang = %(lang)s", lang=held(where.lang))
    named = {"tenant": where.tenant, "space": where.space, "node_type": where.node_type}
    pairs = [(name, value) for name, value in named.items() if value]
    for i, (name, value) in enumerate([*pairs, *where.metadata.items()]):
        pair = json.dumps({held(name): held(value)})
        require(f"d.metadata @> %(metadata{i})s::jsonb", **{f"metadata{i}": pair})
    if where.acl:
        groups = held_list(group.strip() for group in where.acl)
        require("(d.groups = '{}' OR d.groups && %(acl)s::text[])", acl=groups)
    return Condition(" AND ".join(parts) or "true", values)
