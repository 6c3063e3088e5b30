"""Manual pages: roff with the macros ``man`` and ``mdoc``, plain or gzipped."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Callable
from pathlib import Path

from packwise.sources.decoding import decode, file_bytes
from packwise.sources.document_builder import DocumentBuilder
from packwise.sources.linked_text import LinkedText, TextBuilder
from packwise.sources.mdoc import CELL, LITERAL, MACROS, MdocText
from packwise.sources.readers import SourceFile
from packwise.sources.roff import Roff

_START = re.compile(rb"(?m)^[.'](?:TH|Dd|SH|Sh|so|\\\")")
_LONGEST_TERM, _LONGEST_LINES = 100, 1000
"""Characters of a term on one line, and of one that goes on over several."""
_LONG_NAME = 60
_OPTION = re.compile(r"(?:^|, )(--?\w[\w-]*)")
_OPTIONAL = re.compile(r" ?\[[^][]*\]")
_COMMAND = re.compile(r"[#$] [a-z./]\S* ")
"""How a command begins that stands after the prompt of a shell."""
_FILE_NAME = re.compile(r"(.+)\.([1-9][0-9a-z]*)(?:\.gz)?")
_ARGUMENT = re.compile(r'"((?:[^"]|"")*)"?|((?:\\ |\S)+)')
_FONTS = frozenset("B I R BR RB BI IB IR RI SM SB".split())
_PAGE = re.compile(r"(?<![\w.:+-])[A-Za-z][\w.:+-]{0,60}\s?\(\d[a-z]{0,3}\)")
_LINK = re.compile(r"([A-Za-z][\w.:+-]*)\s?\((\d[a-z]*)\)$")
_BULLETS = frozenset("•○□*-·–+o")
_NUMBER = re.compile(r"\(?(\d{1,3})[.)]")
_OUTDENTED = re.compile(r"\\h'-0?\d")
"""How DocBook begins the bullet or the number of an item."""
_LISTS = {"bullet": "•", "dash": "•", "hyphen": "•", "enum": "1."}


def is_manual(path: Path) -> bool:
    """Whether a file with a number as its suffix is a manual page."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            return _START.search(file.read(4096)) is not None
    except (OSError, EOFError, zlib.error):
        return False


def read(builder: DocumentBuilder, file: SourceFile) -> None:
    """Add a manual page; its title is its name and section: ``tar(1)``. The name is that of the
    file, by which people call it: several pages of a command may bear the name of the command."""
    _ManReader(builder).read(decode(file_bytes(file.path))[0])
    name = _FILE_NAME.fullmatch(file.path.name)
    if name is not None and name[1].lower() != builder.title.partition("(")[0].lower():
        builder.title = f"{name[1]}({name[2]})"


