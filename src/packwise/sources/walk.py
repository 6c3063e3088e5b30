"""Walking a folder: what is in it that can be read, in a fixed order."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from packwise.sources import beir, formats, jsonl
from packwise.sources.ignore import BUILT_IN, FILES, Rules
from packwise.sources.items import Problem


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file to read: its id in the source, its name in messages, its format."""

    path: Path
    id: str
    label: str
    format: str


@dataclass(frozen=True, slots=True)
class Listing:
    """What a walk found. ``skipped`` counts files no reader takes, by suffix."""

    files: tuple[FoundFile, ...]
    problems: tuple[Problem, ...]
    skipped: Mapping[str, int]


def walk(root: Path) -> Listing:
    """All readable files below a folder, by id.

    Passed over are files that match the ignore rules, virtual environments and packs.
    A link to a folder outside is followed, once; one to a folder inside is not, since
    that folder is read at its own place; one that leads back up is a problem.
    """
    walker = _Walker(root)
    walker.run()
    return Listing(
        tuple(sorted(walker.files, key=lambda file: file.id)),
        tuple(sorted(walker.problems, key=lambda problem: problem.location)),
        dict(sorted(walker.skipped.items())),
    )


@dataclass(frozen=True, slots=True)
class _Folder:
    path: Path
    id: str
    rules: Rules


@dataclass(slots=True)
class _Walker:
    root: Path
    files: list[FoundFile] = field(default_factory=list[FoundFile])
    problems: list[Problem] = field(default_factory=list[Problem])
    skipped: Counter[str] = field(default_factory=Counter[str])
    linked: set[str] = field(default_factory=set[str])

    def run(self) -> None:
        waiting = [_Folder(self.root, "", Rules().with_lines(BUILT_IN))]
        while waiting:
            waiting.extend(self._read_folder(waiting.pop()))

    def _read_folder(self, folder: _Folder) -> list[_Folder]:
        """Take in the files of a folder; returns the folders in it."""
        try:
            with os.scandir(folder.path) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError as error:
            self._report(folder.path, error)
            return []
        names = {entry.name for entry in entries}
        if folder.id and not names.isdisjoint(("pyvenv.cfg", "pack.sqlite")):
            return []
        rules = folder.rules
        for name in FILES:
            if name in names:
                rules = rules.with_lines(self._lines(folder.path / name), folder.id)
        corpus = beir.corpus_in(folder.path)
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
        format = formats.format_of(entry.name)
        if format is None:
            self.skipped[formats.suffix(entry.name) or "no suffix"] += 1
        elif entry.is_symlink() and not path.exists():
            self.problems.append(Problem(readable(entry.path), "is a link that leads nowhere"))
        elif format == formats.ROWS and not self._holds_documents(path, corpus):
            self.skipped[formats.suffix(entry.name)] += 1
        else:
            self.files.append(FoundFile(path, entry_id, readable(entry.path), format))

    def _holds_documents(self, path: Path, corpus: Path | None) -> bool:
        """Rows may be anything; beside a corpus, the others are questions."""
        return path == corpus if corpus is not None else jsonl.may_hold_documents(path)

    def _may_follow(self, entry: os.DirEntry[str]) -> bool:
        target = os.path.realpath(entry.path)
        here = os.path.realpath(Path(entry.path).parent)
        if _contains(target, here):
            self.problems.append(
                Problem(readable(entry.path), "is a link back to a folder it lies in: not followed")
            )
            return False
        if _contains(os.path.realpath(self.root), target) or target in self.linked:
            return False
        self.linked.add(target)
        return True

    def _lines(self, path: Path) -> list[str]:
        try:
            return path.read_text("utf-8", "replace").splitlines()
        except OSError as error:
            self._report(path, error)
            return []

    def _report(self, path: Path, error: OSError) -> None:
        reason = error.strerror or type(error).__name__
        self.problems.append(Problem(readable(str(path)), f"cannot be read ({reason})"))


def readable(name: str) -> str:
    """A file name as text that can be stored and shown, whatever its bytes are."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        # A link that leads to itself; reported when the file is looked at.
        return False


def _contains(folder: str, path: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)
