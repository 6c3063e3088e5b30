"""Markdown: CommonMark with tables, strikethrough and ``[[wiki links]]``."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from packwise.sources import html
from packwise.sources.document_builder import DocumentBuilder
from packwise.sources.linked_text import LinkedText, TextBuilder, said_of_image
from packwise.sources.markdown_extensions import (
    DEFINITION,
    DROPPED,
    directive,
    directive_text,
    directive_title,
    join_definitions,
    plain_markdown,
)

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token

SEGMENT = 1 << 20
"""Characters parsed at a time. Tokens take up to 300 times the memory of their text (short
list items), so a large file is parsed in pieces, cut between blocks."""

_DEEPEST = 60
_INLINE_LIMIT = 200_000
_BRACKET_LIMIT = 2_000
_FENCE = re.compile(r"(?m)^ {0,3}(`{3,}|~{3,})([^\n]*)$")
_CUT = re.compile(r"(?m)^(?=#{1,6}[ \t])|(?<=\n\n)(?=\S)")
_DEFINITION = re.compile(r"(?m)^ {0,3}\[[^\]\n]+\]:[^\n]+$")
# A page name contains a letter (a matrix of numbers does not). Double brackets around the text
# of a link are not a wiki link.
_WIKI = re.compile(
    r"\[\[(?=[^\[\]\n]{0,200}[^\W\d_])([^\[\]|\s](?:[^\[\]|\n]{0,198}[^\[\]|\s])?)"
    r"(?:\|([^\[\]\n]{0,200}))?\]\](?![(\[])"
)
_PLAIN_LINK = re.compile(r"!?\[([^\[\]\n]*)\]\(([^()\s]*)(?:\s[^()\n]*)?\)")
_LINK_TAG = re.compile(r"""(?is)<a\s[^>]*?href\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>"']+))""")
# A role of MyST is text that ends so, in front of code: {ref}`keys`.
_ROLE = re.compile(r"\{([a-zA-Z][\w:+.-]{0,40})\}$")
_CODE_DIRECTIVES = re.compile(
    r"(?:code|sourcecode|prompt|console|shell|literal|parsed-literal|doctest|test|math|latex|diagram"
    r"|mermaid|graphviz|plantuml|eval-rst|raw|csv-table|jupyter|ipython|program-output|exec|command)"
)
_LANGUAGE = re.compile(r"(?:#!|:::)[a-z][\w+-]* (?=\S)")
"""What names the language of code in a line: ``#!python print()``."""
_BOLD_LINE = re.compile(r"\*\*[^*\n]+\*\*")
_CONTAINER_MARKS = re.compile(r"(?m)^[>*+\-\s]+")


def read(builder: DocumentBuilder, text: str) -> None:
    """Add the blocks of a Markdown text, in time linear in its length."""
    parser = _parser()
    env: dict[str, Any] = {}
    text = plain_markdown(text)
    if len(text) > 2 * SEGMENT:
        # A link may be defined in any piece of the file.
        parser.parse("\n".join(_DEFINITION.findall(text)), env)
    for segment, is_code in _segments(text):
        if is_code:
            builder.code(segment)
        else:
            _MarkdownReader(builder, parser, env).read(parser.parse(segment, env))


def _segments(text: str) -> Iterator[tuple[str, bool]]:
    """Pieces to parse one by one, cut between blocks. The flag marks bare code."""
    if len(text) <= 2 * SEGMENT:
        yield text, False
        return
    fences = list(_fences(text))
    position = 0
    for start, end in fences:
        if end - start <= SEGMENT:
            continue
        yield from ((piece, False) for piece in _cut(text, position, start, fences))
        body = text.find("\n", start, end) + 1 or end
        last = max(text.rfind("\n", body, end), body)
        yield from ((piece, True) for piece in _cut(text, body, last))
        position = end
    yield from ((piece, False) for piece in _cut(text, position, len(text), fences))


def _fences(text: str) -> Iterator[tuple[int, int]]:
    """Where fenced code blocks start and end. One without an end goes to the end of the text."""
    opened: re.Match[str] | None = None
    for fence in _FENCE.finditer(text):
        if opened is None:
            if "`" not in fence[2] or fence[1][0] == "~":
                opened = fence
        elif fence[1].startswith(opened[1]) and not fence[2].strip():
            yield opened.start(), fence.end()
            opened = None
    if opened is not None:
        yield opened.start(), len(text)


