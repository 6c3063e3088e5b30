"""Several sources as one, with every id once."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial

from packwise.documents import Document
from packwise.sources.source_items import Entry, Item, Problem, Source, hashed


def combine(sources: Sequence[Source], beside: Sequence[Source] = ()) -> Iterator[Entry]:
    """The entries of all sources in order; a build iterates over this.

    If an earlier source has the same id, readable or not, the later source's item is called
    ``<source name>/<id>``, and links to it from its own source follow. The same place given
    twice is read once; an id twice in one source is a problem. Sources ``beside`` are earlier
    ones that are not read.
    """
    distinct = _distinct((*beside, *sources))
    # Looking for ids may take a while: one source alone does not need it.
    renamings = _renamings(distinct) if len(distinct) > 1 else [(_Renaming(), ())] * len(distinct)
    for source, (renaming, _) in zip(distinct, renamings, strict=True):
        if source in beside:
            continue
        seen: set[str] = set()
        for entry in source.items():
            if isinstance(entry, Item):
                entry = renaming.renamed(entry)
                if entry.id in seen:
                    yield Problem(entry.location, f'has the id "{entry.id}" a second time')
                    continue
                seen.add(entry.id)
            yield entry


def combined_ids(sources: Sequence[Source], beside: Sequence[Source] = ()) -> set[str]:
    """The ids that ``combine`` gives to all documents, also to those that cannot be read."""
    distinct = _distinct((*beside, *sources))
    named = zip(distinct, _renamings(distinct), strict=True)
    return {
        renaming.final(id)
        for source, (renaming, ids) in named
        for id in ids
        if source not in beside
    }


@dataclass(frozen=True, slots=True)
class _Renaming:
    """The ids of one source that earlier sources have too, and the prefix they get.

    ``mark`` goes into every hash of the source: the links of any document may change with the
    set of renamed ones.
    """

    clashing: Set[str] = frozenset()
    prefix: str = ""
    mark: str = ""

    def final(self, id: str) -> str:
        return self.prefix + id if id in self.clashing else id

    def renamed(self, item: Item) -> Item:
        if not self.clashing:
            return item
        id = self.final(item.id)
        source_hash = hashed(item.source_hash.encode(), id, self.mark)
        return replace(item, id=id, source_hash=source_hash, load=partial(self._load, item))

    def _load(self, item: Item) -> Document:
        document = item.read()
        links = tuple(replace(link, href=self.final(link.href)) for link in document.links)
        return replace(document, links=links)


def _distinct(sources: Sequence[Source]) -> list[Source]:
    found: dict[str, Source] = {}
    for source in sources:
        found.setdefault(source.location, source)
    return list(found.values())


def _renamings(sources: Sequence[Source]) -> Iterator[tuple[_Renaming, Collection[str]]]:
    """How the ids of each source change, and its own ids."""
    taken: set[str] = set()
    for source in sources:
        own = set(source.ids())
        clashing = own & taken
        prefix = f"{source.name}/"
        number = 1
        while any(prefix + id in own or prefix + id in taken for id in clashing):
            number += 1
            prefix = f"{source.name}-{number}/"
        clashes = "\n".join(sorted(clashing)).encode("utf-8", "surrogatepass")
        renaming = _Renaming(clashing, prefix, hashed(clashes, prefix))
        yield renaming, own
        taken |= {renaming.final(id) for id in own}
