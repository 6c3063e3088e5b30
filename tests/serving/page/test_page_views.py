"""The page's other views, and how it behaves when things go wrong."""

import json
import re
import signal
import subprocess
import sys
import threading

import pytest
from playwright.sync_api import expect

from messages_api import text
from tests_world import PATIENCE

REPORT = {
    "runs": [
        {
            "dataset": "handbook",
            "variant": variant,
            "queries": 1200,
            "metrics": {"ndcg@10": value, "recall@5": value + 0.05},
            "latency_ms": {"p50": 8.1, "p95": 12.0, "p99": 20.0},
        }
        for variant, value in (("hybrid", 0.72), ("vector", 0.65))
    ],
    "differences": [
        {
            "metric": "ndcg@10",
            "a": "hybrid",
            "b": "vector",
            "difference": 0.07,
            "interval": [0.03, 0.11],
            "p_value": 0.0004,
            "wins": 300,
            "ties": 800,
            "losses": 100,
        },
        {
            "metric": "ndcg@10",
            "a": "names",
            "b": "off",
            "difference": 0.2,
            "interval": [0.05, 0.4],
            "p_value": 0.125,
            "wins": 4,
            "ties": 1,
            "losses": 0,
        },
    ],
}


def answered(page):
    answer = page.get_by_label("Answer", exact=True)
    expect(answer).to_have_attribute("aria-busy", "false")
    return answer


def test_two_settings_are_compared_side_by_side(visit, notes_server):
    page = visit(notes_server, "#/compare").page
    page.get_by_label("Question for both").fill("How often do mirrors fetch new files?")
    page.get_by_label("Search by, side B").select_option("meaning only")
    page.get_by_label("Length of the context, side B").fill("100")
    page.get_by_label("Length of the context, side B").press("Tab")
    differing = page.locator(".settings-row.differs")
    assert differing.locator(".settings-name").all_inner_texts() == [
        "Search by",
        "Length of the context",
        "Follow links",
    ]
    page.get_by_role("button", name="Compare").click()
    verdict = page.locator(".comparison-summary")
    expect(verdict).to_contain_text(
        "“Search by”, “Length of the context” and “Follow links” differ."
    )
    assert re.search(
        r"\d+ passages? in both contexts, \d+ only in A, \d+ only in B", verdict.inner_text()
    )
    a, b = page.get_by_role("region", name="Side A"), page.get_by_role("region", name="Side B")
    expect(a.locator(".answer")).to_contain_text("once an hour")
    expect(b.locator(".answer")).to_contain_text("once an hour")
    expect(b.locator("h2")).to_contain_text("search by meaning only, length of the context 100")
    # With so little room, the two contexts differ, and that is marked on both sides.
    expect(a.locator(".facts .differs", has_text="tokens")).to_have_count(1)
    assert a.locator(".ranked .differs").count() > 0
    assert b.locator(".ranked .badge:not(.same)").count() > 0
    a.locator(".ranked button").first.click()
    expect(page.get_by_role("dialog").locator("mark").first).to_be_visible()


def test_the_same_settings_twice_differ_in_nothing(visit, notes_server):
    page = visit(notes_server, "#/compare").page
    page.get_by_label("Question for both").fill("How often do mirrors fetch new files?")
    page.get_by_label("Follow links, side B").select_option(
        page.get_by_label("Follow links, side A").input_value()
    )
    page.get_by_role("button", name="Compare").click()
    expect(page.locator(".comparison-summary")).to_contain_text(
        "The settings are the same. The answer is the same."
    )
    expect(page.locator(".compared .differs")).to_have_count(0)
    expect(page.locator(".badge:not(.same)")).to_have_count(0)


