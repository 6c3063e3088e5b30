"""Resolves links: from what the author wrote to a document id or a URL."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import chain
from urllib.parse import unquote

from packwise.lazy_pattern import lazy_pattern

_PAGE_SUFFIXES = tuple(
    ".md .markdown .rst .html .htm .xhtml .shtml .txt .text .adoc .asciidoc .org .ipynb".split()
)

_ABSOLUTE = lazy_pattern(r"[A-Za-z][A-Za-z0-9+.\-]*://")
_NOT_A_DOCUMENT = lazy_pattern(r"(?i)(?:mailto|javascript|data|tel|sms|about|blob):")
_INDEXES = tuple(f"{stem}{suffix}" for stem in ("README", "index") for suffix in _PAGE_SUFFIXES)
_HREF = lazy_pattern(r"""(?i)href\s*=\s*["']?([^"'\s>]+)""")
# By format: patterns of links, each with a text that a link of that kind must contain.
_LINK_PATTERNS = {
    "markdown": (
        ("](", lazy_pattern(r"\]\(\s*<?([^)\s>]+)")),
        ("]:", lazy_pattern(r"(?m)^ {0,3}\[[^\]\n]+\]:[ \t]*<?([^\s>]+)")),
        ("href", _HREF),
    ),
    "html": (("", _HREF),),
    "asciidoc": (("[", lazy_pattern(r"(?:link|xref):([^\s\[\]]{1,300})\[")),),
    "org": (("[[", lazy_pattern(r"\[\[(?:file:)?([^\[\]\n:]{1,300})")),),
    "rst": (
        (">`", lazy_pattern(r"<([^<>\n]+)>`")),
        (".. _", lazy_pattern(r"(?m)^\.\. _[^\n]*?: +(\S+)")),
        (":doc:", lazy_pattern(r":doc:`([^`<\n]+)`")),
        ("toctree", lazy_pattern(r"(?m)^[ \t]++(?:[^\n<]*+<)?([^\s<>]++)>?[ \t]*+$")),
    ),
}
_WIKI_LINK = lazy_pattern(r"\[\[([^\[\]|#\n]+)")


class LinkResolver:
    """Resolves links against the documents of one source, given by id."""

    def __init__(self, ids: Iterable[str]) -> None:
        self._ids = frozenset(ids)

    def resolve(self, base: str, href: str) -> str | None:
        """The id or URL that a link in document ``base`` leads to; ``None`` if none.

        A relative path becomes the id of the file it names, also if it lacks the suffix, names
        a folder with an index, or names the page that a site generator makes of the file. A
        path that leaves the source is kept as written.
        """
        target, literal = _target(base, href)
        return target if target is None or literal is None else self._page(target, literal)

    def resolve_name(self, base: str, name: str) -> str | None:
        """The document that ``[[name]]`` means: the nearest one whose file has that name.

        Case, blanks, hyphens and underscores make no difference. An unknown name is kept as
        written.
        """
        name = name.split("#", 1)[0].strip()
        if not name:
            return None
        folder, _, last = name.strip("/").rpartition("/")
        found = [
            document_id
            for document_id in self._by_name.get(_name_key(last), ())
            if not folder or _folder_key(document_id).endswith(_folder_key(f"{folder}/x"))
        ]
        home = posixpath.dirname(base)
        found.sort(key=lambda i: (posixpath.dirname(i) != home, i.count("/"), i))
        return found[0] if found else name

    def fingerprint(self, base: str, text: str, format: str) -> str:
        """What links in raw ``text`` resolve to only because of the other documents.

        It is part of the source hash: a file that appears or vanishes elsewhere changes the
        hash of exactly those documents whose links it changes.
        """
        found: set[str] = set()
        for href in _hrefs(text, format):
            target, literal = _target(base, href)
            if target and literal and (page := self._page(target, literal)) != target:
                found.add(f"{href}\n{page}")
        if format == "markdown" and "[[" in text:
            names = set(_WIKI_LINK.findall(text))
            found |= {f"[[{name}\n{self.resolve_name(base, name)}" for name in names}
        return "\n".join(sorted(found))

    @cached_property
    def _by_name(self) -> dict[str, list[str]]:
        names: dict[str, list[str]] = {}
        for document_id in sorted(self._ids):
            names.setdefault(_name_key(posixpath.basename(document_id)), []).append(document_id)
        return names

    def _page(self, path: str, literal: str) -> str:
        candidates = chain((path, literal), _spellings(path))
        return next((page for page in candidates if page in self._ids), path)


def _target(base: str, href: str) -> tuple[str | None, str | None]:
    """What a link names, judged by its spelling alone.

    The second value is set for a path within the source: the same path with its percent signs
    kept, for files that have them in their names.
    """
    href = href.strip()
    if not href or href[0] == "#" or _NOT_A_DOCUMENT.match(href):
        return None, None
    if _ABSOLUTE.match(href) or href.startswith("//"):
        return href.split("#", 1)[0], None
    path = href.partition("#")[0].partition("?")[0]
    if not path:
        return None, None
    literal = _joined(base, path)
    joined = _joined(base, unquote(path)) if "%" in path else literal
    if joined == ".." or joined.startswith("../"):
        return href, None
    return joined, literal


def _joined(base: str, path: str) -> str:
    if path.startswith("/"):
        return posixpath.normpath(path.lstrip("/"))
    return posixpath.normpath(posixpath.join(posixpath.dirname(base), path))


def _hrefs(text: str, format: str) -> set[str]:
    """The targets of links in raw markup, roughly: some may not be links at all."""
    found: set[str] = set()
    for needed, pattern in _LINK_PATTERNS.get(format, ()):
        if needed in text:
            found.update(pattern.findall(text))
    return found


def _spellings(path: str) -> Iterator[str]:
    """The files that a path which is no file may mean, the likeliest first."""
    stem, suffix = posixpath.splitext(path)
    yield from (path + page for page in _PAGE_SUFFIXES)
    if suffix in (".html", ".htm", ".xhtml", ".shtml"):
        yield from (stem + page for page in _PAGE_SUFFIXES)
    yield from (index if path == "." else f"{path}/{index}" for index in _INDEXES)


def _name_key(name: str) -> str:
    stem, suffix = posixpath.splitext(name)
    if suffix.lower() not in _PAGE_SUFFIXES:
        stem = name
    return re.sub(r"[\s_\-]+", " ", stem).strip().casefold()


def _folder_key(path: str) -> str:
    return "/" + posixpath.dirname(path).casefold() + "/"
