"""What documentation takes from code: ``autofunction``, ``autoclass`` and ``automodule`` of Sphinx,
also in MyST, and ``::: module.name`` of mkdocstrings, filled from the project's docstrings.

Nothing is imported or executed: Python files are parsed, and only signatures and docstrings are
used. Only files of the project are read: below the nearest folder around the documentation that
holds a ``pyproject.toml`` or the like.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packwise.errors import SourceError
from packwise.lazy_pattern import lazy_pattern
from packwise.sources.decoding import check_size, decode, file_bytes

SIZE_LIMIT = 500_000
"""Characters of docstrings that one document may hold."""

_FILE_LIMIT = 2_000_000
_MOST_FILES = 2000
_MOST_IMPORTS = 6
_DEEPEST = 8
"""How far directives may stand in one another, and docstrings name further objects."""

_LEVELS = 3
"""How far above ``conf.py`` its project may begin."""

_PROJECT_FILES = ("pyproject.toml", "setup.py", "setup.cfg", "PKG-INFO")
_CODE_FOLDERS = ("", "src", "lib", "python")
_NAME = lazy_pattern(r"[A-Za-z_][\w.]*")
_DIRECTIVE = lazy_pattern(
    r"(?m)^(?P<indent>[ \t]*)\.\. (?:py:)?(?P<kind>currentmodule|module|auto(?:module|class|"
    r"function|method|attribute|data|exception|decorator|property))::[ \t]+(?P<name>\S[^\n]*)$"
    r"(?P<options>(?:\n(?P=indent)[ \t]+:[\w-]+:[^\n]*$(?:\n(?P=indent)[ \t]{5,}[^\s:][^\n]*$)*)*)"
    r"(?P<content>(?:\n[ \t]*$|\n(?P=indent)[ \t]+\S[^\n]*$)*)"
)
_OPTION = lazy_pattern(r"(?m)^[ \t]*:([\w-]+):([^\n]*(?:\n[ \t]+[^\s:][^\n]*)*)")
_UNDERLINED = lazy_pattern(r"(?m)^(\w[\w ]{0,40})\n-{3,}[ \t]*$")
_MARKUP = lazy_pattern(r"(?::[\w:+.-]{1,60}:`|``)~?([^`\n]{1,200})`{1,2}")
_IN_MARKDOWN = lazy_pattern(r"(?m)^ *(?:(?:`{3,}|:{3,})\{(?:auto|eval-rst)|::: +[A-Za-z_][\w.]*$)")
_FENCED = lazy_pattern(
    r"(?m)^(?P<fence>`{3,}|:{3,})\{(?P<kind>auto(?:module|class|function|method|attribute|data|"
    r"exception)|eval-rst)\}[ \t]*(?P<name>[^\n]*)\n(?P<content>(?:(?!(?P=fence))[^\n]*\n)*?)"
    r"(?P=fence)[ \t]*$"
)
_COLONS = lazy_pattern(r"(?m)^::: +(?P<name>[A-Za-z_][\w.]*)[ \t]*$(?P<content>(?:\n {4}[^\n]*$)*)")
_COMMENT = lazy_pattern(r"^[ \t]*#:[ ]?(.*)$")

_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class _Module:
    name: str
    is_package: bool
    tree: ast.Module
    lines: Sequence[str]


@dataclass(frozen=True, slots=True)
class _Member:
    """A part of a module: a class, a function, or an assignment with a docstring."""

    name: str
    kind: str
    signature: str
    doc: str
    body: Sequence[ast.stmt] = ()


@dataclass(frozen=True, slots=True)
class _Described:
    """What is shown of an object: its heading (empty for a module), docstring and members."""

    kind: str
    heading: str
    doc: str
    members: tuple[_Described, ...] = ()

    def rst(self) -> str:
        parts = [self.doc, *(member.rst() for member in self.members)]
        body = "\n\n".join(part for part in parts if part)
        if not self.heading:
            return f"{body}\n"
        return f".. {self.kind}:: {self.heading}\n\n{_indented(body, '   ')}\n"

    def markdown(self) -> str:
        parts = [f"**`{self.heading}`**"] if self.heading else []
        parts += [_without_roles(self.doc), *(member.markdown() for member in self.members)]
        return "\n\n".join(part for part in parts if part)


class Autodoc:
    """The docstrings of the project that the folder ``docs`` belongs to; ``conf`` is the text of
    its ``conf.py``."""

    def __init__(self, docs: Path, conf: str = "") -> None:
        self._roots = list(_code_folders(docs, conf))
        self._modules: dict[str, _Module | None] = {}
        self._entries: dict[int, dict[str, _Member]] = {}
        self._left = SIZE_LIMIT

    def expand(self, text: str) -> str:
        """The text with a signature and a docstring in the place of each directive whose object
        is found; the others stay."""
        if not self._roots or not re.search(r"::[ \t]", text) or "auto" not in text:
            return text
        self._left = SIZE_LIMIT
        return self._expanded(text, "", "")

    def _expanded(self, text: str, module: str, owner: str, depth: int = 0) -> str:
        current = module
        if depth > _DEEPEST:
            return text

        def fill(found: re.Match[str]) -> str:
            nonlocal current
            kind, name = found["kind"], found["name"].partition("(")[0].strip().replace("::", ".")
            content = found["content"]
            if kind in ("currentmodule", "module"):
                current = "" if name == "None" else name
                inside = self._expanded(content, current, owner, depth + 1)
                return found[0].removesuffix(content) + inside
            if kind == "automodule":
                current = name
            object_ = self._described(kind, name, current, owner, _options(found["options"]))
            described = object_.rst() if object_ else None
            inner = owner
            if kind in ("autoclass", "autoexception"):
                inner = self._full_name(name, current, owner)
            content = self._expanded(content, current, inner, depth + 1)
            if kind == "automodule":
                # Its content may have headings, which can only stand where sections can.
                content = _indented(textwrap.dedent(content), found["indent"])
            if described is None or len(described) > self._left:
                return found[0].removesuffix(found["content"]) + content
            self._left -= len(described)
            if kind == "automodule":
                described = self._expanded(described, current, owner, depth + 1)
            return f"{_indented(described, found['indent'])}\n{content}"

        return _DIRECTIVE.sub(fill, text)

    def _full_name(self, name: str, module: str, owner: str) -> str:
        for full in _candidates(name, module, owner):
            if self._find(full) is not None:
                return full
        return name

    def expand_markdown(self, text: str) -> str:
        """The same for the fences of MyST and the lines of mkdocstrings in a Markdown file."""
        if not self._roots or not _IN_MARKDOWN.search(text):
            return text
        self._left = SIZE_LIMIT
        text = _FENCED.sub(self._fenced, text)
        return _COLONS.sub(self._fenced, text)

    def _fenced(self, found: re.Match[str]) -> str:
        given, name, content = found.groupdict(), found["name"].strip(), found["content"]
        if given.get("kind") == "eval-rst":
            asked = [
                (one["kind"], one["name"].strip(), _options(one["options"]))
                for one in _DIRECTIVE.finditer(content)
            ]
        elif kind := given.get("kind"):
            asked = [(kind, name, _options(content))]
        else:  # mkdocstrings shows all members, of a module or of a class
            kind = "automodule" if self._module(name) else "autoclass"
            asked = [(kind, name, {"members": ""})]
        described = [self._described(kind, name, "", "", options) for kind, name, options in asked]
        shown = "\n\n".join(one.markdown() for one in described if one)
        if not shown or len(shown) > self._left:
            return found[0]
        self._left -= len(shown)
        return f"\n{shown}\n"

    def _described(
        self, kind: str, name: str, module: str, owner: str, options: Mapping[str, str]
    ) -> _Described | None:
        """An object with its docstring, and with its members if the options ask for them."""
        if not _NAME.fullmatch(name):
            return None
        if kind == "automodule":
            found = self._module(name)
            if found is None:
                return None
            doc = _clean(ast.get_docstring(found.tree) or "")
            return _Described("", "", doc, tuple(self._members(found, found.tree.body, options)))
        for full in _candidates(name, module, owner):
            member = self._find(full)
            if member is None:
                continue
            source, entry = member
            is_class = entry.kind in ("class", "exception")
            shown = full if is_class or not owner else name
            inner = tuple(self._members(source, entry.body, options)) if is_class else ()
            return _Described(entry.kind, shown + entry.signature, entry.doc, inner)
        return None

    def _members(
        self, module: _Module, body: Sequence[ast.stmt], options: Mapping[str, str]
    ) -> Iterator[_Described]:
        if "members" not in options:
            return
        wanted = [one for one in re.split(r"[,\s]+", options["members"]) if one]
        left_out = set(re.split(r"[,\s]+", options.get("exclude-members", "")))
        public = _exported(body)
        for entry in self._defined(module, body).values():
            is_wanted = entry.name in wanted if wanted else entry.name in public
            if not is_wanted or entry.name in left_out or not entry.doc:
                continue
            is_class = entry.kind in ("class", "exception")
            inner = tuple(self._members(module, entry.body, {"members": ""})) if is_class else ()
            yield _Described(entry.kind, entry.name + entry.signature, entry.doc, inner)

    def _find(self, full: str, imports: int = 0) -> tuple[_Module, _Member] | None:
        """The object of a dotted name, also where a module imports it from another."""
        parts = full.split(".")
        for cut in range(len(parts) - 1, 0, -1):
            module = self._module(".".join(parts[:cut]))
            if module is not None:
                return self._find_in(module, parts[cut:], imports)
        return None

    def _find_in(
        self, module: _Module, names: Sequence[str], imports: int
    ) -> tuple[_Module, _Member] | None:
        body: Sequence[ast.stmt] = module.tree.body
        entry: _Member | None = None
        for place, name in enumerate(names):
            entry = self._defined(module, body).get(name)
            if entry is None:
                origin = _imported_from(module, name) if place == 0 else None
                if origin is None or imports >= _MOST_IMPORTS:
                    return None
                return self._find(".".join([origin, *names[1:]]), imports + 1)
            body = entry.body
        return (module, entry) if entry is not None else None

    def _defined(self, module: _Module, body: Sequence[ast.stmt]) -> Mapping[str, _Member]:
        # The trees stay in memory, so their parts keep their identities.
        if id(body) not in self._entries:
            self._entries[id(body)] = _entries(module, body)
        return self._entries[id(body)]

    def _module(self, name: str) -> _Module | None:
        if name not in self._modules:
            there = len(self._modules) < _MOST_FILES and _NAME.fullmatch(name)
            self._modules[name] = self._read(name) if there else None
        return self._modules[name]

    def _read(self, name: str) -> _Module | None:
        place = name.replace(".", "/")
        for root in self._roots:
            for path in (root / place / "__init__.py", root / f"{place}.py"):
                tree, lines = _parsed(path, root)
                if tree is not None:
                    return _Module(name, path.name == "__init__.py", tree, lines)
        return None


def _options(text: str) -> dict[str, str]:
    return {key: " ".join(value.split()) for key, value in _OPTION.findall(text)}


def _code_folders(docs: Path, conf: str) -> Iterator[Path]:
    """The folders of a project that may hold its packages: what ``conf.py`` adds to the path of
    Python, and the usual ones."""
    docs = docs.resolve()
    around = [docs, *docs.parents][: _LEVELS + 1]
    root = next((one for one in around if any((one / f).is_file() for f in _PROJECT_FILES)), None)
    if root is None:
        return
    added = re.findall(r"sys\.path\.(?:insert|append)\([^\n]*?[\"']([^\"'\n]{1,100})[\"']", conf)
    places = [*((docs / one).resolve() for one in added), *(root / one for one in _CODE_FOLDERS)]
    for place in dict.fromkeys(places):
        if place.is_dir() and place.is_relative_to(root):
            yield place


def _parsed(path: Path, root: Path) -> tuple[ast.Module | None, Sequence[str]]:
    try:
        if not path.is_file() or path.resolve() != path:
            return None, ()
        check_size(path, _FILE_LIMIT)
        text, _ = decode(file_bytes(path))
        return ast.parse(text), text.splitlines()
    except (OSError, SourceError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None, ()  # as if it were not there: its directives stay empty


def _candidates(name: str, module: str, owner: str) -> Iterator[str]:
    """What a name may mean in a class or module of the documentation."""
    yield from dict.fromkeys(f"{outer}.{name}" if outer else name for outer in (owner, module, ""))


def _imported_from(module: _Module, name: str) -> str | None:
    """The dotted name under which a module imports another module's object."""
    for statement in ast.walk(module.tree):
        if not isinstance(statement, ast.ImportFrom):
            continue
        for alias in statement.names:
            if (alias.asname or alias.name) == name:
                package = module.name.split(".")
                if statement.level:
                    up = statement.level - (1 if module.is_package else 0)
                    package = package[: len(package) - up]
                    base = [*package, *([statement.module] if statement.module else [])]
                else:
                    base = [statement.module or ""]
                return ".".join([*base, alias.name])
    return None


