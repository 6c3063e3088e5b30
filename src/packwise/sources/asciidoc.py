"""Reads AsciiDoc."""

from __future__ import annotations

import re
from html import unescape

from packwise.sources.access import access_key
from packwise.sources.asciidoc_includes import ATTRIBUTE, REFERENCE
from packwise.sources.document_builder import DocumentBuilder
from packwise.sources.line_markup import Inline, LineReader
from packwise.sources.linked_text import LinkedText, TextBuilder


def _write_asciidoc(inline: TextBuilder, found: re.Match[str]) -> None:
    if found["href"]:
        inline.link(found["href"], found["shown"] or found["href"])
    elif found["command"]:
        shown = f"{found['command']}({found['section']})" if found["section"] else found["command"]
        inline.link(f"{found['command']}.txt", shown)
    elif found["page"]:
        inline.link(found["page"], found["label"] or found["page"].partition("#")[0])
    elif found["target"]:
        inline.write(found["text"] or found["target"].replace("_", " ").strip())
    elif found["key"] is not None:
        inline.write(found["key"].replace(",", "+"))
    elif found["words"]:
        inline.write(f'"{found["words"]}"')
    else:
        names = ("literal", "plain", "strong", "emphasis", "quoted")
        inline.write(next((found[name] for name in names if found[name]), ""))


_ASCIIDOC_INLINE = Inline(
    re.compile(
        r"(?:link:)?(?P<href>https?://[^\s\[\]<>]{1,500})(?:\[(?P<shown>[^\]\n]{0,300})\])?"
        r"|linkgit:(?P<command>[\w-]{1,80})\[(?P<section>\w{0,3})\]"
        r"|(?:link|xref):(?P<page>[^\s\[\]]{1,300})\[(?P<label>[^\]\n]{0,300})\]"
        r"|<<(?P<target>[^<>,\n]{1,200})(?:,(?P<text>[^<>\n]{1,300}))?>>"
        r"|(?:kbd|btn|menu|footnote|pass|stem|indexterm2?|anchor):[^\s\[\]]{0,40}\[(?P<key>[^\]\n]{0,300})\]"
        r"|\[\[[^\]\n]{1,100}\]\]|\(\(\([^()\n]{1,200}\)\)\)"
        r"|``(?P<words>[^`'\n]{1,200})''"
        r"|`{1,2}\+?(?P<literal>[^`\n]{1,500}?)\+?`{1,2}"
        r"|(?<![\w+])\+(?P<plain>[^\s+](?:[^+\n]{0,200}[^\s+])?)\+(?![\w+])"
        r"|(?<![\w'])'(?P<quoted>[\w-][^'\n]{0,80})'(?![\w'])"
        r"|(?<![\w*])\*{1,2}(?P<strong>[^\s*][^*\n]{0,300})\*{1,2}(?!\w)"
        r"|(?<![\w_])_{1,2}(?P<emphasis>[^\s_][^_\n]{0,300})_{1,2}(?!\w)"
    ),
    _write_asciidoc,
)


# Attributes that every AsciiDoc file has.
_CHARACTERS = {
    **{"nbsp": " ", "sp": " ", "empty": "", "blank": "", "zwsp": "", "wj": "", "deg": "°"},
    **{"plus": "+", "lt": "<", "gt": ">", "amp": "&", "apos": "'", "quot": '"', "vbar": "|"},
    **{"startsb": "[", "endsb": "]", "caret": "^", "asterisk": "*", "tilde": "~", "cpp": "C++"},
    **{"backslash": "\\", "backtick": "`", "pp": "++", "two-colons": "::", "two-semicolons": ";;"},
    **{"lsquo": "‘", "rsquo": "’", "ldquo": "“", "rdquo": "”"},
}


# Attributes that are set where a file becomes a page.
_RENDERED = ("asciidoctor", "backend-html5", "basebackend-html", "doctype-article")


