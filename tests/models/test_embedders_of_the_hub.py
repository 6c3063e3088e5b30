"""Any embedder of the hub: which files are fetched, and that nothing is fetched unasked."""

import hashlib
import json
import sys

import numpy as np
import pytest

from hub_server import running_hub
from model_folders import POOLING, write_model, write_static
from packwise.cli import main
from packwise.errors import ModelCorrupt, ModelError, ModelMissing
from packwise.models.embedder import load_embedder
from packwise.models.folder import get_embedder
from packwise.models.naming import parse_embedder_name
from packwise.settings import Settings

SETTINGS = Settings.load(env={}, threads=1)
NAME = "org/tiny-model"


def served(folder):
    """The folder as a hub has it: a list of its files, and each of them."""
    paths = sorted(p for p in folder.rglob("*") if p.is_file())
    files = {str(p.relative_to(folder)): p.read_bytes() for p in paths}
    siblings = [{"rfilename": name} for name in files]
    for entry in siblings:
        if entry["rfilename"].endswith((".onnx", ".safetensors")):
            digest = hashlib.sha256(files[entry["rfilename"]]).hexdigest()
            entry["lfs"] = {"sha256": digest, "size": 1}
    listing = {f"/api/models/{NAME}?blobs=true": json.dumps({"siblings": siblings}).encode()}
    return listing | {f"/{NAME}/resolve/main/{name}": content for name, content in files.items()}


@pytest.fixture
def hub(tmp_path, monkeypatch):
    folder = write_model(
        tmp_path / "hub",
        weights="onnx/model_quantized.onnx",
        config={"max_position_embeddings": 64},
        **{"1_Pooling__config": POOLING},
    )
    (folder / "pytorch_model.bin").write_bytes(b"not fetched")
    (folder / "onnx" / "model.onnx").write_bytes(b"not fetched either")
    with running_hub(served(folder)) as (state, url):
        monkeypatch.setenv("HF_ENDPOINT", url)
        yield state


def fetched(hub):
    return {path.partition("/resolve/main/")[2] for path, _ in hub.requests if "/resolve/" in path}


def test_get_fetches_what_an_embedder_needs_and_no_more(hub, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["packwise", "models", "get", NAME])
    main()
    assert f"{NAME} is in" in capsys.readouterr().out
    assert fetched(hub) == {
        *("config.json", "1_Pooling/config.json", "tokenizer.json", "onnx/model_quantized.onnx"),
    }
    asked = len(hub.requests)
    embedder = load_embedder(NAME, SETTINGS)
    assert (embedder.name, embedder.window, embedder.dim) == (NAME, 64, 8)
    assert len(hub.requests) == asked


def test_the_network_is_used_only_where_it_is_allowed(hub):
    with pytest.raises(ModelMissing, match=f"packwise models get {NAME}"):
        load_embedder(NAME, SETTINGS)
    assert hub.requests == []
    assert load_embedder(NAME, SETTINGS.override(allow_hub=True)).dim == 8


def test_options_of_the_name_apply_to_what_was_fetched(hub):
    get_embedder(parse_embedder_name(NAME))
    embedder = load_embedder(f"{NAME}?pooling=cls", SETTINGS)
    assert embedder.name == f"{NAME}?pooling=cls"
    mean = load_embedder(NAME, SETTINGS)
    assert not np.allclose(embedder.embed_query("key"), mean.embed_query("key"))


def test_other_bytes_than_the_hub_lists_are_refused(hub):
    path = next(path for path in hub.files if path.endswith("quantized.onnx"))
    hub.files[path] = b"X" + hub.files[path][1:]
    with pytest.raises(ModelCorrupt, match="nothing was kept"):
        get_embedder(parse_embedder_name(NAME))
    with pytest.raises(ModelMissing):
        load_embedder(NAME, SETTINGS)


def test_a_model_without_a_graph_leaves_nothing_behind(hub, tmp_path):
    listing = f"/api/models/{NAME}?blobs=true"
    siblings = [{"rfilename": "config.json"}, {"rfilename": "pytorch_model.bin"}]
    hub.files[listing] = json.dumps({"siblings": siblings}).encode()
    with pytest.raises(ModelError, match="has no ONNX file with a tokenizer"):
        get_embedder(parse_embedder_name(NAME))
    assert list((tmp_path / "cache" / "models").iterdir()) == []


@pytest.mark.parametrize("listing", [b"<html>", b"{}", b'{"siblings": [{"rfilename": "../../x"}]}'])
def test_a_listing_that_is_not_one_is_an_error(hub, listing):
    hub.files[f"/api/models/{NAME}?blobs=true"] = listing
    with pytest.raises(ModelError, match="does not list the files"):
        get_embedder(parse_embedder_name(NAME))


def test_a_name_the_hub_does_not_know_is_one_line(hub):
    with pytest.raises(ModelError, match="answers 404 Not Found"):
        get_embedder(parse_embedder_name("org/unknown"))


def test_a_static_embedder_is_fetched_with_its_table(tmp_path, monkeypatch):
    folder = write_model(tmp_path / "hub", config={"model_type": "model2vec"})
    write_static(folder / "model.safetensors")
    with running_hub(served(folder)) as (state, url):
        monkeypatch.setenv("HF_ENDPOINT", url)
        found = get_embedder(parse_embedder_name(NAME))
        assert fetched(state) == {"config.json", "tokenizer.json", "model.safetensors"}
    assert found.model.pooling == "static"
    assert load_embedder(NAME, SETTINGS).dim == 8


def test_a_model_in_the_local_hub_cache_is_found(tmp_path, monkeypatch):
    repository = tmp_path / "hf" / "hub" / "models--org--tiny-model"
    for revision, dim in (("aaa", 16), ("bbb", 8)):
        write_model(repository / "snapshots" / revision, dim, **{"1_Pooling__config": POOLING})
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("bbb\n")
    assert load_embedder(NAME, SETTINGS).dim == 8