class _ManReader:
    """``_lead`` holds the term of a definition until its text comes; ``_term_depths`` are the
    indentations of the terms that are being described, ``_list_depths`` those of open lists.
    ``_mark`` is the bullet or number of an item whose text comes next."""

    def __init__(self, builder: DocumentBuilder) -> None:
        self._builder = builder
        self._roff = Roff()
        self._mdoc = MdocText()
        self._depth = 0
        self._term_depths: list[int] = []
        self._list_depths: list[int] = []
        self._mark = ""
        self._words: list[str] = []
        self._tight = False
        self._starts_bold = False
        self._lead = ""
        self._awaits_term = False
        self._term_goes_on = False
        self._code: list[str] | None = None
        self._displays: list[bool] = []
        self._kinds: list[str] = []
        self._table: list[str] | None = None
        self._rows: list[str] | None = None
        self._reference: list[str] = []
        self._macros: dict[str, Callable[[list[str]], None]] = {
            **dict.fromkeys(("SH", "Sh"), lambda a: self._heading(1, a)),
            **dict.fromkeys(("SS", "Ss"), lambda a: self._heading(2, a)),
            **dict.fromkeys(("PP", "P", "LP", "HP"), lambda a: self._end(item_too=True)),
            **dict.fromkeys(("Pp", "sp", "br", "Sp", "YS", "Rs"), lambda a: self._end()),
            "RS": lambda a: self._indent_term(),
            "RE": lambda a: self._indent(-1),
            "Bl": self._open_mdoc_list,
            "El": lambda a: self._close_mdoc_list(),
            **dict.fromkeys(("nf", "EX", "Vb", "DS"), lambda a: self._open_code()),
            **dict.fromkeys(("fi", "EE", "Ve", "DE"), lambda a: self._close_code()),
            "Bd": self._open_display,
            "Ed": lambda a: self._close_display(),
            "Dl": self._one_line,
            "D1": self._one_line,
            "TH": self._title,
            "Dt": self._title,
            "TP": lambda a: self._await_term(),
            "TQ": lambda a: self._await_term(),
            "IP": self._item,
            "It": self._mdoc_item,
            "Xc": lambda a: self._close_term(),
            "Nd": lambda a: self._words.append(f"- {' '.join(a)}"),
            "Re": lambda a: self._end_reference(),
            "SY": lambda a: self._words.extend(a),
            "OP": lambda a: self._words.append(f"[{' '.join(a)}]"),
            "TS": lambda a: self._open_table(),
            "TE": lambda a: self._close_table(),
            "T&": lambda a: self._change_format(),
            **dict.fromkeys(("UR", "MT"), lambda a: self._words.extend(a[:1])),
            **dict.fromkeys(("URL", "MTO"), self._address),
        }

    def read(self, text: str) -> None:
        for line in self._roff.lines(text):
            if line[:1] in (".", "'") and line[1:].strip():
                self._macro(line[1:].strip())
            else:
                self._text(line)
        self._close_code()
        self._close_table()
        self._end()
        self._end_lists(0)
        self._end_terms(0)

    def _macro(self, line: str) -> None:
        name, _, rest = line.partition(" ")
        given = [
            (found[1] or "").replace('""', '"') or found[2] or ""
            for found in _ARGUMENT.finditer(rest)
        ]
        arguments = [self._roff.plain(argument) for argument in given]
        if handler := self._macros.get(name):
            handler(arguments)
        elif name in _FONTS:
            text = (" " if len(name) == 1 or name in ("SM", "SB") else "").join(arguments)
            self._text_of(text, bold=name[0] == "B")
        elif name.startswith("%"):
            self._reference.append(" ".join(arguments))
        elif name in MACROS:
            words = zip(given, arguments, strict=True)
            # An invisible character before a mark says that it is a word.
            self._mdoc_line([name, *(LITERAL + b if a == f"\\&{b}" else b for a, b in words)])

    def _mdoc_line(self, words: list[str]) -> None:
        line = self._mdoc.line(words)
        if line.text:
            self._text_of(line.text, tight=line.tight_before)
        self._tight = line.tight_after

    def _text(self, line: str) -> None:
        if self._table is not None:
            self._table.append(line)
        elif self._code is not None:
            self._code.append(self._roff.plain(line))
        elif not line.strip():
            self._end()
        elif _OUTDENTED.match(line):
            self._item([self._roff.plain(line).strip()])
        else:
            self._text_of(self._roff.plain(line).strip(), bold=line.startswith("\\fB"))

    def _text_of(self, text: str, *, bold: bool = False, tight: bool = False) -> None:
        if self._table is not None:
            self._table.append(text)
        elif self._code is not None:
            self._code.append(text)
        elif self._term_goes_on and len(self._lead) <= _LONGEST_LINES:
            self._lead = f"{self._lead} {text}".strip()
        elif self._awaits_term:
            self._awaits_term = False
            self._lead = f"{self._lead}, {text}" if self._lead else text
        else:
            self._starts_bold = bold if not self._words else self._starts_bold
            if self._words and (tight or self._tight):
                self._words[-1] += text
            else:
                self._words.append(text)
        self._tight = False

    def _end(self, *, item_too: bool = False) -> None:
        """End a paragraph, and with ``item_too`` what is said about a term and the list."""
        text = " ".join(self._words)
        self._words, self._term_goes_on = [], False
        if self._rows is not None:
            self._rows.append(text)
        elif text or self._lead:
            self._add_paragraph(text)
        if item_too:
            self._mark = ""
            self._end_lists(self._depth)
            self._end_terms(self._depth)

    def _add_paragraph(self, text: str) -> None:
        term, self._lead = self._lead, ""
        if term:
            self._mark = ""
            self._end_lists(self._depth)
        elif self._mark:
            self._open_item()
        else:
            self._end_lists(self._depth + 1)
        inline = TextBuilder()
        inline.write(f"{term}\n" if term and text else term)
        position = 0
        for found in _PAGE.finditer(text):
            inline.write_flowing(text[position : found.start()])
            parts = _LINK.match(found[0])
            target = f"{parts[1]}.{parts[2]}" if parts else ""
            inline.link(target, found[0].replace(" ", ""))
            position = found.end()
        inline.write_flowing(text[position:])
        if term:
            self._begin_term(term)
        if not (term or self._list_depths) and _COMMAND.match(text):
            self._builder.code(" ".join(text.split()))
            return
        named = self._starts_bold and not (term or self._depth or self._mdoc.in_synopsis)
        (self._builder.label if named else self._builder.paragraph)(inline.finish())

    def _begin_term(self, term: str) -> None:
        if self._depth not in self._term_depths[-1:]:
            self._term_depths.append(self._depth)
            self._builder.open_terms()
        self._builder.term(_short_name(term))

    def _end_terms(self, depth: int) -> None:
        """End what is said about terms that are indented at least as much."""
        while self._term_depths and self._term_depths[-1] >= depth:
            self._term_depths.pop()
            self._builder.close_terms()

    def _open_item(self) -> None:
        """Begin the item of a bullet or number, in a list that is open or in a new one."""
        self._end_lists(self._depth + 1)
        if self._depth not in self._list_depths[-1:]:
            number = _NUMBER.fullmatch(self._mark)
            start = int(number[1]) if number else 1
            self._builder.open_list(ordered=number is not None, start=start)
            self._list_depths.append(self._depth)
        self._builder.open_item()
        self._mark = ""

    def _end_lists(self, depth: int) -> None:
        """End the lists that are indented at least as much."""
        while self._list_depths and self._list_depths[-1] >= depth:
            self._list_depths.pop()
            self._builder.close_list()

    def _indent_term(self) -> None:
        """Indent what follows: DocBook writes a term as a paragraph, and what it means indented."""
        text = " ".join(self._words)
        short = len(text) <= _LONGEST_TERM and text[-1:] not in (".", ":", "!", "?")
        if text and not self._lead and not self._mark and short:
            self._lead, self._words = text, []
        self._indent(1)

    def _indent(self, by: int) -> None:
        if self._words or by < 0:
            self._end()
        self._depth = max(0, self._depth + by)
        self._end_terms(self._depth + 1)

    def _heading(self, level: int, arguments: list[str]) -> None:
        self._close_code()
        self._end(item_too=True)
        self._end_lists(0)
        self._end_terms(0)
        self._depth = 0
        words = self._mdoc.line(arguments).text
        self._mdoc.in_synopsis = words.upper() == "SYNOPSIS"
        self._builder.heading(
            level + 1, LinkedText(words.capitalize() if words.isupper() else words)
        )

    def _title(self, arguments: list[str]) -> None:
        if arguments:
            name, section = arguments[0], "".join(arguments[1:2])
            name = name.lower() if name.isupper() else name
            self._builder.title = f"{name}({section})" if section else name

    def _await_term(self) -> None:
        if self._lead.endswith(":") and not self._words:
            # A title of several options is not the name of the first.
            self._words, self._lead = [self._lead], ""
            self._end_terms(self._depth)
        if self._words:
            self._end()
        self._mark = ""
        self._awaits_term = True

    def _item(self, arguments: list[str]) -> None:
        """A bullet, a number or a term, and what it stands before. Without any, what was said is
        a term if it stood in bold type beside a bullet."""
        mark = arguments[0].strip() if arguments else ""
        text = " ".join(self._words)
        if not mark and self._mark and self._starts_bold and 0 < len(text) <= _LONGEST_TERM:
            self._lead, self._words, self._mark = text.rstrip(" :"), [], ""
            return
        if mark and self._lead and not self._words and not self._is_mark(mark):
            self._lead = f"{self._lead}, {mark}"  # Several terms share a description.
            return
        self._end()
        if self._is_mark(mark):
            self._mark = mark
        else:
            self._mark, self._lead = "", mark

    def _is_mark(self, mark: str) -> bool:
        return mark in _BULLETS or _NUMBER.fullmatch(mark) is not None

    def _open_mdoc_list(self, arguments: list[str]) -> None:
        kind = arguments[0].removeprefix("-") if arguments else ""
        self._indent(1)
        self._kinds.append(kind)
        if kind == "column":
            self._rows = []

    def _close_mdoc_list(self) -> None:
        if self._kinds and self._kinds.pop() == "column":
            self._end_rows()
        self._indent(-1)

    def _mdoc_item(self, arguments: list[str]) -> None:
        self._end()
        kind = self._kinds[-1] if self._kinds else "tag"
        if kind == "column":
            self._mdoc_line(arguments)
        elif kind in _LISTS or kind == "item":
            self._mark = _LISTS.get(kind, "")
        else:
            self._term_goes_on = "Xo" in arguments  # up to Xc, over several lines
            term = self._mdoc.line(arguments).text
            # Several terms may share a description.
            self._lead = f"{self._lead}, {term}" if self._lead else term

    def _end_rows(self) -> None:
        """Add the rows of a list in columns as a table."""
        self._end()
        lines, self._rows = self._rows or [], None
        rows = [line.split(CELL) for line in lines if line]
        self._builder.table([[LinkedText(cell.strip()) for cell in row] for row in rows])

    def _close_term(self) -> None:
        self._term_goes_on = False

    def _end_reference(self) -> None:
        if self._reference:
            self._words.append(f"{', '.join(self._reference)}.")
            self._reference = []
        self._end()

    def _address(self, arguments: list[str]) -> None:
        """An address, the words that lead to it, and a mark after both."""
        address, words, mark = (*arguments, "", "", "")[:3]
        self._text_of((f"{words} <{address}>" if words else address) + mark)

    def _open_display(self, arguments: list[str]) -> None:
        """A display keeps its lines, unless its text is to be filled."""
        literal = not {"-filled", "-ragged", "-centered"} & {*arguments}
        self._displays.append(literal)
        if literal:
            self._open_code()
        else:
            self._end()

    def _close_display(self) -> None:
        if self._displays and not self._displays.pop():
            self._end()
        else:
            self._close_code()

    def _one_line(self, arguments: list[str]) -> None:
        self._open_code()
        self._mdoc_line(arguments)
        self._close_code()

    def _open_code(self) -> None:
        self._close_code()
        self._end()
        self._code = []

    def _close_code(self) -> None:
        if self._code is not None:
            code, self._code = "\n".join(self._code), None
            if self._rows is None:
                self._end_lists(self._depth + 1)
                self._builder.code(code)
            else:
                self._rows.append(code.strip())

    def _open_table(self) -> None:
        self._end()
        self._table = []

    def _change_format(self) -> None:
        """From here on the rows of a table have another format; it comes first."""
        if self._table is not None:
            self._table.append(_NEW_FORMAT)

    def _close_table(self) -> None:
        if self._table is not None:
            lines, self._table = self._table, None
            plain = self._roff.plain
            self._builder.table(
                [[LinkedText(plain(cell)) for cell in row] for row in _table_rows(lines)]
            )


