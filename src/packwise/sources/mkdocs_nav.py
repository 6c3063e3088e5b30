"""The titles that the navigation of an ``mkdocs.yml`` gives its pages."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, cast

from packwise.errors import SourceError
from packwise.sources.decoding import decode, file_bytes
from packwise.sources.readers import SourceFile

_NAMES = ("mkdocs.yml", "mkdocs.yaml")
_ENTRY_LIMIT = 20_000


def nav_titles(files: Iterable[SourceFile]) -> dict[str, str]:
    """The title of each page that the navigation names, by document id."""
    titles: dict[str, str] = {}
    for file in files:
        if posixpath.basename(file.id) in _NAMES:
            loaded = _load(file)
            docs = str(loaded.get("docs_dir") or "docs")
            for title, page in _entries(loaded.get("nav")):
                path = posixpath.join(posixpath.dirname(file.id), docs, page)
                titles.setdefault(posixpath.normpath(path), title)
    return titles


def _entries(nav: Any) -> Iterator[tuple[str, str]]:
    """The titles and pages of a navigation. Aliases could make a short one endless."""
    waiting = [nav]
    for _ in range(_ENTRY_LIMIT):
        if not waiting:
            return
        entry = waiting.pop()
        if isinstance(entry, list):
            waiting += reversed(cast("list[Any]", entry))
        elif isinstance(entry, dict):
            for title, below in cast("dict[Any, Any]", entry).items():
                if isinstance(below, str):
                    yield str(title), below
                else:
                    waiting.append(below)


def _load(file: SourceFile) -> dict[str, Any]:
    import yaml

    try:
        loaded = yaml.load(decode(file_bytes(file.path))[0], _loader())
    except (OSError, SourceError, yaml.YAMLError, ValueError, TypeError, RecursionError):
        return {}  # the file is a document too, and is reported as one if it cannot be read
    return cast("dict[str, Any]", loaded) if isinstance(loaded, dict) else {}


@cache
def _loader() -> type[Any]:
    import yaml

    class WithoutTags(yaml.SafeLoader):
        """MkDocs has tags for the environment and for Python objects: here they mean nothing."""

    def nothing(loader: Any, suffix: str, node: Any) -> None:
        return None

    for prefix in ("!", "tag:yaml.org,2002:python/"):
        WithoutTags.add_multi_constructor(prefix, nothing)
    return WithoutTags
