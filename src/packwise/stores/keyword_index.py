"""A BM25 index for stores that have none of their own.

tantivy proposes passages and exact term counts score them. tantivy keeps the length of a passage
in one byte, which moves scores by up to 4% on passages of 200 terms. It never scores too low
because of it, so the passages at the top of its list are scored again from counts kept beside it,
and the list is lengthened until nothing further down can still belong to the best ``k``.

Beside the passages of the big index there may be recent ones, few enough for plain lists of
passages by term. Scores are those of one index of all passages that are there.
"""

from __future__ import annotations

import io
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from packwise.stores.base import TermStatistics
from packwise.stores.bm25 import K1, B, idf, term_hash
from packwise.stores.durable import link_files, raise_if_full
from packwise.stores.term_table import (
    COUNTS,
    HASHES,
    Rows,
    Terms,
    TermTable,
    TermTableWriter,
    count_of,
)

_TANTIVY = "keywords"
_HEAP_BYTES = 64 << 20
_SPARE = 16
_ROUNDS = 4
"""How often the list is doubled: beyond that only near-ties are left to distinguish."""

_DIRECT_ROWS = 2048
"""Passages that are scored one by one rather than looked for."""

_DIRECT_SHARE = 50
_ROUNDING = 1.0 + 1e-5
"""tantivy computes with 24 bits."""

_REMOVALS, _REMOVAL_PAUSE = 100, 0.01
_WHITESPACE = "whitespace"
_NOTHING = (np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float64))

Scores = NDArray[np.float64]
Found = tuple[Rows, Scores]


class RecentTerms(NamedTuple):
    """What changed since the big index was written: the terms of passages whose rows come after
    its own, and those of its rows (ascending) that are gone."""

    table: TermTable
    gone: Rows


