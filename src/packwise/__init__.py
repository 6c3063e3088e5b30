"""Packwise: documents in, the passages that carry the answer out.

import packwise

with packwise.open("my-pack") as library:
    for hit in library.search("how do I ...?").hits:
        print(hit.scores.final, hit.passage.heading)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from packwise.agent import KnowledgeGraphAgent as KnowledgeGraphAgent
    from packwise.errors import PackwiseError as PackwiseError
    from packwise.library import Library as Library
    from packwise.library import open_library as open
    from packwise.nodes.adapter import KnowledgeVerseAdapter as KnowledgeVerseAdapter
    from packwise.packs.build import build_pack as build
    from packwise.settings import Settings as Settings

__version__ = "0.1.0"
__all__ = [
    "KnowledgeGraphAgent",
    "KnowledgeVerseAdapter",
    "Library",
    "PackwiseError",
    "Settings",
    "__version__",
    "build",
    "open",
]

# Names are loaded when first used: importing Packwise costs next to nothing.
_HOMES = {
    "KnowledgeGraphAgent": ("packwise.agent", "KnowledgeGraphAgent"),
    "KnowledgeVerseAdapter": ("packwise.nodes.adapter", "KnowledgeVerseAdapter"),
    "Library": ("packwise.library", "Library"),
    "PackwiseError": ("packwise.errors", "PackwiseError"),
    "Settings": ("packwise.settings", "Settings"),
    "build": ("packwise.packs.build", "build_pack"),
    "open": ("packwise.library", "open_library"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'packwise' has no attribute {name!r}")
    module, attribute = _HOMES[name]
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted(__all__)
