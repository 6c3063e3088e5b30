"""A span reader that the user names finds the short answer, or one line says why it cannot."""

import pytest

from packwise.errors import ModelError, ModelMissing
from packwise.models.span_reader import OnnxSpanReader, load_span_reader
from packwise.settings import Settings
from tiny_span_reader import make_reader


def test_the_logits_are_those_of_the_tokens_of_the_text(tmp_path):
    text = "The  server listens on port 6379."
    (found,) = OnnxSpanReader(make_reader(tmp_path), "tiny").read("which port ?", [text])
    assert [text[a:b] for a, b in found.offsets] == [*text.split()[:-1], "6379", "."]
    assert found.start.tolist() == [-2, -2, -2, -2, 4, 3, -2]
    assert found.end.tolist() == [-2, -2, -2, -2, -2, 5, -2]
    assert found.null == 2.0


def test_a_long_text_is_cut_and_the_question_is_not(tmp_path):
    text = "the server listens " * 300 + "port 6379"
    (found,) = OnnxSpanReader(make_reader(tmp_path), "tiny").read("which port ?", [text])
    assert len(found.offsets) == 384 - 3 - 3


def test_texts_keep_their_order(tmp_path):
    texts = ["port 6379", "the server listens on the port", "the"]
    found = OnnxSpanReader(make_reader(tmp_path), "tiny", threads=2).read("port ?", texts)
    assert [len(logits.offsets) for logits in found] == [2, 6, 1]


def test_it_is_named_by_a_folder_or_a_name_in_the_hugging_face_cache(tmp_path, monkeypatch):
    assert load_span_reader(Settings()) is None
    folder = make_reader(tmp_path / "mine")
    assert load_span_reader(Settings(answer_reader=str(folder))).name == str(folder)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    cached = tmp_path / "hub" / "models--someone--reader" / "snapshots" / "abc"
    make_reader(cached, name="onnx/model.onnx")
    assert load_span_reader(Settings(answer_reader="someone/reader")).name == "someone/reader"


@pytest.mark.parametrize("there", [False, True])
def test_a_reader_that_is_not_there_is_one_line_with_what_to_do(tmp_path, monkeypatch, there):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    if there:
        (tmp_path / "empty").mkdir()
    with pytest.raises(ModelMissing, match="PACKWISE_ANSWER_READER") as caught:
        load_span_reader(Settings(answer_reader=str(tmp_path / "empty")))
    assert "\n" not in str(caught.value)


def test_a_model_that_marks_no_spans_is_refused(tmp_path):
    reader = OnnxSpanReader(make_reader(tmp_path, outputs=("logits",)), "tiny")
    with pytest.raises(ModelError, match="is not a span reader"):
        reader.read("which port ?", ["port 6379"])
