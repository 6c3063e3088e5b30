"""The page, in a real Chromium: asking, and the way an answer was found."""

import json
import re
import shutil
import threading
from pathlib import Path

import pytest
from playwright.sync_api import expect

from messages_api import CHAT, _chat_events, text
from serving_world import copy_calibrated
from tests_world import PATIENCE

HOW = "How do I rotate the signing key?"


def ask(page, question):
    page.get_by_role("textbox", name="Question").fill(question)
    page.get_by_role("button", name="Ask", exact=True).click()


def answered(page):
    answer = page.get_by_label("Answer", exact=True)
    expect(answer).to_have_attribute("aria-busy", "false")
    return answer


def found(page):
    """Open how the answer was found."""
    page.get_by_text("How it was found").click()
    expect(page.locator(".rank-row").first).to_be_visible()


def number(text):
    return int(text.replace(",", ""))


def test_a_question_is_answered_with_numbered_sources(visit, notes_server):
    page = visit(notes_server).page
    ask(page, HOW)
    answer = answered(page)
    expect(answer).to_contain_text("vaultctl create --kind signing")
    source = page.get_by_label("Sources").get_by_role("listitem").first
    expect(source).to_contain_text("Signing keys")
    marker = answer.get_by_role("button", name="Source 1")
    assert marker.first.inner_text() == source.locator(".chip").inner_text() == "1"
    assert "q=How+do+I+rotate+the+signing+key%3F" in page.url
    # How it was found is one line.
    expect(
        page.get_by_text(re.compile(r"How it was found: \d+ steps, .* passages? read"))
    ).to_be_visible()
    expect(page.locator(".trace").first).to_be_empty()


def test_a_link_with_a_question_in_it_asks_it(visit, notes_server):
    page = visit(notes_server, "#/ask?q=How+long+is+a+backup+kept%3F").page
    expect(answered(page)).to_contain_text("ninety days")
    expect(page.get_by_role("heading", name="How long is a backup kept?")).to_be_visible()


def test_the_answer_shows_while_the_model_is_still_writing(visit, model_server, model):
    half_way = threading.Event()

    def slowly(handler, body):
        assert handler.path == CHAT
        assert body["stream"]
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("Connection", "close")
        handler.end_headers()
        said = "Make **a new key** with `vaultctl` [1]."
        for at, event in enumerate(_chat_events(said, 20, 9, "end", 2)):
            if at == 1:
                assert half_way.wait(PATIENCE)
            handler.wfile.write(event)
            handler.wfile.flush()

    model.will(slowly)
    page = visit(model_server).page
    ask(page, HOW)
    answer = page.get_by_label("Answer", exact=True)
    expect(answer).to_contain_text("Make a new key")
    expect(answer).to_have_attribute("aria-busy", "true")
    expect(answer).not_to_contain_text("vaultctl")
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    half_way.set()
    expect(answered(page).locator("code")).to_have_text("vaultctl")
    expect(page.get_by_text("Written by storyteller, 20 tokens in and 9 out")).to_be_visible()
    expect(page.get_by_role("button", name="Stop")).to_have_count(0)


def test_an_answer_can_be_stopped(visit, model_server, model):
    done = threading.Event()

    def never_ending(handler, body):
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("Connection", "close")
        handler.end_headers()
        handler.wfile.write(_chat_events("The first words", 1, 1, "end", 1)[0])
        handler.wfile.flush()
        done.wait(PATIENCE)

    model.will(never_ending)
    page = visit(model_server).page
    ask(page, HOW)
    expect(page.get_by_label("Answer", exact=True)).to_contain_text("The first words")
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_text("Stopped.")).to_be_visible()
    expect(page.get_by_label("Answer", exact=True)).to_contain_text("The first words")
    done.set()


def test_a_source_opens_in_its_article(visit, notes_server):
    page = visit(notes_server).page
    ask(page, HOW)
    answered(page).get_by_role("button", name=re.compile("^Source")).first.click()
    panel = page.get_by_role("dialog")
    expect(panel.get_by_role("heading", name="Signing keys")).to_be_visible()
    quoted = panel.locator("mark.quoted")
    expect(quoted.first).to_contain_text("create a new key with vaultctl create")
    marked = "".join(panel.locator("mark").all_inner_texts())
    assert "The old key stays valid for thirty days" in marked
    # The article around it is there, and not marked.
    expect(panel.get_by_role("heading", name="A lost key")).to_be_visible()
    assert "If a key is lost" not in "".join(panel.locator("mark").all_inner_texts())
    panel.get_by_role("button", name="Close").click()
    expect(panel).to_be_hidden()


