"""Front matter: YAML between ``---`` lines at the head of a file."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, cast

from packwise.sources.flow import clean

_LIMIT = 64 * 1024
_FENCED = re.compile(r"---[ \t]*\n(.*?\n)(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_TITLE = ("title",)
_LANG = ("lang", "language")
_URL = ("url", "source_url")


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """What stands above a document's text. ``rest`` is the text below it."""

    rest: str
    title: str = ""
    url: str = ""
    lang: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])


def split(text: str) -> FrontMatter:
    """Take the front matter off a text. What is not valid YAML stays part of the text."""
    fenced = _FENCED.match(text[: _LIMIT + 8]) if text.startswith("---") else None
    if fenced is None:
        return FrontMatter(text)
    loaded, broken = _load(fenced[1])
    if broken:
        # The fences go: left in, the lower one would make a heading of the last line.
        return FrontMatter(f"{fenced[1]}\n{text[fenced.end() :]}")
    if not isinstance(loaded, dict):
        return FrontMatter(text)
    values = metadata(cast("dict[Any, Any]", loaded))
    title, lang, url = _take(values, _TITLE), _take(values, _LANG), _take(values, _URL)
    return FrontMatter(text[fenced.end() :], title, url, lang, values)


def metadata(values: Mapping[Any, Any]) -> dict[str, str]:
    """Values of any JSON or YAML kind as text; empty ones are left out.

    A list of plain values is joined with commas, anything deeper is written as JSON.
    """
    texts = {clean(str(key)): clean(_as_text(value)).strip() for key, value in values.items()}
    return {key: text for key, text in texts.items() if text}


def _take(values: dict[str, str], names: tuple[str, ...]) -> str:
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
    """The YAML value, and whether the text is broken."""
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
                raise yaml.YAMLError("aliases are not taken")
            return super().compose_node(parent, index)

    return WithoutAliases
