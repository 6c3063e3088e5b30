"""Manual pages: roff with the macros ``man`` and ``mdoc``, plain or gzipped."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Callable
from pathlib import Path

from packwise.errors import SourceError
from packwise.sources.decoding import SIZE_LIMIT, decode, file_bytes
from packwise.sources.document_builder import DocumentBuilder
from packwise.sources.linked_text import LinkedText, TextBuilder
from packwise.sources.readers import SourceFile

_START = re.compile(rb"(?m)^[.'](?:TH|Dd|SH|Sh|so|\\\")")
_ESCAPE = re.compile(
    r"\\(?:f(?:\[[^\]\n]{0,20}\]|\(..|.)|s[+-]?\d{1,2}"
    r"|\*(?:\[(?P<string>[^\]\n]{0,20})\]|\((?P<name>..)|(?P<letter>.))"
    r"|\[(?P<long>[^\]\n]{1,20})\]|\((?P<pair>..)|[hvwoLlNDbXZ]'[^'\n]{0,80}'"
    r"|m\[[^\]\n]{0,20}\]|n(?:\[[^\]\n]{0,20}\]|\(..|.)|k.|(?P<one>.))"
)
_PAIRS = {
    "aq": "'", "dq": '"', "oq": "‘", "cq": "’", "lq": "“", "rq": "”", "bu": "•", "em": "—",
    "en": "–", "hy": "-", "mi": "-", "co": "©", "rg": "®", "tm": "™", "ha": "^", "ti": "~",
    "ga": "`", "rs": "\\", "lB": "[", "rB": "]", "lC": "{", "rC": "}", "->": "→", "<-": "←",
    ">=": "≥", "<=": "≤", "!=": "≠", "+-": "±", "mu": "×", "de": "°", "ba": "|", "sl": "/",
    "sh": "#", "Do": "$", "at": "@", "la": "⟨", "ra": "⟩",
}  # fmt: skip
_STRINGS = {"Aq": "'", 'L"': '"', 'R"': '"', "lq": "“", "rq": "”", "--": "–", "R": "®", "Tm": "™"}
"""Strings that DocBook, pod2man and the macro packages define."""
_ONES = {
    "-": "-",
    "e": "\\",
    " ": " ",
    "~": " ",
    "0": " ",
    "t": " ",
    "'": "'",
    "`": "`",
    "\\": "\\",
}
_LONGEST_TERM, _LONGEST_LINES = 100, 1000
"""Characters of a term on one line, and of one that goes on over several."""
_LONG_NAME = 60
_OPTION = re.compile(r"(?:^|, )(--?\w[\w-]*)")
_ARGUMENT = re.compile(r'"((?:[^"]|"")*)"?|((?:\\ |\S)+)')
_FONTS = frozenset("B I R BR RB BI IB IR RI SM SB".split())
_LINK = re.compile(r"([A-Za-z][\w.:+-]*)\s?\((\d[a-z]*)\)$")
_MDOC_WORDS = {
    "Ux": "UNIX",
    "Oo": "[", "Oc": "]", "Ao": "<", "Ac": ">", "Po": "(", "Pc": ")", "Do": "“",
    "Dc": "”", "Qo": '"', "Qc": '"', "Bo": "[", "Bc": "]",
}  # fmt: skip
_MDOC_AROUND = {"Op": "[{}]", "Aq": "<{}>", "Pq": "({})", "Dq": "“{}”", "Qq": '"{}"', "Sq": "‘{}’",
                "Bq": "[{}]", "Brq": "{{{}}}", "Ql": "‘{}’"}  # fmt: skip
_END_MARKS = frozenset(".,;:)]?!")
_MDOC_INLINE = frozenset(
    "Nm Fl Ar Cm Ic Pa Ev Er Va Vt Fa Fn Ft Dv Li Em Sy Xr Lk Mt Ad An Tn Ux Bx At Fx Nx Ox St "
    "No Ns Op Aq Pq Dq Qq Sq Bq Brq Ql Oo Oc Ao Ac Po Pc Do Dc Qo Qc Bo Bc Pf "
    "Cd In Dl D1 Sx Ms".split()
)


def is_manual(path: Path) -> bool:
    """Whether a file with a number as its suffix is a manual page."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            return _START.search(file.read(4096)) is not None
    except (OSError, EOFError, zlib.error):
        return False


