"""Wikitext: headings, paragraphs, lists, tables, code and links, in time linear in the text.

Besides MediaWiki's, code and headings of Creole and its relatives (MoinMoin, Trac) are read.

Templates are dropped, except that an infobox becomes a table of its values and a template that
stands for a word or a number keeps it.
"""

from __future__ import annotations

import re
from html import unescape

from packwise.sources import markdown
from packwise.sources.document_builder import DocumentBuilder
from packwise.sources.linked_text import LinkedText, TextBuilder

_DEEPEST = 40
_REMOVED = re.compile(
    r"(?is)<!--.*?(?:-->|\Z)"
    r"|<(ref|gallery|timeline|score|imagemap|templatestyles|indicator|references)\b"
    r"(?:[^<>]*?/>|[^<>]*>.*?(?:</\1\s*>|\Z))"
    r"|__[A-Z]{3,30}__"
)
_CODE = re.compile(
    r"(?is)<(pre|syntaxhighlight|source|math)\b[^<>]*>(.*?)(?:</\1\s*>|\Z)|<nowiki>(.*?)</nowiki>"
)
# Creole: code between braces, on lines of their own or within a line, and macros.
_BRACES = re.compile(
    r"(?ms)^[ \t]*\{\{\{[ \t]*(?:\#![^\n]*)?\n(?P<code>.*?)(?:\n[ \t]*\}\}\}[ \t]*$|\Z)"
    r"|<<code\b[^|<>\n]*\|(?P<macro>.*?)(?:>>|\Z)"
    r"|(?<!\{)\{\{\{(?!\d+\}\}\})(?P<literal>[^{}|\n]{1,300})\}\}\}(?!\})"
)
_MACRO = re.compile(r"<<\w[^|<>\n]{0,300}\|([^<>\n]{0,300})>>")
_BREAK = re.compile(r"(?i)<br\s*/?>")
_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,500}>")
_BRACKETS = re.compile(r"\{\{\{?|\}\}\}?|\[\[|\]\]")
_HEADING = re.compile(r"(={1,6})(\s*+[^=].*)\1\s*+$")
_UNCLOSED_HEADING = re.compile(r"(={1,6})(\s*+[^\W\d_][^=]{0,150})=*+$")
_LIST = re.compile(r"[*#:;]+")
_QUOTES = re.compile(r"'{2,5}")
_EXTERNAL = re.compile(r"\[((?:https?:)?//[^\s\[\]]++)(?:\s++([^\]\n]{0,500}))?\]")
_FILES = re.compile(
    r"(?i)\s*(?:file|image|category|datei|bild|kategorie|fichier|catégorie|archivo|categoría|"
    r"media|[a-z]{2,3}(?:-[a-z]+)?)\s*:"
)
_CELL_ATTRIBUTES = re.compile(
    r"""^(?:\s*[\w:-]+\s*=\s*(?:"[^"]*"|'[^']*'|[^\s|"']++))++\s*+\|(?!\|)"""
)
# Templates that stand for their first or second argument: {{lang|fr|mot}}, {{nowrap|x}}.
_WORDS = {
    **dict.fromkeys(
        "nowrap nobr small big em strong code var kbd samp abbr circa c. ill".split(), 1
    ),
    **dict.fromkeys("lang transl val formatnum convert cvt frac".split(), 1),
    "lang": 2,
    "transl": 2,
}
_INFOBOX = re.compile(r"(?i)\s*(?:infobox|taxobox|speciesbox|automatic taxobox|chembox|drugbox)\b")
_MARKDOWN = re.compile(r"(?m)^ {0,3}```|\]\(https?://")
_OWN_MARKUP = re.compile(r"(?m)\[\[|\{\{|^\{\||^={2,6}[^=\n]{1,200}={2,6}\s*?$|<nowiki|'{3}")
"""What wikis have and Markdown has not."""
_CODE_MARK = "\x00{}\x00"
_MARKED = re.compile("\x00([0-9]+)\x00")


def read(builder: DocumentBuilder, text: str, prefix: str = "") -> None:
    """Add the blocks of an article. Links lead to documents whose ids start with ``prefix``.
    Wikis of code hosts are often Markdown, whatever their files are called."""
    if _MARKDOWN.search(text) and not _OWN_MARKUP.search(text):
        markdown.read(builder, text)
    else:
        _Wikitext(builder, prefix).read(text)


