"""A newcomer on an empty folder: drops five files, asks, opens the sources, asks on, shares the
link and says that an answer was right."""

import base64
import json
import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from island_files import island_files
from page_server import MILLISECONDS, Running

QUESTIONS = (
    "Who was the last keeper of the lighthouse?",
    "When was the mulberry planted?",
    "How much does a ticket for a bicycle cost?",
)
DROP = """files => {
  const transfer = new DataTransfer();
  for (const [name, text] of files) {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    transfer.items.add(new File([bytes], name));
  }
  const drop = (kind) => new DragEvent(kind, { dataTransfer: transfer, bubbles: true });
  document.body.dispatchEvent(drop("dragover"));
  document.body.dispatchEvent(drop("drop"));
}"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("island")


@pytest.fixture(scope="module")
def server(folder, plain_environment):
    running = Running([str(folder), "--deadline", "300"], plain_environment).start()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def newcomer(chromium, server):
    """Their page, with the server's empty start."""
    context = chromium.new_context(
        viewport={"width": 1280, "height": 900},
        reduced_motion="reduce",
        permissions=["clipboard-read", "clipboard-write"],
    )
    page = context.new_page()
    page.set_default_timeout(MILLISECONDS)
    complaints = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(server.url)
    expect(page.get_by_role("heading", name="Ask your documents")).to_be_visible()
    yield page
    assert complaints == []
    context.close()


def without_violations(page):
    return [one["id"] for one in Axe().run(page).response["violations"]] == []


def test_an_empty_start_explains_itself(chromium, server):
    context = chromium.new_context(viewport={"width": 360, "height": 740}, color_scheme="dark")
    page = context.new_page()
    page.set_default_timeout(MILLISECONDS)
    page.goto(server.url)
    expect(page.get_by_text("Drop files or a folder here")).to_be_visible()
    expect(page.get_by_text("up to 67 MB each")).to_be_visible()
    assert page.get_by_role("button", name="Choose a folder").is_visible()
    assert without_violations(page)
    context.close()


@pytest.fixture(scope="module")
def made(newcomer):
    """Five files are dropped, and a pack is made of them."""
    files = [[name, base64.b64encode(data).decode()] for name, data in island_files().items()]
    newcomer.evaluate(DROP, [*files, ["film.mp4", ""]])
    newcomer.get_by_label("Name of the pack").fill("island")
    newcomer.get_by_role("button", name="Make the pack").click()
    expect(newcomer.get_by_role("heading", name="Ask island")).to_be_visible()
    return newcomer


def test_five_dropped_files_become_a_pack(made, folder):
    expect(made.get_by_text("Answers come from its 5 documents")).to_be_visible()
    kept = sorted(path.name for path in (folder / "documents" / "island").iterdir())
    assert kept == ["boats.csv", "ferry.docx", "garden.md", "lighthouse.pdf", "museum.html"]
    assert without_violations(made)


@pytest.fixture(scope="module")
def asked(made):
    """Three questions, one after the other."""
    box = made.get_by_role("textbox", name="Question")
    for number, question in enumerate(QUESTIONS):
        box.fill(question)
        box.press("Enter")
        turn = made.locator(".turn").nth(number)
        expect(turn.get_by_role("button", name="Copy link")).to_be_visible()
    return made


@pytest.mark.parametrize(
    ("number", "answer", "title", "sentence", "exact"),
    [
        (0, "Ada Merrin", "The harbour light", "The last keeper, Ada Merrin, left", "Ada Merrin"),
        (1, "1881", "The walled garden", "mulberry", "1881"),
        (2, "four pounds", "Ferry rules", "A ticket for a bicycle costs four pounds.", None),
    ],
)
def test_each_citation_opens_at_its_place(asked, number, answer, title, sentence, exact):
    turn = asked.locator(".turn").nth(number)
    expect(turn.get_by_label("Answer", exact=True)).to_contain_text(answer)
    expect(turn.locator(".certainty")).to_have_text(re.compile("^(Likely|Unsure)$"))
    turn.get_by_role("button", name="Source 1", exact=True).first.click()
    panel = asked.get_by_role("dialog")
    expect(panel.get_by_role("heading", name=title)).to_be_visible()
    quoted = panel.locator("mark.quoted")
    expect(quoted.first).to_be_in_viewport()
    assert sentence in "".join(quoted.all_inner_texts())
    if exact:
        expect(panel.locator("mark.exact")).to_have_text(exact)
    # The answer stays in sight beside it.
    assert panel.bounding_box()["x"] >= turn.locator(".answer").bounding_box()["width"]
    asked.keyboard.press("Escape")
    expect(panel).to_be_hidden()


def test_a_document_of_each_kind_looks_like_itself(asked, server):
    page = asked.context.new_page()
    page.set_default_timeout(MILLISECONDS)
    page.goto(f"{server.url}/#/documents?store=island&article=garden.md")
    text = page.locator(".article-text")
    expect(text.locator("ol > li > ul > li").first).to_have_text("Rosa gallica")
    expect(text.get_by_role("columnheader").first).to_have_text("plant")
    # Numbers and dates are not broken.
    expect(text.locator("td .one-line").first).to_have_css("white-space-collapse", "collapse")
    expect(text.locator("td .one-line").first).to_have_css("text-wrap-mode", "nowrap")
    expect(text.locator("pre .code-word").first).to_have_text("def")
    text.get_by_role("link", name="the ferry").click()
    expect(page.get_by_role("heading", name="Ferry rules", level=2)).to_be_visible()
    expect(text.get_by_role("heading", name="Bicycles")).to_be_visible()
    page.goto(f"{server.url}/#/documents?store=island&article=lighthouse.pdf")
    expect(text.locator(".place").last).to_have_text("page 2")
    page.goto(f"{server.url}/#/documents?store=island&article=museum.html")
    link = text.get_by_role("link", name="https://example.org/voss")
    expect(link).to_have_attribute("rel", "noreferrer noopener")
    page.close()


