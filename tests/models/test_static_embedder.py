import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from packwise.errors import ModelError
from packwise.models.embedder import StaticEmbedder
from packwise.models.locate import LocatedModel
from packwise.models.table import Carrier, Hub, ModelBuild, ModelFile, ModelSpec, find_model
from packwise.packs.workers import LocalWorkers

WORDS = ["[PAD]", "[UNK]", "tea", "coffee", "pot", "##s"]
TABLE = np.random.default_rng(5).normal(size=(len(WORDS), 8)).astype("<f4")


def _write(folder: Path, table=TABLE, dtype: str = "F32", words=WORDS) -> LocatedModel:
    header = json.dumps(
        {"embeddings": {"dtype": dtype, "shape": table.shape, "data_offsets": [0, table.nbytes]}}
    ).encode()
    weights = len(header).to_bytes(8, "little") + header + table.tobytes()
    (folder / "model.safetensors").write_bytes(weights)
    tokenizer = Tokenizer(WordPiece({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.normalizer = BertNormalizer()
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.save(str(folder / "tokenizer.json"))
    digests = [
        hashlib.sha256((folder / name).read_bytes()).hexdigest()
        for name in ("model.safetensors", "tokenizer.json")
    ]
    build = ModelBuild(
        ModelFile("model.safetensors", digests[0]), ModelFile("tokenizer.json", digests[1])
    )
    model = ModelSpec(
        name="tiny-static",
        aliases=(),
        kind="embedder",
        pooling="static",
        dim=8,
        window=6,
        license="MIT",
        carrier=Carrier("none", "none", "none", build),
        hub=Hub("none", "main", build),
    )
    return LocatedModel(model, build, folder, "folder")


@pytest.fixture
def embedder(tmp_path):
    return StaticEmbedder(_write(tmp_path))


def _unit(vector):
    return vector / np.linalg.norm(vector)


def test_a_vector_is_the_unit_mean_of_its_tokens(embedder):
    expected = _unit((TABLE[2] + TABLE[4] + TABLE[5]) / 3)
    np.testing.assert_allclose(embedder.embed_query("Tea pots"), expected, atol=1e-6)


def test_unknown_words_do_not_count_among_known_ones(embedder):
    expected = embedder.embed_query("coffee")
    np.testing.assert_allclose(embedder.embed_query("coffee zanzibar"), expected, atol=1e-6)


@pytest.mark.parametrize("text", ["", "  ", "zanzibar", "漢"])
def test_a_text_of_no_known_word_still_has_a_vector_of_length_one(embedder, text):
    np.testing.assert_allclose(embedder.embed_query(text), _unit(TABLE[1]), atol=1e-6)


def test_a_text_has_the_same_vector_alone_as_among_others(embedder):
    texts = ["tea", "coffee pot", "", "pots pots"]
    steps: list[int] = []
    together = embedder.embed_passages(texts, steps.append)
    assert together.shape == (4, 8)
    assert together.dtype == np.float32
    assert sum(steps) == 4
    for text, vector in zip(texts, together, strict=True):
        assert (embedder.embed_passages([text])[0] == vector).all()


def test_what_lies_beyond_the_window_is_not_seen(embedder):
    head = "tea " * 6
    assert (embedder.embed_query(head) == embedder.embed_query(head + "coffee " * 9000)).all()
    assert len(embedder.token_spans("tea " * 40)) == 40


def test_the_version_changes_with_the_bytes(tmp_path, embedder):
    (tmp_path / "other").mkdir()
    other = StaticEmbedder(_write(tmp_path / "other", TABLE + 1))
    (tmp_path / "words").mkdir()
    words = StaticEmbedder(_write(tmp_path / "words", words=[*WORDS[:-1], "cup"]))
    assert len({embedder.version, other.version, words.version}) == 3
    assert embedder.version.startswith("tiny-static+")


def test_numbers_of_another_kind_are_refused(tmp_path):
    with pytest.raises(ModelError, match="contains numbers of the kind I8"):
        StaticEmbedder(_write(tmp_path, dtype="I8"))


def test_a_table_in_half_precision_is_read(tmp_path, embedder):
    (tmp_path / "half").mkdir()
    half = StaticEmbedder(_write(tmp_path / "half", TABLE.astype("<f2"), "F16"))
    np.testing.assert_allclose(
        half.embed_query("tea pot"), embedder.embed_query("tea pot"), atol=1e-3
    )


def test_vectors_of_another_width_are_refused(tmp_path):
    with pytest.raises(ModelError, match="makes vectors of 4 numbers, not 8"):
        StaticEmbedder(_write(tmp_path, TABLE[:, :4].copy()))


def test_the_table_has_a_static_model():
    assert find_model("minishlab/potion-base-8M").pooling == "static"


def test_texts_are_reported_some_hundreds_at_a_time(tmp_path):
    embedder = StaticEmbedder(_write(tmp_path))
    reported = []
    texts = [("tea", "coffee", "tea pot", "pots")[n % 4] for n in range(600)]
    vectors = embedder.embed_passages(texts, reported.append)
    assert sum(reported) == 600
    assert reported[0] >= LocalWorkers.window, "a build's window is not interrupted"
    assert len(reported) > 1
    assert all((vectors[n] == embedder.embed_query(texts[n])).all() for n in range(600))
