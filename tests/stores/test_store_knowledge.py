"""What every store tells of the things its passages name."""

import random

import pytest
from store_world import EMBEDDER, fill, make, vectors_of

from packwise.documents import Link
from packwise.errors import StoreError
from packwise.language.names import ExtractedEntity, ExtractedFact, ExtractedRelation, Extraction
from packwise.stores import entity_extraction

FILM = make(
    "film",
    "Jump for Glory is a 1937 comedy film. It was directed by Raoul Walsh.",
    "Its premiere was in Paris. The cast liked Raoul Walsh.",
    title="Jump for Glory",
)
WALSH = make(
    "walsh", "The director Raoul Walsh married Miriam Cooper in 1916.", title="Raoul Walsh"
)
COOPER = make("cooper", "The actress Miriam Cooper was born in Baltimore.", title="Miriam Cooper")
CODE = make("code", "Call os.path.join to join paths. A path is a string of names.", title="Paths")
WORLD = [FILM, WALSH, COOPER, CODE]


@pytest.fixture(scope="module")
def films(shared_place):
    place = shared_place()
    fill(place.build(), WORLD)
    return place.read()


def keys_of(store, document):
    return [key for key, _ in store.document_passages(document)]


def named(held):
    """The keys a passage's own text mentions; all headings here are "Part" and a number."""
    return {entity.key for entity in held.entities if not entity.key.startswith("part ")}


def test_entities_are_known_by_name_with_the_documents_they_title(films):
    found = films.entities_named(["raoul walsh", "nobody", "baltimore", "os.path.join"])
    assert list(found) == ["raoul walsh", "baltimore", "os.path.join"]
    walsh = found["raoul walsh"]
    assert walsh.label == "Raoul Walsh"
    assert walsh.passages == 3
    assert [titled.document for titled in walsh.titled] == ["walsh"]
    assert found["baltimore"].titled == ()
    assert found["os.path.join"].kind == "identifier"
    assert films.entities_named([]) == {}


def test_a_title_nobody_mentions_is_an_entity(films):
    paths = films.entities_named(["paths"])["paths"]
    assert [titled.document for titled in paths.titled] == ["code"]


def test_entities_are_found_by_part_of_their_name(films):
    assert [entity.key for entity in films.entities_like("Walsh", 5)] == ["raoul walsh"]
    assert [entity.key for entity in films.entities_like("the GLORY jump", 5)] == ["jump for glory"]
    assert films.entities_like("Wal", 5) == []
    assert films.entities_like("100%_", 5) == []
    assert films.entities_like("", 5) == []
    assert films.entities_like("Walsh", 0) == []


def test_passages_tell_what_they_mention_and_where_they_stand(films):
    (walsh,) = keys_of(films, "walsh")
    _, second = keys_of(films, "film")
    held = films.entities_of([second, walsh])
    assert list(held) == [second, walsh]
    assert named(held[walsh]) == {"raoul walsh", "miriam cooper"}
    assert named(held[second]) >= {"paris", "raoul walsh"}
    assert (held[walsh].place.document, held[walsh].place.title) == ("walsh", "Raoul Walsh")
    assert films.entities_of(["no-such-key", -1]) == {}


def test_mentions_lead_from_an_entity_to_its_passages(films):
    walsh = films.entities_named(["raoul walsh"])["raoul walsh"]
    places = films.mentions([walsh.id], 10)[walsh.id]
    assert {place.key for place in places} == {*keys_of(films, "film"), *keys_of(films, "walsh")}
    assert len(films.mentions([walsh.id], 2)[walsh.id]) == 2


def test_passages_of_documents_come_in_reading_order(films):
    assert films.passages_of(["film", "none"], 10) == {"film": keys_of(films, "film")}
    assert films.passages_of(["film"], 1) == {"film": keys_of(films, "film")[:1]}


