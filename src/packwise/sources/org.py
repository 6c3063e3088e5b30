"""Reads Org."""

from __future__ import annotations

import re

from packwise.sources.access import access_key
from packwise.sources.document_builder import DocumentBuilder
from packwise.sources.line_markup import Inline, LineReader
from packwise.sources.linked_text import TextBuilder


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


_ORG_INLINE = Inline(
    re.compile(
        r"\[\[(?P<href>[^\[\]\n]{1,500})\](?:\[(?P<shown>[^\[\]\n]{1,500})\])?\]"
        r"|(?<![\w=~])[=~](?P<literal>[^\s=~](?:[^=~\n]{0,300}[^\s=~])?)[=~](?![\w=~])"
        r"|(?<![\w*/_+])[*/_+](?P<strong>[^\s*/_+](?:[^*/_+\n]{0,300}[^\s*/_+])?)[*/_+](?![\w*/_+])"
        r"|<<<?[^<>\n]{1,100}>>>?"
    ),
    _write_org,
)


class _Org(LineReader):
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


def read(builder: DocumentBuilder, text: str) -> None:
    """Add the blocks of an Org file."""
    _Org(builder, text).read()
