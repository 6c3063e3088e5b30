"""Which Cypher may run on a store: queries that only read, within bounds.

A query is split into words with its strings and comments set apart, so neither can hide a
clause or be mistaken for one.
"""

from __future__ import annotations

import re
from collections.abc import Container

from packwise.errors import UsageError

MOST_HOPS = 8
"""The longest path a query may follow: paths without a bound can visit everything."""

MOST_CHARACTERS = 20_000

_TOKEN = re.compile(
    r"""
      (?P<comment>//[^\n]*|/\*.*?\*/)
    | (?P<string>'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+")
    | (?P<quoted>`[^`]*+`)
    | (?P<parameter>\$\w+)
    | (?P<word>[^\W\d]\w*)
    | (?P<number>\d+)
    | (?P<space>\s+)
    | (?P<sign>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_FORBIDDEN = frozenset(
    "create delete detach set merge drop remove load copy alter install uninstall attach use "
    "insert import export begin commit rollback checkpoint comment macro explain profile "
    "transaction update truncate grant revoke force".split()
)
_STARTS = frozenset("match optional with unwind return call".split())
_CALLS = frozenset(
    "query_vector_index query_fts_index show_tables table_info show_connection show_indexes "
    "show_functions db_version".split()
)


def check_read_only(query: str) -> None:
    """Raise ``UsageError`` unless a query only reads and follows paths of bounded length."""
    if not query.strip():
        raise UsageError("the Cypher query is empty")
    if len(query) > MOST_CHARACTERS:
        raise UsageError(f"a Cypher query has at most {MOST_CHARACTERS} characters")
    tokens = _tokens(query)
    words = [text.lower() for kind, text in tokens if kind == "word"]
    if not words or words[0] not in _STARTS:
        raise UsageError(
            "a Cypher query starts with MATCH, WITH, UNWIND, CALL or RETURN",
            fix="write one that reads",
        )
    _check_words(tokens)
    _check_hops(tokens)


def check_bound(query: str, parameters: Container[str]) -> None:
    """Raise ``UsageError`` if a parameter of a query has no value.

    Kuzu would run it all the same, and compare with nothing.
    """
    for kind, text in _tokens(query):
        if kind == "parameter" and text[1:] not in parameters:
            raise UsageError(f"{text} has no value", fix="give one in the parameters")


def _tokens(query: str) -> list[tuple[str, str]]:
    found = ((match.lastgroup or "sign", match[0]) for match in _TOKEN.finditer(query))
    tokens = [(kind, text) for kind, text in found if kind not in ("comment", "space")]
    for at, (kind, text) in enumerate(tokens):
        if kind == "sign" and text in "'\"`":
            raise UsageError("a Cypher query holds a quote that is never closed")
        if (kind, text) == ("sign", ";") and at != len(tokens) - 1:
            raise UsageError("only one Cypher statement may be given", fix="remove the ';'")
        if (kind, text) == ("sign", "/") and tokens[at + 1 : at + 2] == [("sign", "*")]:
            raise UsageError("a Cypher query holds a comment that is never closed")
    return tokens


def _check_words(tokens: list[tuple[str, str]]) -> None:
    for at, (kind, text) in enumerate(tokens):
        if kind != "word":
            continue
        word = text.lower()
        before = tokens[at - 1][1] if at else ""
        # A property or a label may be called like a clause: n.set, (n:Set), {set: 1}.
        named = before in (".", ":") or tokens[at + 1 : at + 2] == [("sign", ":")]
        if word in _FORBIDDEN and not named:
            raise UsageError(f"Cypher may only read here, {text.upper()} is not allowed")
        if word == "call" and not named:
            _check_call(tokens[at + 1 :])


def _check_call(rest: list[tuple[str, str]]) -> None:
    name = rest[0][1] if rest and rest[0][0] == "word" else ""
    if name.lower() not in _CALLS:
        raise UsageError(
            f"CALL {name or '?'} is not allowed", fix=f"call {', '.join(sorted(_CALLS))}"
        )
    if rest[1:2] != [("sign", "(")]:
        raise UsageError(f"CALL {name} without arguments is not allowed")


def _check_hops(tokens: list[tuple[str, str]]) -> None:
    """Every variable-length pattern ``[:KIND*1..3]`` names how far it goes at most."""
    inside = 0
    for at, (kind, text) in enumerate(tokens):
        if kind != "sign":
            continue
        if text == "[":
            # A pattern's bracket follows its dash; any other is a list or a subscript.
            pattern = at > 0 and tokens[at - 1][1] == "-"
            inside = inside + 1 if inside or pattern else 0
        elif text == "]" and inside:
            inside -= 1
        elif text == "*" and inside == 1 and _is_repetition(tokens, at):
            _check_bound(tokens, at)


def _is_repetition(tokens: list[tuple[str, str]], at: int) -> bool:
    kind, text = tokens[at - 1]
    return kind in ("word", "quoted") or text == "["


def _check_bound(tokens: list[tuple[str, str]], at: int) -> None:
    rest = tokens[at + 1 : at + 12]
    while rest and rest[0][0] == "word":
        rest = rest[1:]  # ALL, SHORTEST, TRAIL, ACYCLIC, WSHORTEST
    if rest[:1] == [("sign", "(")]:
        rest = rest[rest.index(("sign", ")")) + 1 :] if ("sign", ")") in rest else []
    numbers: list[int] = []
    dots = 0
    for kind, text in rest:
        if kind == "number":
            numbers.append(int(text))
        elif text == ".":
            dots += 1
        else:
            break
    bounded = len(numbers) == 2 or (numbers and (dots == 0 or rest[0][1] == "."))
    if not bounded or max(numbers) > MOST_HOPS:
        raise UsageError(
            f"a path may have at most {MOST_HOPS} steps, and must say so",
            fix=f"write *1..{MOST_HOPS} or less",
        )