class _Wikitext:
    def __init__(self, builder: DocumentBuilder, prefix: str) -> None:
        self._builder = builder
        self._prefix = prefix
        self._codes: list[tuple[str, str]] = []
        self._infoboxes: list[list[tuple[str, str]]] = []

    def read(self, text: str) -> None:
        text = _CODE.sub(self._keep_code, text.replace("\x00", ""))
        text = _MACRO.sub(r"\1", _BRACES.sub(self._keep_braces, text))
        text = _BREAK.sub(" ", _REMOVED.sub("", text))
        text = self._without_templates(text)
        for infobox in self._infoboxes:
            self._builder.table(
                [[self._span(name.replace("_", " ")), self._span(value)] for name, value in infobox]
            )
        lines = text.split("\n")
        at = 0
        while at < len(lines):
            at = self._one(lines, at)

    def _one(self, lines: list[str], at: int) -> int:
        line = lines[at].strip()
        if heading := _heading(line):
            self._builder.heading(len(heading[1]), self._span(heading[2].strip()))
            return at + 1
        if line.startswith("{|"):
            return self._table(lines, at)
        if _LIST.match(line):
            return self._list(lines, at)
        if (mark := _MARKED.fullmatch(line)) and self._codes[int(mark[1])][0] != "nowiki":
            self._builder.code(self._codes[int(mark[1])][1])
            return at + 1
        after = at
        while after < len(lines) and (part := lines[after].strip()):
            if after > at and (part.startswith("{|") or _heading(part) or _LIST.match(part)):
                break
            after += 1
            if _is_picture(part):  # its caption is not the beginning of the text below
                break
        self._builder.paragraph(self._span(" ".join(map(str.strip, lines[at:after]))))
        return max(after, at + 1)

    def _list(self, lines: list[str], at: int) -> int:
        depth = 0
        while at < len(lines) and (marks := _LIST.match(lines[at].strip())):
            level = min(len(marks[0]), 8)
            while depth < level:
                depth += 1
                self._builder.open_list(ordered=marks[0][depth - 1] == "#")
            while depth > level:
                depth -= 1
                self._builder.close_list()
            self._builder.open_item()
            self._builder.paragraph(self._span(lines[at].strip()[len(marks[0]) :]))
            self._builder.close_item()
            at += 1
        for _ in range(depth):
            self._builder.close_list()
        return at

    def _table(self, lines: list[str], at: int) -> int:
        rows: list[list[str]] = [[]]
        depth = 0
        while at < len(lines):
            line = lines[at].strip()
            at += 1
            depth += line.startswith("{|")
            if line.startswith("|}"):
                depth -= 1
                if not depth:
                    break
            elif depth > 1 or line.startswith("{|"):
                continue
            elif line.startswith("|+"):
                self._builder.paragraph(self._span(_CELL_ATTRIBUTES.sub("", line[2:])))
            elif line.startswith("|-"):
                rows.append([])
            elif line[:1] in ("|", "!"):
                cells = re.split(r"\|\||!!" if line[0] == "!" else r"\|\|", line[1:])
                rows[-1] += (_CELL_ATTRIBUTES.sub("", cell) for cell in cells)
            elif line and rows[-1]:
                rows[-1][-1] += f" {line}"
        self._builder.table([[self._span(cell) for cell in row] for row in rows])
        return at

    def _keep_code(self, match: re.Match[str]) -> str:
        kind = (match[1] or "nowiki").lower()
        self._codes.append((kind, match[3] if match[2] is None else match[2]))
        mark = _CODE_MARK.format(len(self._codes) - 1)
        return f"\n{mark}\n" if kind != "nowiki" and "\n" in match[0] else mark

    def _keep_braces(self, match: re.Match[str]) -> str:
        code = match["code"] if match["macro"] is None else match["macro"].strip("\n")
        self._codes.append(("nowiki", match["literal"]) if code is None else ("pre", code))
        mark = _CODE_MARK.format(len(self._codes) - 1)
        return mark if code is None else f"\n{mark}\n"

    def _without_templates(self, text: str) -> str:
        """The text with templates replaced by their words, if they have any."""
        stack: list[tuple[str, list[str]]] = [("", [])]
        position = 0
        for mark in _BRACKETS.finditer(text):
            stack[-1][1].append(text[position : mark.start()])
            position = mark.end()
            sign = mark[0]
            if sign.startswith("{") and len(stack) < _DEEPEST:
                stack.append((sign, []))
            elif sign.startswith("}") and len(stack) > 1:
                _, parts = stack.pop()
                stack[-1][1].append(self._template("".join(parts)))
            elif sign in ("[[", "]]"):
                stack[-1][1].append(sign)
        stack[-1][1].append(text[position:])
        while len(stack) > 1:  # a template without its end is text
            opened, parts = stack.pop()
            stack[-1][1].extend((opened, *parts))
        return "".join(stack[0][1])

    def _template(self, text: str) -> str:
        # A bar inside a link does not part arguments.
        parts = [part.strip() for part in re.split(r"\|(?![^\[\]|]*\]\])", text)]
        name = parts[0].lower()
        if _INFOBOX.match(name):
            pairs = (part.partition("=") for part in parts[1:])
            named = [(key.strip().replace("_", " "), value.strip()) for key, _, value in pairs]
            self._infoboxes.append([(key, value) for key, value in named if key and value])
            return ""
        if name in ("convert", "cvt") and len(parts) > 2:
            return " ".join(parts[1:3])
        if "date" in name and "=" not in name:
            given = [part for part in parts[1:] if part and "=" not in part]
            numbers = all(part.isdigit() for part in given)
            return "-".join(part.zfill(2) for part in given[:3]) if numbers else " ".join(given[:2])
        argument = _WORDS.get(name)
        return parts[argument] if argument and len(parts) > argument else ""

    def _span(self, text: str) -> LinkedText:
        inline = TextBuilder()
        position = 0
        for mark in re.finditer(r"\[\[|\]\]", text):
            if mark.start() < position:
                continue
            if mark[0] == "]]":
                self._write(inline, text[position : mark.start()])
                position = mark.end()
                continue
            end = text.find("]]", mark.end(), mark.end() + 2000)
            inner = text.find("[[", mark.end(), mark.end() + 2000)
            if end < 0 or 0 <= inner < end:
                # A picture whose caption holds links: its parameters are no text.
                before = text[position : mark.start()]
                self._write(inline, before)
                rest = text[mark.end() : inner if inner >= 0 else None]
                caption = rest.rpartition("|")[2] if _FILES.match(rest) else rest
                self._write(inline, caption)
                position = inner if inner >= 0 else len(text)
                continue
            self._write(inline, text[position : mark.start()])
            position = end + 2
            self._link(inline, text[mark.end() : end])
        self._write(inline, text[position:])
        return inline.finish()

    def _link(self, inline: TextBuilder, text: str) -> None:
        target, _, shown = text.partition("|")
        if _FILES.match(target):
            return
        target = target.lstrip(":")
        page = target.partition("#")[0].strip().replace("_", " ")
        label = self._plain(shown.rpartition("|")[2] or target.replace("#", " "))
        if page:
            inline.link(f"{self._prefix}{page[0].upper()}{page[1:]}", label, wiki=True)
        else:
            inline.write_flowing(label)

    def _write(self, inline: TextBuilder, text: str) -> None:
        position = 0
        for found in _EXTERNAL.finditer(text):
            inline.write_flowing(self._plain(text[position : found.start()]))
            inline.link(found[1], self._plain(found[2] or ""))
            position = found.end()
        inline.write_flowing(self._plain(text[position:]))

    def _plain(self, text: str) -> str:
        text = unescape(_TAG.sub("", _QUOTES.sub("", text)))
        return _MARKED.sub(lambda mark: self._codes[int(mark[1])][1], text)


def _heading(line: str) -> re.Match[str] | None:
    return _HEADING.match(line) or _UNCLOSED_HEADING.match(line)


def _is_picture(line: str) -> bool:
    """Whether a line holds a picture, with its caption, and nothing else."""
    if not (line.startswith("[[") and line.endswith("]]") and _FILES.match(line[2:])):
        return False
    depth = 0
    for mark in re.finditer(r"\[\[|\]\]", line):
        depth += 1 if mark[0] == "[[" else -1
        if not depth:
            return mark.end() == len(line)
    return False