def _exported(body: Sequence[ast.stmt]) -> set[str]:
    """The public names of a module or class: those of ``__all__`` if it is a literal."""
    for statement in body:
        if isinstance(statement, ast.Assign) and any(
            isinstance(one, ast.Name) and one.id == "__all__" for one in statement.targets
        ):
            try:
                return {str(name) for name in ast.literal_eval(statement.value)}
            except (ValueError, TypeError):
                break
    return {name for name in map(_name_of, body) if name and not name.startswith("_")}


def _name_of(statement: ast.stmt) -> str:
    match statement:
        case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
            return statement.name
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name
        case _:
            return ""


def _entries(module: _Module, body: Sequence[ast.stmt]) -> dict[str, _Member]:
    """What a module or class defines, also below ``if`` and ``try``; of overloads the last."""
    found: dict[str, _Member] = {}
    pending = deque(body)
    while pending:
        statement = pending.popleft()
        if isinstance(statement, ast.If | ast.Try):
            pending.extendleft(reversed([*statement.body, *statement.orelse]))
            continue
        name = _name_of(statement)
        if not name:
            continue
        match statement:
            case ast.ClassDef():
                found[name] = _class_entry(statement)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                if "setter" not in (decorators := _decorators(statement)):
                    found[name] = _function_entry(statement, decorators)
            case _:
                doc = _comment_above(module.lines, statement.lineno)
                follower = pending[0] if pending else None
                if not doc and isinstance(follower, ast.Expr):
                    doc = follower.value.value if isinstance(follower.value, ast.Constant) else ""
                if isinstance(doc, str) and doc:
                    found[name] = _Member(name, "attribute", "", _clean(inspect.cleandoc(doc)))
    return found


