"""Step 8: which examples are read, which are chosen, and which must never be."""

import json
import logging

import numpy as np
import pytest

from packwise.answering.few_shot import FewShot, FewShotExample, LoadedExamples, load_examples
from packwise.errors import UsageError


class Axes:
    """An embedder whose vectors are plain to see: one axis a word of its list."""

    name = "axes"
    version = "axes-1"
    window = 100

    def __init__(self, words: str) -> None:
        self.words = words.split()
        self.dim = len(self.words)
        self.embedded: list[str] = []

    def embed_passages(self, texts, progress=None):
        self.embedded.extend(texts)
        rows = [[float(t.lower().split().count(w)) for w in self.words] for t in texts]
        vectors = np.array(rows, dtype=np.float32) + 1e-3
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def embed_query(self, text):
        return self.embed_passages([text])[0]

    def token_spans(self, text):
        return []

    def similarity(self, cosine):
        return cosine


def examples(*questions):
    return LoadedExamples(tuple(FewShotExample(q, f"answer to {q}") for q in questions))


def asked(shot, question, **options):
    return [e.question for e in shot.nearest(question, **options)]


def write(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")


def test_curated_examples_come_before_graded_ones(tmp_path):
    write(tmp_path / "few_shot_examples.json", [{"question": "A?", "answer": "curated"}])
    lines = [{"question": "a", "answer": "graded"}, {"question": "B?", "ground_truth": "b"}]
    write(tmp_path / "eval" / "questions.jsonl", "\n".join(map(json.dumps, lines)))
    found = load_examples(tmp_path)
    assert found.items == (FewShotExample("A?", "curated"), FewShotExample("B?", "b"))
    assert found.problems == ()


@pytest.mark.parametrize("name", ["answer", "ground_truth", "expected", "expected_answer"])
def test_an_answer_goes_by_several_names(tmp_path, name):
    write(tmp_path / "few_shot_examples.json", {"examples": [{"question": "A?", name: " yes "}]})
    assert load_examples(tmp_path).items == (FewShotExample("A?", "yes"),)


def test_a_pack_without_examples_has_none(tmp_path):
    assert load_examples(tmp_path) == LoadedExamples()
    assert load_examples(None) == LoadedExamples()


def test_a_file_of_ones_own_replaces_those_of_the_pack(tmp_path):
    write(tmp_path / "few_shot_examples.json", [{"question": "A?", "answer": "pack"}])
    write(tmp_path / "mine.jsonl", json.dumps({"question": "M?", "answer": "mine"}))
    assert load_examples(tmp_path, tmp_path / "mine.jsonl").items == (FewShotExample("M?", "mine"),)


@pytest.mark.parametrize(
    "content", [None, "", "{", "[1, 2", '"text"', '{"a": 1}', "[]", '[{"question": "A?"}]']
)
def test_a_file_that_was_named_must_hold_examples(tmp_path, content):
    file = tmp_path / "mine.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(UsageError) as caught:
        load_examples(tmp_path, file)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["few_shot_examples.json", "eval/questions.jsonl"])
@pytest.mark.parametrize("lines", [False, True])
def test_the_keys_and_formats_of_earlier_packs_are_understood(tmp_path, name, lines):
    rows = [
        {"query": "A?", "ground_truth": "yes"},
        {"query": "B?", "answer": "no", "reasoning": ""},
    ]
    write(tmp_path / name, "\n".join(map(json.dumps, rows)) if lines else rows)
    found = load_examples(tmp_path)
    assert found.items == (FewShotExample("A?", "yes"), FewShotExample("B?", "no"))
    assert found.problems == ()


