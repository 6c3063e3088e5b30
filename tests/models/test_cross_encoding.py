import threading
from dataclasses import replace

import numpy as np
import pytest

from packwise.errors import UsageError
from packwise.models.cross_encoder import OnnxCrossEncoder, load_cross_encoder
from packwise.models.locate import locate
from packwise.models.table import find_model
from packwise.settings import Settings

QUESTION = "Who gave Normandy its name?"
TEXTS = [
    "The Normans were the people who gave their name to Normandy, a region in France.",
    "A generator is a function that yields values one at a time.",
    "Normandy lies on the English Channel.",
    "",
    "word " * 2000,
]


@pytest.fixture(scope="module")
def scores(cross_encoder):
    return cross_encoder.score(QUESTION, TEXTS)


def test_scores_are_probabilities_and_the_answer_comes_first(scores):
    assert scores.dtype == np.float32
    assert scores.shape == (len(TEXTS),)
    assert ((scores >= 0) & (scores <= 1)).all()
    assert int(np.argmax(scores)) == 0
    assert scores[0] > 0.9
    assert scores[1] < 0.1


@pytest.mark.parametrize("i", range(len(TEXTS)))
def test_a_pair_has_the_same_score_alone_as_among_others_to_the_bit(cross_encoder, scores, i):
    assert cross_encoder.score(QUESTION, [TEXTS[i]])[0] == scores[i]


def test_no_texts_give_no_scores(cross_encoder):
    assert cross_encoder.score(QUESTION, []).shape == (0,)


def test_a_long_passage_does_not_push_the_question_out(cross_encoder):
    padded = TEXTS[0] + " " + "It was so for many years. " * 1000
    answer, other = cross_encoder.score(QUESTION, [padded, "It was so for many years. " * 1000])
    assert answer > 0.5 > other


def test_a_long_question_leaves_room_for_the_passage(cross_encoder):
    question = QUESTION + " Please tell me all about it." * 300
    answer, other = cross_encoder.score(question, [TEXTS[0], TEXTS[1]])
    assert answer > other


def test_scores_equal_a_plain_run_of_the_model(scores):
    import onnxruntime
    from tokenizers import Tokenizer

    found = locate(find_model("ms-marco-MiniLM-L-12-v2"), Settings.load(env={}))
    assert found is not None
    tokenizer = Tokenizer.from_file(str(found.tokenizer))
    tokenizer.no_padding()
    tokenizer.enable_truncation(512)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(found.weights), options)
    for text, score in zip(TEXTS, scores, strict=True):
        pair = tokenizer.encode(QUESTION, text)
        feed = {
            "input_ids": np.array([pair.ids]),
            "attention_mask": np.array([pair.attention_mask]),
            "token_type_ids": np.array([pair.type_ids]),
        }
        logit = float(session.run(None, feed)[0][0][0])
        assert score == pytest.approx(1 / (1 + np.exp(-logit)), abs=1e-4)


def test_one_cross_encoder_may_be_used_by_many_threads(cross_encoder, scores):
    results: list[bool] = []

    def work() -> None:
        results.append(bool((cross_encoder.score(QUESTION, TEXTS[:4]) == scores[:4]).all()))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 4


def test_it_is_loaded_once_and_an_embedder_is_not_one(cross_encoder):
    assert load_cross_encoder(Settings.load(env={}, threads=2)) is cross_encoder
    with pytest.raises(UsageError, match="no cross-encoder is named"):
        find_model("bge-small-en-v1.5", "cross_encoder")


def test_the_answer_is_marked_in_the_reading_that_scores_the_text(cross_encoder, scores):
    read = cross_encoder.marks(QUESTION, TEXTS)
    assert [chance for chance, _ in read] == pytest.approx(scores.tolist())
    assert [len(logits.offsets) == len(logits.start) == len(logits.end) for _, logits in read]
    watt = "The steam engine was improved by James Watt in Glasgow in 1769."
    for question, marked in (
        ("Who improved the steam engine?", "James Watt"),
        ("When was the steam engine improved?", "1769"),
        ("In which city was the steam engine improved?", "Glasgow"),
    ):
        ((_, logits),) = cross_encoder.marks(question, [watt])
        _, start, end = logits.best()
        assert watt[start:end] == marked


def test_a_build_whose_graph_is_not_known_scores_and_does_not_mark(cross_encoder):
    found = locate(find_model("ms-marco-MiniLM-L-12-v2"), Settings())
    unknown = replace(found, build=found.build._replace(token_states=()))
    plain = OnnxCrossEncoder(unknown, threads=1)
    assert plain.marks(QUESTION, TEXTS[:1]) is None
    assert plain.score(QUESTION, TEXTS[:1])[0] == cross_encoder.score(QUESTION, TEXTS[:1])[0]
