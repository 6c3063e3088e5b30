"""Questions made from a pack, and that no graded answer reaches its own prompt."""

import json
import shutil

import pytest

from packwise.answering.few_shot import FewShot, load_examples
from packwise.errors import DataError, ModelError
from packwise.evaluation.coverage_check import leaked_questions
from packwise.evaluation.data import Question
from packwise.evaluation.goldens import load_questions
from packwise.evaluation.metrics import gold_answers, holds
from packwise.evaluation.questions import as_lines, make_goldens
from packwise.library import open_library
from packwise.models.llm import ModelReply
from packwise.stores.locate import open_store


@pytest.fixture(scope="module")
def store(notes_pack):
    with open_store(str(notes_pack)) as opened:
        yield opened


class Scripted:
    """A language model that says what it is told to."""

    name = "scripted"

    def __init__(self, *said):
        self.said = list(said)
        self.prompts = []

    @property
    def light(self):
        return self

    def complete(self, prompt, *, system="", max_tokens, timeout=0, retries=0):
        self.prompts.append(prompt)
        answer = self.said.pop(0) if self.said else ModelError("no more")
        if isinstance(answer, Exception):
            raise answer
        return ModelReply(answer)

    def close(self):
        pass


def test_questions_by_rule_are_answered_by_the_document_they_name(store):
    made = make_goldens(store, 20)
    assert len(made) >= 6
    for golden in made:
        text = store.document(golden.document).text
        question = Question("q", golden.question, golden.answers)
        assert not golden.answers or holds(text, gold_answers(question))
        assert not holds(golden.question, gold_answers(question)), "it must not give itself away"


def test_the_same_seed_makes_the_same_questions(store):
    assert make_goldens(store, 10) == make_goldens(store, 10)
    assert make_goldens(store, 10, seed=1) != make_goldens(store, 10)


def test_they_are_marked_and_read_as_goldens(store, tmp_path):
    path = tmp_path / "made.jsonl"
    path.write_text(as_lines(make_goldens(store, 8)))
    assert all(json.loads(line)["synthetic"] is True for line in path.read_text().splitlines())
    data = load_questions(path)
    assert len(data.relevant) == len(data.questions)


def test_synthetic_questions_are_never_few_shot_examples(store, tmp_path):
    folder = tmp_path / "eval"
    folder.mkdir()
    rows = [json.loads(line) for line in as_lines(make_goldens(store, 4)).splitlines()]
    rows = [{**row, "ground_truth": "an answer"} for row in rows]
    rows.append({"question": "a real one?", "ground_truth": "yes, this"})
    (folder / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert [e.question for e in load_examples(tmp_path).items] == ["a real one?"]


def test_what_a_model_wrote_is_kept_only_if_the_passage_holds_its_answer(store):
    model = Scripted(
        'Sure: {"question": "How long is the key valid?", "answer": "not in any passage"}',
        "no JSON at all",
        '{"question": "", "answer": "key"}',
        *['{"question": "What is said of it?", "answer": "the"}'] * 2,
    )
    made = make_goldens(store, 3, llm=model)
    assert all(golden.kind != "model" for golden in made)
    assert len(model.prompts) > 5, "it was asked until it failed for good"


def test_a_model_that_answers_well_is_used(store):
    class Reading(Scripted):
        def complete(self, prompt, **how):
            words = prompt.split("\n")[-2].split()
            asked = {"question": f"What about {len(self.prompts)}?", "answer": words[0]}
            self.prompts.append(prompt)
            return ModelReply(json.dumps(asked))

    made = make_goldens(store, 3, llm=Reading())
    assert [golden.kind for golden in made] == ["model"] * 3


def test_a_model_that_fails_leaves_the_rules(store):
    said = []
    made = make_goldens(store, 5, llm=Scripted(), remark=said.append)
    assert len(made) == 5
    assert "made by rule from here on" in said[0]


def test_a_store_without_sentences_gives_nothing(tmp_path):
    from packwise.packs.build import build_pack

    source = tmp_path / "bare"
    source.mkdir()
    (source / "a.txt").write_text("word\n")
    build_pack([str(source)], str(tmp_path / "pack"))
    with (
        open_store(str(tmp_path / "pack")) as opened,
        pytest.raises(DataError, match="no question can be made"),
    ):
        make_goldens(opened, 5)


GRADED = {"question": "How long is the old key valid?", "ground_truth": "for thirty days"}


@pytest.fixture
def leaky_pack(tmp_path, notes_pack):
    """A pack whose worked examples hold the graded answer of an evaluated question."""
    pack = shutil.copytree(notes_pack, tmp_path / "pack")
    (pack / "eval").mkdir()
    other = {"question": "What is a tenant?", "ground_truth": "a customer"}
    lines = "".join(json.dumps(row) + "\n" for row in (GRADED, other))
    (pack / "eval" / "questions.jsonl").write_text(lines)
    return pack


@pytest.mark.parametrize(
    "asked", ["How long is the old key valid?", "how long is the OLD key valid"]
)
def test_a_planted_leak_is_caught(leaky_pack, asked):
    leaked = Question("q", asked)
    assert leaked_questions([leaked, Question("r", "What is a mirror?")], leaky_pack) == [leaked]


def test_the_graded_answer_does_not_reach_the_prompt_of_its_question(leaky_pack):
    with open_library(str(leaky_pack)) as library:
        shelf = FewShot(load_examples(leaky_pack), library.embedder)
        shown = shelf.nearest(GRADED["question"])
        barred = shelf.nearest("an unrelated one?", exclude=frozenset({GRADED["question"]}))
    assert [example.answer for example in shown] == ["a customer"]
    assert [example.answer for example in barred] == ["a customer"]
