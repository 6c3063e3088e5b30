"""Stores know the same of entities as the pack does, after every change."""

from dataclasses import replace

import pytest
from more_places import KuzuPlace, QdrantPlace
from store_world import EMBEDDER, fill, make, vectors_of

from packwise.documents import Link
from packwise.language.names import (
    ExtractedEntity,
    ExtractedFact,
    ExtractedRelation,
    Extraction,
    title_aliases,
)
from packwise.stores.pack.store import create_or_open_pack

CURIE = make(
    "curie",
    "Marie Curie was a physicist. She worked with Pierre Curie in Paris.",
    "Curie received the Nobel Prize in Stockholm.",
    title="Marie Curie",
)
PARIS = make("paris", "Paris is the capital of France. Warsaw is far.", title="Paris, France")
RADIUM = make("radium", "Radium was discovered by Marie Curie. Polonium too.", title="Radium")
WARSAW = make("warsaw", "Warsaw is a city. Marie Curie was born here.", title="Warsaw")
TEXAS = make("texas", "Paris lies in Texas, not in France.", title="Paris, Texas")


def linked(document, passages, anchor: str, target: str):
    """The same with a link set on some words of it."""
    start = document.text.index(anchor)
    changed = replace(
        document,
        links=(Link(target, anchor, start),),
        source_hash=f"{document.source_hash}-{target}",
    )
    return changed, passages


LINKED = linked(*RADIUM, "Polonium", "warsaw")
STATES = [
    [CURIE, PARIS],
    [CURIE, PARIS, RADIUM, TEXAS],
    [CURIE, PARIS, LINKED],
    [CURIE, PARIS, LINKED, WARSAW],
    [CURIE, make("warsaw", "Warsaw stands.", title="Warszawa"), LINKED],
    [PARIS, TEXAS],
    [CURIE, PARIS, LINKED, WARSAW],
]


def known(store) -> dict:
    """All that a store tells of entities, by passage and document ids rather than keys."""
    names = {
        key: passage.id
        for summary in store.documents()
        for key, passage in store.document_passages(summary.id)
    }
    held = store.entities_of(list(names))
    keys = {entity.key for found in held.values() for entity in found.entities}
    for summary in store.documents():
        keys.update(title_aliases(summary.title))
    keys.update(("nobody", "she", "paris", "polonium"))
    entities = store.entities_named(sorted(keys))
    ids = {entity.id: key for key, entity in entities.items()}
    return {
        "entities": {
            key: (entity.kind, entity.passages, sorted(entity.titled, key=repr))
            for key, entity in entities.items()
        },
        "held": {
            names[key]: (found.place.document, sorted(entity.key for entity in found.entities))
            for key, found in held.items()
        },
        "mentions": {
            ids[entity]: sorted(names[place.key] for place in places)
            for entity, places in store.mentions(list(ids), 99).items()
        },
        "about": sorted(
            (f.about, f.text, names[f.place.key]) for f in store.facts_about(sorted(keys), 9)
        ),
        "facts": {
            names[key]: [(fact.about, fact.text) for fact in facts]
            for key, facts in store.facts_of(list(names)).items()
        },
        "like": [entity.key for entity in store.entities_like("Curie", 5)],
        "first": {
            name: [names[key] for key in found]
            for name, found in store.passages_of(["curie", "paris", "none"], 1).items()
        },
    }


@pytest.fixture(params=[QdrantPlace, KuzuPlace], ids=lambda place: place.__name__)
def place(request, tmp_path):
    place = request.param(tmp_path / "store")
    yield place
    place.close()


def test_entities_are_those_of_the_pack_through_every_change(place, tmp_path):
    with create_or_open_pack(tmp_path / "pack") as pack:
        store = place.build()
        for number, state in enumerate(STATES):
            fill(store, state)
            fill(pack, state)
            assert known(store) == known(pack), f"state {number}"


def test_an_update_leaves_what_building_from_scratch_gives(place, tmp_path):
    store = place.build()
    for state in STATES:
        fill(store, state)
    with create_or_open_pack(tmp_path / "scratch") as scratch:
        fill(scratch, STATES[-1])
        assert known(store) == known(scratch)


def test_what_a_language_model_read_is_told_and_kept_through_updates(place):
    read = Extraction(
        1,
        (ExtractedEntity("Nobel Prize", "award", "given in Stockholm"),),
        (ExtractedFact("Nobel Prize", "The prize was given twice."),),
        (ExtractedRelation("Marie Curie", "received", "Nobel Prize", "in 1903"),),
    )
    store = place.build()
    with store.writer(**EMBEDDER) as writer:
        writer.stage(CURIE[0], CURIE[1], vectors_of(CURIE[1]), [read])
        writer.commit()
    for others in ([], [PARIS], [WARSAW]):
        fill(store, [CURIE, *others])
        (tie,) = store.relations_of(["nobel prize"], 5)
        assert (tie.source, tie.relation, tie.target, tie.context) == (
            "marie curie",
            "received",
            "nobel prize",
            "in 1903",
        )
        assert store.relations_of(["nobel prize"], 0) == []
        assert [f.text for f in store.facts_about(["nobel prize"], 5)] == [
            "The prize was given twice."
        ]
        prize = store.entities_named(["nobel prize"])["nobel prize"]
        assert prize.description == "given in Stockholm"