def test_the_stages_are_shown_with_their_times(visit, notes_server):
    page = visit(notes_server).page
    ask(page, "What is signed by the registry?")
    answered(page)
    found(page)
    stages = page.locator(".stages li")
    names = stages.locator(".stage-name").all_inner_texts()
    assert names[:3] == ["embed", "meaning", "keywords"]
    assert {"fusion", "gate", "packing", "sentences"} <= set(names)
    for took in stages.locator(".stage-time").all_inner_texts():
        assert re.fullmatch(r"[\d.]+ m?s", took)


def test_every_candidate_has_its_scores_and_its_places(visit, notes_server):
    page = visit(notes_server).page
    ask(page, HOW)
    answered(page)
    found(page)
    rows = page.locator(".rank-row")
    expect(rows.first).to_contain_text("Signing keys")
    assert rows.count() >= 8
    card = page.locator(".score-card")
    for name in ("vector", "similarity", "bm25", "keyword", "combined", "final"):
        expect(card.locator("dt", has_text=re.compile(f"^{name}$"))).to_have_count(1)
    first = card.inner_text()
    rows.nth(3).focus()
    expect(rows.nth(3)).to_have_attribute("aria-pressed", "true")
    expect(card).not_to_have_text(first)
    # A line a candidate, and every column is a ranking: each place is taken once.
    assert page.locator(".bump .line").count() == rows.count()
    page.get_by_text("All scores as a table").click()
    table = page.get_by_role("region", name="All scores")
    assert table.locator("tbody tr").count() == rows.count()
    heads = table.locator("thead th").all_inner_texts()
    final = heads.index("final")
    places = [row[final - 1] for row in _cells(table)]
    assert places == [str(n) for n in range(1, rows.count() + 1)]


def _cells(table):
    return table.evaluate(
        """table => [...table.querySelectorAll('tbody tr')].map(
            row => [...row.querySelectorAll('td')].map(cell => cell.innerText))"""
    )


def test_what_was_left_out_says_why(visit, notes_server):
    page = visit(notes_server).page
    ask(page, HOW)
    answered(page)
    found(page)
    left = page.locator("#budget .greyed .pack-row")
    expect(left.first).to_be_visible()
    reasons = left.locator(".reason").all_inner_texts()
    assert len(reasons) == left.count()
    assert "too short" in reasons
    held = page.locator("#budget .packing:not(.greyed) .pack-row")
    assert held.count() + left.count() >= page.locator(".rank-row").count()
    left.filter(has_text="too short").first.click()
    panel = page.get_by_role("dialog")
    expect(panel.get_by_text("Too short, and shares no words with the question.")).to_be_visible()
    expect(panel.locator("mark").first).to_be_visible()


def test_another_budget_packs_again(visit, notes_server):
    page = visit(notes_server).page
    ask(page, HOW)
    answered(page)
    found(page)
    told = page.locator(".budget-status")
    expect(told).to_contain_text("of 8,000 tokens")
    held = page.locator("#budget .packing:not(.greyed) .pack-row")
    before = held.count()
    page.get_by_role("spinbutton", name="Token budget in tokens").fill("150")
    expect(told).to_contain_text("of 150 tokens")
    assert 0 < held.count() < before
    assert number(re.search(r"in ([\d,]+) of", told.inner_text())[1]) <= 150
    no_room = page.locator("#budget .greyed .pack-row").filter(has_text="over budget")
    expect(no_room.first).to_be_visible()
    # So little that what the answer rests on has no room either.
    page.get_by_role("spinbutton", name="Token budget in tokens").fill("10")
    expect(told).to_contain_text("would be left out")
    page.get_by_role("slider", name="Token budget").focus()
    page.keyboard.press("End")
    expect(told).to_contain_text("of 16,000 tokens")
    page.get_by_role("spinbutton", name="Token budget in tokens").fill("150")
    page.get_by_role("button", name="Answer with this budget").click()
    expect(page.get_by_role("spinbutton", name="Token budget in tokens")).to_have_value("150")
    expect(page.locator(".stages li", has_text="packing")).to_contain_text("of 150 tokens")
    assert "budget=150" in page.url


