"""The language below manual pages: escapes, strings, conditions, definitions and comments."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

_ESCAPE = re.compile(
    r"\\(?:[fFmMgYV](?:\[[^\]\n]{0,20}\]|\(..|.)|s(?:[+-]?\d{1,2}|\([+-]?..|\[[^\]\n]{0,9}\])"
    r"|\*(?:\[(?P<string>[^\]\n]{0,40})\]|\((?P<name>..)|(?P<letter>.))"
    r"|\[(?P<long>[^\]\n]{1,40})\]|\((?P<pair>..)|C'(?P<quoted>[^'\n]{1,40})'"
    r"|[hvwoLlNDbXZRHSxBA]'[^'\n]{0,80}'"
    r"|n[+-]?(?:\[[^\]\n]{0,20}\]|\(..|.)|\$.|k.|(?P<one>.))"
)
_PAIRS = {
    "aq": "'", "dq": '"', "oq": "‘", "cq": "’", "lq": "“", "rq": "”", "bu": "•", "em": "—",
    "en": "–", "hy": "-", "mi": "-", "co": "©", "rg": "®", "tm": "™", "ha": "^", "ti": "~",
    "ga": "`", "rs": "\\", "lB": "[", "rB": "]", "lC": "{", "rC": "}", "->": "→", "<-": "←",
    ">=": "≥", "<=": "≤", "!=": "≠", "+-": "±", "mu": "×", "de": "°", "ba": "|", "sl": "/",
    "sh": "#", "Do": "$", "at": "@", "la": "⟨", "ra": "⟩", "ci": "○", "sq": "□", "dg": "†",
    "dd": "‡", "sc": "§", "ps": "¶", "12": "½", "14": "¼", "34": "¾", "ss": "ß", "ae": "æ",
    "AE": "Æ", "oe": "œ", "OE": "Œ", "/o": "ø", "/O": "Ø", "/l": "ł", "/L": "Ł", "Po": "£",
    "Eu": "€", "eu": "€", "ct": "¢", "Ye": "¥", "di": "÷", "==": "≡", "~=": "≅", "<>": "↔",
    "=>": "⇒", "if": "∞", "r!": "¡", "r?": "¿", "Fo": "«", "Fc": "»", "fo": "‹", "fc": "›",
    "bq": "‚", "Bq": "„", "aa": "´", "ul": "_", "ru": "_", "br": "|", "or": "|", "eq": "=",
    "pl": "+", "bv": "|", "ff": "ff", "fi": "fi", "fl": "fl", "Fi": "ffi", "Fl": "ffl",
    "*a": "α", "*b": "β", "*g": "γ", "*d": "δ", "*e": "ε", "*l": "λ", "*m": "μ", "*p": "π",
    "*s": "σ", "*w": "ω", "mc": "µ", "OK": "✓", "no": "¬", "ua": "↑", "da": "↓", "lh": "☜",
}  # fmt: skip
_ACCENTS = {":": "\u0308", "'": "\u0301", "`": "\u0300", "^": "\u0302", "~": "\u0303",
            ",": "\u0327", "o": "\u030a", "v": "\u030c"}  # fmt: skip
_STRINGS = {"Aq": "'", 'L"': '"', 'R"': '"', "lq": "“", "rq": "”", "--": "–", "R": "®", "Tm": "™",
            "C`": '"', "C'": '"', "Le": "≤", "Ge": "≥", "Ne": "≠", "Lt": "<", "Gt": ">",
            "Ba": "|", "Am": "&", "Pm": "±", "q": '"'}  # fmt: skip
"""Strings that DocBook, pod2man and the macro packages define."""
_NOTHING = frozenset("&)%/,:|^cp{}dura!?z")
_ONES = {"e": "\\", "E": "\\", "~": " ", "0": " ", "t": " "}
_DEFINES = frozenset({"de", "de1", "am", "am1", "dei", "ig"})
_HEADINGS = (".SH ", ".Sh ")
_INDENTED = re.compile(r"[ \t]{1,20}\.(?:nf|fi|EX|EE|RS|RE)(?:\s|$)")
"""Requests that no text begins with; pages that a program made may indent them by mistake."""
_NESTED = 20
"""How many conditions may stand on one line."""
_LONGEST_STRING = 200


class Roff:
    """Reads a page: what it defines is remembered, what a typesetter alone would see left out.

    ``_until`` is the line that ends a definition, ``_skipped`` the number of open braces around
    what is left out, ``_held`` whether the last condition held.
    """

    def __init__(self) -> None:
        self._strings = dict(_STRINGS)
        self._until = ""
        self._skipped = 0
        self._held = True

    def lines(self, text: str) -> Iterator[str]:
        """The lines that count, with their escapes; those of macros begin with a full stop."""
        for raw in text.replace("\\\n", "").split("\n"):
            line = _without_comment(raw)
            line = line.lstrip() if _INDENTED.match(line) else line
            if self._until and not line.startswith(_HEADINGS):  # A definition may never end.
                self._until = "" if "".join(line.split()) == self._until else self._until
                continue
            self._until = ""
            if self._skipped:
                self._skipped = max(0, self._skipped + line.count("\\{") - line.count("\\}"))
                continue
            if line != raw and not line.strip(" .'"):
                continue  # Nothing but a comment.
            line = self._request(line)
            if line or not raw:
                yield line

    def _request(self, line: str) -> str:
        """What a line comes to: itself, what depends on a condition that holds, or nothing."""
        for _ in range(_NESTED):
            if line[:1] not in (".", "'"):
                break
            name, _, rest = line[1:].strip().partition(" ")
            rest = rest.lstrip()
            if name in _DEFINES:
                ending = rest.split()[1:2] if name != "ig" else rest.split()[:1]
                self._until = f".{ending[0] if ending else '.'}"
                return ""
            if name == "ds":
                self._define(rest)
                return ""
            if name not in ("if", "ie", "el"):
                break
            if name == "el":
                holds = not self._held
            else:
                holds, rest = self._condition(rest)
                self._held = holds
            if not holds:
                self._skipped = max(0, rest.count("\\{") - rest.count("\\}"))
                return ""
            line = _unblocked(rest)
        return _unblocked(line) if "\\}" in line else line

    def plain(self, text: str) -> str:
        """A text without escapes."""
        return _ESCAPE.sub(self._unescaped, text) if "\\" in text else text

    def _unescaped(self, match: re.Match[str]) -> str:
        if string := match["string"] or match["name"] or match["letter"]:
            return self._strings.get(string.strip(), "")
        if pair := match["long"] or match["pair"] or match["quoted"]:
            return _character(pair)
        one = match["one"] or ""
        return "" if one in _NOTHING else _ONES.get(one, one)

    def _define(self, rest: str) -> None:
        name, _, value = rest.partition(" ")
        if name and name not in _STRINGS:
            self._strings[name] = self.plain(value.strip().removeprefix('"'))[:_LONGEST_STRING]

    def _condition(self, rest: str) -> tuple[bool, str]:
        """Whether a condition holds for a terminal, and what depends on it."""
        negated = rest.startswith("!")
        rest = rest[negated:].lstrip()
        compared = re.match(r"(['\"])(.{0,200}?)\1(.{0,200}?)\1", rest)
        if compared:
            holds = self.plain(compared[2]) == self.plain(compared[3])
            rest = rest[compared.end() :]
        elif rest[:1] in ("n", "o", "t", "e"):
            holds, rest = rest[0] in "no", rest[1:]
        else:
            given, _, rest = rest.partition(" ")
            if given in ("d", "r", "c", "m"):  # Whether something is defined.
                given, _, rest = rest.partition(" ")
            # The register .g says that the typesetter is a modern one; others are unset.
            holds = ".g" in given or given.lstrip("(").startswith(tuple("123456789"))
        return holds is not negated, rest.lstrip()


def _without_comment(line: str) -> str:
    at = line.find("\\")
    while 0 <= at < len(line) - 1:
        if line[at + 1] in '"#':
            return line[:at].rstrip() if line[:at].strip(" .'") else ""
        at = line.find("\\", at + 2)
    return line


def _unblocked(line: str) -> str:
    """A line without the braces around what depends on a condition."""
    line = line.replace("\\{", "").replace("\\}", "").strip()
    return "" if line in (".", "'") else line


def _character(name: str) -> str:
    if name in _PAIRS:
        return _PAIRS[name]
    if code := re.fullmatch(r"u([0-9A-F]{4,6})|char(\d{1,4})", name):
        number = int(code[1], 16) if code[1] else int(code[2])
        return chr(number) if number < 0x110000 and not 0xD800 <= number < 0xE000 else ""
    if len(name) == 2 and name[0] in _ACCENTS and name[1].isalpha():
        return unicodedata.normalize("NFC", name[1] + _ACCENTS[name[0]])
    return name if len(name) == 1 else ""