def test_definitions_are_facts_about_their_subject(films):
    (fact,) = films.facts_about(["jump for glory"], 5)
    assert fact.text == "Jump for Glory is a 1937 comedy film."
    assert fact.about == "jump for glory"
    first = keys_of(films, "film")[0]
    assert fact.place.key == first
    assert films.facts_of([first, *keys_of(films, "cooper")]) == {first: [fact]}
    assert films.facts_about(["miriam cooper"], 5) == []
    assert films.facts_about(["jump for glory"], 0) == []
    assert films.relations_of(["jump for glory"], 5) == []


def test_what_a_model_extracted_is_kept_with_what_the_rules_find(place):
    document, passages = WALSH
    extraction = Extraction(
        0,
        (ExtractedEntity("Miriam Cooper", "person", "an actress"),),
        (ExtractedFact("Raoul Walsh", "Raoul Walsh directed films."),),
        (ExtractedRelation("Raoul Walsh", "married", "Miriam Cooper", "in 1916"),),
    )
    store = place.build()
    with store.writer(**EMBEDDER) as writer:
        writer.stage(document, passages, vectors_of(passages), [extraction])
        writer.commit()
    (tie,) = store.relations_of(["miriam cooper", "raoul walsh"], 5)
    assert (tie.source, tie.relation, tie.target) == ("raoul walsh", "married", "miriam cooper")
    assert (tie.context, tie.place.document) == ("in 1916", "walsh")
    assert store.relations_of(["raoul walsh"], 0) == []
    assert [f.text for f in store.facts_about(["raoul walsh"], 5)] == [extraction.facts[0].text]
    assert store.entities_named(["miriam cooper"])["miriam cooper"].description == "an actress"
    # A later build that only adds a title reads the passage again, and keeps all that.
    fill(store, [WALSH, COOPER])
    assert len(store.relations_of(["raoul walsh"], 5)) == 1
    assert store.entities_named(["miriam cooper"])["miriam cooper"].passages == 2


def test_what_a_model_extracted_is_handed_out_as_it_was_given(place):
    document, passages = FILM
    odd = "Gl\u00f6ry \0 \ufdd0 \U0001f3ac"
    read = Extraction(
        1,
        (ExtractedEntity(odd, "film", odd),),
        (ExtractedFact(odd, odd),),
        (ExtractedRelation(odd, odd, "Paris", odd),),
    )
    broken = Extraction(0, (ExtractedEntity("half \ud83c a sign", "film"),))
    store = place.build()
    with store.writer(**EMBEDDER) as writer:
        writer.stage(document, passages, vectors_of(passages), [read, broken])
        writer.commit()
    first, second = keys_of(store, "film")
    found = store.extractions([second, first, -1, "none"])
    assert found[second] == read
    assert [entity.name for entity in found[first].entities] == ["half \ufffd a sign"]
    assert store.extractions([]) == {}


def test_extractions_of_passages_that_are_not_there_are_refused(place):
    document, passages = WALSH
    store = place.build()
    with store.writer(**EMBEDDER) as writer:
        for bad in ([Extraction(7)], [Extraction(0), Extraction(0)]):
            with pytest.raises(StoreError, match="extraction"):
                writer.stage(document, passages, vectors_of(passages), bad)


def test_a_link_makes_its_passage_mention_where_it_leads(place):
    document, passages = make(
        "note", "They met in the city of lights.", "Nothing here.", title="A note"
    )
    start = document.text.index("the city")
    link = Link(href="paris", anchor="the city of lights", start=start)
    document = type(document)(**{**fields_of(document), "links": (link,)})
    paris = make("paris", "A large town.", title="Paris, France")
    store = place.build()
    fill(store, [(document, passages), paris])
    first, second = keys_of(store, "note")
    held = store.entities_of([first, second])
    assert [t.document for e in held[first].entities for t in e.titled] == ["paris"]
    assert named(held[second]) == set()
    fill(store, [(document, passages)])
    assert named(store.entities_of([first])[first]) == set()


def fields_of(document):
    return {name: getattr(document, name) for name in document.__slots__}


