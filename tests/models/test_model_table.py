import re
from itertools import pairwise

import numpy as np
import pytest

from packwise.errors import UsageError
from packwise.models.embedder import on_gate_scale
from packwise.models.table import MODELS, find_model
from packwise.settings import Settings


@pytest.mark.parametrize("model", MODELS, ids=lambda m: m.name)
def test_every_file_of_every_build_has_a_hash(model):
    for build in model.builds:
        for file in build.files:
            assert re.fullmatch(r"[0-9a-f]{64}", file.sha256)
            assert not file.path.startswith("/")
            assert ".." not in file.path


def test_names_and_aliases_are_unique_whatever_their_case():
    names = [n.lower() for m in MODELS for n in (m.name, *m.aliases)]
    assert len(names) == len(set(names))


def test_a_model_is_found_by_name_and_by_alias_in_any_case():
    for name in ("bge-small-en-v1.5", "BAAI/bge-small-en-v1.5", " baai/BGE-small-en-v1.5 "):
        assert find_model(name).name == "bge-small-en-v1.5"


def test_an_unknown_model_is_a_usage_error_that_lists_the_known_ones():
    with pytest.raises(UsageError, match=r"known: bge-small-en-v1\.5, all-MiniLM-L6-v2"):
        find_model("no-such-model", "embedder")


def test_a_cross_encoder_is_not_an_embedder():
    with pytest.raises(UsageError, match="no embedder is named"):
        find_model("ms-marco-MiniLM-L-12-v2", "embedder")


def test_the_default_settings_name_a_model_of_the_table():
    assert find_model(Settings.load(env={}).embedder, "embedder")


MEASURED = [m for m in MODELS if m.gate_map is not None]


def test_the_scale_of_these_models_was_measured():
    assert [m.name for m in MEASURED] == ["bge-small-en-v1.5", "all-MiniLM-L6-v2", "potion-base-8M"]
    assert on_gate_scale(0.9, find_model("e5-small-v2").gate_map) is None


@pytest.mark.parametrize("model", MEASURED, ids=lambda m: m.name)
def test_a_gate_map_rises_from_zero_to_one(model):
    values = [on_gate_scale(i / 200, model.gate_map) for i in range(201)]
    assert values[0] == 0.0
    assert values[-1] == 1.0
    assert all(a < b for a, b in pairwise(values))


@pytest.mark.parametrize("model", MEASURED, ids=lambda m: m.name)
def test_a_cosine_outside_its_range_stays_on_the_scale(model):
    assert on_gate_scale(-0.3, model.gate_map) == 0.0
    assert on_gate_scale(1.0000002, model.gate_map) == 1.0


def test_the_scale_is_minilms_own_cosine():
    knots = find_model("all-MiniLM-L6-v2").gate_map
    assert on_gate_scale(0.42, knots) == 0.42


def test_a_raw_half_of_bge_is_off_topic_on_the_scale():
    knots = find_model("bge-small-en-v1.5").gate_map
    assert on_gate_scale(0.5, knots) < 0.3
    assert on_gate_scale(0.68, knots) > 0.5


@pytest.mark.parametrize("knots", [((0.3, 0.1), (0.5, 0.5), (0.9, 0.95)), ((0.4, 0.6),)])
def test_a_cosine_between_knots_is_interpolated_as_by_numpy(knots):
    of_models = [model.gate_map for model in MODELS if model.gate_map]
    for places in (knots, *of_models):
        xs, ys = zip(*places, strict=True)
        for cosine in (*xs, *(i / 997 - 0.1 for i in range(1200))):
            expected = float(np.clip(np.interp(cosine, xs, ys), 0.0, 1.0))
            assert on_gate_scale(cosine, places) == pytest.approx(expected, abs=1e-15)
