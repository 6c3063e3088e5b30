"""The tables of a Kuzu database: those of agent-kgpacks with more columns, and two more."""

from __future__ import annotations

FORMAT = "packwise-kuzu-2"
FORMAT_WITHOUT_LAYOUTS = "packwise-kuzu-1"
INDEX = "embedding_idx"

_ARTICLE = ("title STRING", "category STRING", "word_count INT64")
_SECTION = ("section_id STRING", "title STRING", "content STRING", "embedding FLOAT[{dim}]")
_SECTION_MORE = ("level INT64", "word_count INT64")
_ENTITY = ("entity_id STRING", "name STRING", "type STRING", "description STRING")
_FACT = ("fact_id STRING", "content STRING")

_OWN_ARTICLE = (
    *("id STRING", "name STRING", "url STRING", "lang STRING", "source_hash STRING"),
    *("metadata STRING", "text STRING", "sections STRING", "links STRING", "pagerank DOUBLE"),
)
_OWN_SECTION = (
    *("position INT64", "path STRING", "first INT64", "past INT64", "content_hash STRING"),
    *("url STRING", "extraction STRING", "layout STRING"),
)
_OWN_ENTITY = ("passages INT64", "titled STRING")
_OWN_FACT = ("about STRING", "position INT64")


def _node(name: str, columns: tuple[str, ...]) -> str:
    key = columns[0].split()[0]
    return f"CREATE NODE TABLE {name}({', '.join(columns)}, PRIMARY KEY({key}))"


def own_schema(dim: int) -> list[str]:
    """The statements that create the tables."""
    return [
        _node("Article", (*_ARTICLE, *_OWN_ARTICLE)),
        _node("Section", (*_SECTION, *_SECTION_MORE, *_OWN_SECTION)).format(dim=dim),
        _node("Entity", (*_ENTITY, *_OWN_ENTITY)),
        _node("Fact", (*_FACT, *_OWN_FACT)),
        "CREATE REL TABLE HAS_SECTION(FROM Article TO Section, section_index INT64)",
        "CREATE REL TABLE LINKS_TO(FROM Article TO Article, link_type STRING)",
        "CREATE REL TABLE HAS_ENTITY(FROM Article TO Entity)",
        "CREATE REL TABLE HAS_FACT(FROM Article TO Fact)",
        "CREATE REL TABLE ENTITY_RELATION(FROM Entity TO Entity, relation STRING,"
        " context STRING, section STRING, position INT64)",
        "CREATE REL TABLE MENTIONS(FROM Section TO Entity, position INT64)",
        "CREATE REL TABLE STATES(FROM Section TO Fact)",
        _node("Packwise", ("format STRING", "state STRING")),
    ]


def create_index() -> str:
    """The statement that makes the vector index."""
    return f"CALL CREATE_VECTOR_INDEX('Section', '{INDEX}', 'embedding', metric := 'cosine')"