def test_a_document_is_read_as_it_looks(visit, notes_server):
    page = visit(notes_server, "#/documents").page
    expect(page.get_by_text("5 documents, most linked first")).to_be_visible()
    page.get_by_label("Find a document").fill("sign")
    expect(page.get_by_text("1 document, most linked")).to_be_visible()
    page.get_by_role("link", name=re.compile("Signing keys")).click()
    article = page.get_by_role("article")
    expect(article.get_by_role("heading", name="Signing keys", level=2)).to_be_visible()
    sections = article.get_by_role("navigation", name="Sections")
    sections.get_by_role("button", name="A lost key").click()
    expect(article.get_by_role("heading", name="A lost key")).to_be_focused()
    expect(article.locator(".graph svg")).to_be_visible()
    expect(article.get_by_role("heading", name="Names in this document")).to_be_visible()
    # The text comes first, and its links lead to other documents.
    text = article.locator(".article-text")
    assert text.bounding_box()["x"] < article.locator(".article-side").bounding_box()["x"]
    text.get_by_role("link", name="releases", exact=True).click()
    expect(article.get_by_role("heading", name="Releases", level=2)).to_be_visible()
    expect(article).to_contain_text("first Tuesday of the month")
    page.go_back()
    expect(article.get_by_role("heading", name="Signing keys", level=2)).to_be_visible()


def test_the_pack_is_chosen(visit, notes_server):
    page = visit(notes_server, "#/documents").page
    expect(page.get_by_text("5 documents, most linked")).to_be_visible()
    page.get_by_label("Pack").select_option("poison")
    expect(page.get_by_text("1 document, most linked")).to_be_visible()
    page.reload()
    expect(page.get_by_label("Pack")).to_have_value("poison")


def test_all_packs_are_searched_and_filtered(visit, notes_server):
    page = visit(notes_server, "#/search").page
    box = page.get_by_label("Search in all packs")
    box.fill("ice for a wasp sting or a backup restore")
    box.press("Enter")
    hits = page.locator(".hit")
    expect(page.locator("#search .small").first).to_contain_text("in 2 packs, best first")
    expect(hits.filter(has_text="poison").locator("mark").first).to_be_visible()
    page.get_by_text("Filters").click()
    page.get_by_label("Pack", exact=True).last.select_option("notes")
    expect(page.locator("#search .small").first).to_contain_text("in 1 pack")
    page.get_by_label("Path starts with").fill("operations/")
    page.get_by_label("Path starts with").press("Tab")
    expect(hits.filter(has_text="Signing keys")).to_have_count(0)
    expect(hits.filter(has_text="Backups").first).to_be_visible()
    page.get_by_label("Type").select_option("md")
    hits.filter(has_text="Testing a restore").first.click()
    panel = page.get_by_role("dialog")
    expect(panel.locator("mark.quoted").first).to_be_visible()
    assert "path=operations" in page.url


def test_the_graph_is_explored(visit, notes_server):
    page = visit(notes_server, "#/documents?article=operations/on-call.md").page
    graph = page.locator("article .graph")
    backups = graph.get_by_role("button", name="Backups", exact=True)
    expect(backups).to_be_visible()
    expect(page.locator(".legend")).to_contain_text("document")
    before = graph.locator("svg").get_attribute("viewBox")
    graph.get_by_role("button", name="Zoom in").click()
    assert graph.locator("svg").get_attribute("viewBox") != before
    graph.get_by_role("button", name="Show all").click()
    assert graph.locator("svg").get_attribute("viewBox") == before
    backups.focus()
    page.keyboard.press(" ")
    expect(page.locator(".graph-status")).to_contain_text("neighbour")
    page.get_by_role("button", name="Open Backups").click()
    expect(page.get_by_role("heading", name="Backups", level=2)).to_be_visible()


def test_without_a_report_the_evaluation_says_how_to_make_one(visit, notes_server):
    seen = visit(notes_server, "#/evaluation")
    seen.expected.append("404")
    commands = seen.page.get_by_role("region", name="Commands")
    expect(commands).to_contain_text("packwise eval FOLDER --json > report.json")
    expect(commands).to_contain_text("packwise serve STORE --report report.json")


def test_the_report_is_shown(visit, served, tmp_path_factory):
    file = tmp_path_factory.mktemp("report") / "report.json"
    file.write_text(json.dumps(REPORT), encoding="utf-8")
    page = visit(served("--report", str(file)), "#/evaluation").page
    figures = page.get_by_role("region", name="Figures of handbook")
    expect(figures.locator("tbody tr").first).to_contain_text("hybrid")
    expect(figures.locator(".best").first).to_contain_text("0.720")
    expect(page.get_by_role("heading", name="handbook 1,200 questions")).to_be_visible()
    row = page.get_by_role("region", name="Paired differences").locator("tbody tr")
    expect(row.first).to_have_class("significant")
    expect(row.first).to_contain_text("+0.070 [+0.030, +0.110]")
    expect(row.first).to_contain_text("reliable")
    expect(row.first.locator(".interval")).to_have_attribute("aria-hidden", "true")
    # Five questions: the interval excludes zero, but p = 0.125 is no evidence.
    expect(row.last).to_contain_text("may be chance")
    expect(row.last).not_to_have_class("significant")


