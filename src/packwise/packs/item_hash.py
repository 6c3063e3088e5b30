"""The hash of everything that decides what a build stores for a document."""

from __future__ import annotations

from functools import cache

from packwise.chunking import CHUNKER
from packwise.documents import content_hash, with_lengths
from packwise.reading.passage_reading import READING_RULES
from packwise.settings import Settings
from packwise.sources import Item


def item_hash(item: Item, settings: Settings, extractor: str = "") -> str:
    """The item's hash, combined with everything else that decides what is stored for it."""
    tokens, overlap = str(settings.passage_tokens), str(settings.passage_overlap)
    secrets = ("secrets",) if settings.allow_secrets else ()
    rules = _with_lengths(CHUNKER, READING_RULES, tokens, overlap, *secrets)
    own = content_hash(item.source_hash, after=rules)
    return f"{own}+{extractor}" if extractor else own


_with_lengths = cache(with_lengths)  # For all documents of a build it is the same.


def unchanged(stored: str | None, source_hash: str) -> bool:
    """Whether a stored document is up to date; a build without an extractor keeps extractions."""
    return stored is not None and f"{stored}+".startswith(f"{source_hash}+")
