"""Source code by function and class, each with its doc comment.

Python is parsed by Python itself, other languages by tree-sitter (the extra ``code``).
"""

from __future__ import annotations

import ast
import re
import textwrap
import time
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packwise.errors import SourceError
from packwise.sources import plain_rst
from packwise.sources.decoding import decode, file_bytes
from packwise.sources.document_builder import DocumentBuilder
from packwise.sources.linked_text import LinkedText
from packwise.sources.readers import GRAMMARS, SourceFile, suffix

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

SIZE_LIMIT = 2 << 20
"""Characters; a larger file is data or generated, and is read as bare code."""
_LONGEST_LINE = 2000
"""Characters; a longer one is minified or no code."""
_SECONDS, _SECONDS_PER_MEGABYTE = 0.2, 4.0
"""What a grammar may compute, several times what code needs. On text that is no code its time
grows with the square of the length."""
_PIECE = 256
"""Bytes that a grammar gets at once; in between the time is looked at."""

_DEEPEST = 3
_HEAD = 4096
_GENERATED = re.compile(
    rb"(?i)@generated|code generated .{0,80}do not edit|automatically generated"
)
_LICENSE = re.compile(r"(?i)copyright|licen[sc]e|SPDX|all rights reserved")
_IMPORT = re.compile(
    r"(?:import|package|use|using|#include|from|namespace|declare)\b|<\?php|['\"]use strict|\s*$"
    r"|(?:var|let|const)\s[^=;]{1,200}=\s*require\("
)
_COMMENT_MARKS = re.compile(
    r"(?m)^[ \t]*(?:///?!?|/\*+!?|\*+/|\*(?!/)|#+!?|--)[ \t]?|[ \t]*\*+/[ \t]*$"
)
_WITHOUT_OWN_TEXT = ("export_statement", "decorated_definition", "template_declaration")
_BODIES = ("body", "declaration_list", "class_body")


def is_written_by_hand(path: Path) -> bool:
    """Whether code is neither minified nor generated."""
    if re.search(r"\.min\.|[.-]bundle\.|\.d\.ts$|_pb2\.py$|\.pb\.go$", path.name):
        return False
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
    except OSError:
        return True  # reading it will say why not
    return _GENERATED.search(head) is None and not (len(head) == _HEAD and head.count(b"\n") < 8)


def read_python(builder: DocumentBuilder, text: str) -> None:
    """Add the docstrings and the code of a Python module."""
    try:
        tree = ast.parse(text) if len(text) <= SIZE_LIMIT else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        tree = None
    if tree is None:
        builder.code(text)
    else:
        _PythonReader(builder, text).read(tree.body, "", 1)


def read(builder: DocumentBuilder, file: SourceFile) -> None:
    """Add the doc comments and the code of a file in another language."""
    text, _ = decode(file_bytes(file.path))
    if len(text) > SIZE_LIMIT or max(map(len, text.split("\n"))) > _LONGEST_LINE:
        builder.code(text)
        return
    source = text.encode()
    root = _tree(_parser(*GRAMMARS[suffix(file.path.name)]), source)
    if root is None:
        builder.code(text)
    else:
        _TreeReader(builder, source).read(root)


def _tree(parser: Parser, source: bytes) -> Node | None:
    """The root of the syntax tree, or ``None`` if the text is no code of this language and would
    take too long. A parser cannot be interrupted, but it ends where its input does."""
    end = time.thread_time() + _SECONDS + _SECONDS_PER_MEGABYTE * len(source) / 1e6
    late = False

    def piece(at: int, point: object) -> bytes:
        nonlocal late
        late = late or time.thread_time() > end
        return b"" if late else source[at : at + _PIECE]

    root = parser.parse(piece).root_node
    return None if late else root


