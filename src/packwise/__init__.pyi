"""The types of the names that ``__init__.py`` imports when they are first used."""

from packwise.agent import KnowledgeGraphAgent as KnowledgeGraphAgent
from packwise.answering.answer import Answer as Answer
from packwise.answering.answer import Citation as Citation
from packwise.candidates import Candidate as Candidate
from packwise.candidates import Expansion as Expansion
from packwise.candidates import Filter as Filter
from packwise.candidates import Fusion as Fusion
from packwise.candidates import GraphRanking as GraphRanking
from packwise.candidates import Mode as Mode
from packwise.candidates import PackingPolicy as PackingPolicy
from packwise.candidates import Query as Query
from packwise.candidates import Reranker as Reranker
from packwise.candidates import Scores as Scores
from packwise.chunking import chunk as chunk
from packwise.context.packer import Context as Context
from packwise.context.packer import PackedPassage as PackedPassage
from packwise.documents import Block as Block
from packwise.documents import BlockKind as BlockKind
from packwise.documents import Document as Document
from packwise.documents import Link as Link
from packwise.documents import Passage as Passage
from packwise.documents import Section as Section
from packwise.errors import CallFailed as CallFailed
from packwise.errors import DataError as DataError
from packwise.errors import EmbedderMismatch as EmbedderMismatch
from packwise.errors import ModelCorrupt as ModelCorrupt
from packwise.errors import ModelError as ModelError
from packwise.errors import ModelMissing as ModelMissing
from packwise.errors import NotAStore as NotAStore
from packwise.errors import PackwiseError as PackwiseError
from packwise.errors import SettingError as SettingError
from packwise.errors import SourceError as SourceError
from packwise.errors import StoreBusy as StoreBusy
from packwise.errors import StoreDamaged as StoreDamaged
from packwise.errors import StoreError as StoreError
from packwise.errors import StoreFull as StoreFull
from packwise.errors import StoreMissing as StoreMissing
from packwise.errors import StoreTimeout as StoreTimeout
from packwise.errors import StoreUnreachable as StoreUnreachable
from packwise.errors import UsageError as UsageError
from packwise.guard import Guard as Guard
from packwise.guard import GuardReport as GuardReport
from packwise.library import Library as Library
from packwise.library import open_library as open
from packwise.models.base import CrossEncoder as CrossEncoder
from packwise.models.base import Embedder as Embedder
from packwise.models.base import TokenCounter as TokenCounter
from packwise.models.embedder import load_embedder as load_embedder
from packwise.models.llm import LanguageModel as LanguageModel
from packwise.models.llm import Usage as Usage
from packwise.models.tokens import token_counter as token_counter
from packwise.nodes.adapter import AsyncKnowledgeVerseAdapter as AsyncKnowledgeVerseAdapter
from packwise.nodes.adapter import ExampleSpec as ExampleSpec
from packwise.nodes.adapter import FieldSpec as FieldSpec
from packwise.nodes.adapter import KnowledgeVerseAdapter as KnowledgeVerseAdapter
from packwise.nodes.joins import JoinPath as JoinPath
from packwise.nodes.metrics import AdapterMetrics as AdapterMetrics
from packwise.nodes.schema_context import SchemaContext as SchemaContext
from packwise.nodes.store import FoundNode as FoundNode
from packwise.nodes.store import KnowledgeNode as KnowledgeNode
from packwise.packs.build import BuildReport as BuildReport
from packwise.packs.build import build_pack as build
from packwise.retrieval.cache import CacheInfo as CacheInfo
from packwise.retrieval.calibration import Calibration as Calibration
from packwise.retrieval.ranking import Ranking as Ranking
from packwise.serving.app import build_app as build_app
from packwise.serving.store_registry import open_stores as open_stores
from packwise.settings import Settings as Settings
from packwise.sources import Item as Item
from packwise.sources import Problem as Problem
from packwise.sources import Reader as Reader
from packwise.sources import Reads as Reads
from packwise.sources import Source as Source
from packwise.sources import SourceFile as SourceFile
from packwise.sources import combine as combine_sources
from packwise.sources import open_source as open_source
from packwise.stores.base import Store as Store
from packwise.stores.base import StoreInfo as StoreInfo
from packwise.trace import Stage as Stage
from packwise.trace import Trace as Trace

__version__: str
__all__ = [
    "Answer",
    "AsyncKnowledgeVerseAdapter",
    "Block",
    "BlockKind",
    "BuildReport",
    "CacheInfo",
    "Calibration",
    "CallFailed",
    "Candidate",
    "Citation",
    "Context",
    "CrossEncoder",
    "DataError",
    "Document",
    "Embedder",
    "EmbedderMismatch",
    "ExampleSpec",
    "Expansion",
    "FieldSpec",
    "Filter",
    "FoundNode",
    "Fusion",
    "GraphRanking",
    "Guard",
    "GuardReport",
    "Item",
    "KnowledgeGraphAgent",
    "KnowledgeNode",
    "KnowledgeVerseAdapter",
    "LanguageModel",
    "Library",
    "Link",
    "Mode",
    "ModelCorrupt",
    "ModelError",
    "ModelMissing",
    "NotAStore",
    "PackedPassage",
    "PackingPolicy",
    "PackwiseError",
    "Passage",
    "Problem",
    "Query",
    "Ranking",
    "Reader",
    "Reads",
    "Reranker",
    "Scores",
    "Section",
    "SettingError",
    "Settings",
    "Source",
    "SourceError",
    "SourceFile",
    "Stage",
    "Store",
    "StoreBusy",
    "StoreDamaged",
    "StoreError",
    "StoreFull",
    "StoreInfo",
    "StoreMissing",
    "StoreTimeout",
    "StoreUnreachable",
    "TokenCounter",
    "Trace",
    "Usage",
    "UsageError",
    "__version__",
    "build",
    "build_app",
    "chunk",
    "combine_sources",
    "load_embedder",
    "open",
    "open_source",
    "open_stores",
    "token_counter",
]
