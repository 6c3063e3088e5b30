"""A folder of reStructuredText as one tree: its labels, its objects and its ``conf.py`` files.

One scan of the files finds what cross-references may name. ``conf.py`` is never executed: only
values that are literals are used.
"""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from packwise.errors import SourceError
from packwise.lazy_pattern import lazy_pattern
from packwise.sources.asciidoc_includes import Books
from packwise.sources.autodoc import Autodoc
from packwise.sources.decoding import decode, file_bytes
from packwise.sources.readers import SourceFile
from packwise.sources.rst_includes import Includes, is_restricted

FORMATS = ("rst", "text")

_HEADING = lazy_pattern(r"(?m)^(?![ \t]*$)([^\n]{1,300})\n(([!-/:-@\[-`{-~])\3{2,})[ \t]*$")
# A blank line, explicit markup, or an option of a directive.
_MAY_PRECEDE = lazy_pattern(r"[ \t]*$|\.\. |[ \t]+:[\w-]+:")
_LABEL = lazy_pattern(r"(?m)^[ \t]*\.\. _(`[^`\n]+`|[^:\n`]+):[ \t]*$")
_MARKER = lazy_pattern(r"\.\. [\w:+-]+::[ \t]+(\S.*)$")
_OBJECT = lazy_pattern(
    r"(?m)^([ \t]*)\.\. ([\w:+-]+)::[ \t]+(\S[^\n]*)((?:\n\1[ \t]+(?![: \t])\S[^\n]*$)*)"
)
_GLOSSARY = lazy_pattern(
    r"(?m)^([ \t]*)\.\. glossary::[^\n]*((?:\n\1[ \t]+[^\n]*|\n[ \t]*(?=\n))*)"
)
_ROLE = lazy_pattern(r":([\w:+.-]{2,60}):`([^`]{1,300})`")
_MARKUP = lazy_pattern(
    r"(?::[\w:+.-]{1,60}:)?`{1,2}~?([^`<\n]{1,200}?)(?: *<[^`<>\n]{1,200}>)?`{1,2}_{0,2}"
)
_TOCTREE_ENTRY = lazy_pattern(r"(?:[^<>]*+<([^<>]+)>|([^\s*?\[\]]+))$")
_EMPHASIS = lazy_pattern(r"(?<!\w)(\*{1,2})([^*\s][^*]*)\1(?!\w)")
_DEFINITION = lazy_pattern(r"(?m)^\.\. (?:\|[^|\n]+\| |_[^\n:]+: )[^\n]*(?:\n[ \t]+\S[^\n]*)*")
_USED = lazy_pattern(r"\|(version|release)\|")
_PYTHON = frozenset(
    "attr attribute class classmethod const data deco decorator exc exception func function meth "
    "method mod module obj property staticmethod type".split()
)
_KINDS = {
    "djadmin": "django-admin",
    "lookup": "fieldlookup",
    "ttag": "templatetag",
    "tfilter": "templatefilter",
}
_NO_OBJECTS = frozenset(
    "code-block code sourcecode note warning tip image figure include literalinclude toctree "
    "versionadded versionchanged deprecated admonition contents rubric topic".split()
)


VERSIONS = {
    "versionadded": "New in version",
    "versionchanged": "Changed in version",
    "versionremoved": "Removed in version",
    "deprecated": "Deprecated since version",
    "deprecated-removed": "Deprecated since version",
}
"""What Sphinx writes for the directives that tell of a change."""


class Reference(NamedTuple):
    """Where a cross-reference leads. ``title`` is its text where the author gave none."""

    title: str
    href: str


class _Object(NamedTuple):
    name: str
    kind: str
    document: str


@dataclass(slots=True)
class _Project:
    """What a ``conf.py`` says, as far as it can be read."""

    values: Mapping[str, str] = field(default_factory=dict[str, str])
    definitions: str = ""
    links: Mapping[str, tuple[str, str | None]] = field(
        default_factory=dict[str, tuple[str, str | None]]
    )
    text_is_rst: bool = False
    text: str = ""


@dataclass(slots=True)
class _Table:
    titles: dict[str, str] = field(default_factory=dict[str, str])
    labels: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    objects: dict[str, list[_Object]] = field(default_factory=dict[str, list[_Object]])


