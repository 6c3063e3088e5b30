"""Vectors of the usual lengths work in every store, from the build to the answer."""

import pytest

from model_folders import POOLING, write_model
from packwise.errors import EmbedderMismatch
from packwise.library import open_library
from packwise.packs.build import build_pack
from packwise.packs.copying import copy_store
from packwise.settings import Settings
from tests_world import write_notes

QUESTION = "How do I rotate the signing key?"


@pytest.fixture(scope="module", params=[384, 768, 1024])
def built(request, tmp_path_factory):
    """A pack whose embedder makes vectors of that many numbers, and its settings."""
    folder = tmp_path_factory.mktemp(f"dim-{request.param}")
    model = write_model(folder / "model", request.param, **{"1_Pooling__config": POOLING})
    settings = Settings.load(env={}, embedder=str(model), threads=1)
    build_pack(write_notes(folder / "notes"), folder / "pack", settings=settings)
    return folder / "pack", request.param, settings


def test_a_store_of_any_dimension_answers_as_the_pack_does(built, place):
    pack, dim, settings = built
    copy_store(str(pack), place.location, settings=settings)
    with (
        open_library(pack, settings=settings) as before,
        open_library(place.location, settings=settings) as after,
    ):
        assert after.info().dim == dim == after.embedder.dim
        expected, found = before.search(QUESTION, 5), after.search(QUESTION, 5)
        assert [hit.passage.id for hit in found] == [hit.passage.id for hit in expected]
        for hit, other in zip(found, expected, strict=True):
            assert hit.scores.vector == pytest.approx(other.scores.vector, abs=2e-3)
        assert found[0].passage.document == "guides/keys.md"
        assert after.ask(QUESTION, synthesis=False, threshold=0.1).sources


def test_vectors_of_another_length_do_not_enter_a_store(built, place, tmp_path):
    pack, dim, settings = built
    copy_store(str(pack), place.location, settings=settings)
    other = write_model(tmp_path / "other", dim // 2, **{"1_Pooling__config": POOLING})
    with pytest.raises(EmbedderMismatch):
        build_pack(write_notes(tmp_path / "n"), place.location, settings=settings, embedder=other)