@pytest.fixture(scope="module")
def followed(asked):
    box = asked.get_by_role("textbox", name="Question")
    box.fill("And how much is it for a tandem?")
    box.press("Enter")
    expect(asked.locator(".turn").nth(3).get_by_role("button", name="Copy link")).to_be_visible()
    return asked


def test_a_follow_up_is_asked_in_place(followed):
    turn = followed.locator(".turn").nth(3)
    expect(turn.get_by_text("Understood as: How much does a ticket")).to_be_visible()
    expect(turn.get_by_label("Answer", exact=True)).to_contain_text("six pounds")
    expect(followed.locator(".turn")).to_have_count(4)


def test_the_conversation_reopens_without_asking_again(followed, server):
    requests = []
    page = followed.context.new_page()
    page.set_default_timeout(MILLISECONDS)
    page.on("request", lambda request: requests.append(request.url))
    page.goto(server.url)
    row = page.get_by_label("Conversations").get_by_role("listitem").first
    row.get_by_role("link", name=re.compile("last keeper")).click()
    expect(page.locator(".turn")).to_have_count(4)
    expect(page.get_by_text("Ada Merrin").first).to_be_visible()
    assert not [url for url in requests if "/v1/ask" in url]
    # It gets another name, and then it goes.
    row.get_by_role("button", name=re.compile("^Change")).click()
    row.get_by_role("button", name="Rename").click()
    row.get_by_label("Name of the conversation").fill("The island")
    row.get_by_role("button", name="Save").click()
    expect(row.get_by_role("link", name=re.compile("The island"))).to_be_visible()
    page.reload()
    expect(page.locator(".turn")).to_have_count(4)
    row.get_by_role("button", name=re.compile("^Change")).click()
    row.get_by_role("button", name="Delete").click()
    expect(page.get_by_label("Conversations").get_by_role("listitem")).to_have_count(0)
    expect(page.get_by_role("heading", name="Ask island")).to_be_visible()
    page.close()


def test_the_link_asks_the_same_of_the_same_pack_elsewhere(followed, chromium):
    turn = followed.locator(".turn").nth(1)
    turn.get_by_role("button", name="Copy link").click()
    expect(turn.get_by_role("button", name="Copied")).to_be_visible()
    link = followed.evaluate("navigator.clipboard.readText()")
    assert "store=island" in link
    context = chromium.new_context()
    page = context.new_page()
    page.set_default_timeout(MILLISECONDS)
    with page.expect_request(lambda request: "/v1/ask" in request.url) as request:
        page.goto(f"{link}&mode=keyword&budget=300")
    sent = request.value.post_data_json
    assert (sent["store"], sent["mode"], sent["budget"]) == ("island", "keyword", 300)
    expect(page.get_by_label("Answer", exact=True)).to_contain_text("1881")
    context.close()


def test_a_thumb_is_found_in_the_judged_file(followed, folder):
    turn = followed.locator(".turn").nth(1)
    turn.get_by_role("button", name="Right", exact=True).click()
    expect(turn.get_by_text("Thank you. It is saved with the pack.")).to_be_visible()
    turn = followed.locator(".turn").nth(2)
    turn.get_by_role("button", name="Wrong", exact=True).click()
    turn.get_by_label("What would be right?").fill("Four pounds in summer.")
    turn.get_by_role("button", name="Send").click()
    expect(turn.get_by_text("Thank you. It is saved with the pack.")).to_be_visible()
    lines = (folder / "island" / "eval" / "feedback.jsonl").read_text().splitlines()
    right, wrong = map(json.loads, lines)
    assert (right["question"], right["verdict"]) == (QUESTIONS[1], "right")
    assert right["passages"][0].startswith("garden.md#")
    assert (wrong["verdict"], wrong["right_answer"]) == ("wrong", "Four pounds in summer.")


def test_documents_are_removed_and_the_pack_renamed_and_deleted(followed, server, folder):
    page = followed.context.new_page()
    page.set_default_timeout(MILLISECONDS)
    page.goto(f"{server.url}/#/documents?store=island")
    page.get_by_role("button", name="Files", exact=True).click()
    page.get_by_role("button", name="Remove boats.csv").click()
    expect(page.get_by_text("4 documents, most linked first")).to_be_visible()
    assert not (folder / "documents" / "island" / "boats.csv").exists()
    page.get_by_role("button", name="Rename").click()
    page.get_by_label("New name").fill("isle")
    page.get_by_role("button", name="Rename it").click()
    expect(page.get_by_role("heading", name="Documents of isle")).to_be_visible()
    page.get_by_role("button", name="Delete").click()
    assert without_violations(page)
    page.get_by_role("button", name="Delete it").click()
    expect(page.get_by_text("Drop files or a folder here").first).to_be_visible()
    assert not (folder / "isle").exists()
    page.close()
