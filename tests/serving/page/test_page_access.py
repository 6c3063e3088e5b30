"""The page for everybody: by keyboard, on a phone, in the dark, read aloud; and light to load."""

import re
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

import packwise.serving
from tests_world import wait_until

FOLDER = Path(packwise.serving.__file__).parent / "page"
HEAVIEST = 80_000
ASKED = "#/ask?q=How+do+I+rotate+the+signing+key%3F"
VIEWS = {
    "ask": ("#/ask", ".example"),
    "asked": (ASKED, ".how"),
    "found": (ASKED, "#neighbourhood .graph svg"),
    "source": (ASKED, "dialog mark.quoted"),
    "search": ("#/search?q=signing+key", ".hit"),
    "compare": ("#/compare?q=How+do+I+rotate+the+signing+key%3F", ".ranked"),
    "documents": ("#/documents", ".articles a"),
    "reading": ("#/documents?article=guides/keys.md", "article .graph svg"),
    "evaluation": ("#/evaluation", ".command"),
}


def violations(page):
    """What axe finds wrong with the page as it is, and where."""
    found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    return [(one["id"], [node["html"][:120] for node in one["nodes"]][:4]) for one in found]


def opened(visit, server, name, **options):
    address, ready = VIEWS[name]
    seen = visit(server, address, **options)
    if name == "evaluation":
        seen.expected.append("404")
    if name == "found":
        seen.page.get_by_text("How it was found").click()
    if name == "source":
        seen.page.get_by_role("button", name="Source 1").first.click()
    expect(seen.page.locator(ready).first).to_be_visible()
    return seen.page


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_is_sound_on_a_phone_in_the_dark(visit, notes_server, view):
    """axe finds nothing, there is one main heading, nothing is too wide, and a finger hits
    every control."""
    phone = {"width": 360, "height": 740}
    page = opened(visit, notes_server, view, viewport=phone, has_touch=True, color_scheme="dark")
    assert violations(page) == []
    assert page.locator("section:not([hidden]) h1").count() == 1
    wide = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(wide) <= 0
    assert page.evaluate(SMALL) == []


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_is_sound_on_a_desk_in_the_light(visit, notes_server, view):
    page = opened(visit, notes_server, view, color_scheme="light")
    if view != "source":
        page.evaluate("document.querySelectorAll('details').forEach((n) => { n.open = true })")
    assert violations(page) == []
    wide = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(wide) <= 0
    assert page.evaluate(SMALL) == []


SMALL = """() => [...document.querySelectorAll(
    'a[href], button, input, select, textarea, summary, [role="button"]')]
  .filter(node => node.getClientRects().length)
  .filter(node => !node.closest('[hidden], svg, .skip, p, .sr-only, .reading'))
  // A number in a sentence is as high as its line; a box is hit by its label, too.
  .filter(node => !node.matches('.cite, .sr-only, [type="checkbox"]'))
  .map(node => [Math.round(node.getBoundingClientRect().height), node])
  .filter(([high]) => high < 40)
  .map(([high, node]) => `${high} ${node.outerHTML.slice(0, 90)}`)"""


def test_a_number_in_a_sentence_is_as_large_as_a_fingertip(visit, notes_server):
    page = opened(visit, notes_server, "asked", viewport={"width": 390, "height": 800})
    hit = """() => {
      const mark = document.querySelector("button.cite");
      const box = mark.getBoundingClientRect();
      const [x, y] = [box.left + box.width / 2, box.top + box.height / 2];
      return [[0, 19], [0, -19], [19, 0], [-19, 0]].every(
        ([dx, dy]) => document.elementFromPoint(x + dx, y + dy) === mark);
    }"""
    assert page.evaluate(hit)


def press_until(page, key, selector, most=60):
    for _ in range(most):
        if page.evaluate("s => document.activeElement.matches(s)", selector):
            return
        page.keyboard.press(key)
    raise AssertionError(f"{selector} was not reached with {key}")


