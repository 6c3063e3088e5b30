import random
import threading
import time
from itertools import pairwise

import numpy as np
import pytest

from packwise.errors import UsageError
from packwise.models.embedder import load_embedder
from packwise.models.locate import locate
from packwise.models.table import find_model
from packwise.settings import Settings

TEXTS = [
    "The Normans were the people who gave their name to Normandy, a region in France.",
    "A generator is a function that yields values one at a time.",
    "Use tildes around the words to strike them through.",
    "Photosynthesis turns light, water and carbon dioxide into sugar and oxygen. " * 6,
    "x",
    "",
    "  \n\t ",
    "def add(a, b):\n    return a + b",
    "漢字 and émojis 😀 and \x00 control",
    "[CLS] [SEP] [MASK] <|endoftext|>",
]


@pytest.fixture(scope="module")
def vectors(bge):
    return bge.embed_passages(TEXTS)


def test_vectors_are_float32_of_the_models_width_and_length_one(bge, vectors):
    assert vectors.dtype == np.float32
    assert vectors.shape == (len(TEXTS), bge.dim) == (len(TEXTS), 384)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)


@pytest.mark.parametrize("i", range(len(TEXTS)))
def test_a_text_has_the_same_vector_alone_as_among_others_to_the_bit(bge, vectors, i):
    assert (bge.embed_passages([TEXTS[i]])[0] == vectors[i]).all()


def test_the_order_of_the_texts_changes_nothing(bge, vectors):
    order = list(range(len(TEXTS)))
    random.Random(1).shuffle(order)
    assert (bge.embed_passages([TEXTS[i] for i in order]) == vectors[order]).all()


def test_the_number_of_threads_changes_nothing(bge, vectors):
    single = load_embedder("bge-small-en-v1.5", Settings.load(env={}, threads=1))
    assert single is not bge
    assert (single.embed_passages(TEXTS) == vectors).all()


@pytest.mark.parametrize("name", ["bge-small-en-v1.5", "all-MiniLM-L6-v2"])
def test_vectors_equal_a_plain_run_of_the_model(name, request):
    """The same numbers from onnxruntime and tokenizers used directly."""
    import onnxruntime
    from tokenizers import Tokenizer

    embedder = request.getfixturevalue({"bge-small-en-v1.5": "bge"}.get(name, "minilm"))
    model = find_model(name)
    found = locate(model, Settings.load(env={}))
    assert found is not None
    tokenizer = Tokenizer.from_file(str(found.tokenizer))
    tokenizer.no_padding()
    tokenizer.enable_truncation(model.window)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(found.weights), options)
    long = " ".join(f"word{n} means {n * 7}." for n in range(200))
    for text in (TEXTS[0], TEXTS[8], long):
        ids = np.array([tokenizer.encode(text).ids])
        assert ids.shape[1] <= model.window
        feed = {"input_ids": ids, "attention_mask": ids * 0 + 1, "token_type_ids": ids * 0}
        hidden = session.run(None, feed)[0][0]
        raw = hidden[0] if model.pooling == "cls" else hidden.mean(axis=0)
        expected = raw / np.linalg.norm(raw)
        np.testing.assert_allclose(embedder.embed_passages([text])[0], expected, atol=1e-4)


def test_a_question_carries_the_models_prefix_and_a_passage_does_not(bge):
    prefix = find_model(bge.name).query_prefix
    assert prefix
    asked = bge.embed_query("who were the normans?")
    assert asked.shape == (384,)
    assert (asked == bge.embed_passages([f"{prefix}who were the normans?"])[0]).all()
    assert not (asked == bge.embed_passages(["who were the normans?"])[0]).all()


@pytest.mark.parametrize("fixture", ["bge", "minilm"])
def test_a_question_finds_its_passage(request, fixture):
    embedder = request.getfixturevalue(fixture)
    passages = embedder.embed_passages(TEXTS[:4])
    for question, best in [
        ("Who gave Normandy its name?", 0),
        ("How do I strike words through?", 2),
        ("What do plants make from sunlight?", 3),
    ]:
        assert int(np.argmax(passages @ embedder.embed_query(question))) == best


def test_no_texts_give_no_rows(bge):
    assert bge.embed_passages([]).shape == (0, 384)


def test_progress_sums_to_the_number_of_texts(bge):
    steps: list[int] = []
    bge.embed_passages(TEXTS, steps.append)
    assert sum(steps) == len(TEXTS)


