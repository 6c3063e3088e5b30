"""The reference of the running Python: the topics that ``help()`` shows.

They are real documents that every machine with Python has, without a download.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from types import MappingProxyType

from packwise.documents import Document, Link
from packwise.errors import SourceError
from packwise.sources import plain_rst
from packwise.sources.document_builder import DocumentBuilder
from packwise.sources.linked_text import Anchor
from packwise.sources.links import LinkResolver
from packwise.sources.source_items import Entry, Item, hashed

ARGUMENT = "python:reference"

_HEADING = re.compile(r"(?m)^(\S[^\n]*)\n([*=\-~])\2{2,}$")
_POINTER = r"(?:[Ss]ections?|[Cc]hapter|[Ss]ee(?: also)?) (?:the )?"


@dataclass(frozen=True)
class PythonReference:
    """The topics of ``pydoc``, one document each.

    A topic links to another where it names its title or a heading of it, and to the
    related topics that ``help()`` lists below it.
    """

    name: str = "python"
    location: str = ARGUMENT
    skipped: Mapping[str, int] = field(default_factory=dict[str, int])

    def ids(self) -> Iterator[str]:
        return map(_id, sorted(self._topics))

    def items(self) -> Iterator[Entry]:
        state = "\n".join(f"{title}\t{topic}" for title, topic in self._headings.items())
        for topic, text in sorted(self._topics.items()):
            related = " ".join(self._related.get(topic, ()))
            yield Item(
                id=_id(topic),
                source_hash=hashed(text.encode("utf-8", "surrogatepass"), related, state),
                location=f"{ARGUMENT} {topic}",
                load=partial(self._read, topic),
            )

    def _read(self, topic: str) -> Document:
        version = ".".join(map(str, sys.version_info[:2]))
        builder = DocumentBuilder(lang="en", fallback_title=topic, metadata={"python": version})
        plain_rst.read(builder, self._topics[topic], self._mentions)
        document = builder.build(_id(topic), LinkResolver(()))
        related = tuple(Link(_id(name), kind="related") for name in self._related.get(topic, ()))
        return replace(document, links=document.links + related)

    @cached_property
    def _topics(self) -> Mapping[str, str]:
        try:
            from pydoc_data.topics import topics
        except ImportError as error:
            raise SourceError(
                f"{ARGUMENT}: this Python was installed without pydoc's topics",
                fix="install the full standard library, or build from other sources",
            ) from error
        return MappingProxyType(topics)

    @cached_property
    def _headings(self) -> Mapping[str, str]:
        """The topic for each heading (without quotation marks).

        A topic's own title comes before a heading inside another topic, then a topic named
        after a word of the heading; then the shorter one, as long topics collect short ones.
        """
        ranked: dict[str, tuple[bool, bool, int, str]] = {}
        for topic, text in self._topics.items():
            for number, found in enumerate(_HEADING.finditer(text)):
                heading = found[1].replace('"', "")
                rank = (number > 0, topic not in heading.split(), len(text), topic)
                ranked[heading] = min(rank, ranked.get(heading, rank))
        return {heading: rank[-1] for heading, rank in sorted(ranked.items())}

    @cached_property
    def _mention(self) -> re.Pattern[str]:
        """A heading of several words anywhere; one of a single word only where the text refers
        to it."""
        longest_first = sorted(self._headings, key=lambda heading: (-len(heading), heading))
        several = [re.escape(heading) for heading in longest_first if " " in heading]
        single = [re.escape(heading) for heading in longest_first if " " not in heading]
        one, many = "|".join(single), "|".join(several)
        return re.compile(
            rf"\b(?:(?:{many})|{_POINTER}(?P<named>{one})|(?:{one})(?= section))(?!\w)"
        )

    def _mentions(self, text: str) -> tuple[Anchor, ...]:
        matches = [(m, "named" if m["named"] else 0) for m in self._mention.finditer(text)]
        return tuple(
            Anchor(_id(self._headings[match[group]]), match.start(group), match.end(group))
            for match, group in matches
        )

    @cached_property
    def _related(self) -> Mapping[str, tuple[str, ...]]:
        """The topics that ``help()`` refers to from each topic."""
        from pydoc import Helper

        entries: dict[str, str | tuple[str, ...]] = {**Helper.topics, **Helper.keywords}
        related: dict[str, dict[str, None]] = {}
        for entry in entries.values():
            if isinstance(entry, tuple):
                topic, names = entry[0], entry[1]
                found = (_followed(entries, name) for name in names.split())
                known = {name: None for name in found if name in self._topics and name != topic}
                related.setdefault(topic, {}).update(known)
        return {topic: tuple(names) for topic, names in related.items()}


def _followed(entries: Mapping[str, str | tuple[str, ...]], name: str) -> str:
    """The topic of a name in ``help()``, through its aliases; empty if there is none."""
    for _ in range(len(entries)):
        entry = entries.get(name, "")
        if isinstance(entry, tuple):
            return entry[0]
        name = entry
    return ""


def _id(topic: str) -> str:
    return f"python:{topic}"
