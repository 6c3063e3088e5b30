"""BEIR-style folders in their odd shapes, and what is said of malformed ones."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from packwise.errors import DataError, UsageError
from packwise.evaluation.data import half_of, load_dataset


def write(path: Path, text: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def jsonl(*records: object) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


CORPUS = jsonl(
    {"_id": "d1", "title": "One", "text": "first"}, {"_id": "d2", "title": "", "text": "second"}
)
QUERIES = jsonl({"_id": "q1", "text": "which one?"}, {"_id": "q2", "text": "and this?"})
QRELS = "query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\td2\t2\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "tiny"
    write(root / "corpus.jsonl", CORPUS)
    write(root / "queries.jsonl", QUERIES)
    write(root / "qrels/test.tsv", QRELS)
    return root


def test_a_plain_download(folder):
    data = load_dataset(folder)
    assert (data.name, data.split, data.documents, data.absent) == ("tiny", "test", 2, 0)
    assert [(q.id, q.text) for q in data.questions] == [("q1", "which one?"), ("q2", "and this?")]
    assert data.relevant == {"q1": {"d1": 1}, "q2": {"d2": 2}}
    assert data.judged == data.questions


def test_gzipped_files_say_the_same(folder):
    plain = load_dataset(folder)
    for name in ("corpus.jsonl", "queries.jsonl", "qrels/test.tsv"):
        write(folder / f"{name}.gz", (folder / name).read_bytes())
        (folder / name).unlink()
    packed = load_dataset(folder)
    assert packed.questions == plain.questions
    assert packed.relevant == plain.relevant
    assert packed.documents == plain.documents


def test_queries_of_all_splits_in_one_file_are_narrowed_to_the_judged_ones(folder):
    write(folder / "qrels/train.tsv", "q2\td1\t1\n")
    write(folder / "qrels/test.tsv", "q1\td1\t1\n")
    assert [q.id for q in load_dataset(folder).questions] == ["q1"]
    assert [q.id for q in load_dataset(folder, split="train").questions] == ["q2"]


def test_a_split_with_its_own_queries_keeps_the_unjudged_ones(folder):
    write(
        folder / "queries.test.jsonl",
        jsonl(
            {
                "_id": "q1",
                "text": "which?",
                "metadata": {"answers": ["a", "b"], "answerable": True},
            },
            {"_id": "q2", "text": "this?", "metadata": {"hops": 2, "paragraph": "d2"}},
            {"_id": "q3", "text": "none?", "metadata": {"answers": [], "answerable": False}},
        ),
    )
    data = load_dataset(folder)
    assert [q.id for q in data.judged] == ["q1", "q2"]
    first, second, third = data.questions
    assert (first.answers, first.answerable) == (("a", "b"), True)
    assert (second.answers, second.answerable) == ((), True)
    assert dict(second.metadata) == {"hops": "2", "paragraph": "d2"}
    assert third.answerable is False


@pytest.mark.parametrize(
    "qrels",
    [
        "q1\td1\t1\nq2\td2\t2\n",
        "q1 0 d1 1\nq2 0 d2 2\n",
        "q1\t0\td1\t1\nq2\t0\td2\t2\n",
        "query-id\tcorpus-id\tscore\r\nq1\td1\t1\r\n\r\nq2\td2\t2\r\n",
        "\ufeffquery-id\tcorpus-id\tscore\nq1\td1\t1.0\nq2\td2\t2\nq2\td2\t2",
    ],
    ids=["no header", "TREC", "TREC with tabs", "CRLF and blank lines", "BOM, 1.0, repeated"],
)
def test_judgements_in_every_known_shape(folder, qrels):
    write(folder / "qrels/test.tsv", qrels)
    assert load_dataset(folder).relevant == {"q1": {"d1": 1}, "q2": {"d2": 2}}


def test_document_ids_with_spaces_survive_in_tab_separated_judgements(folder):
    write(folder / "qrels/test.tsv", "q1\tthe first one\t1\n")
    assert load_dataset(folder).relevant == {"q1": {"the first one": 1}}


def test_numeric_ids_are_texts(folder):
    write(folder / "corpus.jsonl", jsonl({"_id": 7, "text": "x"}))
    write(folder / "queries.jsonl", jsonl({"_id": 1, "text": "which?"}))
    write(folder / "qrels/test.tsv", "1\t7\t1\n")
    data = load_dataset(folder)
    assert data.questions[0].id == "1"
    assert data.absent == 0


def test_relevant_documents_that_the_corpus_lacks_are_counted(folder):
    write(folder / "qrels/test.tsv", "q1\td1\t1\nq1\tgone\t1\nq2\tirrelevant and gone\t0\n")
    assert load_dataset(folder).absent == 1


def test_a_folder_without_corpus_serves_for_a_store_that_is_given(folder):
    (folder / "corpus.jsonl").unlink()
    data = load_dataset(folder)
    assert data.corpus is None
    assert len(data.questions) == 2


def test_the_split_is_test_else_dev_else_the_only_one(folder):
    for name in ("dev", "train"):
        write(folder / f"qrels/{name}.tsv", QRELS)
    assert load_dataset(folder).split == "test"
    (folder / "qrels/test.tsv").unlink()
    assert load_dataset(folder).split == "dev"
    (folder / "qrels/dev.tsv").unlink()
    assert load_dataset(folder).split == "train"
    write(folder / "qrels/val.tsv", QRELS)
    with pytest.raises(UsageError, match="train, val"):
        load_dataset(folder)


def test_an_unknown_split_names_the_known_ones(folder):
    with pytest.raises(UsageError, match=r"no split 'dev' -> --split test"):
        load_dataset(folder, split="dev")


@pytest.mark.parametrize("name", ["../qrels/test", "te*", ""])
def test_a_split_is_a_name_and_nothing_else(folder, name):
    with pytest.raises(UsageError):
        load_dataset(folder, split=name)


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        ("qrels/test.tsv", "q1\td1\n", r"test\.tsv:1: has 2 columns"),
        ("qrels/test.tsv", "q1\td1\t1\nq1\t0\td2\t1\n", r"test\.tsv:2: has 4 columns"),
        (
            "qrels/test.tsv",
            "q1\td1\t1\nq2\td2\tyes\n",
            r"test\.tsv:2: .*integer, not 'yes'",
        ),
        ("qrels/test.tsv", "q1\td1\t0.5\n", r"test\.tsv:1: .*integer"),
        ("qrels/test.tsv", "q1\td1\tnan\n", r"test\.tsv:1: .*integer"),
        ("qrels/test.tsv", "q1\td1\tinf\n", r"test\.tsv:1: .*integer"),
        ("qrels/test.tsv", "q1\td1\t1\nq1\td1\t2\n", r"test\.tsv:2: .*twice, differently"),
        ("qrels/test.tsv", "q1\td1\t1\nq9\td1\t1\n", r"test\.tsv:2: judges query 'q9'"),
        ("qrels/test.tsv", "q1\t\t1\n", r"test\.tsv:1: lacks"),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\n", "has no judgements"),
        ("queries.jsonl", '{"_id": "q1", "text": "x"}\n{oops\n', r"queries\.jsonl:2: is not JSON"),
        ("queries.jsonl", "[1]\n", r"queries\.jsonl:1: is not a JSON object"),
        ("queries.jsonl", '{"text": "x"}\n', r"queries\.jsonl:1: has no _id"),
        ("queries.jsonl", '{"_id": true, "text": "x"}\n', r"queries\.jsonl:1: has no _id"),
        ("queries.jsonl", '{"_id": "q1", "text": " "}\n', r"queries\.jsonl:1: .*no text"),
        ("queries.jsonl", QUERIES + QUERIES, r"queries\.jsonl:3: query 'q1' is a duplicate"),
        ("queries.jsonl", b'{"_id": "q1", "text": "\xff"}\n', r"queries\.jsonl:1: is not UTF-8"),
        (
            "queries.jsonl",
            '{"_id": "q1", "text": "x", "metadata": {"answers": "a"}}\n',
            r"queries\.jsonl:1: answers",
        ),
        (
            "queries.jsonl",
            '{"_id": "q1", "text": "x", "metadata": {"answerable": "no"}}\n',
            r"queries\.jsonl:1: answerable",
        ),
        (
            "queries.jsonl",
            '{"_id": "q1", "text": "x", "metadata": [1]}\n',
            r"queries\.jsonl:1: metadata",
        ),
        ("corpus.jsonl", CORPUS + "{}\n", r"corpus\.jsonl:3: has no _id"),
        ("corpus.jsonl", "\n", "has no documents"),
    ],
)
def test_malformed_data_is_named_by_file_and_line(folder, file, content, says):
    write(folder / file, content)
    with pytest.raises(DataError, match=says) as caught:
        load_dataset(folder)
    assert "\n" not in str(caught.value)


def test_a_truncated_archive_is_named(folder):
    whole = gzip.compress(CORPUS.encode() * 200)
    (folder / "corpus.jsonl").unlink()
    (folder / "corpus.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"corpus\.jsonl\.gz: cannot be read after line \d+"):
        load_dataset(folder)


def test_a_wrong_folder_is_told_apart(tmp_path, folder):
    with pytest.raises(DataError, match="does not exist"):
        load_dataset(tmp_path / "none")
    with pytest.raises(DataError, match="is not a folder"):
        load_dataset(folder / "corpus.jsonl")
    with pytest.raises(DataError, match=r"has no qrels/SPLIT\.tsv"):
        load_dataset(tmp_path)
    (folder / "queries.jsonl").unlink()
    with pytest.raises(DataError, match=r"has no queries\.test\.jsonl or queries\.jsonl"):
        load_dataset(folder)


def test_the_halves_part_the_questions(folder):
    ids = [f"q{i}" for i in range(400)]
    write(folder / "queries.jsonl", jsonl(*({"_id": i, "text": "why?"} for i in ids)))
    write(folder / "qrels/test.tsv", "".join(f"{i}\td1\t1\n" for i in ids))
    tune, report = (load_dataset(folder, half=half) for half in ("tune", "report"))
    parts = [{q.id for q in data.questions} for data in (tune, report)]
    assert parts[0] | parts[1] == set(ids)
    assert not parts[0] & parts[1]
    assert tune.relevant.keys() == parts[0]
    assert (tune.half, report.half) == ("tune", "report")


def test_the_halves_are_about_equal_and_never_change():
    share = sum(half_of(str(i)) == "tune" for i in range(10_000)) / 10_000
    # Four standard errors of a fair coin.
    assert abs(share - 0.5) < 0.02
    pinned = {"1": "report", "3": "report", "5": "tune", "q1": "tune", "q2": "report"}
    assert {question: half_of(question) for question in pinned} == pinned