_NEW_FORMAT = "\0T&"


def _table_rows(lines: list[str]) -> list[list[str]]:
    """The cells of a table that ``tbl`` reads: options, the format up to a line that ends in a
    full stop, then rows. A cell may go on over lines between ``T{`` and ``T}``."""
    at = next((i for i, line in enumerate(lines) if line.rstrip().endswith(".")), -1)
    given = re.search(r"tab\s*\((.)\)", " ".join(lines[: at + 1]))
    separator = given[1] if given else "\t"
    rows: list[list[str]] = []
    inside, formatting = False, False
    told: list[str] = []
    for line in lines[at + 1 :]:
        if formatting or line == _NEW_FORMAT:
            formatting = not line.rstrip().endswith(".")
            continue
        if inside and not line.startswith("T}"):
            told.append(line.strip())
            continue
        cells = line.split(separator)
        if inside:
            rows[-1][-1:] = [" ".join(told), *cells[1:]]
            told = []
        elif line.strip() not in ("", "_", "="):
            rows.append(cells)
        else:
            continue
        inside = rows[-1][-1].strip() == "T{"
    if inside:
        rows[-1][-1] = " ".join(told)
    return [[cell.strip() for cell in row] for row in rows]


def _short_name(term: str) -> str:
    """A term without its optional arguments, or all arguments of an option if they are long."""
    name = term.partition(" [")[0].rstrip(" |")
    if not term.startswith("-"):
        # Of a command, what follows the first of them is not optional.
        whole = term
        while (shorter := _OPTIONAL.sub("", whole)) != whole:
            whole = shorter
        name = " ".join(whole.split()) or name
    options = _OPTION.findall(name) if len(name) > _LONG_NAME else []
    return ", ".join(dict.fromkeys(options)) or name