def read(builder: DocumentBuilder, file: SourceFile) -> None:
    """Add a manual page; its title is its name and section: ``tar(1)``."""
    raw = file_bytes(file.path)
    if file.path.suffix.lower() == ".gz":
        try:
            with gzip.open(file.path) as opened:
                raw = opened.read(SIZE_LIMIT + 1)
        except (EOFError, zlib.error) as error:
            raise SourceError(f"cannot be unpacked ({error})") from error
        if len(raw) > SIZE_LIMIT:
            raise SourceError("is too large when unpacked")
    _ManReader(builder).read(decode(raw)[0])


class _ManReader:
    """``_lead`` holds the term of a definition until its text comes; ``_term_depths`` are the
    indentations of the terms that are being described."""

    def __init__(self, builder: DocumentBuilder) -> None:
        self._builder = builder
        self._depth = 0
        self._term_depths: list[int] = []
        self._words: list[str] = []
        self._starts_bold = False
        self._lead = ""
        self._awaits_term = False
        self._term_goes_on = False
        self._code: list[str] | None = None
        self._name = ""
        self._table: list[str] | None = None
        self._macros: dict[str, Callable[[list[str]], None]] = {
            **dict.fromkeys(("SH", "Sh"), lambda a: self._heading(1, a)),
            **dict.fromkeys(("SS", "Ss"), lambda a: self._heading(2, a)),
            **dict.fromkeys(("PP", "P", "LP", "HP"), lambda a: self._end(item_too=True)),
            **dict.fromkeys(("Pp", "sp", "br"), lambda a: self._end()),
            "RS": lambda a: self._indent_term(),
            "Bl": lambda a: self._indent(1),
            **dict.fromkeys(("RE", "El"), lambda a: self._indent(-1)),
            **dict.fromkeys(("nf", "EX", "Bd"), lambda a: self._open_code()),
            **dict.fromkeys(("fi", "EE", "Ed"), lambda a: self._close_code()),
            "TH": self._title,
            "Dt": self._title,
            "TP": lambda a: self._await_term(),
            "TQ": lambda a: self._await_term(),
            "IP": self._item,
            "It": self._mdoc_item,
            "Xc": lambda a: self._close_term(),
            "Nd": lambda a: self._words.append(f"- {' '.join(a)}"),
            "TS": lambda a: self._open_table(),
            "TE": lambda a: self._close_table(),
            "T&": lambda a: self._change_format(),
            **dict.fromkeys(("UR", "MT"), lambda a: self._words.extend(a[:1])),
        }

    def read(self, text: str) -> None:
        for line in text.replace("\\\n", "").split("\n"):
            if line.startswith(('.\\"', "'\\\"", ".\\#")):
                continue
            if line[:1] in (".", "'") and line[1:].strip():
                self._macro(line[1:].strip())
            else:
                self._text(line)
        self._close_code()
        self._close_table()
        self._end()
        self._end_terms(0)

    def _macro(self, line: str) -> None:
        name, _, rest = line.partition(" ")
        arguments = [
            (found[1] or "").replace('""', '"') or found[2] or ""
            for found in _ARGUMENT.finditer(rest)
        ]
        if handler := self._macros.get(name):
            handler([_plain(argument) for argument in arguments])
        elif name in _FONTS:
            parts = [_plain(argument) for argument in arguments]
            text = (" " if len(name) == 1 or name in ("SM", "SB") else "").join(parts)
            self._text_of(text, bold=name[0] == "B")
        elif name in _MDOC_INLINE:
            self._text_of(self._mdoc([name, *map(_plain, arguments)]))

    def _text(self, line: str) -> None:
        if self._table is not None:
            self._table.append(line)
        elif self._code is not None:
            self._code.append(_plain(line))
        elif not line.strip():
            self._end()
        else:
            self._text_of(_plain(line).strip(), bold=line.startswith("\\fB"))

    def _text_of(self, text: str, *, bold: bool = False) -> None:
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
            self._words.append(text)

    def _end(self, *, item_too: bool = False) -> None:
        """End a paragraph, and with ``item_too`` what is said about a term."""
        text = " ".join(self._words)
        self._words, self._term_goes_on = [], False
        if text or self._lead:
            self._add_paragraph(text)
        if item_too:
            self._end_terms(self._depth)

    def _add_paragraph(self, text: str) -> None:
        term, self._lead = self._lead, ""
        inline = TextBuilder()
        inline.write(f"{term}\n" if term and text else term)
        position = 0
        for found in re.finditer(r"[A-Za-z][\w.:+-]{0,60}\s?\(\d[a-z]{0,3}\)", text):
            inline.write_flowing(text[position : found.start()])
            parts = _LINK.match(found[0])
            target = f"{parts[1]}.{parts[2]}" if parts else ""
            inline.link(target, found[0].replace(" ", ""))
            position = found.end()
        inline.write_flowing(text[position:])
        if term:
            self._begin_term(term)
        named = self._starts_bold and not (term or self._depth)
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

    def _indent_term(self) -> None:
        """Indent what follows: DocBook writes a term as a paragraph, and what it means indented."""
        text = " ".join(self._words)
        if text and not self._lead and len(text) <= _LONGEST_TERM and text[-1] not in ".:!?":
            self._lead, self._words = text, []
        self._indent(1)

    def _indent(self, by: int) -> None:
        if self._words or by < 0:
            self._end()
        self._depth = max(0, self._depth + by)
        self._end_terms(self._depth + 1)

    def _heading(self, level: int, arguments: list[str]) -> None:
        self._close_code()
        self._end()
        self._end_terms(0)
        self._depth = 0
        words = " ".join(arguments)
        self._builder.heading(
            level + 1, LinkedText(words.capitalize() if words.isupper() else words)
        )

    def _title(self, arguments: list[str]) -> None:
        if arguments:
            name, section = arguments[0], "".join(arguments[1:2])
            self._name = name.lower() if name.isupper() else name
            self._builder.title = f"{self._name}({section})" if section else self._name

    def _await_term(self) -> None:
        if self._lead.endswith(":") and not self._words:
            # A title of several options is not the name of the first.
            self._words, self._lead = [self._lead], ""
            self._end_terms(self._depth)
        if self._words:
            self._end()
        self._awaits_term = True

    def _item(self, arguments: list[str]) -> None:
        self._end()
        mark = arguments[0] if arguments else ""
        self._lead = "" if mark in ("•", "*", "-", "·") else mark
        if mark and not self._lead:
            self._words.append("•")

    def _mdoc_item(self, arguments: list[str]) -> None:
        self._end()
        self._term_goes_on = "Xo" in arguments  # up to Xc, over several lines
        self._lead = self._mdoc([word for word in arguments if word != "Xo"])

    def _close_term(self) -> None:
        self._term_goes_on = False

    def _mdoc(self, words: list[str]) -> str:
        """A line of mdoc macros as text."""
        parts: list[str] = []
        glued = False
        around, start = "", 0
        end = len(words)
        while end > 2 and words[end - 1] in _END_MARKS:  # These stay outside of quotes.
            end -= 1
        waiting = words[:end][::-1]
        while waiting:
            word = waiting.pop()
            if word == "Ns":
                glued = True
            elif word in _MDOC_AROUND and not around:
                around, start = _MDOC_AROUND[word], len(parts)
            elif (shown := self._mdoc_word(word, waiting)) is not None:
                if parts and (glued or shown in _END_MARKS):
                    parts[-1] += shown
                else:
                    parts.append(shown)
                glued = False
        if around:
            parts[start:] = [around.format(" ".join(parts[start:]))]
        if parts:
            parts[-1] += "".join(words[end:])
        if words and words[0] == "Nm" and parts and not self._name:
            self._name = parts[0]
        return " ".join(parts)

    def _mdoc_word(self, word: str, waiting: list[str]) -> str | None:
        """What a word or macro stands for, with its argument taken from ``waiting``."""
        bare = not waiting or waiting[-1] in _MDOC_INLINE
        if word == "Fl":
            return "-" if bare else f"-{waiting.pop()}"
        if word == "Nm" and bare:
            return self._name
        if word == "Ar" and bare:
            return "file ..."
        if word == "Xr" and len(waiting) > 1:
            return f"{waiting.pop()}({waiting.pop()})"
        return _MDOC_WORDS.get(word) or (None if word in _MDOC_INLINE else word)

    def _open_code(self) -> None:
        self._end()
        self._code = []

    def _close_code(self) -> None:
        if self._code is not None:
            code, self._code = "\n".join(self._code), None
            self._builder.code(code)

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
            self._builder.table(
                [[LinkedText(_plain(cell)) for cell in row] for row in _table_rows(lines)]
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
    options = _OPTION.findall(name) if len(name) > _LONG_NAME else []
    return ", ".join(dict.fromkeys(options)) or name


def _plain(text: str) -> str:
    return _ESCAPE.sub(_unescaped, text) if "\\" in text else text


def _unescaped(match: re.Match[str]) -> str:
    if string := match["string"] or match["name"] or match["letter"]:
        return _STRINGS.get(string, "")
    if pair := match["long"] or match["pair"]:
        if re.fullmatch(r"u[0-9A-F]{4,5}", pair):
            return chr(int(pair[1:], 16))
        return _PAIRS.get(pair, "")
    return _ONES.get(match["one"] or "", "")