def _class_entry(node: ast.ClassDef) -> _Member:
    start = next(
        (one for one in node.body if isinstance(one, _Function) and one.name == "__init__"), None
    )
    doc = ast.get_docstring(node) or (ast.get_docstring(start) if start else "") or ""
    bases = {base.id if isinstance(base, ast.Name) else "" for base in node.bases}
    is_error = any(base.endswith(("Error", "Exception", "Warning")) for base in bases)
    signature = _signature(start, skip=1) if start else ""
    kind = "exception" if is_error else "class"
    return _Member(node.name, kind, signature, _clean(doc), node.body)


def _function_entry(node: _Function, decorators: set[str]) -> _Member:
    doc = _clean(ast.get_docstring(node) or "")
    if decorators & {"property", "cached_property"}:
        return _Member(node.name, "property", "", doc)
    arguments = node.args.posonlyargs + node.args.args
    is_method = bool(arguments) and arguments[0].arg in ("self", "cls", "mcs")
    kind = "method" if is_method else "function"
    return _Member(node.name, kind, _signature(node, skip=1 if is_method else 0), doc)


def _decorators(node: _Function) -> set[str]:
    names = (ast.unparse(one).partition("(")[0] for one in node.decorator_list)
    return {name.rpartition(".")[2] for name in names}


