"""AsciiDoc and Org: markup that is recognised line by line, in time linear in the text."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from html import unescape

from packwise.sources.access import access, access_key
from packwise.sources.document_builder import DocumentBuilder
from packwise.sources.front_matter import metadata
from packwise.sources.linked_text import LinkedText, TextBuilder

_ADMONITION = re.compile(r"(NOTE|TIP|IMPORTANT|WARNING|CAUTION):\s+")


@dataclass(frozen=True, slots=True)
class _Inline:
    """A pattern of inline markup; ``write`` adds what a match stands for."""

    pattern: re.Pattern[str]
    write: Callable[[TextBuilder, re.Match[str]], None]

    def span(self, text: str) -> LinkedText:
        inline = TextBuilder()
        position = 0
        for found in self.pattern.finditer(text):
            inline.write_flowing(text[position : found.start()])
            self.write(inline, found)
            position = found.end()
        inline.write_flowing(text[position:])
        return inline.finish()


class _LineReader:
    """Collects lines into paragraphs and items into lists; a subclass knows the marks."""

    inline: _Inline

    def __init__(self, builder: DocumentBuilder, text: str) -> None:
        self.builder = builder
        self.lines = text.expandtabs(4).split("\n")
        self.at = 0
        self._paragraph: list[str] = []
        self._depths: list[int] = []
        self.values: dict[str, str] = {}

    def read(self) -> None:
        while self.at < len(self.lines):
            line = self.lines[self.at].rstrip()
            self.at += 1
            if not line.strip():
                self.blank_line()
            elif not self.special(line):
                self._paragraph.append(line.strip())
        self.end_list()
        known = ("author", "date", "revdate", "description", "keywords")
        taken = {k: value for k, value in self.values.items() if k in known or access_key(k)}
        self.builder.metadata |= metadata({**self.builder.metadata, **taken})

    def give(self, name: str, value: str) -> None:
        """Remember a value of the file. Who may see a part may see the whole, so a second value
        of an access key has to be the same."""
        if access_key(name):
            access([(name, self.values.get(name, value)), (name, value)])
        self.values[name] = value

    def special(self, line: str) -> bool:
        """Read what starts at a line, if it is no paragraph."""
        raise NotImplementedError

    def blank_line(self) -> None:
        self.end_paragraph()

    def span(self, text: str) -> LinkedText:
        return self.inline.span(text)

    def end_paragraph(self) -> None:
        text = " ".join(self._paragraph)
        self._paragraph = []
        if text:
            self.builder.paragraph(self.span(_ADMONITION.sub(_named, text, count=1)))

    def end_list(self) -> None:
        self.end_paragraph()
        while self._depths:
            self._depths.pop()
            self.builder.close_item()
            self.builder.close_list()

    def heading(self, level: int, text: str) -> None:
        self.end_list()
        self.builder.heading(level, self.span(text))

    def item(self, depth: int, text: str, *, ordered: bool) -> None:
        self.end_paragraph()
        while self._depths and self._depths[-1] > depth:
            self._depths.pop()
            self.builder.close_list()
        if not self._depths or self._depths[-1] < depth:
            self._depths.append(depth)
            self.builder.open_list(ordered=ordered)
        self.builder.open_item()
        self._paragraph = [text]

    @property
    def in_list(self) -> bool:
        return bool(self._depths)

    def until(self, ends: Callable[[str], bool]) -> list[str]:
        """The lines before the next that ends a block, which is passed over too."""
        start = self.at
        while self.at < len(self.lines) and not ends(self.lines[self.at].strip()):
            self.at += 1
        self.at += 1
        return self.lines[start : self.at - 1]

    def code(self, lines: list[str]) -> None:
        self.end_list()
        self.builder.code("\n".join(lines))

    def table(self, rows: list[list[str]]) -> None:
        self.end_list()
        self.builder.table([[self.span(cell) for cell in row] for row in rows])


def _named(match: re.Match[str]) -> str:
    return f"{match[1].capitalize()}: "


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
        inline.write(
            found["literal"] or found["strong"] or found["emphasis"] or found["quoted"] or ""
        )


_ASCIIDOC_INLINE = _Inline(
    re.compile(
        r"(?:link:)?(?P<href>https?://[^\s\[\]<>]{1,500})(?:\[(?P<shown>[^\]\n]{0,300})\])?"
        r"|linkgit:(?P<command>[\w-]{1,80})\[(?P<section>\w{0,3})\]"
        r"|(?:link|xref):(?P<page>[^\s\[\]]{1,300})\[(?P<label>[^\]\n]{0,300})\]"
        r"|<<(?P<target>[^<>,\n]{1,200})(?:,(?P<text>[^<>\n]{1,300}))?>>"
        r"|(?:kbd|btn|menu|footnote|pass|stem|indexterm2?|anchor):[^\s\[\]]{0,40}\[(?P<key>[^\]\n]{0,300})\]"
        r"|\[\[[^\]\n]{1,100}\]\]|\(\(\([^()\n]{1,200}\)\)\)"
        r"|``(?P<words>[^`'\n]{1,200})''"
        r"|`{1,2}\+?(?P<literal>[^`\n]{1,500}?)\+?`{1,2}"
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


class _AsciiDoc(_LineReader):
    inline = _ASCIIDOC_INLINE
    _heading = re.compile(r"(={1,6}|#{1,6})\s+(\S.*?)(?:\s+\1)?$")
    _attribute = re.compile(r":(!?[\w-]+)!?:(?:\s+(.*))?$")
    _list = re.compile(r"\s*(\*{1,5}|-|\.{1,5}|\d{1,3}\.|<[\d.]{1,2}>)\s+(\S.*)$")
    _term = re.compile(r"\s*\\?(\S.{0,300}?)(::{1,3}|;;)(?:\s+(.*))?$")
    _fence = re.compile(r"(-{4,}|\.{4,}|\+{4,}|`{3,}\w*|/{4,})$")
    _wrapper = re.compile(r"(?:={4,}|\*{4,}|_{4,})$")
    _reference = re.compile(r"\{([\w-]+)\}")
    _style = re.compile(r"\[[^\[].*\]$")
    _image = re.compile(r"image:(?!:)[^\s\[\]]{1,500}\[([^\],\n]{0,300})[^\]\n]{0,300}\]")
    _unread = re.compile(r"//|include::|image::|toc::|if\w*def::|ifeval::|endif::|\[\[|<<<|'''")

    def __init__(self, builder: DocumentBuilder, text: str) -> None:
        super().__init__(builder, text)
        self._attributes = ""
        self._waiting: list[str] = []
        self._terms: list[tuple[bool, str]] = []
        self._in_block = False

    def special(self, line: str) -> bool:
        after_blank = self.at > 1 and not self.lines[self.at - 2].strip()
        line = self._resolved(line)
        if found := self._attribute.match(line):
            self.give(found[1].lower(), (found[2] or "").strip())
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

    def _resolved(self, line: str) -> str:
        """A line with the values of its attributes, the characters of its references and the
        words that stand for its images."""
        if "{" in line:
            line = self._reference.sub(self._value, line)
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
        super().heading(level, text)
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
        """Whether the next line makes a title of this one."""
        below = self.lines[self.at].rstrip() if self.at < len(self.lines) else ""
        adorned = below[:1] in ("=", "-", "~", "^", "+") and below == below[0] * len(below)
        return adorned and len(below) > 2 and abs(len(below) - len(line)) <= 2 and line[0] != " "

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


def _write_org(inline: TextBuilder, found: re.Match[str]) -> None:
    if found["href"]:
        href = re.sub(r"^file:|::.*$", "", found["href"])
        shown = found["shown"] or found["href"]
        if href.startswith(("#", "*")):
            inline.write(shown.lstrip("#*"))
        else:
            inline.link(href, shown)
    else:
        inline.write(found["literal"] or found["strong"] or "")


_ORG_INLINE = _Inline(
    re.compile(
        r"\[\[(?P<href>[^\[\]\n]{1,500})\](?:\[(?P<shown>[^\[\]\n]{1,500})\])?\]"
        r"|(?<![\w=~])[=~](?P<literal>[^\s=~](?:[^=~\n]{0,300}[^\s=~])?)[=~](?![\w=~])"
        r"|(?<![\w*/_+])[*/_+](?P<strong>[^\s*/_+](?:[^*/_+\n]{0,300}[^\s*/_+])?)[*/_+](?![\w*/_+])"
        r"|<<<?[^<>\n]{1,100}>>>?"
    ),
    _write_org,
)


class _Org(_LineReader):
    inline = _ORG_INLINE
    _heading = re.compile(
        r"(\*{1,8})\s+(?:(?:TODO|DONE|NEXT|WAITING)\s+)?(?:\[#[A-Z]\]\s+)?(.*?)\s*(:[\w@:]+:)?$"
    )
    _keyword = re.compile(r"(?i)\s*#\+(\w+):\s*(.*)$")
    _property = re.compile(r"\s*:(\w+):\s*(.*?)\s*$")
    _begin = re.compile(r"(?i)\s*#\+begin_(\w+)")
    _list = re.compile(r"( *)(?:([-+])|(?<= )(\*)|(\d{1,3}[.)]))\s+(?:\[[ Xx-]\]\s+)?(\S.*)$")

    def special(self, line: str) -> bool:
        stripped = line.strip()
        if found := self._heading.match(line):
            self.heading(len(found[1]), found[2])
        elif found := self._begin.match(line):
            self._block(found[1].lower())
        elif found := self._keyword.match(line):
            self._read_keyword(found[1].lower(), found[2])
        elif re.fullmatch(r":[A-Za-z_]+:", stripped):
            if stripped.upper() in (":PROPERTIES:", ":LOGBOOK:"):
                self._read_drawer()
        elif stripped.startswith("|"):
            self.at -= 1
            self._read_table()
        elif stripped.startswith((": ", "# ")) or stripped in (":", "#"):
            if stripped.startswith(":"):
                self.at -= 1
                self._literal()
        elif found := self._list.match(line):
            self.item(len(found[1]), found[5].replace(" :: ", ": ", 1), ordered=bool(found[4]))
        elif re.match(r"\s*(?:SCHEDULED|DEADLINE|CLOSED):", line):
            pass
        else:
            if self.in_list and not line.startswith(" "):
                self.end_list()
            return False
        return True

    def _read_drawer(self) -> None:
        """Leave out a drawer, but not what it says of who may see the file."""
        for line in self.until(lambda end: end.upper() == ":END:"):
            if (found := self._property.match(line)) and access_key(found[1]):
                self.give(found[1].lower(), found[2])

    def _block(self, kind: str) -> None:
        lines = self.until(lambda end: end.lower().startswith(f"#+end_{kind}"))
        if kind in ("src", "example", "export", "verse"):
            if kind != "export":
                indents = [len(x) - len(x.lstrip()) for x in lines if x.strip()]
                self.code([line[min(indents, default=0) :] for line in lines])
        elif kind != "comment":
            self.end_list()
            self.builder.plain_text("\n".join(lines))

    def _read_keyword(self, name: str, value: str) -> None:
        if name == "title":
            self.builder.title = self.builder.title or self.span(value).text
        elif name == "language":
            self.builder.lang = self.builder.lang or value
        elif name == "caption":
            self.end_paragraph()
            self.builder.paragraph(self.span(value))
        else:
            self.give(name, value)

    def _read_table(self) -> None:
        start = self.at
        while self.at < len(self.lines) and self.lines[self.at].lstrip().startswith("|"):
            self.at += 1
        rows = (line.strip().strip("|").split("|") for line in self.lines[start : self.at])
        self.table([[c.strip() for c in row] for row in rows if set("".join(row)) - set("-+ ")])

    def _literal(self) -> None:
        start = self.at
        while self.at < len(self.lines) and self.lines[self.at].strip()[:2] in (":", ": "):
            self.at += 1
        self.code([line.strip()[2:] for line in self.lines[start : self.at]])


def read_asciidoc(builder: DocumentBuilder, text: str) -> None:
    """Add the blocks of an AsciiDoc file; attributes of its header become metadata."""
    _AsciiDoc(builder, text).read()


def read_org(builder: DocumentBuilder, text: str) -> None:
    """Add the blocks of an Org file."""
    _Org(builder, text).read()
