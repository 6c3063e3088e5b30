"""The page for everybody: by keyboard, on a phone, in the dark, read aloud; and light to load."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

import packwise.serving
from tests_world import wait_until

FOLDER = Path(packwise.serving.__file__).parent / "page"
HEAVIEST = 200_000
ASKED = "#/ask?q=How+do+I+rotate+the+signing+key%3F"
VIEWS = {
    "ask": ("#/ask", ".example"),
    "asked": (ASKED, "#neighbourhood .graph svg"),
    "compare": ("#/compare?q=How+do+I+rotate+the+signing+key%3F", ".ranked"),
    "browse": ("#/browse?article=guides/keys.md", "article .graph svg"),
    "evaluation": ("#/evaluation", ".command"),
}

NAMELESS = """() => [...document.querySelectorAll(
    'a[href], button, input, select, textarea, summary, [tabindex="0"], [role="button"]')]
  .filter(node => node.getClientRects().length && !node.closest('[hidden]'))
  .filter(node => {
    const by = (node.getAttribute('aria-labelledby') || '').split(' ')
      .map(id => document.getElementById(id)?.textContent || '').join('');
    const label = node.id ? document.querySelector(`label[for="${node.id}"]`)?.textContent : '';
    return !(node.getAttribute('aria-label') || by || label || node.textContent).trim();
  }).map(node => node.outerHTML.slice(0, 120))"""

FAINT = """() => {
  const channel = v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const read = text => {
    const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number);
    return [r, g, b, a];
  };
  const over = (top, under) => [0, 1, 2].map(i => top[i] * top[3] + under[i] * (1 - top[3]));
  const behind = node => {
    const layers = [];
    for (let at = node; at; at = at.parentElement) {
      const colour = read(getComputedStyle(at).backgroundColor);
      if (colour[3]) layers.push(colour);
      if (colour[3] === 1) break;
    }
    return layers.reverse().reduce((under, layer) => over(layer, under), [255, 255, 255]);
  };
  const found = [];
  const walker = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    const style = getComputedStyle(node);
    if (!walker.currentNode.data.trim() || !node.getClientRects().length) continue;
    if (style.visibility === 'hidden' || node.closest('.sr-only, option')) continue;
    const under = behind(node);
    const ink = over(read(node.closest('svg') ? style.fill : style.color), under);
    const [high, low] = [light(ink), light(under)].sort((a, b) => b - a);
    const ratio = (high + 0.05) / (low + 0.05);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (large ? 3 : 4.5)) {
      found.push(`${ratio.toFixed(2)} ${node.className} ${walker.currentNode.data.slice(0, 30)}`);
    }
  }
  return found;
}"""


def opened(visit, server, name, **options):
    address, ready = VIEWS[name]
    seen = visit(server, address, **options)
    if name == "evaluation":
        seen.expected.append("404")
    expect(seen.page.locator(ready).first).to_be_visible()
    return seen.page


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_is_sound(visit, notes_server, view):
    """Every control has a name, ids are unique, there is one main heading, and nothing is
    wider than a phone."""
    page = opened(visit, notes_server, view, viewport={"width": 360, "height": 740})
    assert page.evaluate(NAMELESS) == []
    doubled = "() => { const ids = [...document.querySelectorAll('[id]')].map(n => n.id); "
    doubled += "return ids.filter((id, at) => ids.indexOf(id) !== at) }"
    assert page.evaluate(doubled) == []
    assert page.locator("section:not([hidden]) > h1, section:not([hidden]) > .hero h1").count() == 1
    wide = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(wide) <= 0
    page.set_viewport_size({"width": 1280, "height": 900})
    assert page.evaluate(NAMELESS) == []
    assert page.evaluate(wide) <= 0


SMALL = """() => [...document.querySelectorAll(
    'a[href], button, input, select, textarea, summary, [role="button"]')]
  .filter(node => node.getClientRects().length && !node.closest('[hidden], svg, .skip, p'))
  // A number in a sentence is as high as its line; a box is hit by its label, too.
  .filter(node => !node.matches('.cite, [type="checkbox"]'))
  .map(node => [Math.round(node.getBoundingClientRect().height), node])
  .filter(([high]) => high < 40)
  .map(([high, node]) => `${high} ${node.outerHTML.slice(0, 90)}`)"""


@pytest.mark.parametrize("view", VIEWS)
def test_a_finger_hits_every_control(visit, notes_server, view):
    page = opened(visit, notes_server, view, viewport={"width": 390, "height": 800}, has_touch=True)
    page.evaluate("document.querySelectorAll('details').forEach((node) => { node.open = true })")
    assert page.evaluate(SMALL) == []
    if view == "asked":
        page.locator("button.source").first.click()
        expect(page.locator("dialog mark").first).to_be_visible()
        assert page.evaluate(SMALL) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", VIEWS)
def test_text_stands_out_from_what_is_behind_it(visit, notes_server, view, scheme):
    page = opened(visit, notes_server, view, color_scheme=scheme)
    back = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(int(part) for part in back[4:-1].split(",")) > 380) == (scheme == "light")
    assert page.evaluate(FAINT) == []


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
    expect(page.locator("#neighbourhood .graph svg")).to_be_visible()

    # To the source, into its panel, and back to where one was.
    press_until(page, "Tab", "button.cite")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline != "none"
    page.keyboard.press("Enter")
    panel = page.get_by_role("dialog")
    expect(panel.locator("mark.quoted")).to_be_visible()
    assert page.evaluate("document.querySelector('dialog').contains(document.activeElement)")
    page.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    assert page.evaluate("document.activeElement.matches('button.cite')")

    # Through the candidates to the budget, which the arrow keys move.
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
    press_until(page, "Shift+Tab", '[data-view="browse"]')
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Browse the pack")).to_be_visible()


def test_the_first_tab_skips_to_the_content(visit, notes_server):
    page = visit(notes_server, "#/browse").page
    expect(page.locator(".articles a").first).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    expect(page.get_by_role("heading", name="Browse the pack")).to_be_visible()


def test_screen_readers_skip_what_is_only_drawn(visit, notes_server):
    page = visit(notes_server, "#/ask?q=How+long+is+a+backup+kept%3F").page
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


def test_the_whole_page_is_light(visit, notes_server):
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) < HEAVIEST
    seen = visit(notes_server, "#/ask")
    seen.expected.append("404")
    page = seen.page
    expect(page.locator("#ask h1")).to_be_visible()
    for view in ("compare", "browse", "evaluation"):
        page.get_by_role("link", name=view.title()).click()
        expect(page.locator(f"#{view} h1")).to_be_visible()

    def loaded():
        entries = page.evaluate(
            """() => ['navigation', 'resource'].flatMap(kind => performance.getEntriesByType(kind))
                .map(entry => [new URL(entry.name).pathname.slice(1), entry.decodedBodySize])"""
        )
        return {name or "index.html": size for name, size in entries if not name.startswith("v1/")}

    every = {file.name for file in FOLDER.iterdir()}
    # The icon is fetched whenever the browser finds the time.
    wait_until(lambda: loaded().keys() >= every, "every file is loaded")
    files = loaded()
    assert files.keys() == every
    assert all(files.values())
    assert sum(files.values()) < HEAVIEST


def test_its_files_come_with_a_strict_policy_and_name_no_other_host(visit, notes_server):
    page = visit(notes_server).page
    policy = page.request.get(f"{notes_server.url}/").headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for file in FOLDER.iterdir():
        hosts = re.findall(r"https?://([\w.-]+)", file.read_text("utf-8"))
        assert set(hosts) <= {"www.w3.org"}, file.name