class _PythonReader:
    def __init__(self, builder: DocumentBuilder, text: str) -> None:
        self._builder = builder
        self._lines = text.split("\n")
        self._last = 0

    def read(self, body: list[ast.stmt], owner: str, level: int) -> None:
        """Add statements; ``owner`` is the class they are in."""
        doc = _docstring(body)
        if doc is not None:
            plain_rst.read(self._builder, doc)
            self._last = body[0].end_lineno or self._last
        for statement in body[1:] if doc is not None else body:
            if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                first = min((d.lineno for d in statement.decorator_list), default=statement.lineno)
                self._code(first - 1)
                self._definition(statement, owner, level)
        self._code((body[-1].end_lineno or 0) if body else 0)

    def _definition(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, owner: str, level: int
    ) -> None:
        name = f"{owner}.{node.name}" if owner else node.name
        end = node.end_lineno or node.lineno
        self._builder.heading(level + 1, LinkedText(name))
        doc = _docstring(node.body)
        if isinstance(node, ast.ClassDef) and level < _DEEPEST:
            self._code(node.body[0].lineno - 1)
            self.read(node.body, name, level + 1)
        elif doc is None:
            self._code(end)
        else:
            plain_rst.read(self._builder, doc)
            self._code(node.body[0].lineno - 1, node.body[0].end_lineno or 0, end)
        self._last = max(self._last, end)

    def _code(self, end: int, skipped: int = 0, rest: int = 0) -> None:
        """Add the lines up to ``end``, and those after ``skipped`` up to ``rest``."""
        lines = self._lines[self._last : end] + self._lines[skipped:rest]
        self._last = max(self._last, end, rest)
        text = "\n".join(line for line in lines if line.strip() not in ("", '"""'))
        if re.search(r"(?m)^\s*(?!#|from\s|import\s|\)|@)\S", text):
            self._builder.code(textwrap.dedent("\n".join(lines)).strip("\n"))


def _docstring(body: list[ast.stmt]) -> str | None:
    if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        value = body[0].value.value
        if isinstance(value, str):
            import inspect

            return inspect.cleandoc(value)
    return None