class KeywordIndex:
    """Passages by their terms. Safe to use from several threads."""

    def __init__(
        self,
        table: TermTable,
        index: Any,
        keys: NDArray[np.int64],
        recent: RecentTerms | None = None,
    ) -> None:
        index.config_reader(reload_policy="manual")
        self._schema = index.schema
        self._searcher = index.searcher()
        self._table = table
        self._keys = keys
        if self._searcher.num_docs != len(keys) or len(table.lengths) != len(keys):
            raise ValueError(f"the keyword index does not hold {len(keys)} passages")
        self._passages, length = len(keys), table.length
        self._own_average = length / max(self._passages, 1)
        self._recent: _RecentPostings | None = None
        self._alive: NDArray[np.bool_] | None = None
        self._frequency = _counter(table, recent)
        if recent is not None:
            self._recent = _RecentPostings(recent.table)
            self._alive = np.ones(len(keys), dtype=bool)
            self._alive[recent.gone] = False
            self._passages += len(recent.table.lengths) - len(recent.gone)
            gone = int(table.lengths[recent.gone].sum(dtype=np.int64))
            length += recent.table.length - gone
        self._average = length / max(self._passages, 1)

    @classmethod
    def open(
        cls,
        folder: Path,
        keys: NDArray[np.int64],
        files: Iterable[str] | None = None,
        recent: RecentTerms | None = None,
    ) -> KeywordIndex:
        """Map the files of a folder, without writing anything to it.

        ``files`` are those that belong to it, relative to the folder; by default all that are
        there. Raises ``ValueError`` where they do not fit together.
        """
        import tantivy

        # tantivy takes a lock file in the folder it opens, which a read-only pack cannot
        # give: it opens a folder of links instead, gone as soon as the files are mapped.
        with folder_of_links() as links:
            there = (folder / _TANTIVY).iterdir() if files is None else map(folder.joinpath, files)
            for file in there:
                if file.parent.name == _TANTIVY and file.suffix != ".lock":
                    Path(links, file.name).symlink_to(file.absolute())
            return cls(TermTable.open(folder), tantivy.Index.open(links), keys, recent)

    def statistics(self, terms: Sequence[str]) -> TermStatistics:
        """How many passages there are, how long on average, and how many hold each term."""
        frequency = {term: self._frequency(term) for term in dict.fromkeys(terms)}
        return TermStatistics(self._passages, self._average, frequency)

    def best(self, terms: Sequence[str], k: int, rows: Rows | None = None) -> Found:
        """The ``k`` rows of highest BM25, best first, ties by row; none without a term.

        ``rows`` (ascending) limits the search to those; the scores stay the same.
        """
        wanted = self._wanted(terms)
        if not wanted or k <= 0:
            return _NOTHING
        if rows is not None and len(rows) <= max(_DIRECT_ROWS, self._passages // _DIRECT_SHARE):
            return _top(rows, self._scores(rows, wanted), k)
        if self._recent is None:
            return self._proposed(wanted, k, rows)
        border = len(self._keys)
        cut = 0 if rows is None else int(np.searchsorted(rows, border))
        found, scores = self._proposed(wanted, k, None if rows is None else rows[:cut])
        at, more = self._recent.scores(self._weights(wanted), self._norms)
        if rows is not None:
            there = np.isin(at, rows[cut:] - border)
            at, more = at[there], more[there]
        return _top(np.concatenate([found, at + border]), np.concatenate([scores, more]), k)

    def score(self, terms: Sequence[str], rows: Rows) -> Scores:
        """BM25 of each of these rows; 0 where it holds none of the terms."""
        return self._scores(rows, self._wanted(terms))

    def held(self, terms: Sequence[str], row: int) -> frozenset[str]:
        """Those of these terms that a row holds."""
        table = self._table
        if self._recent is not None and row >= len(self._keys):
            table, row = self._recent.table, row - len(self._keys)
        hashes = set(table.hashes[table.ends[row - 1] if row else 0 : table.ends[row]].tolist())
        return frozenset(term for term in terms if term_hash(term) in hashes)

    def _wanted(self, terms: Sequence[str]) -> dict[str, int]:
        """The terms that are there at all, with how many passages hold each."""
        counted = ((term, self._frequency(term)) for term in dict.fromkeys(terms))
        return {term: count for term, count in counted if count}

    def _weights(self, wanted: Mapping[str, int]) -> dict[str, float]:
        return {term: idf(self._passages, n) * (K1 + 1.0) for term, n in wanted.items()}

    def _norms(self, lengths: NDArray[np.uint32]) -> Scores:
        average = max(self._average, 1e-9)
        return K1 * (1.0 - B + B * np.asarray(lengths, dtype=np.float64) / average)

    def _proposed(self, wanted: Mapping[str, int], k: int, rows: Rows | None) -> Found:
        """The best rows of the big index."""
        query = self._query(wanted)
        allowed = self._alive
        depth = 2 * k + _SPARE
        if rows is not None:
            if len(rows) == 0:
                return _NOTHING
            allowed = np.zeros(len(self._keys), dtype=bool)
            allowed[rows] = True
            depth = int(depth * len(self._keys) / len(rows))
        # tantivy knows another average length than ours, which moves a score by no more than
        # the ratio of the two.
        slack = max(1.0, self._average / max(self._own_average, 1e-9))
        slack = slack if self._recent is None else slack * _ROUNDING
        rounds = 0
        while True:
            depth = min(depth, len(self._keys))
            hits = self._searcher.search(query, depth, count=False).hits if depth else []
            found = self._rows([address for _, address in hits])
            if allowed is not None:
                found = found[allowed[found]]
            top = _top(found, self._scores(found, wanted), k)
            if len(hits) < depth or depth == len(self._keys):
                return top
            rounds += 1
            # What lies beyond the list scores less than its last entry. (In an updated index
            # tantivy still counts what was removed, so there it holds nearly.)
            if len(top[0]) == k and (top[1][-1] > slack * hits[-1][0] or rounds > _ROUNDS):
                return top
            depth *= 2

    def _query(self, wanted: Mapping[str, int]) -> Any:
        from tantivy import Occur, Query

        parts: list[Any] = []
        for term, frequency in wanted.items():
            query = Query.term_query(self._schema, "terms", term, "freq")
            if self._recent is not None:
                # tantivy weighs a term by how rare it is in the big index alone.
                own = idf(len(self._keys), self._table.frequency(term))
                query = Query.boost_query(query, idf(self._passages, frequency) / own)
            parts.append((Occur.Should, query))
        return Query.boolean_query(parts)

    def _rows(self, addresses: list[Any]) -> Rows:
        keys = np.array(self._searcher.fast_field_values("key", addresses), dtype=np.int64)
        return np.sort(np.searchsorted(self._keys, keys))

    def _scores(self, rows: Rows, wanted: Mapping[str, int]) -> Scores:
        """BM25 of each row; 0 where it holds none of the terms."""
        weights = self._weights(wanted)
        border = len(self._keys)
        if self._recent is None or len(rows) == 0 or rows.max() < border:
            return self._scores_in(self._table, rows, weights)
        scores = np.empty(len(rows), dtype=np.float64)
        new = rows >= border
        scores[~new] = self._scores_in(self._table, rows[~new], weights)
        scores[new] = self._scores_in(self._recent.table, rows[new] - border, weights)
        return scores

    def _scores_in(self, table: TermTable, rows: Rows, weights: Mapping[str, float]) -> Scores:
        if len(rows) == 0 or not weights:
            return np.zeros(len(rows), dtype=np.float64)
        positions, sizes = table.spans(rows)
        hashes = table.hashes[positions]
        places = [(hashes == np.uint64(term_hash(term))).nonzero()[0] for term in weights]
        hits = np.concatenate(places)
        at = np.cumsum(sizes).searchsorted(hits, side="right")
        count = table.counts[positions[hits]].astype(np.float64)
        weight = np.repeat(list(weights.values()), list(map(len, places)))
        norms = self._norms(table.lengths[rows])[at]
        # Term by term, so that the order of the sum is that of the question.
        shares = weight * count / (count + norms)
        return np.bincount(at, shares, minlength=len(rows)).astype(np.float64, copy=False)


def _counter(table: TermTable, recent: RecentTerms | None) -> Callable[[str], int]:
    """How many of the passages that are there hold a term. A search asks again for every list of
    passages that it scores."""
    if recent is None:
        return lru_cache(maxsize=1024)(table.frequency)
    gone = table.vocabulary_of(recent.gone)

    def count(term: str) -> int:
        return table.frequency(term) + recent.table.frequency(term) - count_of(*gone, term)

    return lru_cache(maxsize=1024)(count)


class _RecentPostings:
    """The rows that hold each term of a small table."""

    def __init__(self, table: TermTable) -> None:
        self.table = table
        order = np.argsort(table.hashes, kind="stable")
        self._hashes = table.hashes[order]
        self._counts = table.counts[order].astype(np.float64)
        rows = np.repeat(np.arange(len(table.ends)), np.diff(table.ends, prepend=0))
        self._rows = rows[order]

    def scores(
        self, weights: Mapping[str, float], norms: Callable[[NDArray[np.uint32]], Scores]
    ) -> Found:
        """The rows that hold one of the terms, ascending, with their BM25."""
        scores = np.zeros(len(self.table.lengths), dtype=np.float64)
        for term, weight in weights.items():
            digest = np.uint64(term_hash(term))
            first = np.searchsorted(self._hashes, digest, side="left")
            past = np.searchsorted(self._hashes, digest, side="right")
            rows, count = self._rows[first:past], self._counts[first:past]
            scores[rows] += weight * count / (count + norms(self.table.lengths[rows]))
        held = np.flatnonzero(scores > 0)
        return held, scores[held]


@contextmanager
def folder_of_links() -> Generator[str]:
    """A temporary folder that is removed although tantivy may still write to it: a thread of its
    own takes and drops a lock file there once, at any time after the folder was opened."""
    links = tempfile.mkdtemp(prefix="packwise-")
    try:
        yield links
    finally:
        for _ in range(_REMOVALS):
            shutil.rmtree(links, ignore_errors=True)
            if not os.path.lexists(links):
                break
            time.sleep(_REMOVAL_PAUSE)


def _top(rows: Rows, scores: Scores, k: int) -> Found:
    held = np.flatnonzero(scores > 0)
    rows, scores = rows[held], scores[held]
    order = np.lexsort((rows, -scores))[:k]
    return rows[order], scores[order]


def build(folder: Path, passages: Terms) -> None:
    """Write the keyword index of these passages into a folder."""
    import tantivy

    (folder / _TANTIVY).mkdir()
    index = tantivy.Index(_schema(), path=str(folder / _TANTIVY))
    with (folder / HASHES).open("wb") as hashes, (folder / COUNTS).open("wb") as counts:
        tally = TermTableWriter(hashes, counts)
        _fill(index, passages, tally, folder)
    tally.table().write(folder, without=(HASHES, COUNTS))


def build_in_memory(passages: Terms, keys: NDArray[np.int64]) -> KeywordIndex:
    """The same index where nothing can be written."""
    import tantivy

    index = tantivy.Index(_schema())
    hashes, counts = io.BytesIO(), io.BytesIO()
    tally = TermTableWriter(hashes, counts)
    _fill(index, passages, tally, None)
    return KeywordIndex(tally.table(hashes.getvalue(), counts.getvalue()), index, keys)


def update(
    old: Path,
    folder: Path,
    kept: tuple[NDArray[np.int64], NDArray[np.bool_]],
    added: Terms,
    files: Iterable[str],
) -> None:
    """Write the index of ``old`` again, without some rows and with new passages after.

    ``kept`` is the keys of all old rows and which of them stay; ``files`` are those of ``old``.
    """
    import tantivy

    keys, staying = kept
    table = TermTable.open(old)
    if len(table.lengths) != len(keys):
        raise ValueError(f"the keyword index does not hold {len(keys)} passages")
    # tantivy never writes into a file twice, so both generations can share them.
    names = [Path(file).name for file in files if Path(file).parent.name == _TANTIVY]
    link_files(old / _TANTIVY, folder / _TANTIVY, names)
    index = tantivy.Index.open(str(folder / _TANTIVY))
    hashes, counts = io.BytesIO(), io.BytesIO()
    tally = TermTableWriter(hashes, counts)
    _fill(index, added, tally, folder, leaving=keys[~staying])
    table.changed(staying, tally.table(hashes.getvalue(), counts.getvalue())).write(folder)


def _schema() -> Any:
    import tantivy

    return (
        tantivy.SchemaBuilder()
        .add_integer_field("key", indexed=True, fast=True)
        .add_text_field("terms", tokenizer_name=_WHITESPACE, index_option="freq")
        .build()
    )


def _fill(
    index: Any,
    passages: Terms,
    tally: TermTableWriter,
    folder: Path | None,
    leaving: NDArray[np.int64] | None = None,
) -> None:
    import tantivy

    try:
        # One thread keeps the passages in the order of their keys.
        writer = index.writer(heap_size=_HEAP_BYTES, num_threads=1)
        for key in [] if leaving is None else leaving.tolist():
            writer.delete_documents_by_term("key", key)
        for key, terms in passages:
            document = tantivy.Document()
            document.add_integer("key", key)
            document.add_text("terms", " ".join(terms))
            writer.add_document(document)
            tally.add(terms)
        writer.commit()
        writer.wait_merging_threads()
    except ValueError as error:
        if folder is not None:
            raise_if_full(folder, error)
        raise