class SphinxTree:
    """The reStructuredText files among those of a source folder."""

    def __init__(self, root: Path, files: Iterable[SourceFile]) -> None:
        self._root = root
        self._files = tuple(files)
        self._includes = Includes(root)
        self._autodoc: dict[str, Autodoc] = {}
        self.expanders = {"asciidoc": self.expand_asciidoc, "markdown": self.expand_markdown}

    def expand(self, document_id: str, text: str) -> str:
        """The text with included files and docstrings in their places, and with what ``conf.py``
        defines."""
        folder = self._folder(document_id)
        text = self._includes.expand(document_id, text.replace("\r\n", "\n"), folder)
        text = self.expand_asciidoc(document_id, text)
        project = self._projects.get(folder)
        if project:
            text = self._docstrings(folder).expand(text)
        lines = [_without_markers(text)]
        if project and "|" in text:
            lines += [
                f".. |{name}| replace:: {' '.join(project.values[name].split())}"
                for name in sorted(set(_USED.findall(text)))
                if name in project.values and f".. |{name}|" not in text + project.definitions
            ]
        if project and project.definitions and re.search(r"\||`_|\w_\b", text):
            lines.append(project.definitions)
        return "\n\n".join(lines)

    def expand_asciidoc(self, document_id: str, text: str) -> str:
        """An AsciiDoc text with what it includes in its place."""
        return self._books.expand(document_id, text.replace("\r\n", "\n"))

    def is_part(self, file_id: str) -> bool:
        """Whether a file is AsciiDoc that others hold as a whole, and everyone may see those."""
        return file_id in self._books.parts

    @cached_property
    def _books(self) -> Books:
        texts = ((x.id, _text(x)) for x in self._files if x.reader.format == "asciidoc")
        public = ((name, text) for name, text in texts if not is_restricted(text))
        return Books(self._includes, public)

    def expand_markdown(self, document_id: str, text: str) -> str:
        """A Markdown text with docstrings where MyST or mkdocstrings insert them."""
        text = text.replace("\r\n", "\n")
        return self._docstrings(self._folder(document_id)).expand_markdown(text)

    def _docstrings(self, folder: str) -> Autodoc:
        if folder not in self._autodoc:
            project = self._projects.get(folder)
            self._autodoc[folder] = Autodoc(self._root / folder, project.text if project else "")
        return self._autodoc[folder]

    def is_rst(self, document_id: str) -> bool:
        """Whether a ``conf.py`` says that this file is reStructuredText, whatever its suffix."""
        project = self._projects.get(self._folder(document_id))
        return project is not None and project.text_is_rst

    def fingerprint(self, document_id: str, text: str) -> str:
        """All that other files contribute to a document: part of its source hash."""
        expanded = self.expand(document_id, text)
        found = {
            f"{role} {target}\n{self.reference(document_id, role, target)}"
            for role, shown in _ROLE.findall(expanded)
            for _, target in [title_and_target(" ".join(shown.split()))]
        }
        return "\n".join([expanded, *sorted(found)]) if found or expanded != text else ""

    def reference(self, document_id: str, role: str, target: str) -> Reference | None:
        """What a cross-reference in a document means; ``None`` if nothing in the tree."""
        role = role.rpartition(":")[2].lower()
        folder = self._folder(document_id)
        project = self._projects.get(folder)
        if project and role in project.links:
            url, caption = project.links[role]
            shown = caption.replace("%s", target) if caption else target
            return Reference(shown, url.replace("%s", target))
        if role in ("ref", "numref"):
            found = self._table.labels.get(_folded(target))
            return Reference(found[1], _href(found[0])) if found else None
        if role == "doc":
            return self._document(document_id, folder, target)
        document = self._defined(document_id, role, target)
        return Reference("", _href(document)) if document else None

    def _document(self, document_id: str, folder: str, target: str) -> Reference | None:
        base = folder if target.startswith("/") else posixpath.dirname(document_id)
        path = posixpath.normpath(posixpath.join(base, target.lstrip("/")))
        ids = (f"{path}{suffix}" for suffix in ("", ".rst", ".txt", ".md", ".ipynb"))
        found = next((one for one in ids if one in self._ids), None)
        return Reference(self._table.titles.get(found, ""), _href(found)) if found else None

    def _defined(self, document_id: str, role: str, target: str) -> str | None:
        """The document with the directive that defines an object."""
        is_option = role == "option"
        target = target.strip() if is_option else target.strip("~.@ ").removesuffix("()")
        if role == "term":
            target = _folded(target)
        separator = " " if is_option else "."
        known = [
            one
            for one in self._table.objects.get(target.rpartition(separator)[2], ())
            if _fits(role, one.kind) and f"{separator}{one.name}".endswith(f"{separator}{target}")
        ]
        exact = [one for one in known if one.name == target]
        documents = {one.document for one in exact or known}
        return documents.pop() if len(documents) == 1 else None

    def is_settings(self, file_id: str) -> bool:
        """Whether a file is the ``conf.py`` of a folder with pages, and not just some program."""
        folder, name = posixpath.split(file_id)
        pages = (posixpath.join(folder, f"index.{suffix}") for suffix in ("rst", "md", "txt"))
        return name == "conf.py" and not self._ids.isdisjoint(pages)

    def _folder(self, document_id: str) -> str:
        """The folder of the ``conf.py`` that a document belongs to."""
        folder = posixpath.dirname(document_id)
        while folder and folder not in self._projects:
            folder = posixpath.dirname(folder)
        return folder

    @cached_property
    def _ids(self) -> frozenset[str]:
        return frozenset(file.id for file in self._files)

    @cached_property
    def _projects(self) -> dict[str, _Project]:
        return {
            posixpath.dirname(file.id): _project(_text(file))
            for file in self._files
            if posixpath.basename(file.id) == "conf.py"
        }

    @cached_property
    def _table(self) -> _Table:
        table = _Table()
        formats = FORMATS if self._projects else ("rst",)
        for file in self._files:
            if file.reader.format in formats:
                text = _text(file)
                if text and not is_restricted(text):
                    _scan(table, file.id, text)
        return table