def test_an_interrupt_ends_the_work_and_leaves_no_thread(bge, monkeypatch):
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    begun: list[str] = []
    real = bge._embed

    def counting(text: str) -> np.ndarray:
        begun.append(text)
        return real(text)

    monkeypatch.setattr(bge, "_embed", counting)
    before = {*threading.enumerate()}  # Those of other tests may still be ending.
    with pytest.raises(KeyboardInterrupt):
        bge.embed_passages([TEXTS[3]] * 2000, interrupt)
    assert len(begun) < 1000
    left = {*threading.enumerate()} - before
    assert not [t for t in left if t.name.startswith("packwise-")]


@pytest.mark.parametrize(
    "unit", ["word ", "x", " ", "漢", ".", "q" * 99 + " ", "\n", "a\u0301 "], ids=repr
)
def test_a_long_text_is_cut_to_the_window_without_being_read_whole(bge, unit):
    text = unit * (100_000 // len(unit))
    began = time.process_time()
    vector = bge.embed_passages([text])[0]
    assert time.process_time() - began < 20
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-6)


def test_what_lies_beyond_the_window_is_not_seen(bge):
    head = " ".join(["alpha"] * bge.window)
    vectors = bge.embed_passages([head, f"{head} beta gamma " + "delta " * 50_000])
    assert (vectors[0] == vectors[1]).all()


def test_the_last_word_inside_the_window_is_seen(bge):
    words = ["alpha"] * (bge.window - 2)
    changed = [*words[:-1], "omega"]
    vectors = bge.embed_passages([" ".join(words), " ".join(changed)])
    assert not (vectors[0] == vectors[1]).all()


def test_token_spans_cover_the_words_of_the_whole_text(bge):
    text = "Héllo  Wörld 漢字 tokenization 😀!"
    spans = bge.token_spans(text)
    pieces = [text[a:b] for a, b in spans]
    assert pieces[:4] == ["Héllo", "Wörld", "漢", "字"]
    assert "".join(pieces[4:]) == "tokenization😀!"
    assert all(a < b for a, b in spans)
    assert all(a[1] <= b[0] for a, b in pairwise(spans))


def test_token_spans_are_not_cut_at_the_window(bge):
    text = "alpha " * (bge.window * 3)
    spans = bge.token_spans(text)
    assert len(spans) == bge.window * 3
    assert text[slice(*spans[-1])] == "alpha"


@pytest.mark.parametrize("text", ["", "   ", "\x00"])
def test_a_text_without_words_has_no_token_spans(bge, text):
    assert bge.token_spans(text) == []


def test_lone_surrogates_do_no_harm_and_move_nothing(bge):
    text = "one \ud83d\ude00 two"
    assert [text[a:b] for a, b in bge.token_spans(text)] == ["one", "two"]
    assert np.isfinite(bge.embed_query(text)).all()


def test_text_that_looks_like_a_special_token_is_text(bge):
    assert len(bge.token_spans("[SEP]")) == 3
    plain, marked = bge.embed_passages(["cats and dogs", "cats [SEP] and dogs"])
    assert float(plain @ marked) > 0.5


def test_one_embedder_may_be_used_by_many_threads(bge, vectors):
    results: list[bool] = []

    def work() -> None:
        for i in range(4):
            results.append(bool((bge.embed_passages([TEXTS[i]])[0] == vectors[i]).all()))
            results.append(len(bge.token_spans("alpha " * 600)) == 600)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 32


def test_an_embedder_is_loaded_once_whatever_thread_asks(bge):
    loaded: list[object] = []
    settings = Settings.load(env={}, threads=2)
    threads = [
        threading.Thread(target=lambda: loaded.append(load_embedder("bge-small-en-v1.5", settings)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [id(e) for e in loaded] == [id(bge)] * 4


def test_an_unknown_embedder_is_a_usage_error():
    with pytest.raises(UsageError, match="no embedder is named 'ada'"):
        load_embedder("ada", Settings.load(env={}))


def test_the_version_names_the_model_and_differs_between_models(bge, minilm):
    assert bge.version.startswith("bge-small-en-v1.5+")
    assert bge.version != minilm.version


def test_similarity_is_on_the_gates_scale(bge, minilm):
    assert bge.similarity(0.5) < 0.5 < bge.similarity(0.7)
    assert minilm.similarity(0.6) == 0.6
    assert bge.similarity(1.0) == 1.0


def test_the_gate_parts_a_packs_own_questions_from_others(bge):
    passages = bge.embed_passages(TEXTS[:4])

    def best(question: str) -> float:
        return bge.similarity(float((passages @ bge.embed_query(question)).max()))

    assert best("Who were the Normans and what is named after them?") > 0.5
    assert best("What is a generator in Python?") > 0.5
    assert best("Which bond funds pay a quarterly dividend?") < 0.5
    assert best("How do I replace the brake pads of a bicycle?") < 0.5
