"""Reads documents: one module per format (see ``readers``), and one that walks folders.

``open_source(argument)`` returns a ``Source``. ``combine(sources)`` yields an ``Item`` for each
document that can be read and a ``Problem`` for each that cannot. An item's ``source_hash``
says whether it has changed; ``read()`` parses it. ``combined_ids(sources)`` are the ids of all.
"""

from packwise.sources.combine import combine, combined_ids
from packwise.sources.files import open_source
from packwise.sources.readers import Reader, Reads, SourceFile
from packwise.sources.source_items import Entry, Item, Problem, Source

__all__ = [
    "Entry",
    "Item",
    "Problem",
    "Reader",
    "Reads",
    "Source",
    "SourceFile",
    "combine",
    "combined_ids",
    "open_source",
]
