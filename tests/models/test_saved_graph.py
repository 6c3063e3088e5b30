"""Optimised graphs are kept, give the same vectors, and are trusted by their bytes alone."""

import shutil
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from packwise.models import saved_graph
from packwise.models.cross_encoder import OnnxCrossEncoder
from packwise.models.locate import obtain
from packwise.models.onnx import OnnxSession
from packwise.models.table import DEFAULT_CROSS_ENCODER, find_model
from packwise.settings import Settings

IDS = [101, 2054, 2003, 1037, 3145, 102]


@pytest.fixture(scope="module")
def weights():
    settings = Settings.load()
    return obtain(find_model(settings.embedder), settings).weights


@pytest.fixture
def graphs(tmp_path, monkeypatch):
    """Where graphs are kept."""
    monkeypatch.setenv("PACKWISE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "graphs"


def test_the_second_process_reads_the_optimised_graph_and_gets_the_same_numbers(
    weights, graphs, monkeypatch
):
    plain = onnxruntime.InferenceSession(str(weights), providers=["CPUExecutionProvider"])
    row = np.array([IDS])
    feed = {"input_ids": row, "attention_mask": np.ones_like(row)}
    if len(plain.get_inputs()) == 3:
        feed["token_type_ids"] = np.zeros_like(row)
    expected = plain.run(None, feed)[0][0]
    first = OnnxSession(weights)
    (kept,) = graphs.iterdir()
    read = []
    really = saved_graph._kept
    monkeypatch.setattr(
        saved_graph, "_kept", lambda *given: read.append(really(*given)) or read[-1]
    )
    second = OnnxSession(weights)
    assert read == [kept]
    for session in (first, second):
        assert np.array_equal(session.run(IDS), expected)


@pytest.mark.parametrize("name", ["graph.onnx", "weights.bin"])
def test_a_changed_bit_in_a_kept_graph_is_found_and_the_graph_made_again(weights, graphs, name):
    before = OnnxSession(weights).run(IDS)
    (kept,) = graphs.iterdir()
    content = bytearray((kept / name).read_bytes())
    content[len(content) // 2] ^= 1
    (kept / name).write_bytes(content)
    assert np.array_equal(OnnxSession(weights).run(IDS), before)
    (again,) = graphs.iterdir()
    assert (again / name).read_bytes() != bytes(content)


def test_a_kept_graph_without_its_weights_is_made_again(weights, graphs):
    before = OnnxSession(weights).run(IDS)
    (kept,) = graphs.iterdir()
    (kept / "weights.bin").unlink()
    assert np.array_equal(OnnxSession(weights).run(IDS), before)
    assert (kept / "weights.bin").is_file()


def test_the_weights_of_a_kept_graph_are_mapped_and_not_copied(weights, graphs):
    OnnxSession(weights)
    (kept,) = graphs.iterdir()
    files = {file.name: file.stat().st_size for file in kept.iterdir()}
    assert sorted(files) == ["graph.onnx", "weights.bin"]
    assert files["graph.onnx"] < files["weights.bin"] / 50


def test_without_room_for_graphs_a_model_works_all_the_same(weights, graphs):
    graphs.parent.mkdir(parents=True)
    graphs.write_text("a file, where a folder should be")
    assert OnnxSession(weights).run(IDS).shape[0] == len(IDS)


def test_small_models_are_not_kept(graphs, tmp_path, weights, monkeypatch):
    monkeypatch.setattr(saved_graph, "_SMALLEST", weights.stat().st_size + 1)
    copied = Path(shutil.copy(weights, tmp_path / "model.onnx"))
    assert OnnxSession(copied).run(IDS).shape[0] == len(IDS)
    assert not graphs.exists()


def test_an_optimisation_can_be_left_out_and_is_kept_apart(graphs):
    cross_encoder = obtain(find_model(DEFAULT_CROSS_ENCODER, "cross_encoder"), Settings.load())
    fused = OnnxSession(cross_encoder.weights)
    unfused = OnnxSession(cross_encoder.weights, unfused=("SkipLayerNormFusion",))
    steps = sorted(
        b"SkipLayerNormalization" in kept.read_bytes() for kept in graphs.glob("*/graph.onnx")
    )
    assert steps == [False, True]
    assert unfused.run(IDS) == pytest.approx(fused.run(IDS), abs=0.1)


def test_the_cross_encoder_adds_and_normalises_in_two_steps(graphs):
    """In one step onnxruntime takes ten times as long."""
    found = obtain(find_model(DEFAULT_CROSS_ENCODER, "cross_encoder"), Settings.load())
    OnnxCrossEncoder(found, threads=1)
    (kept,) = graphs.glob("*/graph.onnx")
    graph = kept.read_bytes()
    assert b"SkipLayerNormalization" not in graph
    assert b"LayerNormalization" in graph