def test_a_title_that_comes_or_goes_is_found_in_what_was_there_before(place):
    note = make("note", "In the evening they saw Jump for Glory again.", title="A note")
    store = place.build()
    fill(store, [note])
    assert "jump for glory" not in store.entities_named(["jump for glory"])
    fill(store, [note, FILM])
    (key,) = keys_of(store, "note")
    assert "jump for glory" in named(store.entities_of([key])[key])
    fill(store, [note])
    (key,) = keys_of(store, "note")
    assert "jump for glory" not in named(store.entities_of([key])[key])


def knowledge(store):
    """All that a store tells of names, without keys."""
    told = {}
    for summary in store.documents():
        for key, passage in store.document_passages(summary.id):
            held = store.entities_of([key])[key]
            told[passage.id] = (
                sorted((e.key, e.passages, e.titled) for e in held.entities),
                [fact.text for fact in store.facts_of([key]).get(key, [])],
            )
    return told


def found_by_other_rules(monkeypatch, rules):
    """Let the next builds find no names and record these rules; undone by the fixture."""
    monkeypatch.setattr(entity_extraction, "RULES", rules)
    monkeypatch.setattr(entity_extraction, "passage_names", lambda passage, aliases: [])
    monkeypatch.setattr(entity_extraction, "facts_in", lambda text: [])


@pytest.mark.parametrize("rules", ["names-of-yesterday", ""], ids=["older", "unrecorded"])
def test_other_naming_rules_make_the_next_build_find_entities_again(
    place, kind, tmp_path, monkeypatch, rules
):
    store = place.build()
    with monkeypatch.context() as patch:
        found_by_other_rules(patch, rules)
        fill(store, WORLD)
        first, _ = keys_of(store, "film")
        assert store.entities_named(["baltimore", "paris"]) == {}
        assert store.facts_of([first]) == {}
    before = store.version()
    assert fill(store, WORLD).unchanged == len(WORLD)
    assert store.version() != before
    assert list(store.entities_named(["baltimore", "paris"])) == ["baltimore", "paris"]
    assert store.entities_named(["raoul walsh"])["raoul walsh"].passages == 3
    assert [fact.about for fact in store.facts_about(["jump for glory"], 5)] == ["jump for glory"]
    other = kind(tmp_path / "other")
    try:
        fresh = other.build()
        fill(fresh, WORLD)
        assert knowledge(store) == knowledge(fresh)
    finally:
        other.close()
    settled = store.version()
    fill(store, WORLD)
    assert store.version() == settled


def test_other_naming_rules_reach_documents_that_stay_while_others_change(place, monkeypatch):
    store = place.build()
    with monkeypatch.context() as patch:
        found_by_other_rules(patch, "names-of-yesterday")
        fill(store, WORLD)
    fill(store, [FILM, WALSH])
    walsh = store.entities_named(["raoul walsh"])["raoul walsh"]
    assert (walsh.passages, len(walsh.titled)) == (3, 1)
    assert "baltimore" not in store.entities_named(["baltimore"])


@pytest.mark.parametrize("seed", range(4))
def test_changes_one_by_one_end_where_building_at_once_does(place, kind, tmp_path, seed):
    chance = random.Random(seed)
    titles = ["York", "New York", "New York City", "Paris (band)", "Paris", "Long Walk", "Walk"]
    texts = [
        "They went to New York City.",
        "From York to Paris it is far.",
        "The Long Walk is a road. New York is a town.",
        "Walk on, said the band Paris of New York.",
    ]
    store = place.build()
    world = {}
    for _ in range(5):
        for _ in range(chance.randint(1, 3)):
            title = chance.choice(titles)
            if chance.random() < 0.3:
                world.pop(title, None)
            else:
                world[title] = make(title.lower(), *chance.sample(texts, 2), title=title)
        fill(store, world.values())
    other = kind(tmp_path / "other")
    try:
        fresh = other.build()
        fill(fresh, world.values())
        assert knowledge(store) == knowledge(fresh)
    finally:
        other.close()
