"""Front matter: YAML between ``---`` lines at the start of a file."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, cast

from packwise.sources.document_builder import DocumentBuilder, clean

_LIMIT = 64 * 1024
_FENCED = re.compile(r"---[ \t]*\n(.*?\n)(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)


def split(text: str) -> tuple[DocumentBuilder, str]:
    """A builder with the title, URL, language and metadata of the front matter, and the text
    below it. Front matter that is not valid YAML stays part of the text."""
    fenced = _FENCED.match(text[: _LIMIT + 8]) if text.startswith("---") else None
    if fenced is None:
        return DocumentBuilder(), text
    loaded, broken = _load(fenced[1])
    if broken:
        # Without the fences: the lower one would make a heading of the last line.
        return DocumentBuilder(), f"{fenced[1]}\n{text[fenced.end() :]}"
    if not isinstance(loaded, dict):
        return DocumentBuilder(), text
    values = metadata(cast("dict[Any, Any]", loaded))
    builder = DocumentBuilder(
        title=_take(values, "title"),
        lang=_take(values, "lang", "language"),
        url=_take(values, "url", "source_url"),
        metadata=values,
    )
    return builder, text[fenced.end() :]


def metadata(values: Mapping[Any, Any]) -> dict[str, str]:
    """Values of any JSON or YAML type as text; empty ones are left out.

    A list of plain values is joined with commas, anything deeper becomes JSON.
    """
    texts = {clean(str(key)): clean(_as_text(value)).strip() for key, value in values.items()}
    return {key: text for key, text in texts.items() if text}


def _take(values: dict[str, str], *names: str) -> str:
    taken = [values.pop(name, "") for name in names]
    return next((value for value in taken if value), "")


def _as_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple, set)):
        parts = cast("list[Any]", list(value))
        if not any(isinstance(part, (list, tuple, set, dict)) for part in parts):
            return ", ".join(text for part in parts if (text := _as_text(part)))
        return json.dumps(parts, ensure_ascii=False, default=str)
    if isinstance(value, dict):
        mapping = cast("dict[Any, Any]", value)
        named = {str(key): part for key, part in mapping.items()}
        return json.dumps(named, ensure_ascii=False, default=str, skipkeys=True)
    return str(value)


def _load(text: str) -> tuple[Any, bool]:
    """The YAML value, and whether the text is not valid YAML."""
    import yaml

    try:
        return yaml.load(text, _loader()), False
    except (yaml.YAMLError, ValueError, TypeError, RecursionError, OverflowError):
        return None, True


@cache
def _loader() -> type[Any]:
    import yaml

    class WithoutAliases(yaml.SafeLoader):
        """A few lines of aliases can stand for gigabytes."""

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                raise yaml.YAMLError("aliases are not supported")
            return super().compose_node(parent, index)

    return WithoutAliases