def title_and_target(text: str) -> tuple[str, str]:
    """The title that the author gave a cross-reference, if any, and its target."""
    before, sign, target = text.removesuffix(">").rpartition("<")
    explicit = bool(sign and before.strip() and target) and text.endswith(">")
    return (before.rstrip(), target) if explicit else ("", text)


def short_name(target: str) -> str:
    """How a target without a title is shown: of ``~dotted.name`` the last part."""
    name = target.lstrip("!").removeprefix(".")
    return name[1:].rpartition(".")[2] if name.startswith("~") else name


def toctree_targets(lines: Iterable[str]) -> Iterator[str]:
    """The documents that the lines of a toctree name."""
    for line in lines:
        entry = _TOCTREE_ENTRY.match(line.strip())
        target = (entry[1] or entry[2]) if entry else ""
        if target and target != "self":
            yield target


def _text(file: SourceFile) -> str:
    # A file that cannot be read is reported when it is its turn.
    with suppress(OSError, SourceError):
        return decode(file_bytes(file.path))[0].replace("\r\n", "\n").expandtabs()
    return ""


def _href(document_id: str) -> str:
    return "/" + quote(document_id)


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


def _fits(role: str, kind: str) -> bool:
    if role in _PYTHON:
        return kind in _PYTHON
    return _KINDS.get(role, role) in kind


def _headings(text: str) -> Iterator[tuple[str, list[tuple[int, str]]]]:
    """The headings of a text, each with the markup just before it: its lines and their starts."""
    for found in _HEADING.finditer(text):
        at = found.start()
        before: list[tuple[int, str]] = []
        while at:
            start = text.rfind("\n", 0, at - 1) + 1
            line = text[start : at - 1]
            is_overline = not before and line.rstrip() == found[2]
            if not is_overline and not _MAY_PRECEDE.match(line):
                break
            before.append((start, line))
            at = start
        if before or not found.start():
            title = without_markup(found[1].replace("\\", "")).strip()
            yield _EMPHASIS.sub(r"\2", title), before


def without_markup(text: str) -> str:
    """A text without roles and literals, which leave their titles."""
    return _MARKUP.sub(r"\1", text)


