"""Which part of an HTML page is its content, and what in it is navigation, a note or an icon."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packwise.sources.linked_text import said_of_image

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

_MAYBE_NAVIGATION = re.compile(
    r"(?i)(?<![a-z])(?:nav|navigation|menu|mainmenu|toc|sidebar|breadcrumbs?|footer|header)(?![a-z])"
)
"""Names of classes and ids that mean navigation if the element is little else than links."""
_MOSTLY_LINKS = 0.6
_INDEX = re.compile(
    r"(?i)(?:(?:chapter |appendix )?(?:[\dA-Z]{1,3}[. -]+)*(?:[\w-]+ ){0,3}index|table of contents)"
    r"(?: \([^()]{1,40}\))?"
)
"""The title of a page that lists where words or sections are; Texinfo adds the manual's name."""
_OF_INDEX = 0.4
_PAGER_WORDS = re.compile(
    r"(?i)(?:prev(?:ious)?|next|up|home|top|back)(?: (?:page|chapter|section))?"
)
_ARROW = re.compile(r"<+-*|-*>+|[←→«»‹›]")
_PAGER_RELATIONS = frozenset("prev previous next up start first last".split())
"""What a pager link says about the page that it leads to."""
MOST_CHECKED = 200
"""Elements of a page whose text is compared with their links: each may hold the next."""
_SHORT = 200
_LONGEST_PAGER = 40
_LIKELY_CONTENT = (
    "[itemprop=articleBody], div.body, div.document, .rst-content, .markdown-body, "
    "#mw-content-text, .entry-content, .post-content, #content, #main-content"
)
_BOXES = frozenset("note warning tip caution important admonition danger hint attention".split())
_FIGURE_DEPTH, _FEW_WORDS = 5, 80


def content_of(page: LexborHTMLParser) -> LexborNode | None:
    """The element with the content of the page."""
    for query in ("main, [role=main]", "article"):
        found = [node for node in page.css(query)[:MOST_CHECKED] if node.text(strip=True)]
        if len(found) == 1:
            return found[0]
    if (body := page.body) is None:
        return None
    own = _own_text(body)
    for found in page.css(_LIKELY_CONTENT)[:MOST_CHECKED]:
        if 2 * _own_text(found) > own:
            return found
    return body


def title_above(page: LexborHTMLParser, content: LexborNode, title: str) -> LexborNode | None:
    """What stands above the content with the only main heading, if that is the title of the page:
    AsciiDoc says there what a command does."""
    headings = page.css("h1")
    if len(headings) != 1 or not title or content.parent is None:
        return None
    node = headings[0]
    if not " ".join(node.text().split()).startswith(title):
        return None
    for _ in range(_FIGURE_DEPTH):
        if node.parent is None or node.parent == content.parent:
            break
        node = node.parent
    above = node.parent == content.parent and node != content
    return node if above and not is_navigation(node) else None


def may_be_navigation(node: LexborNode) -> bool:
    """Whether an element is named like navigation."""
    named = f"{node.attributes.get('class') or ''} {node.attributes.get('id') or ''}"
    return _MAYBE_NAVIGATION.search(named) is not None


def is_navigation(node: LexborNode) -> bool:
    """Whether an element that may be navigation is little else than links, or a short line with
    links to the pages before and after."""
    text = node.text()
    linked = sum(_letters(link.text()) for link in node.css("a[href]"))
    if linked > _MOSTLY_LINKS * _letters(text):
        return True
    return len(text.strip()) < _SHORT and any(map(is_pager, node.css("a[href]")))


def is_mark(node: LexborNode) -> bool:
    """Whether a link only marks a place of its own page, or leads to its top."""
    text = node.text(strip=True)
    return _leads_to_own_page(node) and len(text) < 3 and not any(map(str.isalnum, text))


def is_place_number(node: LexborNode) -> bool:
    """Whether an element is only the number of a paragraph, which is a link to it."""
    link = node.css_first("a[href]")
    return link is not None and _leads_to_own_page(link) and node.text(strip=True).isdecimal()


def _leads_to_own_page(link: LexborNode) -> bool:
    return (link.attributes.get("href") or "").startswith("#")


def is_pager(node: LexborNode) -> bool:
    """Whether a link leads to the page before or after its own: its relation says so, or a word
    such as "next" with an arrow, or as the text of an image."""
    if not _PAGER_RELATIONS.isdisjoint((node.attributes.get("rel") or "").split()):
        return True
    text = node.text(strip=True)
    shown, arrows = _ARROW.subn("", text[:_LONGEST_PAGER])
    if not text and (image := node.css_first("img[alt]")):
        shown, arrows = image.attributes.get("alt") or "", 1
    return (
        arrows > 0
        and len(text) < _LONGEST_PAGER
        and _PAGER_WORDS.fullmatch(shown.strip()) is not None
    )


def is_index(title: str, content: LexborNode) -> bool:
    """Whether a page is the index or the contents of a book: words, and links to where they occur.
    It would match every question, and answers none."""
    if not _INDEX.fullmatch(" ".join(title.split())):
        return False
    return _link_text(content) > _OF_INDEX * len(content.text(strip=True))


def _own_text(node: LexborNode) -> int:
    """The characters of an element that are not part of a link."""
    return len(node.text(strip=True)) - _link_text(node)


def _letters(text: str) -> int:
    """The letters and digits of a text: what stands around the links of a bar is neither."""
    return sum(map(str.isalnum, text))


def _link_text(node: LexborNode) -> int:
    return sum(len(link.text(strip=True)) for link in node.css("a[href]"))


def is_in_box(node: LexborNode) -> bool:
    """Whether an element is what a note or a warning holds."""
    box = node.parent.attributes.get("class") if node.parent else ""
    return not _BOXES.isdisjoint((box or "").split())


def shown_instead(image: LexborNode) -> str:
    """The text for an image, unless it is a few words in a figure with a caption, or the icon of a
    note."""
    text = said_of_image(image.attributes.get("alt") or "")
    if text.strip("[] ").lower() in _BOXES:
        return ""
    around = image.parent
    for _ in range(_FIGURE_DEPTH):
        if around is None:
            break
        if "figure" in (around.attributes.get("class") or "").split() or around.tag == "figure":
            return "" if len(text) <= _FEW_WORDS and around.text(strip=True) else text
        around = around.parent
    return text
