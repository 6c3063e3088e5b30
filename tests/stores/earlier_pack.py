"""Makes a pack.db as the earlier system did: its tables, its index, and nothing of ours."""

from pathlib import Path

import kuzu

SCHEMA = [
    "CREATE NODE TABLE Article(title STRING, category STRING, word_count INT64,"
    " PRIMARY KEY(title))",
    "CREATE NODE TABLE Section(section_id STRING, title STRING, content STRING,"
    " embedding FLOAT[{dim}], level INT64, word_count INT64, PRIMARY KEY(section_id))",
    "CREATE NODE TABLE Entity(entity_id STRING, name STRING, type STRING, description STRING,"
    " PRIMARY KEY(entity_id))",
    "CREATE NODE TABLE Fact(fact_id STRING, content STRING, PRIMARY KEY(fact_id))",
    "CREATE REL TABLE HAS_SECTION(FROM Article TO Section, section_index INT64)",
    "CREATE REL TABLE LINKS_TO(FROM Article TO Article, link_type STRING)",
    "CREATE REL TABLE HAS_ENTITY(FROM Article TO Entity)",
    "CREATE REL TABLE HAS_FACT(FROM Article TO Fact)",
    "CREATE REL TABLE ENTITY_RELATION(FROM Entity TO Entity, relation STRING, context STRING)",
]
INDEX = "CALL CREATE_VECTOR_INDEX('Section', 'embedding_idx', 'embedding', metric := 'cosine')"

ARTICLES = {
    "Apple": {
        "category": "Fruit",
        "sections": [
            ("Apple", 1, "The apple is a fruit. Isaac Newton is said to have watched one fall."),
            ("History", 2, "Apples were first grown in Kazakhstan, near Almaty."),
            ("Silk Road", 3, "Traders carried them along the Silk Road."),
        ],
        "entities": [
            ("e1", "Isaac Newton", "person", "An English physicist"),
            ("e2", "Almaty", "place", ""),
        ],
        "facts": [("f1", "Apples come from Kazakhstan.")],
        "links": [("Pear", "see_also"), ("Isaac_Newton", "inline")],
    },
    "Pear": {
        "category": "Fruit",
        "sections": [
            (
                "Pear",
                1,
                "Pears are green e\u0301clairs \U0001f468\u200d\U0001f469\u200d\U0001f467 all.",
            )
        ],
        "entities": [],
        "facts": [],
        "links": [("Apple", "see_also")],
    },
    "Isaac_Newton": {
        "category": "People",
        "sections": [("Isaac_Newton", 1, "Newton wrote the Principia in 1687.")],
        "entities": [("e1", "Isaac Newton", "person", "An English physicist")],
        "facts": [],
        "links": [],
    },
}


def write_earlier_pack(path: Path, embed, dim: int, articles=ARTICLES) -> Path:
    """Write a database; ``embed`` gives the vector of a section's text."""
    database = kuzu.Database(str(path), buffer_pool_size=128 << 20, max_db_size=1 << 34)
    connection = kuzu.Connection(database, num_threads=1)
    connection.execute("LOAD vector")
    for statement in SCHEMA:
        connection.execute(statement.format(dim=dim))
    for title, article in articles.items():
        connection.execute(
            "CREATE (:Article {title: $t, category: $c, word_count: $w})",
            {"t": title, "c": article["category"], "w": 10},
        )
    seen = set()
    for title, article in articles.items():
        for index, (heading, level, text) in enumerate(article["sections"]):
            connection.execute(
                "MATCH (a:Article {title: $t}) CREATE (a)-[:HAS_SECTION {section_index: $i}]->"
                "(:Section {section_id: $id, title: $h, content: $text,"
                f" embedding: CAST($e AS FLOAT[{dim}]), level: $l, word_count: $w}})",
                {
                    "t": title,
                    "i": index,
                    "id": f"{title}#{index}",
                    "h": heading,
                    "text": text,
                    "e": [float(x) for x in embed(text)],
                    "l": level,
                    "w": len(text.split()),
                },
            )
        for id, name, kind, description in article["entities"]:
            if id not in seen:
                seen.add(id)
                connection.execute(
                    "CREATE (:Entity {entity_id: $i, name: $n, type: $k, description: $d})",
                    {"i": id, "n": name, "k": kind, "d": description},
                )
            connection.execute(
                "MATCH (a:Article {title: $t}), (e:Entity {entity_id: $i})"
                " CREATE (a)-[:HAS_ENTITY]->(e)",
                {"t": title, "i": id},
            )
        for id, text in article["facts"]:
            connection.execute(
                "MATCH (a:Article {title: $t})"
                " CREATE (a)-[:HAS_FACT]->(:Fact {fact_id: $i, content: $c})",
                {"t": title, "i": id, "c": text},
            )
        for target, kind in article["links"]:
            connection.execute(
                "MATCH (a:Article {title: $a}), (b:Article {title: $b})"
                " CREATE (a)-[:LINKS_TO {link_type: $k}]->(b)",
                {"a": title, "b": target, "k": kind},
            )
    if {"e1", "e2"} <= seen:
        connection.execute(
            "MATCH (a:Entity {entity_id: 'e1'}), (b:Entity {entity_id: 'e2'})"
            " CREATE (a)-[:ENTITY_RELATION"
            " {relation: 'never visited', context: 'as far as known'}]->(b)"
        )
    connection.execute(INDEX)
    connection.execute("CHECKPOINT")
    connection.close()
    database.close()
    return path
