"""The keyword index of a Kuzu database, which has none of its own."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from packwise.documents import content_hash
from packwise.errors import StoreError
from packwise.language.analyzer import ANALYZER
from packwise.settings import cache_folder
from packwise.stores.keyword_index import KeywordIndex, build, build_in_memory
from packwise.stores.kuzu.table import Table
from packwise.stores.term_table import Terms

_KEPT_ON_DISK = 2000
"""The least number of passages for which the index is kept in the cache folder."""


def keyword_index(table: Table, indexed_terms: Callable[[], Terms]) -> KeywordIndex:
    """The index of one state of a database: in memory, or in the cache where it is large."""
    ranks = np.arange(len(table.passages), dtype=np.int64)
    if len(table.passages) < _KEPT_ON_DISK:
        return build_in_memory(indexed_terms(), ranks)
    name = content_hash(table.state.version, ANALYZER, str(len(table.passages)))
    folder = cache_folder() / "kuzu" / name
    try:
        return KeywordIndex.open(folder, ranks)
    except (ValueError, OSError):
        shutil.rmtree(folder, ignore_errors=True)
        _build_on_disk(folder, indexed_terms())
        return KeywordIndex.open(folder, ranks)


def _build_on_disk(folder: Path, terms: Terms) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=".keywords-", dir=folder.parent))
    try:
        build(scratch, terms)
        scratch.rename(folder)
    except OSError as error:
        if not folder.is_dir():
            raise StoreError(
                f"cannot keep a keyword index in {folder}: {error.strerror}"
            ) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
