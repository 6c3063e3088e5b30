"""Documents that a program has in memory, as a source.

A document is a ``Document``, a dictionary like a row of JSON Lines (see ``jsonl``), or a pair of
title and text. Documents stream: an iterator is read once, one document at a time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, cast

from packwise.documents import Document, content_hash
from packwise.errors import UsageError
from packwise.sources.jsonl import entry as row_entry
from packwise.sources.source_items import Entry, Item, hashed

MemoryDocument = Document | Mapping[str, Any] | tuple[str, str]
Sources = str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | Iterable[MemoryDocument]

_EXPECTED = "a Document, a dictionary with a text, or a pair of title and text"


@dataclass(frozen=True, slots=True)
class MemorySource:
    """The documents of an iterable. Their ids are known in advance only if it is a sequence."""

    documents: Iterable[object]
    name: str = "memory"
    location: str = "memory:"
    skipped: Mapping[str, int] = field(default_factory=dict[str, int])

    def ids(self) -> Iterator[str]:
        if isinstance(self.documents, Sequence):
            yield from (entry.id for entry in self.items() if isinstance(entry, Item))

    def items(self) -> Iterator[Entry]:
        """Every document; those without an id are called by their title, or by their text."""
        named: set[str] = set()
        for number, given in enumerate(self.documents, start=1):
            place = f"document {number}"
            if isinstance(given, Document) and given.sections:
                yield Item(given.id, _hash(given), place, load=lambda given=given: given)
                continue
            row = _row(given, place)
            text = str(row.get("text"))
            title = str(row.get("title") or "") or f"text-{content_hash(text)[:12]}"
            unnamed = title if title not in named else f"{title} ({content_hash(text)[:6]})"
            named.add(title)
            line = json.dumps(row, default=str, ensure_ascii=True).encode()
            yield row_entry(line, place, unnamed, "")


def named_or_memory(sources: object) -> list[str] | MemorySource:
    """The arguments of a build: names of places to read, or documents in memory.

    Raises ``UsageError`` for anything else, and for a mixture.
    """
    if isinstance(sources, (str, os.PathLike)):
        return [os.fspath(cast("str | os.PathLike[str]", sources))]
    if isinstance(sources, (Document, Mapping)) or not isinstance(sources, Iterable):
        raise UsageError(f"a build takes paths or a list of documents, not {_kind(sources)}")
    given = cast("Iterable[object]", sources)
    rest = iter(given)
    first = next(rest, None)
    if first is None:
        return []
    if not isinstance(first, (str, os.PathLike)):
        # What was taken from an iterator has to be put back.
        return MemorySource(given if isinstance(given, Sequence) else chain([first], rest))
    names = [first, *rest]
    for name in names:
        if not isinstance(name, (str, os.PathLike)):
            raise UsageError(f"a build takes paths or documents, not both: {_kind(name)}")
    return [os.fspath(cast("str | os.PathLike[str]", name)) for name in names]


def _row(given: object, place: str) -> dict[str, Any]:
    """A document as a row of JSON Lines."""
    match given:
        case Document():
            found = {key: getattr(given, key) for key in ("id", "title", "text", "url", "lang")}
            return {
                **found,
                "metadata": dict(given.metadata),
                "links": [x.href for x in given.links],
            }
        case Mapping():
            return dict(cast("Mapping[str, Any]", given))
        case (str(title), str(text)):
            return {"title": title, "text": text}
        case _:
            raise UsageError(f"{place} is {_kind(given)}, not {_EXPECTED}")


def _hash(document: Document) -> str:
    parts = (document.title, document.url, document.lang, repr(sorted(document.metadata.items())))
    shape = repr((document.sections, document.links, document.places))
    return document.source_hash or hashed(document.text.encode("utf-8", "replace"), *parts, shape)


def _kind(value: object) -> str:
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"
