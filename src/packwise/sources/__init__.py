"""Documents in: one module a format, one walk for folders.

``open_source(argument)`` makes a ``Source``; ``combine(sources)`` yields what is in all
of them, an ``Item`` for each document that can be read and a ``Problem`` for each that
cannot. An item's ``source_hash`` says whether it has changed; ``read()`` parses it.
"""

from packwise.sources.combining import combine, combined_ids
from packwise.sources.items import Entry, Item, Problem, Source
from packwise.sources.opening import open_source

__all__ = ["Entry", "Item", "Problem", "Source", "combine", "combined_ids", "open_source"]