def test_malformed_lines_are_told_and_the_others_used(tmp_path):
    good = json.dumps({"question": "A?", "answer": "yes"})
    bad = ["{", "[]", "7", '{"question": 3, "answer": "x"}', '{"question": "B?"}', "[" * 50_000]
    write(tmp_path / "eval" / "questions.jsonl", "\n".join([*bad, "", good]))
    found = load_examples(tmp_path)
    assert found.items == (FewShotExample("A?", "yes"),)
    assert found.problems == ("questions.jsonl: example 1 is not a JSON object and 4 more",)


@pytest.mark.parametrize("content", ["", "{", '"text"', '{"a": 1}', "\udcff"])
def test_a_file_that_is_no_list_is_told(tmp_path, content):
    (tmp_path / "few_shot_examples.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    found = load_examples(tmp_path)
    assert found.items == ()
    assert len(found.problems) == 1
    assert len(found.problems[0].splitlines()) == 1


def test_answers_too_long_to_show_are_told(tmp_path):
    write(tmp_path / "few_shot_examples.json", [{"question": "A?", "answer": "x" * 4001}])
    assert load_examples(tmp_path).problems == (
        "few_shot_examples.json: example 1 has an answer of more than 4000 characters",
    )


def test_the_three_nearest_are_chosen_nearest_first():
    shot = FewShot(
        examples("cat", "cat dog", "cat dog dog", "fish", "bird"), Axes("cat dog fish bird")
    )
    assert asked(shot, "cat cat dog") == ["cat dog", "cat", "cat dog dog"]
    assert asked(shot, "cat cat dog", k=1) == ["cat dog"]
    assert asked(shot, "cat cat dog", k=0) == []


def test_the_question_itself_is_never_its_own_example():
    shot = FewShot(examples("What is a cat?", "What is a dog?"), Axes("cat? dog? what is a"))
    assert asked(shot, "  what is a CAT ") == ["What is a dog?"]


def test_a_question_nearly_the_same_is_left_out():
    shot = FewShot(examples("cat dog dog dog", "cat fish"), Axes("cat dog fish"))
    assert asked(shot, "dog dog dog dog cat") == ["cat fish"]


def test_the_evaluated_questions_are_left_out():
    shot = FewShot(examples("cat", "dog", "fish"), Axes("cat dog fish bird"))
    assert asked(shot, "bird", exclude=frozenset({"Cat?", "fish"})) == ["dog"]


def test_no_examples_ask_nothing_of_the_embedder():
    embedder = Axes("cat")
    assert FewShot(LoadedExamples(), embedder).nearest("cat") == []
    assert embedder.embedded == []


def test_vectors_are_kept_until_the_questions_or_the_embedder_change(tmp_path, monkeypatch):
    monkeypatch.setenv("PACKWISE_CACHE", str(tmp_path))

    def embedded(questions, version="axes-1"):
        embedder = Axes("cat dog bird")
        embedder.version = version
        FewShot(examples(*questions), embedder).nearest("bird")
        return embedder.embedded

    assert embedded(["cat", "dog"]) == ["bird", "cat", "dog"]
    assert embedded(["cat", "dog"]) == ["bird"]
    assert embedded(["cat"]) == ["bird", "cat"]
    assert embedded(["cat", "dog"], "axes-2") == ["bird", "cat", "dog"]


def test_a_broken_cache_is_made_anew(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("PACKWISE_CACHE", str(tmp_path))
    caplog.set_level(logging.INFO, "packwise")
    FewShot(examples("cat", "dog"), Axes("cat dog bird")).nearest("bird")
    (file,) = (tmp_path / "few-shot").iterdir()
    for junk in (b"", b"junk", file.read_bytes()[:90]):
        file.write_bytes(junk)
        assert len(FewShot(examples("cat", "dog"), Axes("cat dog bird")).nearest("bird")) == 2
        assert "unreadable" in caplog.text
        caplog.clear()


def test_a_cache_that_cannot_be_written_does_not_matter(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("PACKWISE_CACHE", str(tmp_path / "file"))
    assert len(FewShot(examples("cat", "dog"), Axes("cat dog bird")).nearest("bird")) == 2
