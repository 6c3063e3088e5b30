"""Whether the files of a pack's sources have changed, without reading them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

FileStates = dict[str, tuple[int, int]]
"""Time of change in nanoseconds and size, by path."""


def file_states(sources: Sequence[str], pack: str) -> FileStates:
    """The files below local sources, except those of hidden folders and of the pack itself."""
    own = Path(pack).resolve()
    states: FileStates = {}
    for path in (path for source in sources for path in _files(Path(source), own)):
        try:
            found = path.stat()
        except OSError:
            continue  # It went while we looked: the next look shows the change.
        states[str(path)] = (found.st_mtime_ns, found.st_size)
    return states


def _files(source: Path, own: Path) -> Iterator[Path]:
    if source.is_file():
        yield source
        return
    for folder, names, files in os.walk(source):
        here = Path(folder)
        names[:] = [n for n in names if not n.startswith(".") and (here / n).resolve() != own]
        yield from (here / name for name in files)