def _without_markers(text: str) -> str:
    """The text without directives such as ``.. setting:: X`` or ``.. setting:: GROUP-X`` that only
    mark the heading below them, which names X itself."""
    kept: list[str] = []
    at = 0
    for title, before in _headings(text):
        for start, line in reversed(before):
            marker = _MARKER.match(line)
            if marker and marker[1].rstrip().rpartition("-")[2].lower() in title.lower():
                kept.append(text[at:start])
                at = start + len(line)
    return "".join((*kept, text[at:]))


def _scan(table: _Table, document_id: str, text: str) -> None:
    """Add what a file defines."""
    for title, before in _headings(text):
        table.titles.setdefault(document_id, title)
        for _, line in before:
            if label := _LABEL.match(line):
                table.labels.setdefault(_folded(label[1].strip("`")), (document_id, title))
    for label in _LABEL.finditer(text):
        table.labels.setdefault(_folded(label[1].strip("`")), (document_id, ""))
    for kind, name in (*_terms(text), *_objects(text)):
        last = name.rpartition(" " if "option" in kind else ".")[2]
        table.objects.setdefault(last, []).append(_Object(name, kind, document_id))


def _terms(text: str) -> Iterator[tuple[str, str]]:
    for glossary in _GLOSSARY.finditer(text):
        lines = [line for line in glossary[2].split("\n") if line.strip()]
        lines = [line for line in lines if not line.lstrip().startswith(":")]
        margin = min((len(line) - len(line.lstrip()) for line in lines), default=0)
        for line in lines:
            if not line[margin].isspace():
                yield "term", _folded(line.split(" : ")[0])


def _objects(text: str) -> Iterator[tuple[str, str]]:
    """The kind and the name of every object that a directive describes; names in Python start
    with their module and class, options with their program."""
    module = program = ""
    classes: list[tuple[int, str]] = []
    for found in _OBJECT.finditer(text):
        kind = found[2].rpartition(":")[2].removeprefix("auto")
        if kind in _NO_OBJECTS:
            continue
        while classes and classes[-1][0] >= len(found[1]):
            classes.pop()
        if kind in ("module", "currentmodule"):
            module = found[3].strip().removesuffix("None")
        elif kind in ("program", "django-admin"):
            program = found[3].split()[0]
        outer = "" if kind == "module" else classes[-1][1] if classes else module
        for name in _names(kind, found[3] + found[4], outer, program):
            yield kind, name
            if kind in ("class", "exception"):
                classes.append((len(found[1]), name))


def _names(kind: str, signatures: str, outer: str, program: str) -> Iterator[str]:
    for signature in signatures.split("\n"):
        if "option" in kind:
            for option in signature.split(","):
                name = re.split(r"[\s=\[]", option.strip())[0]
                yield f"{program} {name}".strip()
        elif head := signature.partition("(")[0].split():
            name = head[-1] if kind in _PYTHON else head[0]
            nested = kind in _PYTHON and outer and not name.startswith(f"{outer}.")
            yield f"{outer}.{name}" if nested else name


def _project(text: str) -> _Project:
    """The literals among the settings of a ``conf.py``."""
    values: dict[str, Any] = {}
    with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        for statement in ast.parse(text).body:
            if isinstance(statement, ast.Assign):
                names = [one.id for one in statement.targets if isinstance(one, ast.Name)]
                with suppress(ValueError, TypeError, RecursionError):
                    values.update(dict.fromkeys(names, ast.literal_eval(statement.value)))
    texts = {name: value for name, value in values.items() if isinstance(value, str) and value}
    links: dict[str, tuple[str, str | None]] = {}
    extlinks: Any = values.get("extlinks")
    for role, value in extlinks.items() if isinstance(extlinks, dict) else ():
        match value:
            case (str(url), (str() | None) as caption):
                links[str(role)] = (url, caption)
            case _:
                continue
    both = "\n".join(texts.get(name, "") for name in ("rst_prolog", "rst_epilog"))
    suffixes: Any = values.get("source_suffix")
    text_is_rst = isinstance(suffixes, (str, list, tuple, dict)) and ".txt" in suffixes
    return _Project(texts, "\n\n".join(_DEFINITION.findall(both)), links, text_is_rst, text)
