"""BEIR folders: a ``corpus.jsonl``, plain or gzipped, whose rows are the documents."""

from __future__ import annotations

from pathlib import Path

from packwise.sources.jsonl import RowsSource

_NAMES = ("corpus.jsonl", "corpus.jsonl.gz")


def corpus_in(folder: Path) -> Path | None:
    """The corpus file of a BEIR folder; ``None`` if it is no such folder."""
    return next((folder / name for name in _NAMES if (folder / name).is_file()), None)


def open_beir(folder: Path, corpus: Path) -> RowsSource:
    """The corpus as a source named after its folder. Queries and judgements are not read."""
    resolved = folder.resolve()
    return RowsSource(resolved.name, str(resolved), corpus, str(corpus))
