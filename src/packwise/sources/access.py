"""Who may see a document: the keys ``tenant``, ``space`` and ``acl`` of its metadata.

They are read in any case, as a text or a list, and are never dropped: a value that cannot be
used makes the document a problem of the build, and a version stored earlier is removed.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, cast

from packwise.errors import SourceError
from packwise.lazy_pattern import lazy_pattern
from packwise.sources.linked_text import clean

KEYS = ("tenant", "space", "acl")

_UNREAD = lazy_pattern(r"""(?i)(?<![\w-])(tenant|space|acl)["']?[ \t]*[:=]""")
_INVISIBLE = lazy_pattern("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufe00-\ufe0f\ufeff]")


def access_key(name: object) -> str:
    """The access key that a name is read as, whatever its case and its invisible characters;
    empty for any other name."""
    return _access_key(str(name))


@lru_cache(maxsize=1024)
def _access_key(name: str) -> str:
    seen = unicodedata.normalize("NFKC", _INVISIBLE.sub("", clean(name)))
    folded = seen.strip().lower()
    return folded if folded in KEYS else ""


def access(pairs: Iterable[tuple[object, Any]]) -> dict[str, str]:
    """The access keys among names and values, as metadata.

    ``acl`` becomes a text with commas; ``tenant`` and ``space`` have one value. Raises
    ``SourceError`` with the bare reason if a value is empty, of another type, or given twice
    with different values.
    """
    found: dict[str, str] = {}
    for name, value in pairs:
        if key := access_key(name):
            text = _value(key, value)
            if found.setdefault(key, text) != text:
                raise SourceError(f"has two different values of {key}", withdraw=True)
    return found


def refuse_unread(text: str) -> None:
    """Raise ``SourceError`` if metadata that could not be parsed holds an access key."""
    if key := _UNREAD.search(text):
        raise SourceError(
            f"has metadata that cannot be read and holds {key[1].lower()}", withdraw=True
        )


def refuse_nested(pairs: Iterable[tuple[object, Any]]) -> None:
    """Raise ``SourceError`` if a tenant or an access list is inside another value, however deep,
    where it would have no effect."""
    for name, value in pairs:
        if isinstance(value, str):
            continue
        waiting: list[Any] = [value]
        while waiting:
            one = waiting.pop()
            if isinstance(one, dict):
                inner = cast("dict[Any, Any]", one)
                for key in filter(None, map(access_key, inner)):
                    if key != "space":
                        where = clean(str(name))[:40]
                        raise SourceError(f"has {key} inside {where}", withdraw=True)
                waiting += inner.values()
            elif isinstance(one, (list, tuple)):
                waiting += cast("list[Any]", one)


def _value(key: str, value: Any) -> str:
    parts = cast("list[Any]", list(value)) if isinstance(value, (list, tuple, set)) else [value]
    usable = all(isinstance(part, (str, int)) and not isinstance(part, bool) for part in parts)
    texts = [clean(str(part)) for part in parts] if usable else []
    if key == "acl" and isinstance(value, (list, tuple, set)):
        # One group whose name has a comma would become several, some of which all belong to.
        texts = [] if any("," in text for text in texts) else texts
    elif key == "acl":
        texts = [group for text in texts for group in text.split(",")]
    names = list(dict.fromkeys(text.strip() for text in texts if text.strip()))
    if not names:
        raise SourceError(
            f"has {'an' if key == 'acl' else 'a'} {key} that cannot be used", withdraw=True
        )
    if key != "acl" and len(names) > 1:
        raise SourceError(f"has more than one {key}", withdraw=True)
    return ", ".join(names)
