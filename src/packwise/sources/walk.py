"""Walks a folder: which of its files can be read, in a fixed order."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from packwise.sources import jsonl
from packwise.sources.ignore import BUILT_IN, FILES, IgnoreRules
from packwise.sources.readers import CREDENTIALS, SourceFile, reader_for, suffix
from packwise.sources.secrets import secret_in
from packwise.sources.source_items import Problem, reason_of

_OF_SPHINX = (
    *("/_sources/", "/_static/", "/genindex*.html", "/search.html", "/py-modindex.html"),
    *("/_modules/", "/searchindex.js", "/objects.inv"),
)
_OF_DOXYGEN = (
    *("/search/", "/*.js", "/*_source.html", "/*_8md.html", "/*-members.html", "/functions*.html"),
    *("/globals*.html", "/namespacemembers*.html", "/dir_*.html", "/annotated.html"),
    *("/classes.html", "/files.html", "/hierarchy.html", "/inherits.html", "/graph_legend.html"),
)
_OF_JAVADOC = (
    *("/src-html/", "class-use/", "package-tree.html", "package-use.html", "/overview-tree.html"),
    *("/allclasses*.html", "/allpackages-index.html", "/index-all.html", "/index-files/"),
    *("/help-doc.html", "/search.html", "/script-dir/", "/jquery/", "/*.js"),
)
_SITES = (
    (("searchindex.js",), _OF_SPHINX),
    # Its search index is not always published.
    (("_static", "genindex.html", "search.html"), _OF_SPHINX),
    (
        ("index.html", "search/search_index.json"),
        ("/search/", "/search.html", "/404.html", "/js/", "/assets/javascripts/"),
    ),
    (("doxygen.css",), _OF_DOXYGEN),
    (("element-list", "help-doc.html"), _OF_JAVADOC),
    (("package-list", "help-doc.html"), _OF_JAVADOC),
    (("book.js", "index.html"), ("/print.html", "/toc.html", "/*.js")),
)
"""What marks the folder of a site made by Sphinx, MkDocs, Doxygen, Javadoc or mdBook, and what such
a site holds beside its pages: sources, listings of source code, indexes, lists of names, all pages
in one, the theme and its scripts."""


def readable(name: str) -> str:
    """A file name as text that can be stored and shown, whatever its bytes are."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class Listing:
    """What a walk found. ``skipped`` counts the files that are not read, by suffix: they have no
    reader, its library is not installed, or they hold no documents."""

    files: tuple[SourceFile, ...]
    problems: tuple[Problem, ...] = ()
    skipped: Mapping[str, int] = field(default_factory=dict[str, int])


def walk(root: Path) -> Listing:
    """All readable files below a folder, by id.

    Files that match the ignore rules, virtual environments and packs are left out. A link to
    a folder outside is followed once. A link to a folder inside is not followed, as that
    folder is read in its own place. A link to a folder that contains it is a problem.
    """
    walker = _Walker(root)
    waiting = [_Folder(root, "", IgnoreRules().with_lines(BUILT_IN))]
    while waiting:
        waiting += walker.read(waiting.pop())
    return Listing(
        tuple(sorted(walker.files, key=lambda file: file.id)),
        tuple(sorted(walker.problems, key=lambda problem: problem.location)),
        dict(sorted(walker.skipped.items())),
    )


@dataclass(frozen=True, slots=True)
class _Folder:
    path: Path
    id: str
    rules: IgnoreRules


@dataclass(slots=True)
class _Walker:
    root: Path
    files: list[SourceFile] = field(default_factory=list[SourceFile])
    problems: list[Problem] = field(default_factory=list[Problem])
    skipped: Counter[str] = field(default_factory=Counter[str])
    followed: set[str] = field(default_factory=set[str])

    def read(self, folder: _Folder) -> list[_Folder]:
        """Add the files of a folder; returns the folders in it."""
        try:
            with os.scandir(folder.path) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError as error:
            self._report(str(folder.path), f"cannot be read ({reason_of(error)})")
            return []
        names = {entry.name for entry in entries}
        if folder.id and not names.isdisjoint(("pyvenv.cfg", "pack.sqlite")):
            return []
        rules = folder.rules
        for marks, beside in _SITES:
            if all(mark.partition("/")[0] in names for mark in marks) and all(
                (folder.path / mark).exists() for mark in marks
            ):
                rules = rules.with_lines(beside, folder.id)
        for name in FILES:
            if name in names:
                rules = rules.with_lines(self._lines(folder.path / name), folder.id)
        corpus = jsonl.beir_corpus(folder.path)
        inner: list[_Folder] = []
        for entry in entries:
            entry_id = f"{folder.id}/{readable(entry.name)}" if folder.id else readable(entry.name)
            is_folder = _is_folder(entry)
            if rules.ignored(entry_id, folder=is_folder):
                continue
            if not is_folder:
                self._add_file(entry, entry_id, corpus)
            elif not entry.is_symlink() or self._may_follow(entry):
                inner.append(_Folder(Path(entry.path), entry_id, rules))
        return inner

    def _add_file(self, entry: os.DirEntry[str], entry_id: str, corpus: Path | None) -> None:
        path = Path(entry.path)
        reader = reader_for(path)
        if reader is None or reader.missing:
            named = CREDENTIALS if secret_in(entry_id, "") else "no suffix"
            self.skipped[suffix(entry.name) or named] += 1
        elif entry.is_symlink() and not path.exists():
            self._report(entry.path, "is a link that leads nowhere")
        # Beside a corpus, other rows are queries.
        elif (
            path != corpus
            if corpus is not None and reader.format == "rows"
            else not reader.may_read(path)
        ):
            self.skipped[suffix(entry.name)] += 1
        else:
            self.files.append(SourceFile(path, entry_id, readable(entry.path), reader))

    def _may_follow(self, entry: os.DirEntry[str]) -> bool:
        target = os.path.realpath(entry.path)
        here = os.path.realpath(Path(entry.path).parent)
        if _contains(target, here):
            self._report(entry.path, "is a link back to a folder it lies in: not followed")
            return False
        if _contains(os.path.realpath(self.root), target) or target in self.followed:
            return False
        self.followed.add(target)
        return True

    def _lines(self, path: Path) -> list[str]:
        try:
            return path.read_text("utf-8", "replace").splitlines()
        except OSError as error:
            self._report(str(path), f"cannot be read ({reason_of(error)})")
            return []

    def _report(self, path: str, reason: str) -> None:
        self.problems.append(Problem(readable(path), reason))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False  # a link to itself, which is reported when it is read as a file


def _contains(folder: str, path: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)
