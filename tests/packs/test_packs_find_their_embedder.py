"""A pack remembers its embedder: where it was, and exactly which one it was."""

import shutil
import sqlite3

import pytest

from model_folders import POOLING, write_model
from packwise.errors import EmbedderMismatch, ModelMissing
from packwise.library import open_library
from packwise.packs.build import build_pack
from packwise.packs.copying import copy_store
from packwise.packs.exporting import export_pack, import_pack
from packwise.settings import Settings
from tests_world import write_notes

SETTINGS = Settings.load(env={}, threads=1)
QUESTION = "How do I rotate the signing key?"
FILES = {"1_Pooling__config": POOLING}


@pytest.fixture
def model(tmp_path):
    return write_model(tmp_path / "models" / "mine", 768, **FILES)


@pytest.fixture
def pack(tmp_path, model):
    notes = write_notes(tmp_path / "notes")
    build_pack([notes], tmp_path / "pack", settings=SETTINGS, embedder=str(model))
    return tmp_path / "pack"


def best(pack, settings=SETTINGS):
    with open_library(pack, settings=settings) as library:
        return library.search(QUESTION, 1).hits[0].passage.document


def test_a_pack_is_searched_with_the_folder_it_was_built_with(pack, model):
    with open_library(pack, settings=SETTINGS) as library:
        assert (library.info().embedder, library.info().dim) == (str(model), 768)
        assert library.ask(QUESTION, synthesis=False, threshold=0.1).sources
    assert best(pack).endswith("keys.md")


def test_a_relative_path_is_remembered_in_full(tmp_path, model, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_notes(tmp_path / "notes")
    build_pack(["notes"], "p", settings=SETTINGS, embedder="models/mine")
    monkeypatch.chdir("/")
    assert best(tmp_path / "p").endswith("keys.md")


def test_options_are_remembered(tmp_path, model):
    named = f"{model}?query_prefix=search:%20&window=64"
    build_pack([write_notes(tmp_path / "notes")], tmp_path / "p", settings=SETTINGS, embedder=named)
    with open_library(tmp_path / "p", settings=SETTINGS) as library:
        assert library.embedder.window == 64
        assert library.info().embedder == f"{model}?query_prefix=search%3A%20&window=64"


def test_an_embedder_that_is_gone_is_one_line_with_what_to_do(pack, model):
    shutil.rmtree(model)
    with pytest.raises(ModelMissing) as caught:
        best(pack)
    assert str(caught.value) == (
        f"{pack}: the embedder {model} is not there -> name its folder in PACKWISE_EMBEDDER,"
        " or put it into the folder PACKWISE_MODELS"
    )


def test_an_embedder_that_moved_is_found_where_the_settings_say(pack, model, tmp_path):
    elsewhere = tmp_path / "elsewhere" / "mine"
    shutil.move(model, elsewhere)
    for variable, value in (
        ("PACKWISE_EMBEDDER", elsewhere),
        ("PACKWISE_MODELS", elsewhere.parent),
    ):
        assert best(pack, Settings.load(env={variable: str(value)})).endswith("keys.md")


def test_another_model_in_its_place_is_refused(pack, model):
    shutil.rmtree(model)
    write_model(model, 768, weights="model.onnx", output="hidden", **FILES)
    with pytest.raises(EmbedderMismatch, match="holds vectors of embedder mine"):
        best(pack)


def test_a_build_with_another_embedder_has_to_be_asked_for(pack, tmp_path):
    other = str(write_model(tmp_path / "other", 384, **FILES))
    notes = tmp_path / "notes"
    with pytest.raises(EmbedderMismatch, match="--reembed"):
        build_pack([notes], pack, settings=SETTINGS, embedder=other)
    build_pack([notes], pack, settings=SETTINGS, embedder=other, reembed=True)
    with open_library(pack, settings=SETTINGS) as library:
        assert (library.info().embedder, library.info().dim) == (other, 384)
    assert best(pack).endswith("keys.md")


def test_a_build_without_a_name_keeps_the_embedder(pack, model, tmp_path):
    (tmp_path / "notes" / "new.md").write_text("# Tea\n\nThe tea pot is in the kitchen.\n")
    build_pack([tmp_path / "notes"], pack, settings=SETTINGS)
    with open_library(pack, settings=SETTINGS) as library:
        assert library.info().embedder == str(model)


def test_a_copy_keeps_the_embedder_and_answers(pack, tmp_path):
    copy_store(str(pack), str(tmp_path / "copy"), settings=SETTINGS)
    assert best(tmp_path / "copy").endswith("keys.md")


def test_the_gate_of_an_unmeasured_embedder_reads_the_words(pack):
    with open_library(pack, settings=SETTINGS) as library:
        ranking = library.search(QUESTION)
        assert {hit.scores.similarity for hit in ranking.hits} == {None}
        assert ranking.hits[0].scores.vector is not None
        assert ranking.confidence > 0.5
        refused = library.ask("Which bond funds pay quarterly dividends?", synthesis=False)
        assert refused.query_type == "confidence_gated_fallback"


def test_an_imported_pack_of_768_dimensions_answers(pack, model, tmp_path):
    exported = tmp_path / "pack.db"
    export_pack(str(pack), exported)
    import_pack(str(exported), str(tmp_path / "imported"), embedder=str(model))
    with open_library(tmp_path / "imported", settings=SETTINGS) as library:
        assert (library.info().embedder, library.info().dim) == (str(model), 768)
        assert library.search(QUESTION)[0].scores.vector is not None
        assert "Signing keys" in library.ask(QUESTION, synthesis=False, threshold=0.1).sources


def rename_embedder(pack, name):
    (pack / "checksums.json").unlink()
    connection = sqlite3.connect(pack / "pack.sqlite", isolation_level=None)
    connection.execute("UPDATE embedders SET name = ?", (name,))
    connection.close()


@pytest.mark.parametrize("name", ["pack/mine", "{}/mine", "mine", "{}/../pack/mine"])
def test_a_model_that_came_with_a_pack_is_not_opened(pack, model, monkeypatch, name):
    shutil.copytree(model, pack / "mine")
    shutil.copytree(model, pack.parent / "mine")
    rename_embedder(pack, name.format(pack))
    monkeypatch.chdir(pack.parent)
    with (
        open_library(pack, settings=SETTINGS) as library,
        pytest.raises(ModelMissing, match="came with the store"),
    ):
        library.embedder  # noqa: B018 - it is loaded when it is asked for
    trusted = Settings.load(env={"PACKWISE_EMBEDDER": name.format(pack)}, threads=1)
    with open_library(pack, settings=trusted) as library:
        assert library.embedder.dim == 768


def test_a_name_of_an_embedder_that_no_file_can_have_is_one_line(pack):
    rename_embedder(pack, "a" * 70_000)
    with open_library(pack, settings=SETTINGS) as library, pytest.raises(ModelMissing) as raised:
        library.embedder  # noqa: B018
    assert len(str(raised.value)) < 1000