class _TreeReader:
    """Walks the definitions of a tree-sitter tree."""

    def __init__(self, builder: DocumentBuilder, source: bytes) -> None:
        self._builder = builder
        self._source = source

    def read(self, root: Node) -> None:
        self._children(root, "", 1)

    def _children(self, node: Node, owner: str, level: int) -> None:
        comments: list[Node] = []
        loose: list[str] = []
        defined = level > 1
        for child in node.named_children:
            if "comment" in child.type:
                comments.append(child)
                continue
            name = self._name(child)
            said = self._texts(comments, child if name else None, licences=defined)
            if name:
                defined = True
                self._flush(loose)
                self._definition(child, f"{owner}.{name}" if owner else name, said, level)
            else:
                loose += [*said, self._text(child)]
            comments = []
        self._flush([*loose, *self._texts(comments, None, licences=defined)])

    def _texts(self, comments: list[Node], described: Node | None, *, licences: bool) -> list[str]:
        """The texts of comments. Those about a licence are left out, unless ``licences`` are
        wanted, or they stand right above what they describe."""
        groups: list[list[Node]] = []
        for comment in comments:
            if groups and _adjoin(groups[-1][-1], comment):
                groups[-1].append(comment)
            else:
                groups.append([comment])
        own = groups[-1:] if described is not None and groups else []
        own = own if described is not None and own and _adjoin(own[0][-1], described) else []
        texts: list[str] = []
        for group in groups:
            found = [self._text(comment) for comment in group]
            if licences or group in own or not any(map(_LICENSE.search, found)):
                texts += found
        return texts

    def _definition(self, node: Node, name: str, comments: list[str], level: int) -> None:
        self._builder.heading(level + 1, LinkedText(" ".join(name.split())))
        comment = "\n".join(_COMMENT_MARKS.sub("", text) for text in comments)
        self._builder.plain_text(textwrap.dedent(comment))
        body = self._body(_inner(node))
        members = [child for child in body.named_children if self._name(child)] if body else []
        if body is None or not members or level >= _DEEPEST:
            self._builder.code(_dedented(self._text(node)))
            return
        head = self._source[node.start_byte : body.start_byte].decode("utf-8", "replace")
        self._builder.code(head)
        self._children(body, name, level + 1)

    def _flush(self, loose: list[str]) -> None:
        text = "\n".join(loose)
        if not all(_IMPORT.match(t) for t in loose):
            self._builder.code(text)
        loose.clear()

    def _body(self, node: Node) -> Node | None:
        if not any(kind in node.type for kind in _CONTAINERS):
            return None
        found = (node.child_by_field_name(field) for field in _BODIES)
        by_field = next((body for body in found if body is not None), None)
        if by_field is not None:
            return by_field
        return next((child for child in node.named_children if child.type in _BODIES), None)

    def _name(self, node: Node) -> str:
        """The name of what a node defines; empty if it defines nothing."""
        inner = _inner(node)
        if inner.type == "expression_statement":
            return self._assigned(inner)
        if inner.type == "namespace_definition" and inner.child_by_field_name("body") is None:
            return ""
        if not any(kind in inner.type for kind in _DEFINITIONS):
            return ""
        named = inner.child_by_field_name("type" if inner.type == "impl_item" else "name")
        if named is None and inner.type in ("type_declaration", "lexical_declaration"):
            spec = next((c for c in inner.named_children if "comment" not in c.type), None)
            named = spec.child_by_field_name("name") if spec else None
            if inner.type == "lexical_declaration" and "=>" not in self._text(inner):
                return ""
        if named is None:
            named = inner.child_by_field_name("declarator")
            while named is not None and (deeper := named.child_by_field_name("declarator")):
                named = deeper
        return self._text(named)[:120] if named is not None else ""

    def _assigned(self, node: Node) -> str:
        """The name that a statement gives to a function or class: ``exports.name = function``."""
        value = node.named_children[0] if node.named_children else None
        names: list[str] = []
        while value is not None and value.type == "assignment_expression":
            left = value.child_by_field_name("left")
            names += [self._text(left)] if left is not None else []
            value = value.child_by_field_name("right")
        return ", ".join(names)[:120] if value is not None and value.type in _VALUES else ""

    def _text(self, node: Node) -> str:
        return self._source[node.start_byte : node.end_byte].decode("utf-8", "replace")


_DEFINITIONS = tuple(
    "function method class struct enum trait interface impl_item mod_item module namespace "
    "type_declaration type_alias record_declaration constructor macro_definition "
    "lexical_declaration union type_item singleton_method".split()
)
_VALUES = (
    *("function_expression", "function", "generator_function", "arrow_function"),
    *("class", "async_function"),
)
"""What JavaScript may assign to a name to define it."""
_CONTAINERS = tuple(
    "class impl_item trait interface mod_item module namespace struct record".split()
)


def _inner(node: Node) -> Node:
    """The definition inside an export or a template."""
    for _ in range(_DEEPEST):
        if node.type not in _WITHOUT_OWN_TEXT:
            break
        inside = node.child_by_field_name("declaration") or node.child_by_field_name("definition")
        inside = inside or (node.named_children[-1] if node.named_children else None)
        if inside is None:
            break
        node = inside
    return node


def _adjoin(one: Node, other: Node) -> bool:
    """Whether no empty line stands between two nodes."""
    row, column = one.end_point
    # In some grammars a comment ends with its line.
    return other.start_point[0] - row <= (1 if column else 0)


def _dedented(text: str) -> str:
    """Code whose first line lost the indent that the others have."""
    first, _, rest = text.partition("\n")
    return f"{first}\n{textwrap.dedent(rest)}" if rest.startswith((" ", "\t")) else text


@cache
def _parser(module: str, function: str) -> Parser:
    from tree_sitter import Language, Parser

    try:
        grammar: Any = getattr(import_module(module), function)()
        return Parser(Language(grammar))  # pyright: ignore[reportDeprecated]
    except ImportError as error:
        raise SourceError("needs a grammar", fix="pip install 'packwise[code]'") from error
