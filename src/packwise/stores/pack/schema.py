"""The tables of ``pack.sqlite``: one SQL file per version, with the steps from the one before."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.resources import files

KNOWLEDGE_SCHEMA = 2
LAYOUT_SCHEMA = 3


@dataclass(frozen=True, slots=True)
class SchemaMigration:
    """The statements that lead from the previous version to this one."""

    version: int
    statements: tuple[str, ...]


def _migration(version: int) -> SchemaMigration:
    text = files("packwise.stores.pack").joinpath(f"sql/{version}.sql").read_text("utf-8")
    parts = re.sub(r"(?m)^--.*\n", "", text).split(";\n")
    return SchemaMigration(version, tuple(part.strip() for part in parts if part.strip()))


MIGRATIONS = (_migration(1), _migration(KNOWLEDGE_SCHEMA), _migration(LAYOUT_SCHEMA))
