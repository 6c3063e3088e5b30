"""Which elements of a page are headings, names and code by how they look or are called."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING

from packwise.sources.terms import TOLD_AT_LENGTH

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

BLOCKS = frozenset(
    "address article aside blockquote body caption center dd details div dl fieldset figcaption "
    "figure footer form header hgroup hr html legend main p section summary table tbody td tfoot "
    "th thead tr".split()
)
LISTS = frozenset(("ul", "ol", "menu", "dir"))
_BOLD = ("b", "strong")
_EMPHASIS = (*_BOLD, "i", "em", "var", "br")
_CODE = ("code", "kbd", "samp", "tt")
# What converters write instead of elements for headings, bold type and code.
_HEADING_CLASS = re.compile(r"(?:mso)?h(?:eading)?[-_]?([1-6])")
_BOLD_CLASSES = frozenset(("bold", "strong"))
_CODE_CLASSES = frozenset("code programlisting screen verbatim sourcecode listing".split())
_NUMBERED = re.compile(r"(\d{1,3}(?:\.\d{1,3}){1,4})\.? \S.{0,150}")
"""The number and the name of a section: ``18.1 Using the examples``."""
_FAR = 20
"""Elements around a paragraph that are looked at: a page may nest thousands."""
_AROUND_TEXT = frozenset(("li", "dd", "dt", "td", "th"))
_MOST_FORMS = 3
_PARAMETERS = re.compile(r"(?<=[\w\]])\(.{20,}")
"""Of a function, in a signature that is longer than a name should be."""


def _is_all(node: LexborNode, tags: Collection[str]) -> bool:
    """Whether all text of an element is in one element of these kinds."""
    parts = [child for child in node.iter(include_text=True) if child.text(strip=True)]
    return len(parts) == 1 and parts[0].tag in tags


def is_named(node: LexborNode) -> bool:
    """Whether an element is a line that begins with a name in bold type, which is a target."""
    first = node.first_child
    while first is not None and first.tag == "-text" and not (first.text_content or "").strip():
        first = first.next
    if first is None or first.tag not in _BOLD or not first.css_first("[id], a[name]"):
        return False
    return all(child.tag not in BLOCKS and child.tag not in LISTS for child in node.iter())


def is_target(node: LexborNode) -> bool:
    """Whether an empty anchor that links lead to stands before an element."""
    before = node.prev
    while before is not None and before.tag == "-text" and not (before.text_content or "").strip():
        before = before.prev
    return before is not None and before.tag == "a" and not before.text(strip=True)


def is_signature(node: LexborNode) -> bool:
    """Whether an element is in bold type, but for words in italics that stand for others."""
    parts = [child for child in node.iter(include_text=True) if child.text(strip=True)]
    return bool(parts) and parts[0].tag in _BOLD and all(part.tag in _EMPHASIS for part in parts)


def has_named_items(node: LexborNode) -> bool:
    """Whether most items of a list say something at length below a line in bold type."""
    items = [child for child in node.iter() if child.tag == "li"]
    first = [next(item.iter(), None) for item in items]
    named = [one for one in first if one is not None and one.tag == "p" and is_bold(one)]
    if 2 * len(named) <= len(items) or len(named) < 2:
        return False
    return len(node.text()) >= TOLD_AT_LENGTH * len(items)


def classes_of(node: LexborNode) -> list[str]:
    """The classes of an element, in small letters."""
    return (node.attributes.get("class") or "").lower().split()


def is_bold(node: LexborNode) -> bool:
    """Whether all text of an element is in bold type."""
    return _is_all(node, _BOLD) or not _BOLD_CLASSES.isdisjoint(classes_of(node))


def heading_level(node: LexborNode) -> int:
    """The level of a paragraph that is a heading by its class, or by bold type and a number such
    as 18.1; 0 for others."""
    for name in classes_of(node):
        if found := _HEADING_CLASS.fullmatch(name):
            return int(found[1])
    number = _NUMBERED.fullmatch(" ".join(node.text().split())) if is_bold(node) else None
    return 1 + number[1].count(".") if number else 0


def is_code(node: LexborNode) -> bool:
    """Whether a paragraph is code by its class, or nothing but code of several words, and no part
    of a list or table."""
    if not _CODE_CLASSES.isdisjoint(classes_of(node)):
        return True
    if not _is_all(node, _CODE) or len(node.text().split()) == 1:
        return False
    around = node.parent
    for _ in range(_FAR):
        if around is None or around.tag in _AROUND_TEXT:
            break
        around = around.parent
    return around is None or around.tag not in _AROUND_TEXT


def term_name(text: str) -> str:
    """The name of terms, one per line. Many forms of a call are one name."""
    names = [_PARAMETERS.sub("()", line.strip(": ")) for line in text.split("\n")]
    if len(names) > _MOST_FORMS:
        names = [name.partition("(")[0].strip() or name for name in names]
    return ", ".join(dict.fromkeys(names))
