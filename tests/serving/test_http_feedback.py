"""Verdicts on answers over HTTP."""

import json
import shutil

import pytest

from packwise.serving.limits import Limits
from read_only import read_only
from serving_world import client_of, key_ring


@pytest.fixture
def pack(notes_pack, tmp_path):
    return shutil.copytree(notes_pack, tmp_path / "my-pack")


def lines(pack):
    return [json.loads(line) for line in (pack / "eval/feedback.jsonl").read_text().splitlines()]


def test_a_thumb_is_found_in_the_judged_file(pack):
    with client_of(pack) as client:
        asked = client.post("/v1/ask", json={"question": "How often are keys rotated?"}).json()
        cited = [passage for citation in asked["citations"] for passage in citation["ids"]]
        body = {
            "store": "my-pack",
            "question": asked["question"],
            "answer": asked["answer"],
            "verdict": "wrong",
            "right_answer": "Every ninety days",
            "passages": [*cited, "nowhere.md#3", "no id"],
        }
        answer = client.post("/v1/feedback", json=body)
    assert answer.status_code == 200, answer.text
    (line,) = lines(pack)
    assert line["question"] == "How often are keys rotated?"
    assert (line["verdict"], line["right_answer"]) == ("wrong", "Every ninety days")
    assert line["passages"] == cited == answer.json()["passages"]
    assert line["at"] == answer.json()["at"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"verdict": "maybe"}, "verdict"),
        ({"answer": " "}, "answer is empty"),
        ({"question": " "}, "question is empty"),
        ({"verdict": "right", "right_answer": "x"}, "for a wrong answer only"),
        ({"thumb": "up"}, "thumb"),
    ],
)
def test_what_is_no_verdict_is_refused_in_one_line(client, change, says):
    body = {"question": "q", "answer": "a", "verdict": "right", **change}
    answer = client.post("/v1/feedback", json=body)
    assert answer.status_code == 400
    assert says in answer.json()["error"]["message"]


def test_a_read_only_pack_says_that_nothing_was_saved(pack):
    body = {"question": "q", "answer": "a", "verdict": "right"}
    with client_of(pack) as client, read_only(pack):
        answer = client.post("/v1/feedback", json=body)
        assert answer.status_code == 403
        assert answer.json()["error"]["code"] == "read_only"
        assert str(pack) not in answer.text
    assert "feedback not saved" in client.log.getvalue()
    assert not (pack / "eval").exists()


def test_a_key_judges_only_with_passages_that_it_sees(tenants_pack, tmp_path):
    pack = shutil.copytree(tenants_pack, tmp_path / "shared")
    ring, headers = key_ring(tmp_path, acme={"tenant": "acme"})
    with client_of(pack, keys=ring, limits=Limits(rate=0)) as client:
        body = {"question": "q", "answer": "a", "verdict": "right"}
        assert client.post("/v1/feedback", json=body).status_code == 401
        body["passages"] = ["acme/plan.md#0", "globex/plan.md#0", "acme/board.md#0"]
        answer = client.post("/v1/feedback", json=body, headers=headers["acme"])
    assert answer.json()["passages"] == ["acme/plan.md#0"]
    assert lines(pack)[0]["tenant"] == "acme"
