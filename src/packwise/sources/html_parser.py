"""HTML as selectolax parses it, in bounded time: markup that would take minutes is simplified."""

from __future__ import annotations

import re
from html import unescape
from itertools import islice
from typing import TYPE_CHECKING

from packwise.sources.access import access
from packwise.sources.document_builder import DocumentBuilder

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser

_DEEPEST = 4_000
"""HTML nested deeper than this is read as plain text: the parser's time grows with the square
of the depth (a minute at 100,000)."""

_TAG = re.compile(r"<(/?)([a-zA-Z][^\s/>]*)")
# Elements without content, and those that the parser closes by itself.
_FLAT = frozenset(
    "area base br col embed hr img input link meta source track wbr p li dt dd tr td th option "
    "optgroup thead tbody tfoot colgroup rp rt".split()
)
_VOID = frozenset("area base br col embed hr img input link meta param source track wbr".split())
_XHTML = re.compile(r"\A\s*<\?xml\s|http://www\.w3\.org/1999/xhtml|//DTD XHTML ")
_EMPTY = re.compile(r"""<([a-zA-Z][\w:.-]*+)((?:[^<>"'/]++|"[^"<]*+"|'[^'<]*+'|/(?!>))*+)/>""")
_DRAWING = re.compile(r"(?is)<svg\b.*?</svg[^<>]*>?")
_END_OF_DRAWING = re.compile(r"(?i)</svg[^<>]*>?")
_MOST_ATTRIBUTES = 100
_LONG_TAG = 4096
_ONE_ATTRIBUTE = r"""=?[^\s/>=]++(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|[^\s>"'][^\s>]*+)?+)?+"""
_ATTRIBUTE = re.compile(_ONE_ATTRIBUTE)
_WHOLE_TAG = re.compile(rf"(<[a-zA-Z][^\s/>]*+)(?:[\s/]++|{_ONE_ATTRIBUTE})*+>")
_ACCESS = re.compile(
    r"""(?i)<meta\s[^<>]{0,400}?(?:name|property)\s*=\s*["']?\s*(tenant|space|acl)\b"""
)
_MARKUP = re.compile(r"(?is)<!--.*?(?:-->|\Z)|<(script|style)\b.*?(?:</\1|\Z)|</?[a-z!][^<>]*>?")


def parse(builder: DocumentBuilder, source: str) -> LexborHTMLParser | None:
    """The parsed HTML; ``None`` if it is nested too deep and was added as plain text."""
    if _depth(source) > _DEEPEST:
        # The elements of a drawing end in themselves, and none of its text is read.
        source = _without_drawings(source)
    if _depth(source) > _DEEPEST:
        if meta := _ACCESS.search(source):
            builder.metadata |= access([*builder.metadata.items(), (meta[1], None)])
        builder.plain_text(unescape(_MARKUP.sub("\n\n", source)))
        return None
    from selectolax.lexbor import LexborHTMLParser

    return LexborHTMLParser(_with_few_attributes(_with_end_tags(source)))


def _without_drawings(source: str) -> str:
    """The page without its drawings; one that has no end stays, and one that says who may see the
    page."""
    # Up to the last end, every drawing has one: none is looked for in vain.
    last = max((end.end() for end in _END_OF_DRAWING.finditer(source)), default=0)

    def kept(drawing: re.Match[str]) -> str:
        return drawing[0] if _ACCESS.search(drawing[0]) else ""

    return _DRAWING.sub(kept, source[:last]) + source[last:]


def _with_end_tags(source: str) -> str:
    """XHTML as HTML, where only some elements can be empty: after ``<title/>`` or ``<a id="x"/>``
    an HTML parser takes all that follows for their content."""
    if not _XHTML.search(source, 0, 2000):
        return source
    return _EMPTY.sub(lambda tag: tag[0] if tag[1].lower() in _VOID else _opened(tag), source)


def _opened(tag: re.Match[str]) -> str:
    return f"<{tag[1]}{tag[2]}></{tag[1]}>"


def _with_few_attributes(source: str) -> str:
    """The source without the further attributes of tags that have very many: the parser
    compares each with all before it (150 seconds for a megabyte)."""
    if len(source) < _LONG_TAG:
        return source
    parts: list[str] = []
    position = 0
    for tag in _WHOLE_TAG.finditer(source):
        if tag.end() - tag.start() > _LONG_TAG:
            kept = islice(_ATTRIBUTE.finditer(source, tag.end(1), tag.end()), _MOST_ATTRIBUTES)
            attributes = " ".join(attribute[0] for attribute in kept)
            parts += [source[position : tag.end(1)], " ", attributes, ">"]
            position = tag.end()
    return "".join((*parts, source[position:]))


def _depth(source: str) -> int:
    """Roughly how deep elements are nested, judged by the tags alone."""
    depth = deepest = 0
    for closing, tag in _TAG.findall(source):
        if tag.lower() in _FLAT:
            continue
        depth = max(depth - 1, 0) if closing else depth + 1
        deepest = max(deepest, depth)
    return deepest
