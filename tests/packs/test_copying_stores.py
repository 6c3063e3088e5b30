import json
from contextlib import closing
from itertools import permutations

import numpy as np
import pytest
from click.testing import CliRunner
from more_places import KuzuPlace, PackPlace, QdrantPlace
from postgres_place import PostgresPlace
from store_world import EMBEDDER, fill, make, snapshot, vectors_of

from packwise.cli import app
from packwise.errors import EmbedderMismatch, StoreError, UsageError
from packwise.language.names import ExtractedEntity, ExtractedFact, ExtractedRelation, Extraction
from packwise.packs import copying
from packwise.packs.copying import copy_store
from packwise.stores.locate import create_or_open_store, open_store
from packwise.stores.pack.store import PackStore
from packwise.stores.transfer import checksum, contents, same_vectors

DOCUMENTS = [
    make("a/apple", "Apples grow on trees.", "Orchards.", links=["b/pear", "https://q.example"]),
    make("b/pear", "Pears are green.", metadata={"tenant": "t", "acl": "x"}, lang="de"),
    make("ünï #1", "Naïve café 🦜 \0 NUL.", title="Ünïcödé", url="https://q.example"),
    make("empty"),
]


@pytest.fixture
def origin(tmp_path):
    place = str(tmp_path / "origin")
    with closing(create_or_open_store(place)) as store:
        fill(store, DOCUMENTS)
    return place


def seen(place: str) -> dict:
    with closing(open_store(place)) as store:
        return {
            name: (summary, document, passages, np.round(vectors, 2).tolist())
            for name, (summary, document, passages, vectors) in snapshot(store).items()
        }


KINDS = {"pack": PackPlace, "postgresql": PostgresPlace, "qdrant": QdrantPlace, "kuzu": KuzuPlace}
READ = [
    Extraction(
        0,
        (ExtractedEntity("Malus", "plant", "the ge\0nus of ap\ufdd0ples"),),
        (ExtractedFact("Apples", "Apples are \u00e4lter than p\u00e9ars \U0001f34f."),),
        (ExtractedRelation("Apples", "belong to", "Malus", "in botany"),),
    ),
    Extraction(1, (), (ExtractedFact("Orchards", "Orchards are many."),)),
]
"""What a language model read in the first document."""


@pytest.fixture
def places(tmp_path):
    """Gives out places of a kind, closed at the end."""
    made = []

    def give(kind: str):
        made.append(KINDS[kind](tmp_path / f"{kind}-{len(made)}"))
        return made[-1]

    yield give
    for place in made:
        place.close()


def fill_with_extractions(store) -> None:
    with store.writer(**EMBEDDER) as writer:
        for document, passages in DOCUMENTS:
            read = READ if document.id == "a/apple" else ()
            writer.stage(document, passages, vectors_of(passages), read)
        writer.commit()


def told(place: str) -> tuple:
    """What a store tells beyond its documents, by words rather than keys."""
    with closing(open_store(place)) as store:
        entity = store.entities_named(["malus"])["malus"]
        facts = store.facts_about(["apples", "orchards"], 9)
        ties = store.relations_of(["malus"], 9)
        return (
            (entity.label, entity.kind, entity.description, entity.passages),
            [(fact.about, fact.text, fact.place.document) for fact in facts],
            [(t.source, t.relation, t.target, t.context, t.place.document) for t in ties],
            [content.extractions for content in contents(store, ["a/apple", "b/pear"])],
        )


@pytest.mark.parametrize(("start", "end"), list(permutations(KINDS, 2)))
def test_a_copy_between_any_two_kinds_keeps_everything(places, origin, start, end):
    source, target = places(start).location, places(end).location
    with closing(create_or_open_store(source)) as store:
        fill_with_extractions(store)
    report = copy_store(source, target)
    assert report.verified
    assert (report.documents, report.passages) == (4, 4)
    assert seen(target) == seen(source) == seen(origin)
    assert told(target) == told(source)
    assert told(target)[3] == [tuple(READ), ()]
    assert copy_store(source, target).reused == 4


@pytest.mark.parametrize("kind", KINDS)
def test_extractions_lost_in_a_copy_are_found_out(places, origin, tmp_path, kind):
    source, target = places(kind).location, str(tmp_path / "copy")
    with closing(create_or_open_store(source)) as store:
        fill_with_extractions(store)
    copy_store(origin, target)
    with pytest.raises(StoreError, match=r"a/apple differs.*--force"):
        copy_store(source, target)
    copy_store(source, target, force=True)
    assert told(target) == told(source)


