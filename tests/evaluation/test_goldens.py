"""Goldens and agent-style questions as data sets."""

import json
import shutil

import pytest

from packwise.errors import DataError, UsageError
from packwise.evaluation.goldens import load_questions, resolve
from packwise.stores.locate import open_store


@pytest.fixture
def lines(tmp_path):
    def write(*rows, name="mine.jsonl"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in rows))
        return path

    return write


def test_goldens_keep_what_they_say(lines):
    path = lines(
        {"id": "a", "question": "Who?", "answers": ["Ada"], "relevant": {"d1": 2}, "category": "x"},
        {"id": "b", "question": "Where?", "answerable": False, "relevant": ["d2"]},
    )
    data = load_questions(path)
    first, second = data.questions
    assert (data.name, first.answers, first.metadata["category"]) == ("mine", ("Ada",), "x")
    assert data.relevant == {"a": {"d1": 2}}
    assert not second.answerable


def test_agent_questions_name_their_source(lines):
    path = lines(
        {"question": "How long?", "ground_truth": "thirty days", "source": "Signing keys"},
        {"question": "Why?", "ground_truth": "Because " + "of this and that " * 5},
    )
    data = load_questions(path)
    assert data.questions[0].answers == ("thirty days",)
    assert data.questions[1].answers == (), "a long text stands in no passage word for word"
    assert data.relevant == {data.questions[0].id: {"Signing keys": 1}}
    assert data.questions[0].id == load_questions(path).questions[0].id


def test_a_ground_truth_of_up_to_twelve_words_is_an_answer_to_look_for(lines):
    short, long = " ".join(["word"] * 12), " ".join(["word"] * 13)
    path = lines(
        {"question": "Short?", "ground_truth": short}, {"question": "Long?", "ground_truth": long}
    )
    assert [question.answers for question in load_questions(path).questions] == [(short,), ()]


def test_documents_are_found_by_id_address_and_title(lines, notes_pack):
    path = lines(
        {"id": "1", "question": "q", "relevant": ["guides/keys.md"]},
        {"id": "2", "question": "q", "relevant": ["signing KEYS"]},
        {"id": "3", "question": "q", "relevant": ["nowhere"]},
    )
    with open_store(str(notes_pack)) as store:
        relevant = resolve(load_questions(path), store).relevant
    assert relevant["1"] == relevant["2"] == {"guides/keys.md": 1}
    assert relevant["3"] == {"nowhere": 1}


def test_a_pack_brings_its_own_questions(tmp_path, notes_pack, lines):
    pack = shutil.copytree(notes_pack, tmp_path / "pack")
    lines({"question": "How long?", "source": "Backups"}, name="pack/eval/questions.jsonl")
    data = load_questions(pack)
    assert (data.name, len(data.questions)) == ("pack", 1)


def test_a_half_is_the_same_for_everyone(lines):
    path = lines(*({"id": str(i), "question": f"q{i}"} for i in range(40)))
    tune, report = (load_questions(path, half=half) for half in ("tune", "report"))
    assert {q.id for q in tune.questions} | {q.id for q in report.questions} == {
        str(i) for i in range(40)
    }
    assert tune.questions
    assert report.questions


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("oops", "is not JSON"),
        ("[1]", "is not a JSON object"),
        ({"id": "a"}, "has no question"),
        ({"question": " "}, "has no question"),
        ({"question": "q", "answers": "one"}, "answers must be a list of strings"),
        ({"question": "q", "answers": [1]}, "answers must be a list of strings"),
        ({"question": "q", "relevant": [1]}, "relevant must be a list of documents"),
        ({"question": "q", "relevant": {"d": "high"}}, "relevant must be a list of documents"),
        ({"question": "q", "answerable": "no"}, "answerable must be true or false"),
        ({"question": "q", "id": [1]}, "id must be a string"),
    ],
)
def test_a_malformed_line_is_named(lines, row, says):
    path = lines({"question": "fine"}, row)
    with pytest.raises(DataError, match=f"mine.jsonl:2: .*{says}"):
        load_questions(path)


def test_other_mistakes_are_said(lines, tmp_path):
    with pytest.raises(DataError, match="is a duplicate"):
        load_questions(lines({"id": "a", "question": "q"}, {"id": "a", "question": "r"}))
    with pytest.raises(DataError, match="has no questions"):
        load_questions(lines("", name="empty.jsonl"))
    with pytest.raises(UsageError, match="has no splits"):
        load_questions(lines({"question": "q"}), split="dev")
    bad = tmp_path / "bad.jsonl"
    bad.write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match=r"bad.jsonl:1: is not UTF-8"):
        load_questions(bad)


def test_the_questions_of_eval_answers_are_goldens_too(lines):
    path = lines(
        {"question": "Which port?", "holds": [["9999"], ["port", "nine thousand"]], "kind": "code"},
        {"question": "Which planet?"},
    )
    first, second = load_questions(path).questions
    assert first.answers == ("9999", "nine thousand")
    assert first.answerable
    assert not second.answerable, "where others say what answers hold, this has no answer"
    with pytest.raises(DataError, match="lists of texts"):
        load_questions(lines({"question": "Which port?", "holds": 9999}))