def test_a_server_that_is_gone_is_said_calmly_and_tried_again(visit, served):
    server = served()
    seen = visit(server)
    seen.expected.append("ERR_CONNECTION_REFUSED")
    page = seen.page
    expect(page.locator(".example").first).to_be_visible()
    port = server.port
    server.stop(signal.SIGKILL)
    box = page.get_by_role("textbox", name="Question")
    box.fill("How long is a backup kept?")
    box.press("Enter")
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("The server cannot be reached. Is packwise serve still running?")
    server.start(port)
    page.get_by_role("button", name="Try again").click()
    expect(answered(page)).to_contain_text("ninety days")
    expect(alert).to_have_count(0)


def test_an_answer_that_is_not_ready_in_time_is_one_line(visit, served, model):
    seen = threading.Event()

    def too_late(handler, body):
        seen.wait(PATIENCE)
        text("Too late.")(handler, body)

    model.will(too_late)
    language_model = {"PACKWISE_LLM_URL": model.url, "PACKWISE_LLM_MODEL": "sleeper"}
    visited = visit(served("--deadline", "5", **language_model))
    visited.expected.append("504")  # on a busy machine the examples may be late too
    page = visited.page
    box = page.get_by_role("textbox", name="Question")
    box.fill("How long is a backup kept?")
    box.press("Enter")
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("The answer was not ready in time.")
    assert len(alert.locator("p").inner_text().splitlines()) == 1
    expect(page.get_by_role("button", name="Try again")).to_be_visible()
    seen.set()


def test_a_key_is_asked_for_kept_for_the_tab_and_its_rate_is_explained(
    visit, served, tmp_path_factory, plain_environment
):
    keys = tmp_path_factory.mktemp("keys") / "keys.json"
    command = [
        sys.executable,
        "-m",
        "packwise",
        "serve",
        "keys",
        "add",
        "--all",
        "--keys",
        str(keys),
    ]
    made = subprocess.run(
        command, env=plain_environment, capture_output=True, text=True, check=True
    )
    seen = visit(served("--keys", str(keys), "--rate", "1", "--burst", "14"))
    seen.expected += ["401", "429"]
    page = seen.page
    field = page.get_by_label("API key")
    expect(field).to_be_focused()
    field.fill("no-such-key")
    field.press("Enter")
    expect(page.get_by_text("This key is not valid.")).to_be_visible()
    field.fill(made.stdout.strip())
    field.press("Enter")
    expect(page.get_by_role("heading", name="Ask notes")).to_be_visible()
    assert page.evaluate("sessionStorage.getItem('packwise.key')") == made.stdout.strip()
    assert page.evaluate("localStorage.length") == 0
    page.reload()
    expect(page.get_by_role("heading", name="Ask notes")).to_be_visible()
    box = page.get_by_role("textbox", name="Question")
    for _ in range(15):
        box.fill("How long is a backup kept?")
        with page.expect_response(lambda response: "/v1/ask" in response.url) as answered:
            box.press("Enter")
        if answered.value.status == 429:
            break
    told = page.get_by_role("alert").filter(has_text="Too many questions at once.").first
    expect(told).to_be_visible()
    expect(told).to_contain_text(re.compile(r"Ask again in \d+ s\."))


@pytest.mark.parametrize("status", [500, 502])
def test_an_error_of_the_server_is_one_line(visit, notes_server, status):
    # No request is known that a whole server answers so; a broken one, or a proxy, may.
    seen = visit(notes_server)
    seen.expected.append(str(status))
    page = seen.page
    page.route("**/v1/ask", lambda route: route.fulfill(status=status, body="<h1>Bad</h1>"))
    box = page.get_by_role("textbox", name="Question")
    box.fill("How long is a backup kept?")
    box.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("The server could not answer.")
    page.unroute("**/v1/ask")
    page.get_by_role("button", name="Try again").click()
    expect(answered(page)).to_contain_text("ninety days")