def test_a_question_the_pack_does_not_cover_is_held_back(visit, notes_server):
    page = visit(notes_server).page
    ask(page, "Who won the football match last night?")
    expect(answered(page)).to_contain_text("do not cover the question")
    expect(page.get_by_text("No answer in the documents")).to_be_visible()
    expect(page.get_by_label("Sources")).to_contain_text("nothing in this pack is close enough")
    expect(page.locator(".certainty")).to_have_text("Not covered")
    found(page)
    expect(page.get_by_role("heading", name="Closest passages")).to_be_visible()
    expect(page.locator(".rank-row").first).to_be_visible()
    expect(page.locator("#budget")).to_have_count(0)


def test_what_a_model_says_on_its_own_is_told_apart(visit, model_server, model):
    model.will(text("The home team, I believe."))
    page = visit(model_server).page
    ask(page, "Who won the football match last night?")
    expect(answered(page)).to_contain_text("The home team")
    told = "Written by storyteller from its own knowledge, because the pack does not cover"
    expect(page.get_by_text(told)).to_be_visible()
    expect(page.get_by_label("Sources")).to_contain_text("No source")


def test_another_threshold_tells_what_would_have_happened(visit, notes_server):
    page = visit(notes_server).page
    ask(page, HOW)
    answered(page)
    found(page)
    told = page.locator(".gate-status")
    expect(told).to_have_text("At a threshold of 0.50 the question is answered from the pack.")
    slider = page.get_by_role("slider", name="Confidence threshold")
    slider.fill("0.95")
    expect(told).to_contain_text("At a threshold of 0.95 the question would be held back")
    expect(slider).to_have_attribute("aria-valuetext", "0.95: held back")
    page.get_by_role("button", name="Ask with this threshold").click()
    expect(page.get_by_text("No answer in the documents")).to_be_visible()
    expect(told).to_contain_text("At a threshold of 0.95 the question is held back")
    slider.fill("0.2")
    page.get_by_role("button", name="Ask with this threshold").click()
    expect(page.get_by_text("From the documents")).to_be_visible()


def test_a_calibrated_pack_shows_the_chance_and_both_its_thresholds(
    visit, served, notes_pack, tmp_path_factory
):
    target = tmp_path_factory.mktemp("calibrated") / "unsure"
    copy_calibrated(notes_pack, target, says=0.4, threshold=0.7, refuse_below=0.2)
    page = visit(served(stores=[str(target)])).page
    ask(page, HOW)
    expect(answered(page)).to_contain_text("do not cover the question")
    expect(page.get_by_label("Sources")).to_contain_text("too unlikely to be in this pack")
    found(page)
    part = page.locator("#confidence")
    expect(part.locator(".figure")).to_have_text(
        "0.40search confidence: the probability that the answer was found"
    )
    expect(part).to_contain_text("At a threshold of 0.70 the question is held back")
    expect(part).to_contain_text("the answer may be in the pack from 0.20 on")
    expect(part.locator(".gauge-tick")).to_be_visible()
    page.get_by_role("slider", name="Confidence threshold").fill("0.35")
    expect(part).to_contain_text("At a threshold of 0.35 the question would be answered")
    page.get_by_role("button", name="Ask with this threshold").click()
    expect(page.get_by_text("From the documents")).to_be_visible()
    # Its threshold is no multiple of the field's step; both sides are asked all the same.
    page.get_by_role("link", name="Compare settings").click()
    expect(page.get_by_label("Answer from confidence, side A")).to_have_value("0.7")
    expect(page.get_by_role("region", name="Side A")).to_contain_text("0.40")


def test_an_answer_has_one_number_and_one_word_for_how_sure_it_is(visit, notes_server):
    page = visit(notes_server).page
    ask(page, HOW)
    answered(page)
    found(page)
    part = page.locator("#confidence")
    expect(part.locator(".figure")).to_contain_text("the similarity of the best passage")
    assert "%" not in part.inner_text()
    word = page.locator(".certainty")
    expect(word).to_have_text(re.compile("^(Likely|Unsure)$"))
    figures = page.get_by_text("The answer is right with a probability of")
    expect(figures).to_be_hidden()
    word.click()
    expect(figures).to_be_visible()


def test_a_table_of_a_document_is_read_as_a_table(visit, notes_server):
    page = visit(notes_server).page
    page.get_by_label("Pack").select_option("poison")
    page.evaluate("() => { location.hash = '#/browse?article=wasps.md' }")
    table = page.get_by_role("article").get_by_role("table")
    expect(table.get_by_role("columnheader").first).to_have_text("sting")
    expect(table.get_by_role("cell").nth(1)).to_have_text("ice and patience")
    assert table.locator("script, a").count() == 0


