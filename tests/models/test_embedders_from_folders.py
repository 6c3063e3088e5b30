"""An embedder is a folder: what its files say, what has to be stated, and what it is known by."""

import json
import shutil

import numpy as np
import pytest
from tokenizers import Tokenizer

from model_folders import POOLING, WORDS, table_of, write_model, write_static, write_tokenizer
from packwise.errors import ModelError, ModelMissing, SettingError, UsageError
from packwise.models.embedder import find, load_embedder
from packwise.models.naming import parse_embedder_name
from packwise.settings import Settings

SETTINGS = Settings.load(env={}, threads=1)


def described(folder, options=""):
    return find(parse_embedder_name(f"{folder}{options}"), SETTINGS).model


def rows_of(folder, text, dim=8):
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    return table_of(dim)[tokenizer.encode(text).ids]


def unit(vector):
    return vector / np.linalg.norm(vector)


@pytest.mark.parametrize(
    ("said", "pooling", "expected"),
    [
        ("pooling_mode_cls_token", "cls", lambda rows: rows[0]),
        ("pooling_mode_mean_tokens", "mean", lambda rows: rows.mean(axis=0)),
        ("pooling_mode_max_tokens", "max", lambda rows: rows.max(axis=0)),
        ("pooling_mode_lasttoken", "last", lambda rows: rows[-1]),
    ],
)
def test_the_pooling_of_sentence_transformers_is_followed(tmp_path, said, pooling, expected):
    folder = write_model(tmp_path / "m", **{"1_Pooling__config": {said: True}})
    assert described(folder).pooling == pooling
    vector = load_embedder(folder, SETTINGS).embed_query("tea pots")
    np.testing.assert_allclose(vector, unit(expected(rows_of(folder, "tea pots"))), atol=1e-6)


