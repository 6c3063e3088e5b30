"""Where a link leads: from what the author wrote to a document id or a URL."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from urllib.parse import unquote

PAGE_SUFFIXES = (".md", ".markdown", ".rst", ".html", ".htm", ".txt", ".text")

_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*://")
# References that never name a document.
_ELSEWHERE = re.compile(r"(?i)(?:mailto|javascript|data|tel|sms|about|blob):")
_INDEXES = tuple(f"{stem}{suffix}" for stem in ("README", "index") for suffix in PAGE_SUFFIXES)
_HREF = re.compile(r"""(?i)href\s*=\s*["']?([^"'\s>]+)""")
# By format: what links look like, each with a piece of text it cannot do without.
_WRITTEN = {
    "markdown": (
        ("](", re.compile(r"\]\(\s*<?([^)\s>]+)")),
        ("]:", re.compile(r"(?m)^ {0,3}\[[^\]\n]+\]:[ \t]*<?([^\s>]+)")),
        ("href", _HREF),
    ),
    "html": (("", _HREF),),
    "rst": (
        (">`", re.compile(r"<([^<>\n]+)>`")),
        (".. _", re.compile(r"(?m)^\.\. _[^\n]*?: +(\S+)")),
        (":doc:", re.compile(r":doc:`([^`<\n]+)`")),
    ),
    "text": (),
}
_TOCTREE_ENTRY = re.compile(r"(?m)^[ \t]++(?:[^\n<]*+<)?([^\s<>]++)>?[ \t]*+$")
_WIKI_LINK = re.compile(r"\[\[([^\[\]|#\n]+)")


class Catalogue:
    """The documents of one source, by id, to resolve links against."""

    def __init__(self, ids: Iterable[str]) -> None:
        self._ids = frozenset(ids)

    def resolve(self, base: str, href: str) -> str | None:
        """The id or URL a link in document ``base`` leads to; ``None`` if to no document.

        A relative path becomes the id of the file it names, also when the author left
        out the suffix, named a folder with an index in it, or named the page that a
        site generator makes of the file. A path that leaves the source is kept as written.
        """
        target, literal = _target(base, href)
        return target if target is None or literal is None else self._page(target, literal)

    def resolve_name(self, base: str, name: str) -> str | None:
        """The document a ``[[name]]`` means: the nearest one whose file is called so.

        Case, blanks, hyphens and underscores make no difference. A name no file has
        is kept as written.
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

    def unusual(self, base: str, text: str, format: str) -> str:
        """What links in raw ``text`` resolve to only because of the other documents.

        It goes into the source hash: a file that appears or vanishes elsewhere changes
        the hash of exactly the documents whose links it changes.
        """
        found: set[str] = set()
        for href in _written(text, format):
            target, literal = _target(base, href)
            if target is None or literal is None:
                continue
            if (page := self._page(target, literal)) != target:
                found.add(f"{href}\n{page}")
        if format == "markdown" and "[[" in text:
            for name in set(_WIKI_LINK.findall(text)):
                found.add(f"[[{name}\n{self.resolve_name(base, name)}")
        return "\n".join(sorted(found))

    @cached_property
    def _by_name(self) -> dict[str, list[str]]:
        names: dict[str, list[str]] = {}
        for document_id in sorted(self._ids):
            names.setdefault(_name_key(posixpath.basename(document_id)), []).append(document_id)
        return names

    def _page(self, path: str, literal: str) -> str:
        for spelling in (path, literal):
            if spelling in self._ids:
                return spelling
        return next((page for page in _spellings(path) if page in self._ids), path)


def _target(base: str, href: str) -> tuple[str | None, str | None]:
    """What a link names, going by its spelling alone.

    The second part is set for a path within the source: the same with its percent signs
    left alone, for files that have such signs in their names.
    """
    href = href.strip()
    if not href or href[0] == "#" or _ELSEWHERE.match(href):
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


def _written(text: str, format: str) -> set[str]:
    """The targets of links in raw markup, roughly: some of it may be no link at all."""
    found: set[str] = set()
    for needed, pattern in _WRITTEN[format]:
        if needed in text:
            found.update(pattern.findall(text))
    if format == "rst" and "toctree" in text:
        found.update(_TOCTREE_ENTRY.findall(text))
    return found


def _spellings(path: str) -> Iterator[str]:
    """The files that a path without a file may stand for, the likeliest first."""
    stem, suffix = posixpath.splitext(path)
    for page in PAGE_SUFFIXES:
        yield path + page
    if suffix in (".html", ".htm"):
        for page in PAGE_SUFFIXES:
            yield stem + page
    for index in _INDEXES:
        yield index if path == "." else f"{path}/{index}"


def _name_key(name: str) -> str:
    stem, suffix = posixpath.splitext(name)
    if suffix.lower() not in PAGE_SUFFIXES:
        stem = name
    return re.sub(r"[\s_\-]+", " ", stem).strip().casefold()


def _folder_key(path: str) -> str:
    return "/" + posixpath.dirname(path).casefold() + "/"
