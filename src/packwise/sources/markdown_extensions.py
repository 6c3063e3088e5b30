"""Markdown as MkDocs and MyST extend it, turned into plain Markdown before it is parsed.

Admonitions and tabs (``!!! note "Title"``, ``=== "Linux"``, ``:::{tip}``) become a line in bold
italics, which unlike one in bold type heads only their own text. What inserts other files, tables
of contents or objects that were not found (``::: package.Class``) is dropped, and so are attributes
(``{: #name .class }``) and icons. A definition stays one paragraph with its term.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING

from packwise.sources.sphinx_tree import VERSIONS

if TYPE_CHECKING:
    from markdown_it.token import Token

_MARKS = re.compile(
    r"(?m)^ *(?:!!!|\?\?\?\+?|===[^\n]{0,9}[\"]|:{3,}[ {]|--8<--|\[TOC\]|\(\S+\)=$)"
    r"|\{:? {0,3}(?:[#.]\w|[\w-]+=)|\]\[[\w.:-]*\]|\bmarkdown(?:=[\"'\w]+)? *>"
    r"|:(?:material|octicons|fontawesome|simple)-"
)
_FENCE = re.compile(r" *(`{3,}|~{3,})")
_BLOCK = re.compile(
    r"""( *)(?:(?:!!!|\?\?\?)\+? +([\w -]+?)(?: +"([^"]*)")?|===!?\+? +"([^"]*)") *$"""
)
_COLONS = re.compile(
    r" *(?::{3,}(?:\{(?P<directive>[\w:+.-]+)\}\s*(?P<argument>.*)"
    r"| +(?P<container>[a-z]+)(?: +(?P<title>\S.*))?)?"
    r"|::: +(?P<object>[\w:-]+(?:\.[\w:-]+)+)(?:\[\w+\])? *)$"
)
_ATTRIBUTE = r"""(?:[#.][\w:.-]+|[\w-]+=(?:"[^"\n]*"|'[^'\n]*'|[\w./-]+))"""
_LIST = rf"\{{:?[ \t]*{_ATTRIBUTE}(?:[ \t]+{_ATTRIBUTE})*[ \t]*\}}"
_ATTRIBUTES = re.compile(_LIST)
_ATTRIBUTES_BESIDE = re.compile(rf"(?<=[\])`*]){_LIST}(?!`)")
"""After a link, an image, code or bold type."""
_REFERENCE = re.compile(
    r"(?<![\w\])`!])\[(?P<text>[^\[\]\n]*[^\W\d_][^\[\]\n]*)\]\[(?P<label>(?:[A-Za-z_][\w.:-]*)?)\]"
)
"""A link to a heading or to an object, by its name: ``[tasks][]``, ``[it][package.Class]``."""
_LABEL = re.compile(r"(?m)^ {0,3}\[([^\]\n]+)\]:")
_ICON = re.compile(r":(?:material|octicons|fontawesome|simple)-[\w-]+:")
_UNREAD = re.compile(
    r"(?i) *(?:--8<--|\[TOC\] *$|\(\S+\)= *$|<[a-z]+\b[^<>]*\smarkdown(?:=[\"'\w]+)? *> *$)"
)
"""What inserts something, names a place, or says that the text in an HTML element is Markdown."""
_OPTION = re.compile(r" *:[\w-]+:(?: |$)")
_INDENTED = re.compile(r" {4}|\s*$")
_ADMONITIONS = frozenset("note tip warning danger important caution hint attention error".split())
DROPPED = frozenset(
    "toctree contents include literalinclude image figure-md automodule autoclass autofunction "
    "autodoc2-object autodoc2-docstring index highlight tableofcontents".split()
)
"""Directives that leave nothing to read."""

DEFINITION = re.compile(r"(?P<term>[^\n]{1,100})\n:[ \t]+(?P<told>.+)", re.DOTALL)
"""A term and, below it or below an empty line, a colon and what it means."""


def join_definitions(tokens: list[Token]) -> None:
    """Move a paragraph that defines the one before it into that."""
    for before, token in zip(tokens, tokens[3:], strict=False):
        if (
            before.type == token.type == "inline"
            and before.level == token.level
            and token.content.startswith(": ")
            and DEFINITION.fullmatch(f"{before.content}\n{token.content}")
        ):
            before.content, token.content = f"{before.content}\n{token.content}", ""


def plain_markdown(text: str) -> str:
    """The text without the marks of extensions; code is left as it is."""
    if _MARKS.search(text) is None:
        return text
    defined = {label.casefold() for label in _LABEL.findall(text)}
    found: list[str] = []
    indents: list[int] = []  # of the blocks that are open
    fence = ""
    dropped = False
    options: re.Pattern[str] | None = None  # the lines that belong to the directive above
    for line in text.split("\n"):
        indent = len(line) - len(line.lstrip(" "))
        while indents and line.strip() and indent <= indents[-1]:
            indents.pop()
        bare = line[min(4 * len(indents), indent) :] if indents else line
        opened = _FENCE.match(bare)
        if fence or opened:
            if not dropped:
                found.append(bare)
            if opened and not fence:
                fence = opened[1]
            elif opened and opened[1].startswith(fence) and not bare.strip(" `~"):
                fence = ""
        elif block := _BLOCK.match(line):
            # One inside an item of a list stays part of it.
            inside = " " * (len(block[1]) - 4 * len(indents))
            indents.append(len(block[1]))
            found += ["", f"{inside}***{title(block[2] or '', block[3] or block[4])}***", ""]
        elif colons := _COLONS.match(bare):
            name = colons["directive"] or colons["container"] or ""
            dropped = name in DROPPED
            options = _OPTION if name else _INDENTED if colons["object"] else None
            argument = colons["argument"] or colons["title"] or ""
            above = directive_title(name, argument) if not dropped else ""
            found += ["", f"***{above}***" if above else "", ""]
        elif options and options.match(bare):
            continue
        elif not dropped and not _UNREAD.match(bare):
            found.append(_plain_line(bare, defined))
            options = None
    return "\n".join(found)


def _plain_line(line: str, defined: Collection[str]) -> str:
    """A line without attributes, icons and the names of what is not ``defined`` in its file."""

    def shown(link: re.Match[str]) -> str:
        label = (link["label"] or link["text"]).casefold()
        return link[0] if label in defined else link["text"]

    if line.rstrip().endswith("}") and line.lstrip().startswith(("#", "{")):
        # At the end of a heading, or on a line of their own.
        at = line.rfind("{")
        line = line[:at].rstrip() if _ATTRIBUTES.fullmatch(line.rstrip(), at) else line
    return _REFERENCE.sub(shown, _ICON.sub("", _ATTRIBUTES_BESIDE.sub("", line)))


def title(name: str, given: str | None) -> str:
    """What stands above an admonition or a tab: its kind and its own title."""
    kind = name.split(" ")[0].replace("-", " ").capitalize()
    own = (given or "").strip()
    return f"{kind}: {own}" if kind.lower() in _ADMONITIONS and own else own or kind or "Note"


def directive_title(name: str, argument: str) -> str:
    """What stands above the text of a MyST directive; nothing above a mere container."""
    if name in VERSIONS:
        return f"{VERSIONS[name]} {argument}".rstrip()
    return title(name, argument) if argument or name in _ADMONITIONS else ""


def directive(info: str) -> tuple[str, str]:
    """The name and the argument of a MyST directive in a fence; empty if it is plain code."""
    found = re.match(r"\{([\w:+.-]+)\}\s*(.*)$", info.strip())
    return (found[1], found[2]) if found else ("", "")


def directive_text(content: str) -> str:
    """The content of a directive below its options."""
    lines = content.split("\n")
    if lines[0].strip() == "---" and "---" in (line.strip() for line in lines[1:]):
        end = next(n for n, line in enumerate(lines) if n and line.strip() == "---")
        return "\n".join(lines[end + 1 :])
    at = 0
    while at < len(lines) and _OPTION.match(lines[at]):
        at += 1
    return "\n".join(lines[at:])
