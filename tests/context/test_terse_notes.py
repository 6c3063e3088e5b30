"""Notes of one line, bullets, table rows and text without spaces reach the context."""

import pytest

import packwise
from packwise.candidates import PACKING_POLICIES
from packwise.context.quality import section_quality
from packwise.language.words import words
from packwise.packs.build import build_pack

NOTES = {
    "vpn": "# VPN\n\nServer vpn2.corp, cert expires 1 March\n",
    "port": "# Port\n\n9999\n",
    "deploy": "# Deploy\n\n- Rollback: ./ship prod --previous\n- Freeze: from Friday noon\n",
    "limits": "# Limits\n\n| tier | seats |\n|---|---|\n| free | 3 |\n| team | 40 |\n",
    "chinese": "# 备份\n\n备份每天凌晨三点运行，保存三十天。\n",
    "japanese": "# 鍵\n\n署名鍵は三十日ごとに交換されます。\n",
    "thai": "# สำรองข้อมูล\n\nสำรองข้อมูลทุกวันตอนตีสาม\n",
    "essay": "# Release\n\n" + "The release train leaves every second week from main. " * 8,
}
ASKED = [
    ("when does the VPN certificate expire?", "cert expires 1 March"),
    ("what is the port?", "9999"),
    ("how do I roll back a deploy?", "./ship prod --previous"),
    ("how many seats has the team tier?", "40"),
    ("备份保存多少天？", "保存三十天"),
    ("署名鍵はいつ交換されますか？", "三十日ごと"),
    ("สำรองข้อมูลเมื่อไร", "ตอนตีสาม"),
]


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("terse")
    for name, text in NOTES.items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    build_pack([str(folder)], str(folder / "pack"))
    with packwise.open(str(folder / "pack")) as opened:
        yield opened


@pytest.mark.parametrize("policy", PACKING_POLICIES)
@pytest.mark.parametrize(("question", "answer"), ASKED, ids=[answer for _, answer in ASKED])
def test_a_terse_note_is_in_the_context(library, question, answer, policy):
    assert answer in library.context(question, 400, policy=policy).text


def test_text_without_spaces_counts_two_characters_as_a_word():
    assert section_quality("备" * 37, "") == 0.0
    assert section_quality("备" * 41, "") == pytest.approx(0.2 + 20 / 200 * 0.6)
    assert words("签名 key rotates") == ["签名", "key", "rotates"]
    assert words("签名密钥。") == ["签名", "名密", "密钥"]


def test_words_of_a_question_without_spaces_are_found_in_longer_text():
    content = "备份每天凌晨三点运行，保存三十天。" * 3
    assert section_quality(content, "备份每天") > section_quality(content, "")


@pytest.mark.parametrize("mode", ["hybrid", "keyword"])
@pytest.mark.parametrize("documents", [True, False])
@pytest.mark.parametrize("question", [question for question, _ in ASKED] + ["who won in 1966?"])
def test_every_candidate_of_an_answer_has_one_reason(library, question, mode, documents):
    for budget in (0, 30, 400):
        answer = library.ask(
            question, synthesis=False, mode=mode, documents=documents, max_results=2, budget=budget
        )
        offered = {hit.passage.id for hit in library.search(question, 30, mode=mode).hits}
        reasons = [one.id for one in answer.trace.dropped]
        if answer.context is not None:
            packing = answer.context.trace
            reasons += [one.id for one in packing.dropped]
            reasons += [one.id for one in packing.selected if one.attached_to is None]
        assert offered <= set(reasons)
        assert len(reasons) == len(set(reasons))