def _signature(node: _Function, skip: int) -> str:
    """The arguments with their defaults; types make a long line hard to read."""
    given = node.args
    positional = [*given.posonlyargs, *given.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(given.defaults))
    pairs = list(zip(positional, [*defaults, *given.defaults], strict=True))[skip:]
    shown = [_argument(arg.arg, default) for arg, default in pairs]
    if given.vararg:
        shown.append(f"*{given.vararg.arg}")
    elif given.kwonlyargs:
        shown.append("*")
    shown += [
        _argument(arg.arg, default)
        for arg, default in zip(given.kwonlyargs, given.kw_defaults, strict=True)
    ]
    if given.kwarg:
        shown.append(f"**{given.kwarg.arg}")
    return f"({', '.join(shown)})"


def _argument(name: str, default: ast.expr | None) -> str:
    return name if default is None else f"{name}={' '.join(ast.unparse(default).split())[:60]}"


def _comment_above(lines: Sequence[str], number: int) -> str:
    """The ``#:`` comment that describes the assignment in a line."""
    found: list[str] = []
    for line in reversed(lines[: number - 1]):
        comment = _COMMENT.match(line)
        if comment is None:
            break
        found.append(comment[1])
    return "\n".join(reversed(found))


def _clean(doc: str) -> str:
    """A docstring as reStructuredText: underlined headings, as NumPy has them, cannot stand
    inside a directive."""
    return _UNDERLINED.sub(r"**\1**\n", doc.expandtabs()).strip()


def _without_roles(doc: str) -> str:
    """A docstring in reStructuredText as Markdown, as far as its roles and literals go."""
    return _MARKUP.sub(r"`\1`", doc)


def _indented(text: str, indent: str) -> str:
    return "\n".join(indent + line if line.strip() else "" for line in text.split("\n"))