def test_the_folder_of_the_pooling_is_the_one_that_modules_name(tmp_path):
    modules = [
        {"idx": 0, "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "path": "pool", "type": "sentence_transformers.models.Pooling"},
    ]
    pooled = {"pool__config": {"pooling_mode_cls_token": True}}
    assert described(write_model(tmp_path / "m", modules=modules, **pooled)).pooling == "cls"


def test_a_graph_that_pools_itself_needs_no_pooling(tmp_path):
    folder = write_model(tmp_path / "m", output="sentence_embedding")
    expected = unit(rows_of(folder, "a key").mean(axis=0))
    vector = load_embedder(folder, SETTINGS).embed_query("a key")
    np.testing.assert_allclose(vector, expected, atol=1e-6)


def test_a_layer_after_pooling_is_used_only_where_the_graph_has_it(tmp_path):
    modules = [{"path": "2_Dense", "type": "sentence_transformers.models.Dense"}]
    files = {"modules": modules, "1_Pooling__config": POOLING}
    with pytest.raises(ModelError, match="does not say how its token vectors become one"):
        load_embedder(write_model(tmp_path / "tokens", **files), SETTINGS)
    whole = write_model(tmp_path / "whole", output="sentence_embedding", **files)
    assert load_embedder(whole, SETTINGS).dim == 8


def test_a_model_that_does_not_say_its_pooling_has_to_be_told(tmp_path):
    folder = write_model(tmp_path / "plain")
    with pytest.raises(ModelError) as caught:
        load_embedder(folder, SETTINGS)
    assert str(caught.value).count("\n") == 0
    assert f"'{folder}?pooling=mean' or cls" in str(caught.value)
    assert load_embedder(f"{folder}?pooling=mean", SETTINGS).dim == 8


def test_a_pooling_that_packwise_does_not_know_is_refused(tmp_path):
    said = {"pooling_mode_weightedmean_tokens": True}
    folder = write_model(tmp_path / "m", **{"1_Pooling__config": said})
    with pytest.raises(ModelError, match=r"pools by pooling_mode_weightedmean_tokens.*\?pooling="):
        described(folder)


@pytest.mark.parametrize(
    ("files", "window"),
    [
        ({"sentence_bert_config": {"max_seq_length": 128}}, 128),
        ({"config": {"max_position_embeddings": 384}}, 384),
        ({"config": {"max_position_embeddings": 514, "model_type": "xlm-roberta"}}, 512),
        ({"tokenizer_config": {"model_max_length": 256}}, 256),
        ({"tokenizer_config": {"model_max_length": 10**30}}, 512),
        (
            {
                "config": {"max_position_embeddings": 512},
                "tokenizer_config": {"model_max_length": 8192},
            },
            512,
        ),
        ({}, 512),
    ],
)
def test_the_window_is_what_the_files_say(tmp_path, files, window):
    assert described(write_model(tmp_path / "m", **files)).window == window


def test_a_text_is_cut_at_the_window_and_keeps_its_last_token(tmp_path):
    files = {"sentence_bert_config": {"max_seq_length": 6}, "1_Pooling__config": POOLING}
    folder = write_model(tmp_path / "m", **files)
    vector = load_embedder(folder, SETTINGS).embed_query("tea " * 50)
    expected = unit(rows_of(folder, "tea tea tea tea").mean(axis=0))
    np.testing.assert_allclose(vector, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("prompts", "asked", "stored"),
    [
        ({"query": "query: ", "document": "search: "}, "query: ", "search: "),
        ({"query": "query: ", "passage": "passage: "}, "query: ", "passage: "),
        ({"query": "", "document": ""}, "", ""),
    ],
)
def test_prompts_are_put_before_questions_and_passages(tmp_path, prompts, asked, stored):
    files = {
        "config_sentence_transformers": {"prompts": prompts, "default_prompt_name": None},
        "1_Pooling__config": POOLING,
    }
    folder = write_model(tmp_path / "m", **files)
    model = described(folder)
    assert (model.query_prefix, model.passage_prefix) == (asked, stored)
    embedder = load_embedder(folder, SETTINGS)
    for vector, text in (
        (embedder.embed_query("key"), f"{asked}key"),
        (embedder.embed_passages(["key"])[0], f"{stored}key"),
    ):
        np.testing.assert_allclose(vector, unit(rows_of(folder, text).mean(axis=0)), atol=1e-6)


def test_the_default_prompt_is_used_for_both(tmp_path):
    said = {"prompts": {"search": "find: "}, "default_prompt_name": "search"}
    model = described(write_model(tmp_path / "m", config_sentence_transformers=said))
    assert (model.query_prefix, model.passage_prefix) == ("find: ", "find: ")


@pytest.mark.parametrize(
    ("name", "pooling", "asked", "stored"),
    [
        ("multilingual-e5-small", "mean", "query: ", "passage: "),
        ("nomic-embed-text-v1.5", "mean", "search_query: ", "search_document: "),
        ("bge-m3", "cls", "", ""),
        ("paraphrase-multilingual-MiniLM-L12-v2", "mean", "", ""),
    ],
)
def test_a_family_is_known_by_its_name(tmp_path, name, pooling, asked, stored):
    by_folder = described(write_model(tmp_path / name))
    by_config = described(write_model(tmp_path / "m", config={"_name_or_path": f"org/{name}"}))
    for model in (by_folder, by_config):
        assert (model.pooling, model.query_prefix, model.passage_prefix) == (pooling, asked, stored)


def test_what_is_stated_wins_over_files_and_family(tmp_path):
    files = {
        "1_Pooling__config": POOLING,
        "sentence_bert_config": {"max_seq_length": 128},
        "config_sentence_transformers": {"prompts": {"query": "query: "}},
    }
    folder = write_model(tmp_path / "e5-small", **files)
    options = "?pooling=cls&window=64&query_prefix=ask:%20&passage_prefix="
    model = described(folder, options)
    assert (model.pooling, model.window) == ("cls", 64)
    assert (model.query_prefix, model.passage_prefix) == ("ask: ", "")


@pytest.mark.parametrize("dim", [384, 768, 1024])
def test_the_dimension_is_that_of_the_vectors(tmp_path, dim):
    folder = write_model(tmp_path / "m", dim, **{"1_Pooling__config": POOLING})
    embedder = load_embedder(folder, SETTINGS)
    assert embedder.dim == dim
    assert embedder.embed_passages(["a", "b"]).shape == (2, dim)
    short = load_embedder(f"{folder}?dim=100", SETTINGS)
    assert short.embed_query("key").shape == (100,)
    assert np.linalg.norm(short.embed_query("key")) == pytest.approx(1, abs=1e-6)
    assert short.version != embedder.version


def test_more_dimensions_than_the_model_has_are_refused(tmp_path):
    folder = write_model(tmp_path / "m", **{"1_Pooling__config": POOLING})
    with pytest.raises(ModelError, match="makes vectors of 8 numbers, not 9"):
        load_embedder(f"{folder}?dim=9", SETTINGS)


def test_8_bit_weights_come_first_unless_a_file_is_named(tmp_path):
    folder = write_model(tmp_path / "m", **{"1_Pooling__config": POOLING})
    write_model(folder, 16, weights="onnx/model_quantized.onnx")
    assert load_embedder(folder, SETTINGS).dim == 16
    assert load_embedder(f"{folder}?file=onnx/model.onnx", SETTINGS).dim == 8
    with pytest.raises(ModelMissing, match=r"has no onnx/none\.onnx"):
        load_embedder(f"{folder}?file=onnx/none.onnx", SETTINGS)


def test_an_unknown_scale_is_not_made_up(tmp_path, minilm):
    folder = write_model(tmp_path / "m", **{"1_Pooling__config": POOLING})
    assert load_embedder(folder, SETTINGS).similarity(0.9) is None
    assert minilm.similarity(0.9) == 0.9


def test_a_model_of_the_table_is_known_by_its_bytes(tmp_path, minilm):
    found = find(parse_embedder_name("all-MiniLM-L6-v2"), SETTINGS)
    shutil.copytree(found.folder, tmp_path / "copy")
    copy = load_embedder(tmp_path / "copy", SETTINGS)
    assert copy.name == str(tmp_path / "copy")
    assert copy.version == minilm.version
    assert copy.similarity(0.4) == 0.4
    other = load_embedder("all-MiniLM-L6-v2?pooling=cls", SETTINGS)
    assert other.name == "all-MiniLM-L6-v2?pooling=cls"
    assert other.version != minilm.version
    assert other.similarity(0.4) is None


def test_the_version_follows_the_bytes_and_the_use_but_not_the_place(tmp_path):
    files = {"1_Pooling__config": POOLING}
    folder = write_model(tmp_path / "m", **files)
    first = load_embedder(folder, SETTINGS)
    shutil.copytree(folder, tmp_path / "there" / "m")
    assert load_embedder(tmp_path / "there" / "m", SETTINGS).version == first.version
    assert load_embedder(f"{folder}?window=99", SETTINGS).version != first.version
    with (folder / "onnx" / "model.onnx").open("r+b") as file:
        file.seek(-200, 2)
        file.write(b"\x00\x00")
    assert load_embedder(folder, SETTINGS).version != first.version
    write_tokenizer(tmp_path / "there" / "m" / "tokenizer.json", [*WORDS, "more"])
    assert load_embedder(tmp_path / "there" / "m", SETTINGS).version != first.version


def test_weights_beside_the_graph_are_part_of_the_version(tmp_path):
    folder = write_model(tmp_path / "m", **{"1_Pooling__config": POOLING})
    before = load_embedder(folder, SETTINGS).version
    (folder / "onnx" / "model.onnx_data").write_bytes(b"weights")
    assert load_embedder(folder, SETTINGS).version != before


@pytest.mark.parametrize("place", ["", "0_StaticEmbedding/"])
def test_a_static_embedder_of_sentence_transformers_is_read(tmp_path, place):
    folder = tmp_path / "static"
    write_tokenizer(folder / place / "tokenizer.json")
    write_static(folder / place / "model.safetensors", "embedding.weight")
    kind = "sentence_transformers.models.StaticEmbedding"
    modules = [{"idx": 0, "path": place.rstrip("/"), "type": kind}]
    (folder / "modules.json").write_text(json.dumps(modules))
    embedder = load_embedder(folder, SETTINGS)
    expected = unit(table_of(8)[[WORDS.index("tea"), WORDS.index("pot")]].mean(axis=0))
    np.testing.assert_allclose(embedder.embed_query("tea pot"), expected, atol=1e-6)


def test_weights_and_shared_rows_of_model2vec_are_applied(tmp_path):
    write_tokenizer(tmp_path / "tokenizer.json")
    (tmp_path / "config.json").write_text('{"model_type": "model2vec"}')
    mapping = np.arange(len(WORDS), dtype="<i8")[::-1].copy()
    weights = np.linspace(1, 2, len(WORDS)).astype("<f4")
    write_static(tmp_path / "model.safetensors", mapping=mapping, weights=weights)
    ids = [WORDS.index("tea"), WORDS.index("pot")]
    expected = unit((table_of(8)[mapping[ids]] * weights[ids][:, None]).mean(axis=0))
    vector = load_embedder(tmp_path, SETTINGS).embed_query("tea pot")
    np.testing.assert_allclose(vector, expected, atol=1e-6)


def test_inputs_that_no_text_has_are_refused(tmp_path):
    inputs = ("input_ids", "past_key_values.0.key")
    folder = write_model(tmp_path / "m", inputs=inputs, **{"1_Pooling__config": POOLING})
    with pytest.raises(ModelError, match=r"asks for past_key_values\.0\.key"):
        load_embedder(folder, SETTINGS)


@pytest.mark.parametrize("lost", ["tokenizer.json", "onnx/model.onnx"])
def test_a_file_that_is_missing_is_named(tmp_path, lost):
    folder = write_model(tmp_path / "m")
    (folder / lost).unlink()
    with pytest.raises(ModelMissing) as caught:
        load_embedder(folder, SETTINGS)
    assert lost in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_broken_configuration_is_an_error_and_not_a_guess(tmp_path):
    folder = write_model(tmp_path / "m")
    (folder / "config.json").write_text("{")
    with pytest.raises(ModelError, match=r"config\.json is not JSON"):
        load_embedder(folder, SETTINGS)


def test_a_graph_that_is_not_one_is_an_error(tmp_path):
    folder = write_model(tmp_path / "m", **{"1_Pooling__config": POOLING})
    (folder / "onnx" / "model.onnx").write_bytes(b"not a graph")
    with pytest.raises(ModelError, match="onnxruntime cannot load"):
        load_embedder(folder, SETTINGS)


def test_a_folder_below_packwise_models_is_found_by_its_name(tmp_path):
    write_model(tmp_path / "models" / "org" / "mine", **{"1_Pooling__config": POOLING})
    write_model(tmp_path / "models" / "short", **{"1_Pooling__config": POOLING})
    settings = SETTINGS.override(models_folder=str(tmp_path / "models"))
    assert load_embedder("org/mine", settings).name == "org/mine"
    assert load_embedder("short", settings).name == "short"


@pytest.mark.parametrize("name", ["/nowhere/at/all", "./nowhere", "~/nowhere"])
def test_a_folder_that_is_not_there_is_a_one_line_error(name):
    with pytest.raises(ModelMissing, match="is not there -> name its folder in PACKWISE_EMBEDDER"):
        load_embedder(name, SETTINGS)


def test_a_hub_name_that_is_not_here_names_the_download():
    with pytest.raises(ModelMissing, match="packwise models get intfloat/multilingual-e5-small"):
        load_embedder("intfloat/multilingual-e5-small", SETTINGS)


@pytest.mark.parametrize(
    "name",
    [
        "bge-small-en-v1.5",
        "/models/e5?window=64",
        "org/name?pooling=cls&query_prefix=query%3A%20&passage_prefix=passage%3A%20",
        "openai:nomic-embed-text:latest@http://127.0.0.1:11434/v1?window=2048",
        "org/name?passage_prefix=",
    ],
)
def test_a_name_is_the_same_after_parsing(name):
    assert str(parse_embedder_name(name)) == name


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("m?poling=cls", "an embedder has no option 'poling'"),
        ("m?pooling=median", "pooling is one of cls, mean, max, last, none, not 'median'"),
        ("m?window=many", "window takes a whole number of 1 or more, not 'many'"),
        ("m?dim=0", "dim takes a whole number of 1 or more, not '0'"),
    ],
)
def test_an_option_that_cannot_be_is_a_usage_error(name, line):
    with pytest.raises(UsageError, match=line):
        parse_embedder_name(name)


def test_a_server_without_an_address_is_a_setting_error():
    with pytest.raises(SettingError, match="openai:MODEL@http://HOST:PORT/v1"):
        load_embedder("openai:nomic-embed-text", SETTINGS)
