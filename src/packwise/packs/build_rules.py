"""What builds agree on: which embedder, what an item's hash covers, when it is unchanged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing

import numpy as np

from packwise.chunking import CHUNKER
from packwise.documents import Passage, content_hash
from packwise.errors import StoreMissing
from packwise.models.base import Embedder, Vectors
from packwise.settings import Settings
from packwise.sources import Item, Source
from packwise.stores.locate import create_or_open_store


class Silent:
    """Progress that nobody looks at."""

    def counted(self, documents: int) -> None: ...
    def document(self) -> None: ...
    def embedded(self, passages: int) -> None: ...
    def committing(self) -> None: ...


def source_ids(sources: Sequence[Source]) -> set[str]:
    """The ids the sources may bring, readable or not, as ``combine`` calls them."""
    ids: set[str] = set()
    for source in sources:
        own = set(source.ids())
        ids |= {f"{source.name}/{id}" for id in own & ids}
        ids |= own
    return ids


def embedder_for(out: str, name: str | None, settings: Settings) -> Embedder:
    """The embedder of that name, else the one the store has, else the configured one."""
    from packwise.models.embedder import load_embedder

    if name is None:
        try:
            with closing(create_or_open_store(out)) as store:
                name = store.info().embedder or None
        except StoreMissing:
            name = None  # nothing there yet, or nothing finished, to agree with
    return load_embedder(name or settings.embedder, settings)


def item_hash(item: Item, settings: Settings, extractor: str = "") -> str:
    """The item's hash with all else that decides what becomes of it; ``extractor`` is the
    version of the language model's part, where it has one."""
    size, overlap = str(settings.passage_tokens), str(settings.passage_overlap)
    own = content_hash(item.source_hash, CHUNKER, size, overlap)
    return f"{own}+{extractor}" if extractor else own


def unchanged(stored: str | None, source_hash: str) -> bool:
    """Whether a stored hash says that there is nothing to do. What a language model read
    before is kept by a build that asks for none."""
    if stored is None:
        return False
    return stored == source_hash or stored.startswith(f"{source_hash}+")


def rows_of(passages: Sequence[Passage], vectors: Mapping[str, Vectors], dim: int) -> Vectors:
    """The vectors of passages, by content hash, as the rows to stage."""
    block = np.zeros((len(passages), dim), dtype=np.float32)
    for row, passage in enumerate(passages):
        block[row] = vectors[passage.content_hash]
    return block
