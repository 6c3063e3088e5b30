"""Several sources as one: every id once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from packwise.documents import Document
from packwise.sources.items import Entry, Item, Problem, Source, hashed


def combine(sources: Sequence[Source]) -> Iterator[Entry]:
    """The entries of all sources in order; what a build iterates, for one source too.

    Where an earlier source has an id already, the later source's item is called
    ``<source name>/<id>``, and links to it from within its source follow. The same
    place given twice is read once; an id twice in one source is a problem.
    """
    for source, renaming, _ in _renamings(sources, alone=set()):
        own: set[str] = set()
        for entry in source.items():
            if isinstance(entry, Item):
                entry = renaming.renamed(entry) if renaming else entry
                if entry.id in own:
                    yield Problem(entry.location, f'has the id "{entry.id}" a second time')
                    continue
                own.add(entry.id)
            yield entry


def combined_ids(sources: Sequence[Source]) -> set[str]:
    """The ids that ``combine`` may yield, including those of documents that cannot be read."""
    return {id for _, _, ids in _renamings(sources) for id in ids}


@dataclass(frozen=True, slots=True)
class _Renaming:
    """The ids of one source that other sources had first, and what goes before them."""

    ids: frozenset[str]
    prefix: str
    mark: str

    def renamed(self, item: Item) -> Item:
        new = self.new_id(item.id)
        return replace(
            item,
            id=new,
            source_hash=hashed(item.source_hash.encode(), new, self.mark),
            load=partial(self._load, item),
        )

    def new_id(self, id: str) -> str:
        return self.prefix + id if id in self.ids else id

    def _load(self, item: Item) -> Document:
        document = item.read()
        links = tuple(replace(link, href=self.new_id(link.href)) for link in document.links)
        return replace(document, links=links)


def _renamings(
    sources: Sequence[Source], alone: set[str] | None = None
) -> Iterator[tuple[Source, _Renaming | None, set[str]]]:
    """Each distinct source, its renaming and its ids after it.

    An id counts whether or not its document can be read now, so no document changes its id
    when another one becomes unreadable. ``alone`` replaces the ids of a single source, for
    callers that need none: listing them may read a whole corpus.
    """
    taken: set[str] = set()
    first: dict[str, Source] = {}
    for source in sources:
        first.setdefault(source.location, source)
    for source in first.values():
        own = set(source.ids()) if alone is None or len(first) > 1 else alone
        renaming = _renaming(source, own, taken)
        ids = {renaming.new_id(id) for id in own} if renaming else own
        taken |= ids
        yield source, renaming, ids


def _renaming(source: Source, own: set[str], taken: set[str]) -> _Renaming | None:
    """What has to be renamed in a source, given the ids of those before it."""
    clashing = frozenset(own & taken)
    if not clashing:
        return None
    prefix = f"{source.name}/"
    number = 1
    while any(prefix + id in own or prefix + id in taken for id in clashing):
        number += 1
        prefix = f"{source.name}-{number}/"
    # The links of any document may change with the set of renamed ones.
    mark = hashed("\n".join(sorted(clashing)).encode("utf-8", "surrogatepass"), prefix)
    return _Renaming(clashing, prefix, mark)