def test_a_second_copy_has_nothing_to_do(origin, tmp_path):
    target = str(tmp_path / "copy")
    assert copy_store(origin, target).changes.added == 4
    with closing(open_store(target)) as store:
        version = store.version()
    again = copy_store(origin, target)
    assert (again.changes.unchanged, again.reused) == (4, 4)
    with closing(open_store(target)) as store:
        assert store.version() == version


def test_a_stopped_copy_goes_on_where_it_was(origin, tmp_path, monkeypatch):
    target = str(tmp_path / "copy")
    staged = []

    def stop_after_two(store, names):
        for content in contents(store, names):
            if len(staged) == 2:
                raise KeyboardInterrupt
            staged.append(content.document.id)
            yield content

    with monkeypatch.context() as patch:
        patch.setattr(copying, "contents", stop_after_two)
        with pytest.raises(KeyboardInterrupt):
            copy_store(origin, target)
    report = copy_store(origin, target)
    assert report.reused == 2
    assert seen(target) == seen(origin)


def test_vectors_are_carried_over_and_never_made_again(origin, tmp_path, monkeypatch):
    from packwise.models import embedder

    def forbidden(*_):
        raise AssertionError("a copy must not load a model")

    monkeypatch.setattr(embedder, "load_embedder", forbidden)
    copy_store(origin, str(tmp_path / "copy"))


def test_merging_keeps_what_else_is_there(origin, tmp_path):
    target = str(tmp_path / "copy")
    with closing(create_or_open_store(target)) as store:
        fill(store, [make("mine", "Something of my own.")])
    copy_store(origin, target, merge=True)
    assert set(seen(target)) == {"mine", *(document.id for document, _ in DOCUMENTS)}
    copy_store(origin, target)
    assert "mine" not in seen(target)


def test_a_copy_that_differs_is_found_out(origin, tmp_path):
    target = str(tmp_path / "copy")
    copy_store(origin, target)
    # The same source hash over another text: only reading it back tells.
    document, passages = make("b/pear", "Pears are yellow.")
    forged = DOCUMENTS[1][0].source_hash
    from dataclasses import replace

    with closing(create_or_open_store(target)) as store, store.writer(**EMBEDDER) as writer:
        writer.stage(replace(document, source_hash=forged), passages, vectors_of(passages))
        writer.commit(prune=False)
    with pytest.raises(StoreError, match=r"b/pear differs.*--force"):
        copy_store(origin, target)
    copy_store(origin, target, force=True)
    assert seen(target) == seen(origin)


def test_another_embedders_store_is_not_mixed_into(origin, tmp_path):
    target = str(tmp_path / "copy")
    with closing(create_or_open_store(target)) as store:
        fill(store, [make("mine", "Of another model.")], embedder_version="other-1")
    with pytest.raises(EmbedderMismatch):
        copy_store(origin, target)


def test_checksums_tell_documents_apart(origin):
    with closing(open_store(origin)) as store:
        sums = [checksum(c) for c in contents(store, [s.id for s in store.documents()])]
        assert len(set(sums)) == 4
    assert same_vectors(np.ones((1, 3), np.float32), np.full((1, 3), 1.001, np.float32))
    assert not same_vectors(np.ones((1, 3), np.float32), np.zeros((1, 3), np.float32))
    assert not same_vectors(np.ones((1, 3), np.float32), np.ones((2, 3), np.float32))


def test_a_store_is_not_copied_onto_itself(origin):
    with pytest.raises(UsageError):
        copy_store(origin, origin)


def test_a_source_that_changes_meanwhile_is_noticed(origin, tmp_path, monkeypatch):
    def change(store, names):
        if isinstance(store, PackStore) and names:
            with closing(create_or_open_store(origin)) as other:
                fill(other, DOCUMENTS[:2])
        yield from contents(store, names)

    monkeypatch.setattr(copying, "contents", change)
    with pytest.raises(StoreError, match="changed during the copy"):
        copy_store(origin, str(tmp_path / "copy"))


def test_the_command_reports_in_words_and_in_json(origin, tmp_path):
    done = CliRunner().invoke(app, ["copy", origin, str(tmp_path / "one")])
    assert done.exit_code == 0, done.output
    assert "4 documents" in done.output.replace("\n", " ")
    done = CliRunner().invoke(app, ["copy", origin, str(tmp_path / "two"), "--json"])
    assert json.loads(done.stdout)["documents"]["added"] == 4