def _cut(
    text: str, start: int, end: int, fences: Sequence[tuple[int, int]] | None = None
) -> Iterator[str]:
    """``text[start:end]`` in pieces of about a segment. With ``fences`` it is cut where a block
    starts if possible, and never inside a fence; without, at the end of any line."""
    while end - start > 2 * SEGMENT:
        cut = None
        if fences is not None:
            cut = _block_start(text, start + SEGMENT, start + 2 * SEGMENT, fences)
        if cut is None:
            cut = _outside(text.find("\n", start + SEGMENT, end) + 1, fences or ())
        if not start < cut < end:
            break
        yield text[start:cut]
        start = cut
    if start < end:
        yield text[start:end]


def _block_start(text: str, start: int, end: int, fences: Sequence[tuple[int, int]]) -> int | None:
    at = start
    while (found := _CUT.search(text, at, end)) is not None:
        outside = _outside(found.start(), fences)
        if outside == found.start():
            return outside
        at = outside
    return None


def _outside(position: int, fences: Sequence[tuple[int, int]]) -> int:
    """The position itself, or the end of the fence it lies in."""
    nearest = bisect_right(fences, (position, position)) - 1
    if nearest >= 0 and fences[nearest][0] < position < fences[nearest][1]:
        return fences[nearest][1]
    return position


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"maxNesting": 2 * _DEEPEST})
    parser.enable(["table", "strikethrough"])
    # Inline markup is parsed block by block later, so its tokens never all exist at once.
    parser.disable(["inline"])
    for name in ("list", "blockquote"):
        rules = {rule.name: rule for rule in parser.block.ruler.__rules__}
        parser.block.ruler.at(name, _not_too_deep(rules[name].fn), {"alt": rules[name].alt})
    parser.inline.ruler.before("link", "wiki_link", _wiki_link)
    return parser


def _not_too_deep(rule: Callable[..., bool]) -> Callable[..., bool]:
    """A container rule that leaves what is nested too deep to the paragraph rule, as the parser
    would drop that text."""

    def bounded(state: StateBlock, start: int, end: int, silent: bool) -> bool:
        return state.level < _DEEPEST and rule(state, start, end, silent)

    return bounded


def _wiki_link(state: StateInline, silent: bool) -> bool:
    if not state.src.startswith("[[", state.pos):
        return False
    match = _WIKI.match(state.src, state.pos)
    if match is None:
        return False
    if not silent:
        if state.pending.endswith("!"):
            state.pending = state.pending[:-1]
        token = state.push("wiki_link", "", 0)
        token.content = (match[2] or "").strip() or match[1]
        token.info = match[1]
    state.pos = match.end()
    return True


