"""The reference of the Python that is running: the topics ``help()`` shows.

They are real documents on every machine that has Python: no download, no network.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from types import MappingProxyType

from packwise.documents import Document, Link
from packwise.errors import SourceError
from packwise.sources import plain_rst
from packwise.sources.composing import compose
from packwise.sources.flow import Anchor, Draft, Flow
from packwise.sources.items import Entry, Item, hashed
from packwise.sources.links import Catalogue

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

    @property
    def skipped(self) -> Mapping[str, int]:
        return {}

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
        flow = Flow()
        plain_rst.write(flow, self._topics[topic], self._mentions)
        draft = Draft(flow, lang="en", fallback_title=topic, metadata={"python": _version()})
        document = compose(draft, _id(topic), Catalogue(()))
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
        """Headings, without quotation marks, to the topic each one leads to.

        A topic's own title beats a heading inside another topic, and a topic named
        after what it describes beats one that says the same; then the shorter wins,
        since long topics are collections of the short ones.
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
        """A heading of several words wherever it stands, one of a single word only
        where the text points to it."""
        longest_first = sorted(self._headings, key=lambda heading: (-len(heading), heading))
        several = [re.escape(heading) for heading in longest_first if " " in heading]
        single = [re.escape(heading) for heading in longest_first if " " not in heading]
        one, many = "|".join(single), "|".join(several)
        return re.compile(
            rf"\b(?:(?:{many})|{_POINTER}(?P<named>{one})|(?:{one})(?= section))(?!\w)"
        )

    def _mentions(self, text: str) -> tuple[Anchor, ...]:
        anchors: list[Anchor] = []
        for found in self._mention.finditer(text):
            group = "named" if found["named"] else 0
            topic = self._headings[found[group]]
            anchors.append(Anchor(_id(topic), found.start(group), found.end(group)))
        return tuple(anchors)

    @cached_property
    def _related(self) -> Mapping[str, tuple[str, ...]]:
        """Topic to the topics ``help()`` points to from it."""
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
    """The topic a name of ``help()`` stands for, through its aliases; else empty."""
    for _ in range(len(entries)):
        entry = entries.get(name, "")
        if isinstance(entry, tuple):
            return entry[0]
        name = entry
    return ""


def _id(topic: str) -> str:
    return f"python:{topic}"


def _version() -> str:
    return ".".join(map(str, sys.version_info[:2]))
