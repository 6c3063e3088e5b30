"""Packwise: documents in, the passages that contain the answer out.

import packwise

with packwise.open("my-pack") as library:
    for hit in library.search("how do I ...?").hits:
        print(hit.scores.final, hit.passage.heading)
"""

from importlib import import_module

__version__ = "0.1.0"

# The public names by module; their types are in ``__init__.pyi``. A name is imported when it is
# first used, so ``import packwise`` loads none of the dependencies.
_EXPORTS = {
    "agent": "KnowledgeGraphAgent",
    "answering.answer": "Answer Citation",
    "candidates": "Candidate Expansion Filter Fusion GraphRanking Mode PackingPolicy Query Reranker"
    " Scores",
    "chunking": "chunk",
    "context.packer": "Context PackedPassage",
    "documents": "Block BlockKind Document Link Passage Section",
    "errors": "CallFailed DataError EmbedderMismatch ModelCorrupt ModelError ModelMissing NotAStore"
    " PackwiseError SettingError SourceError StoreBusy StoreDamaged StoreError StoreFull"
    " StoreMissing StoreTimeout StoreUnreachable UsageError",
    "guard": "Guard GuardReport",
    "library": "Library open",
    "models.base": "CrossEncoder Embedder TokenCounter",
    "models.embedder": "load_embedder",
    "models.llm": "LanguageModel Usage",
    "models.tokens": "token_counter",
    "nodes.adapter": "AsyncKnowledgeVerseAdapter ExampleSpec FieldSpec KnowledgeVerseAdapter",
    "nodes.joins": "JoinPath",
    "nodes.metrics": "AdapterMetrics",
    "nodes.schema_context": "SchemaContext",
    "nodes.store": "FoundNode KnowledgeNode",
    "packs.build": "BuildReport build",
    "retrieval.cache": "CacheInfo",
    "retrieval.calibration": "Calibration",
    "retrieval.ranking": "Ranking",
    "serving.app": "build_app",
    "serving.store_registry": "open_stores",
    "settings": "Settings",
    "sources": "Item Problem Reader Reads Source SourceFile combine_sources open_source",
    "stores.base": "Store StoreInfo",
    "trace": "Stage Trace",
}
_RENAMED = {"open": "open_library", "build": "build_pack", "combine_sources": "combine"}
_MODULES = {name: module for module, names in _EXPORTS.items() for name in names.split()}

__all__ = ["__version__", *_MODULES]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'packwise' has no attribute {name!r}")
    return getattr(import_module(f"packwise.{_MODULES[name]}"), _RENAMED.get(name, name))


def __dir__() -> list[str]:
    return sorted(__all__)
