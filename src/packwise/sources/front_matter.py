"""Front matter at the start of a file: YAML between ``---`` lines, or TOML between ``+++``."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from functools import cache
from typing import Any, cast

from packwise.lazy_pattern import lazy_pattern
from packwise.sources.access import access, access_key, refuse_nested, refuse_unread
from packwise.sources.document_builder import DocumentBuilder
from packwise.sources.linked_text import clean

_LIMIT = 64 * 1024
_FENCED = lazy_pattern(
    r"(?s)(?:---[ \t]*\n(?P<yaml>.*?\n)(?:---|\.\.\.)|\+\+\+[ \t]*\n(?P<toml>.*?\n)\+\+\+)"
    r"[ \t]*(?:\n|\Z)"
)
# What may be meant as front matter: a fence without its end, or after blank lines or comments.
_UNFENCED = lazy_pattern(
    r"(?s)\s*+(?><!--.*?-->\s*+)*+(?:---|\+\+\+|;;;)[ \t]*\n(.*?)(?:\n[ \t]*\n|\Z)"
)
# What other programs take for metadata of Markdown: an object, or a paragraph of "Key: value".
_OBJECT = lazy_pattern(r"(?s)\s*+\{.*?(?:\n[ \t]*\n|\Z)")
_KEYS = lazy_pattern(r"(?:[A-Za-z][\w .-]*+:(?:[ \t].*+)?(?:\n|\Z))++(?=\s|\Z)")


def split(text: str, *, markdown: bool = False) -> tuple[DocumentBuilder, str]:
    """A builder with the title, URL, language and metadata of the front matter, and the text
    below it. Front matter that is not valid YAML or TOML stays part of the text.

    Raises ``SourceError`` with the bare reason if it cannot be known who may see the document.
    """
    fenced = _FENCED.match(text[: _LIMIT + 8]) if text.startswith(("---", "+++")) else None
    if fenced is None:
        if unfenced := _UNFENCED.match(text[: _LIMIT + 8]):
            refuse_unread(unfenced[1])
        elif markdown:
            _refuse_other_metadata(text[:_LIMIT])
        return DocumentBuilder(), text
    written = fenced["yaml"] or fenced["toml"]
    loaded, broken = _load_toml(written) if fenced["toml"] else _load(written)
    if not isinstance(loaded, dict):
        refuse_unread(written)
        # Without the fences: the lower one would make a heading of the last line.
        return DocumentBuilder(), f"{written}\n{text[fenced.end() :]}" if broken else text
    values = metadata(cast("dict[Any, Any]", loaded))
    builder = DocumentBuilder(
        title=_take(values, "title"),
        lang=_take(values, "lang", "language"),
        url=_take(values, "url", "source_url"),
        metadata=values,
    )
    return builder, text[fenced.end() :]


def _refuse_other_metadata(text: str) -> None:
    """Raise ``SourceError`` if a Markdown file says who may see it in a way that is not read."""
    if written := _OBJECT.match(text):
        refuse_unread(written[0])
    elif lines := _KEYS.match(text):
        for line in lines[0].splitlines():
            if access_key(line.partition(":")[0]) in ("tenant", "acl"):
                refuse_unread(line)


def metadata(values: Mapping[Any, Any]) -> dict[str, str]:
    """Values of any JSON, YAML or TOML type as text; empty ones are left out.

    A list of plain values is joined with commas, anything deeper becomes JSON. Raises
    ``SourceError`` with the bare reason for a ``tenant``, ``space`` or ``acl`` that cannot be
    used.
    """
    refuse_nested(values.items())
    texts = {
        clean(str(key)): clean(_as_text(value)).strip()
        for key, value in values.items()
        if not access_key(key)
    }
    return {key: text for key, text in texts.items() if text} | access(values.items())


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


def _load_toml(text: str) -> tuple[Any, bool]:
    try:
        return tomllib.loads(text), False
    except (tomllib.TOMLDecodeError, ValueError, RecursionError):
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