class _MarkdownReader:
    """Adds the blocks of parsed tokens to a builder."""

    def __init__(self, builder: DocumentBuilder, parser: MarkdownIt, env: dict[str, Any]) -> None:
        self._builder = builder
        self._parser = parser
        self._env = env
        self._heading = 0
        self._rows: list[list[LinkedText]] = []
        self._in_table = False
        self._handlers: dict[str, Callable[[Token], None]] = {
            "heading_open": self._open_heading,
            "inline": self._inline,
            "fence": self._fence,
            "code_block": lambda token: builder.code(token.content),
            "html_block": lambda token: html.read_fragment(builder, token.content),
            "table_open": self._open_table,
            "tr_open": lambda token: self._rows.append([]),
            "table_close": self._close_table,
            "bullet_list_open": self._open_list,
            "ordered_list_open": self._open_list,
            "list_item_open": lambda token: builder.open_item(),
            "list_item_close": lambda token: builder.close_item(),
            "bullet_list_close": lambda token: builder.close_list(),
            "ordered_list_close": lambda token: builder.close_list(),
        }

    def read(self, tokens: list[Token]) -> None:
        join_definitions(tokens)
        for token in tokens:
            if handler := self._handlers.get(token.type):
                handler(token)

    def _fence(self, token: Token) -> None:
        """Code, or what a MyST directive holds."""
        name, argument = directive(token.info)
        content = directive_text(token.content) if name else token.content
        if not name or _CODE_DIRECTIVES.match(name):
            self._builder.code(content)
        elif name not in DROPPED:
            if shown := directive_title(name, argument):
                self._builder.paragraph(self._span(f"**{shown}**"))
            self.read(self._parser.parse(content, self._env))

    def _open_heading(self, token: Token) -> None:
        # A heading inside a quotation is not part of this document's outline.
        self._heading = int(token.tag[1:]) if token.level == 0 else 0

    def _inline(self, token: Token) -> None:
        content = token.content
        if token.level >= _DEEPEST:
            content = _CONTAINER_MARKS.sub("", content)
        span = self._span(content)
        if self._in_table:
            self._rows[-1].append(span)
        elif self._heading:
            self._builder.heading(self._heading, span)
            self._heading = 0
        elif found := DEFINITION.fullmatch(content):
            self._definition(self._span(found["term"]), self._span(found["told"]))
        elif _BOLD_LINE.fullmatch(content):
            self._builder.label(span)
        else:
            self._builder.paragraph(span)

    def _definition(self, term: LinkedText, told: LinkedText) -> None:
        """A term and what it means stay together, on two lines."""
        self._builder.open_terms()
        self._builder.term(term.text)
        both = TextBuilder()
        both.add(term)
        both.write("\n")
        both.add(told)
        self._builder.paragraph(both.finish())
        self._builder.close_terms()

    def _open_table(self, token: Token) -> None:
        self._in_table = True
        self._rows = []

    def _close_table(self, token: Token) -> None:
        self._in_table = False
        self._builder.table(self._rows)

    def _open_list(self, token: Token) -> None:
        ordered = token.type == "ordered_list_open"
        self._builder.open_list(ordered=ordered, start=int(token.attrGet("start") or 1))

    def _span(self, content: str) -> LinkedText:
        inline = TextBuilder()
        if len(content) > _INLINE_LIMIT or content.count("[") > _BRACKET_LIMIT:
            _write_roughly(inline, content)
        else:
            children: list[Token] = []
            self._parser.inline.parse(content, self._parser, self._env, children)
            named: re.Match[str] | None = None
            for child in children:
                role, named = named, None
                if child.type == "text":
                    # Searched for where the text ends so, which is rare.
                    if child is not children[-1] and "}" in child.content[-2:]:
                        named = _ROLE.search(child.content)
                    inline.write(_ROLE.sub("", child.content) if named else child.content)
                elif role and child.type == "code_inline":
                    _write_role(inline, role[1], child.content)
                else:
                    _write_inline(inline, child)
        return inline.finish()


def _write_inline(inline: TextBuilder, token: Token) -> None:
    match token.type:
        case "code_inline":
            inline.write(_LANGUAGE.sub("", token.content))
        case "text" | "text_special":
            inline.write(token.content)
        case "image":
            inline.write(said_of_image(token.content))
        case "softbreak":
            inline.write_flowing(" ")
        case "hardbreak":
            inline.write("\n")
        case "link_open":
            inline.open_link(str(token.attrGet("href") or ""))
        case "link_close":
            inline.close_link()
        case "wiki_link":
            inline.link(token.info, token.content, wiki=True)
        case "html_inline":
            _write_tag(inline, token.content)
        case _:
            pass


def _write_role(inline: TextBuilder, role: str, content: str) -> None:
    """The text of a MyST role: its title, or its target."""
    shown, sign, target = content.removesuffix(">").rpartition("<")
    shown, target = (shown.strip(), target) if sign and shown.strip() else (content, content)
    if role.endswith(("doc", "download")):
        inline.link(target, shown)
    elif role != "index":
        inline.write(shown.rsplit(".", 1)[-1] if shown.startswith("~") else shown.lstrip("!"))


def _write_tag(inline: TextBuilder, tag: str) -> None:
    lowered = tag[:4].lower()
    if lowered.startswith("<br"):
        inline.write("\n")
    elif lowered == "</a>":
        inline.close_link()
    elif (found := _LINK_TAG.match(tag)) is not None:
        inline.open_link(found[1] or found[2] or found[3] or "")


def _write_roughly(inline: TextBuilder, content: str) -> None:
    """Add text with plain links, for a block that would take the parser seconds: it is too long
    or has too many brackets."""
    position = 0
    for link in _PLAIN_LINK.finditer(content):
        inline.write_flowing(content[position : link.start()])
        if link[0].startswith("!"):
            inline.write(link[1])
        else:
            inline.link(link[2], link[1])
        position = link.end()
    inline.write_flowing(content[position:])
