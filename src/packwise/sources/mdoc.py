"""Lines of the macros ``mdoc``, in which the manual pages of BSD are written, as text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

CELL = "\t"
"""What stands between the cells of a row."""
LITERAL = "\0"
"""What stands before a punctuation mark that is a word like others; documents leave it out."""
_AROUND = {"Op": "[]", "Aq": "<>", "Pq": "()", "Dq": "“”", "Qq": '""', "Sq": "‘’", "Bq": "[]",
           "Brq": "{}", "Ql": "‘’"}  # fmt: skip
_OPENS = {"Oo": "[", "Ao": "<", "Po": "(", "Do": "“", "Qo": '"', "So": "‘", "Bo": "[", "Bro": "{",
          "Eo": ""}  # fmt: skip
_CLOSES = {"Oc": "]", "Ac": ">", "Pc": ")", "Dc": "”", "Qc": '"', "Sc": "’", "Bc": "]", "Brc": "}",
           "Ec": "", "Fc": ")"}  # fmt: skip
_SYSTEMS = {"Ux": "UNIX", "Fx": "FreeBSD", "Nx": "NetBSD", "Ox": "OpenBSD", "Dx": "DragonFly",
            "Bsx": "BSD/OS"}  # fmt: skip
_ALONE = {"Ar": "file ...", "Pa": "~", "At": "AT&T UNIX", "Bx": "BSD", "Fl": "-"}
"""What a macro without arguments stands for."""
_WORDS = frozenset(
    "Nm Fl Ar Cm Ic Pa Ev Er Va Vt Fa Fn Fo Ft Dv Li Em Sy Xr Lk Mt Ad An Tn Bx At St No Fd Cd In "
    "Sx Ms Lb Rv Ex Tg".split()
)
_SILENT = frozenset("Xo Xc Tg".split())
_SPACING = frozenset("Ns Ap Pf Ta".split())
MACROS = frozenset({*_AROUND, *_OPENS, *_CLOSES, *_SYSTEMS, *_WORDS, *_SILENT, *_SPACING})
_NESTED = 20
"""How many macros on a line may stand inside one another."""
_CLOSING = frozenset(".,;:)]?!")
_OPENING = frozenset("([")


@dataclass
class Line:
    """A text that is being written, word by word. ``tight_before`` and ``tight_after`` say that
    no space belongs between it and the text of the line before or after."""

    parts: list[str] = field(default_factory=list[str])
    tight_before: bool = False
    tight_after: bool = False

    @property
    def text(self) -> str:
        return "".join(self.parts)

    def add(self, word: str) -> None:
        """A word after a space, unless it is tied to what is before it."""
        if self.parts and not self.tight_after and word != CELL and self.parts[-1] != CELL:
            self.parts.append(" ")
        self.parts.append(word)
        self.tight_after = False

    def tie(self) -> None:
        """No space before what comes next."""
        self.tight_before = self.tight_before or not self.parts
        self.tight_after = True

    def append(self, mark: str) -> None:
        """A sign without a space before it."""
        self.tie()
        self.add(mark)

    def put(self, word: str) -> None:
        """A word or a punctuation mark."""
        if word in _CLOSING:
            self.append(word)
        else:
            self.add(word)
            self.tight_after = word in _OPENING


class MdocText:
    """Turns lines into text. ``name`` is what the page describes, for macros that stand for it."""

    def __init__(self) -> None:
        self.name = ""
        self.in_synopsis = False
        self._arguments: int | None = None

    def line(self, words: Sequence[str]) -> Line:
        """The text of the macros and words of a line."""
        line = Line()
        self._write(list(words), line)
        return line

    def _write(self, words: Sequence[str], line: Line, depth: int = 0) -> None:
        at = 0
        while at < len(words):
            word = words[at]
            at += 1
            if word in _AROUND and depth < _NESTED:
                end = _without_marks(words, at)
                opening, closing = _AROUND[word]
                line.add(opening)
                line.tie()
                self._write(words[at:end], line, depth + 1)
                line.append(closing)
                for mark in words[end:]:
                    line.append(mark)
                return
            if word == "Pf":
                line.put(words[at] if at < len(words) else "")
                line.tie()
                at += 1
            elif word not in MACROS:
                line.put(word)
            elif not self._sign(word, line):
                start = at
                while at < len(words) and words[at] not in MACROS:
                    at += 1
                self._macro(word, words[start:at], line)

    def _sign(self, macro: str, line: Line) -> bool:
        """Write a macro that stands for a sign or for a space; whether it is one."""
        if macro in _OPENS:
            line.add(_OPENS[macro])
            line.tie()
        elif macro in _CLOSES:
            line.append(_CLOSES[macro])
            self._arguments = None if macro == "Fc" else self._arguments
        elif macro == "Ns":
            line.tie()
        elif macro == "Ap":
            line.append("'")
            line.tie()
        elif macro == "Ta":
            line.add(CELL)
        else:
            return False
        return True

    def _macro(self, name: str, arguments: Sequence[str], line: Line) -> None:
        end = _without_marks(arguments, 0)
        for word in self._words(name, list(arguments[:end]), line):
            line.put(word)
        for mark in arguments[end:]:
            line.append(mark)

    def _words(self, name: str, given: list[str], line: Line) -> list[str]:
        """What a macro with these arguments stands for."""
        if name in _SILENT:
            return []
        if name == "Nm":
            self.name = self.name or " ".join(given[:1])
            return given or [self.name]
        if name in ("Fo", "Fa", "In"):
            return self._declared(name, given, line)
        if name in ("Rv", "Ex"):
            return [self._standard(name, given[1:])]
        if name in _SYSTEMS:
            return [_SYSTEMS[name], *given]
        if not given:
            return [_ALONE[name]] if name in _ALONE else []
        return _SPELLED[name](given[0], given[1:]) if name in _SPELLED else given

    def _declared(self, name: str, given: list[str], line: Line) -> list[str]:
        """Parts of a declaration: an included file, a function, its arguments."""
        if name == "In" and given:
            include = self.in_synopsis and not line.parts
            return [f"{'#include ' if include else ''}<{given[0]}>", *given[1:]]
        if name == "Fo" and given:
            line.add(f"{given[0]}(")
            line.tie()
            self._arguments = 0
            return []
        if name == "Fa" and self._arguments is not None:
            return self._function_arguments(given, line)
        return given

    def _function_arguments(self, given: list[str], line: Line) -> list[str]:
        for word in given:
            if self._arguments:
                line.append(",")
            line.add(word)
            self._arguments = (self._arguments or 0) + 1
        return []

    def _standard(self, name: str, named: list[str]) -> str:
        """The sentence on what functions return or programs exit with."""
        names = named or [self.name]
        listed = " and ".join(f"{one}()" if name == "Rv" else one for one in names)
        one = len(names) == 1
        if name == "Ex":
            verb = "utility exits" if one else "utilities exit"
            return f"The {listed} {verb} 0 on success, and >0 if an error occurs."
        verb = "function returns" if one else "functions return"
        return (
            f"The {listed} {verb} the value 0 if successful; otherwise the value -1 is returned "
            "and the global variable errno is set to indicate the error."
        )


def _without_marks(words: Sequence[str], start: int) -> int:
    """Where the words from ``start`` on end, without the punctuation marks at their end."""
    end = len(words)
    while end > start and words[end - 1] in _CLOSING:
        end -= 1
    return end


def _standard_name(first: str, rest: list[str]) -> list[str]:
    name = first.removeprefix("-")
    number = name.removeprefix("p")
    return [f"IEEE Std {number}" if number[:1].isdigit() else name, *rest]


_SPELLED: dict[str, Callable[[str, list[str]], list[str]]] = {
    "Fl": lambda first, rest: [w if w in _CLOSING | {"|"} else f"-{w}" for w in (first, *rest)],
    "Xr": lambda first, rest: [f"{first}({rest[0]})", *rest[1:]] if rest else [first],
    "Fn": lambda first, rest: [f"{first}({', '.join(rest)})"],
    "Lk": lambda first, rest: [f"{' '.join(rest)}: {first}"] if rest else [first],
    "Bx": lambda first, rest: ["-".join((f"{first}BSD", *(w.capitalize() for w in rest)))],
    "At": lambda first, rest: [f"AT&T UNIX {first.removeprefix('v')}", *rest],
    "St": _standard_name,
    "Lb": lambda first, rest: [f"({first}, -l{first.removeprefix('lib')})", *rest],
}