SHIFTS = """window.shifts = [];
new PerformanceObserver((list) => {
  for (const one of list.getEntries()) {
    const moved = one.sources.map((source) => source.node?.id || source.node?.className || "");
    window.shifts.push([one.value, moved]);
  }
}).observe({ type: "layout-shift", buffered: true })"""


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_jumps_while_an_answer_comes_and_after_it(visit, model_server, model, width):
    model.will(
        text("In short:\n\nMake **a new key** with `vaultctl` [1]. Then revoke it.", pieces=9)
    )
    page = visit(model_server, viewport={"width": width, "height": 900}).page
    page.evaluate(SHIFTS)
    ask(page, HOW)
    answered(page)
    page.wait_for_timeout(300)
    shifts = page.evaluate("window.shifts")
    # What the question itself puts aside (the heading, the examples) is not counted.
    late = [one for one in shifts if "box" not in one[1] and "question" not in one[1]]
    assert sum(value for value, _ in late) < 0.1, late


def test_the_articles_around_the_answer_are_drawn(visit, notes_server):
    page = visit(notes_server).page
    ask(page, HOW)
    answered(page)
    found(page)
    graph = page.locator("#neighbourhood .graph svg")
    keys = graph.get_by_role("button", name="Signing keys", exact=True)
    expect(keys).to_be_visible()
    expect(graph.get_by_role("button", name="Releases", exact=True)).to_be_visible()
    assert graph.locator("line").count() >= 1
    keys.focus()
    expect(page.locator(".graph-status")).to_contain_text("Signing keys: article")
    page.keyboard.press("Enter")
    panel = page.get_by_role("dialog")
    expect(panel.get_by_role("heading", name="Signing keys")).to_be_visible()
    expect(panel).to_contain_text("Every release is signed.")


def test_the_record_can_be_saved(visit, notes_server):
    page = visit(notes_server).page
    ask(page, HOW)
    answered(page)
    found(page)
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as JSON").click()
    record = json.loads(Path(download.value.path()).read_text("utf-8"))
    assert record["question"] == HOW
    assert record["trace"]["packing"]["selected"]


def test_settings_are_asked_with(visit, notes_server):
    page = visit(notes_server).page
    page.get_by_text("Settings", exact=True).click()
    page.get_by_label("Search by", exact=True).select_option("words only")
    ask(page, HOW)
    answered(page)
    found(page)
    names = page.locator(".stage-name").all_inner_texts()
    assert "keywords" in names
    assert "meaning" not in names


def test_an_example_from_the_pack_is_one_click_away(visit, notes_server):
    page = visit(notes_server).page
    example = page.locator(".example").first
    expect(example).to_be_visible()
    asked = example.inner_text()
    example.click()
    answered(page)
    expect(page.get_by_role("heading", name=asked)).to_be_visible()


def test_a_pack_without_questions_of_its_own_offers_none(visit, served, notes_pack, tmp_path):
    copy = shutil.copytree(notes_pack, tmp_path / "notes")
    (copy / "sample_questions.json").unlink()
    page = visit(served(stores=[f"notes={copy}"])).page
    expect(page.get_by_role("heading", name="Ask notes")).to_be_visible()
    expect(page.get_by_text("Answers come from its")).to_be_visible()
    expect(page.get_by_text("Try", exact=True)).to_have_count(0)
    expect(page.locator(".example")).to_have_count(0)


@pytest.mark.parametrize("view", ["#/ask?q=Where+is+the+wasp+nest%3F", "#/browse?article=wasps.md"])
def test_a_poisoned_document_is_only_text(visit, notes_server, view):
    seen = visit(notes_server)
    page = seen.page
    page.get_by_label("Pack").select_option("poison")
    page.evaluate("address => { location.hash = address }", view)
    if "ask" in view:
        expect(answered(page)).to_contain_text("under the roof of the old mill")
        page.get_by_label("Sources").get_by_role("button").first.click()
        expect(page.get_by_role("dialog").locator("mark").first).to_be_visible()
        page.keyboard.press("Escape")
        found(page)
    else:
        expect(page.get_by_role("article")).to_contain_text("cooled with ice")
    # Nothing is linked with it: a picture of one dot would say less.
    expect(page.get_by_text("No other article links to it")).to_be_visible()
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    for width in (1280, 360):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate(wide) <= 0
    assert page.evaluate("window.stung") is None
    assert page.locator("main img, dialog img, main script, [onerror], [onload]").count() == 0
    assert page.locator('a[href^="javascript:"]').count() == 0