class _AsciiDoc(LineReader):
    inline = _ASCIIDOC_INLINE
    _heading = re.compile(r"(={1,6}|#{1,6})\s+(\S.*?)(?:\s+\1)?$")
    _list = re.compile(r"\s*(\*{1,5}|-|\.{1,5}|\d{1,3}\.|<[\d.]{1,2}>)\s+(\S.*)$")
    _term = re.compile(r"\s*\\?(\S.{0,300}?)(::{1,3}|;;)(?:\s+(.*))?$")
    _fence = re.compile(r"(-{4,}|\.{4,}|\+{4,}|`{3,}\w*|/{4,})$")
    _wrapper = re.compile(r"(?:={4,}|\*{4,}|_{4,})$")
    _condition = re.compile(r"(if\w*def|ifeval)::([^\s\[]*)\[(.*)\]$")
    _style = re.compile(r"\[[^\[].*\]$")
    _image = re.compile(r"image:(?!:)[^\s\[\]]{1,500}\[([^\],\n]{0,300})[^\]\n]{0,300}\]")
    _unread = re.compile(r"//|include::|image::|toc::|endif::|\[\[|<<<|'''")

    def __init__(self, builder: DocumentBuilder, text: str) -> None:
        super().__init__(builder, text)
        self._attributes = ""
        self._waiting: list[str] = []
        self._terms: list[tuple[bool, str]] = []
        self._in_block = False
        self._offset = 0
        self.values |= dict.fromkeys(_RENDERED, "")

    def special(self, line: str) -> bool:
        after_blank = self.at > 1 and not self.lines[self.at - 2].strip()
        line = self._resolved(line)
        if found := ATTRIBUTE.match(line):
            self._set(found[1].lower(), (found[2] or "").strip())
        elif found := self._condition.match(line):
            self._choose(found)
        elif self._unread.match(line):
            if line.startswith("////"):
                self.until(lambda end: end == line)
        elif found := self._fence.match(line):
            close = found[1][:3] if found[1][0] == "`" else found[1]
            self.code(self.until(lambda end: end == close))
        elif found := self._heading.match(line):
            self.heading(len(found[1]), found[2])
        elif self._underlined(line):
            self.at += 1
            self.heading("=-~^+".index(self.lines[self.at - 1][0]) + 1, line)
        elif line.startswith(("|===", "!===", ",===")):
            self._read_table(line)
        elif line == "--":
            self._enter_or_leave_block()
        elif self._wrapper.match(line) or line == "+" or self._style.match(line):
            self.end_paragraph()
            self._attributes = line
        elif line.startswith(".") and not line.startswith("..") and line[1:2].strip():
            self.end_paragraph()
            self.builder.paragraph(self.span(line[1:]))
        else:
            self._read_words(line, after_blank)
        return True

    def _set(self, name: str, value: str) -> None:
        """Set an attribute, or with an exclamation mark unset it."""
        if name == "leveloffset" and (shift := re.fullmatch(r"([+-]?)(\d)", value)):
            amount = -int(shift[2]) if shift[1] == "-" else int(shift[2])
            self._offset = self._offset + amount if shift[1] else amount
        elif name.startswith("!"):
            self.values.pop(name[1:], None)
        else:
            self.give(name, value)

    def _choose(self, found: re.Match[str]) -> None:
        """Leave out what a condition excludes, but not what it says of who may see the file."""
        names = re.split("[,+]", found[2].lower())
        known = (all if "+" in found[2] else any)(name in self.values for name in names)
        wanted = found[1] == "ifeval" or known == (found[1] == "ifdef")
        if found[3] and found[1] != "ifeval":
            if wanted:
                self.lines[self.at - 1] = found[3]
                self.at -= 1
            return
        depth = 0 if wanted else 1
        while depth and self.at < len(self.lines):
            line = self.lines[self.at].rstrip()
            self.at += 1
            inner = self._condition.match(line)
            opens = inner is not None and (inner[1] == "ifeval" or not inner[3])
            depth += opens - line.startswith("endif::")
            if (said := ATTRIBUTE.match(line)) and access_key(said[1]):
                self.give(said[1].lower(), said[2] or "")

    def _resolved(self, line: str) -> str:
        """A line with the values of its attributes, the characters of its references and the
        words that stand for its images."""
        if "{" in line:
            line = REFERENCE.sub(self._value, line)
        if "image:" in line:
            line = self._image.sub(r"\1", line)
        if "&" in line:
            line = unescape(line).replace("\u2011", "-")
        return line

    def _value(self, reference: re.Match[str]) -> str:
        name = reference[1].lower()
        return self.values.get(name, _CHARACTERS.get(name, reference[0]))

    def _read_words(self, line: str, after_blank: bool) -> None:
        """An item of a list, a term, or a line of a paragraph."""
        if found := self._list.match(line):
            mark = found[1]
            ordered = mark[0] in ".<" or mark[0].isdigit()
            self.item(len(mark) if mark[0] in "*." else 1, found[2], ordered=ordered)
        elif found := self._term.match(line):
            self._read_term(found[1], found[2], found[3] or "")
        else:
            if after_blank and line[0] != " " and not self._waiting:
                self.end_list()
                self._end_terms(self._outer_terms if self._in_block else 0)
            self._paragraph.append(line.strip())

    def _read_term(self, term: str, mark: str, text: str) -> None:
        """A term; several in a row share what is said below them."""
        if not self._waiting or self._paragraph:
            self.end_list()
        group = (self._in_block, mark)
        if group in self._terms:
            self._end_terms(self._terms.index(group) + 1)
        else:
            self._terms.append(group)
            self.builder.open_terms()
        self._waiting.append(term)
        self._paragraph = [text] if text else []

    @property
    def _outer_terms(self) -> int:
        """How many groups of terms are open outside of a block."""
        return sum(not inside for inside, _ in self._terms)

    def _end_terms(self, depth: int) -> None:
        """End the groups of terms that are deeper than this."""
        while len(self._terms) > depth:
            self._terms.pop()
            self.builder.close_terms()

    def _enter_or_leave_block(self) -> None:
        """All of a block between dashes belongs to the term before it."""
        self.end_paragraph()
        self._in_block = not self._in_block
        if not self._in_block:
            self.end_list()
            self._end_terms(self._outer_terms)

    def heading(self, level: int, text: str) -> None:
        super().heading(min(max(level + self._offset, 1), 6), text)
        self._terms, self._in_block = [], False

    def blank_line(self) -> None:
        if self._paragraph or not self._waiting:
            self.end_paragraph()

    def end_paragraph(self) -> None:
        if self._attributes.startswith("[verse") and self._paragraph:
            lines, self._paragraph, self._attributes = self._paragraph, [], ""
            self.builder.paragraph(LinkedText("\n".join(self.span(line).text for line in lines)))
        elif self._waiting:
            terms, self._waiting = self.span(", ".join(self._waiting)), []
            lines, self._paragraph = self._paragraph, []
            self.builder.term(terms.text)
            said = TextBuilder()
            said.add(terms)
            said.write("\n")
            said.add(self.span(" ".join(lines)))
            self.builder.paragraph(said.finish())
        super().end_paragraph()

    def _underlined(self, line: str) -> bool:
        """Whether the next line makes a title of this one, and does not begin the block that
        ``[source,sh]`` or ``.Example`` says something of."""
        below = self.lines[self.at].rstrip() if self.at < len(self.lines) else ""
        adorned = below[:1] in ("=", "-", "~", "^", "+") and below == below[0] * len(below)
        return (
            adorned and len(below) > 2 and abs(len(below) - len(line)) <= 2 and line[0] not in " .["
        )

    def _read_table(self, fence: str) -> None:
        lines = self.until(lambda end: end == fence)
        cells: list[str] = []
        width = 0
        for line in lines:
            if not line.strip() or re.fullmatch(r"\[[^\[\]|]*\]", line.strip()):
                continue
            found = re.split(r"(?<!\\)(?:\d+\+|\.\d+\+|[<>^.]*[aehlmdsv]?)?\|", line.strip())
            if found[0].strip() and cells:
                cells[-1] += f" {found[0].strip()}"
            cells += (cell.strip() for cell in found[1:])
            width = width or len(found) - 1
        # A row is as wide as its table says; if it does not, as the first line.
        if given := re.search(r"cols=\"?([^\"\]]{1,200})", self._attributes):
            repeated = (re.match(r"\s*(\d{1,2})\*", one) for one in re.split("[,;]", given[1]))
            width = sum(int(one[1]) if one else 1 for one in repeated)
        width = max(width, 1)
        self.table([cells[at : at + width] for at in range(0, len(cells), width)])


def read(builder: DocumentBuilder, text: str) -> None:
    """Add the blocks of an AsciiDoc file; attributes of its header become metadata."""
    _AsciiDoc(builder, text).read()