def test_all_of_it_works_without_a_mouse(visit, notes_server):
    page = visit(notes_server).page
    box = page.get_by_role("textbox", name="Question")
    expect(box).to_be_focused()
    page.keyboard.type("How do I rotate the signing key?")
    page.keyboard.press("Enter")
    expect(page.locator(".how")).to_be_visible()

    # To the source, into its panel, and back to where one was.
    press_until(page, "Shift+Tab", "button.cite")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline != "none"
    page.keyboard.press("Enter")
    panel = page.get_by_role("dialog")
    expect(panel.locator("mark.quoted").first).to_be_visible()
    assert page.evaluate("document.querySelector('dialog').contains(document.activeElement)")
    page.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    assert page.evaluate("document.activeElement.matches('button.cite')")

    # How it was found: through the candidates to the budget, which the arrow keys move.
    press_until(page, "Tab", ".how > summary")
    page.keyboard.press("Enter")
    expect(page.locator("#neighbourhood .graph svg")).to_be_visible()
    press_until(page, "Tab", ".rank-row")
    press_until(page, "Tab", "#budget-slider")
    page.keyboard.press("Home")
    expect(page.locator(".budget-status")).to_contain_text("of 50 tokens")
    press_until(page, "Tab", ".greyed .pack-row")
    press_until(page, "Tab", "#threshold")
    page.keyboard.press("End")
    expect(page.locator(".gate-status")).to_contain_text("would be held back")

    # Into the graph and along it.
    press_until(page, "Tab", ".graph .node")
    before = page.evaluate("document.activeElement.getAttribute('aria-label')")
    for key in ("ArrowRight", "ArrowLeft", "ArrowDown", "ArrowUp"):
        page.keyboard.press(key)
        if page.evaluate("document.activeElement.getAttribute('aria-label')") != before:
            break
    else:
        raise AssertionError("the arrow keys led nowhere")

    # Back to the box, and out of it to another view.
    page.keyboard.press("/")
    expect(box).to_be_focused()
    page.evaluate("scrollTo(0, 0)")
    page.locator(".mark").focus()
    press_until(page, "Tab", '[data-view="documents"]')
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Documents of notes")).to_be_visible()


def test_the_first_tab_skips_to_the_content(visit, notes_server):
    page = visit(notes_server, "#/documents").page
    expect(page.locator(".articles a").first).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    expect(page.get_by_role("heading", name="Documents of notes")).to_be_visible()


def test_screen_readers_skip_what_is_only_drawn(visit, notes_server):
    page = opened(visit, notes_server, "found")
    for decoration in (".slash", ".bump", ".dots"):
        expect(page.locator(decoration)).to_have_attribute("aria-hidden", "true")
    page.goto(f"{notes_server.url}/#/compare?q=How+long+is+a+backup+kept%3F")
    badges = page.locator(".badge")
    expect(badges.first).to_be_attached()
    for badge in badges.all():
        expect(badge).to_have_attribute("aria-hidden", "true")


def test_the_answer_is_announced(visit, notes_server):
    page = opened(visit, notes_server, "asked")
    answer = page.get_by_label("Answer", exact=True)
    expect(answer).to_have_attribute("aria-live", "polite")
    expect(page.locator("#announcer")).to_contain_text("Answered from 1 source.")


@pytest.mark.parametrize(("motion", "moves"), [("reduce", False), ("no-preference", True)])
def test_nothing_moves_for_who_wants_it_still(visit, notes_server, motion, moves):
    page = opened(visit, notes_server, "asked", reduced_motion=motion)
    page.locator("button.source").first.click()
    name = page.evaluate("getComputedStyle(document.querySelector('dialog')).animationName")
    assert (name != "none") == moves


def test_the_whole_page_is_four_small_files(visit, notes_server):
    seen = visit(notes_server, "#/ask")
    seen.expected.append("404")
    page = seen.page
    expect(page.locator("#ask h1")).to_be_visible()
    for view in ("search", "compare", "documents", "evaluation"):
        page.locator(f'[data-view="{view}"]').click()
        expect(page.locator(f"#{view} h1")).to_be_visible()

    def loaded():
        entries = page.evaluate(
            """() => ['navigation', 'resource'].flatMap(kind => performance.getEntriesByType(kind))
                .map(entry => [new URL(entry.name).pathname.slice(1), entry.encodedBodySize])"""
        )
        return {name or "page": size for name, size in entries if not name.startswith("v1/")}

    # The icon is fetched whenever the browser finds the time.
    wait_until(lambda: "icon.svg" in loaded(), "every file is loaded")
    files = loaded()
    assert len(files) == 4
    assert sum(files.values()) < HEAVIEST


def test_its_files_come_with_a_strict_policy_and_name_no_other_host(visit, notes_server):
    page = visit(notes_server).page
    policy = page.request.get(f"{notes_server.url}/").headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for file in FOLDER.iterdir():
        hosts = re.findall(r"https?://([\w.-]+)", file.read_text("utf-8"))
        assert set(hosts) <= {"www.w3.org"}, file.name
