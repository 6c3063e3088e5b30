"""BM25: the formula every store uses, and an index for stores that have none of their own.

idf(t)   = ln(1 + (N - n_t + 0.5) / (n_t + 0.5))
score    = sum over terms of idf(t) * (k1 + 1) * f / (f + k1 * (1 - b + b * length / average))
bound    = sum over terms of idf(t) * (k1 + 1): every term present, at saturation

In the index tantivy proposes passages and exact term counts score them. tantivy keeps the
length of a passage in one byte, which moves scores by up to 4% on passages of 200 terms. It
never scores too low because of it, so the passages at the top of its list are scored again
from counts kept beside it, and the list is lengthened until nothing further down can still
belong to the best ``k``.
"""

from __future__ import annotations

import hashlib
import io
import math
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from packwise.stores.base import TermStatistics
from packwise.stores.durable import link_tree, raise_if_full

K1 = 1.2
B = 0.75

_TANTIVY = "keywords"
_HASHES = "terms.u64"
_COUNTS = "terms.u16"
_ENDS = "passages.i64"
_LENGTHS = "passages.u32"
_VOCABULARY = "vocabulary.u64"
_FREQUENCIES = "vocabulary.u32"
_ARRAYS = {
    _HASHES: "<u8",
    _COUNTS: "<u2",
    _ENDS: "<i8",
    _LENGTHS: "<u4",
    _VOCABULARY: "<u8",
    _FREQUENCIES: "<u4",
}

_HEAP_BYTES = 64 << 20
_MOST_COUNTED = np.iinfo(np.uint16).max
_SPARE = 16
_ROUNDS = 4
"""How often the list is doubled: beyond that only near-ties are left to distinguish."""

_DIRECT_ROWS = 2048
"""Passages that are scored one by one rather than looked for."""

_DIRECT_SHARE = 50

_WHITESPACE = "whitespace"
_NOTHING = (np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float64))

Rows = NDArray[np.int64]
Scores = NDArray[np.float64]
Found = tuple[Rows, Scores]
Terms = Iterable[tuple[int, Sequence[str]]]
"""Passages as (key, index terms), in the order of their keys."""


def idf(passages: int, frequency: int) -> float:
    """Rarity of a term that ``frequency`` of ``passages`` passages hold; above 0."""
    return math.log(1.0 + (passages - frequency + 0.5) / (frequency + 0.5))


def bound(terms: Sequence[str], statistics: TermStatistics) -> float:
    """The score no passage can exceed for these terms (duplicates count once)."""
    return sum(
        idf(statistics.passages, statistics.frequency.get(term, 0)) * (K1 + 1.0)
        for term in dict.fromkeys(terms)
    )


@lru_cache(maxsize=1 << 17)
def term_hash(term: str) -> int:
    """A term as 64 bits; that any two of a million terms share them has odds of 3 in 10**8."""
    digest = hashlib.blake2b(term.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


@dataclass(frozen=True, slots=True)
class TermTable:
    """The terms of every passage with their counts, row by row, and of the whole.

    ``hashes[ends[i - 1] : ends[i]]`` are the distinct terms of row ``i``.
    """

    hashes: NDArray[np.uint64]
    counts: NDArray[np.uint16]
    ends: NDArray[np.int64]
    lengths: NDArray[np.uint32]
    vocabulary: NDArray[np.uint64]
    frequencies: NDArray[np.uint32]

    @classmethod
    def open(cls, folder: Path) -> TermTable:
        """Map the arrays of a folder."""
        return cls(*(_map(folder / name, kind) for name, kind in _ARRAYS.items()))

    @property
    def average_length(self) -> float:
        return float(self.lengths.sum(dtype=np.int64)) / max(len(self.lengths), 1)

    def frequency(self, term: str) -> int:
        """How many passages hold a term."""
        digest = np.uint64(term_hash(term))
        at = int(np.searchsorted(self.vocabulary, digest))
        if at == len(self.vocabulary) or self.vocabulary[at] != digest:
            return 0
        return int(self.frequencies[at])

    def spans(self, rows: Rows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where the terms of these rows stand, all in one list, and each row's length in it."""
        ends = self.ends[rows]
        starts = np.where(rows > 0, self.ends[np.maximum(rows - 1, 0)], 0)
        sizes = ends - starts
        before = np.cumsum(sizes) - sizes
        return np.repeat(starts - before, sizes) + np.arange(int(sizes.sum())), sizes


class _Tally:
    """Writes a term table passage by passage, holding no more than the vocabulary."""

    def __init__(self, hashes: IO[bytes], counts: IO[bytes]) -> None:
        self._hashes = hashes
        self._counts = counts
        self._ends: list[int] = []
        self._lengths: list[int] = []
        self._frequencies: Counter[int] = Counter()

    def add(self, terms: Sequence[str]) -> None:
        counted = Counter(terms)
        digests = [term_hash(term) for term in counted]
        self._hashes.write(np.array(digests, dtype="<u8").tobytes())
        counts = np.minimum(np.array(list(counted.values()), dtype=np.int64), _MOST_COUNTED)
        self._counts.write(counts.astype("<u2").tobytes())
        self._ends.append((self._ends[-1] if self._ends else 0) + len(digests))
        self._lengths.append(len(terms))
        self._frequencies.update(digests)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What is known once all passages are in."""
        vocabulary = np.array(sorted(self._frequencies), dtype="<u8")
        frequencies = [self._frequencies[int(digest)] for digest in vocabulary]
        return {
            _ENDS: np.array(self._ends, dtype="<i8"),
            _LENGTHS: np.array(self._lengths, dtype="<u4"),
            _VOCABULARY: vocabulary,
            _FREQUENCIES: np.array(frequencies, dtype="<u4"),
        }


class KeywordIndex:
    """Passages by their terms. Safe to use from several threads."""

    def __init__(self, table: TermTable, index: Any, keys: NDArray[np.int64]) -> None:
        index.config_reader(reload_policy="manual")
        self._schema = index.schema
        self._searcher = index.searcher()
        self._table = table
        self._keys = keys
        if self._searcher.num_docs != len(keys) or len(table.lengths) != len(keys):
            raise ValueError(f"the keyword index does not hold {len(keys)} passages")
        average = max(table.average_length, 1e-9)
        self._average = table.average_length
        self._norms = K1 * (1.0 - B + B * np.asarray(table.lengths, dtype=np.float64) / average)

    @classmethod
    def open(cls, folder: Path, keys: NDArray[np.int64]) -> KeywordIndex:
        """Map the files of a folder, without writing anything to it.

        Raises ``ValueError`` where they do not fit together.
        """
        import tantivy

        # tantivy takes a lock file in the folder it opens, which a read-only pack cannot
        # give: it opens a folder of links instead, gone as soon as the files are mapped.
        with tempfile.TemporaryDirectory(prefix="packwise-") as links:
            for file in (folder / _TANTIVY).iterdir():
                if not file.name.endswith(".lock"):
                    Path(links, file.name).symlink_to(file.absolute())
            return cls(TermTable.open(folder), tantivy.Index.open(links), keys)

    def statistics(self, terms: Sequence[str]) -> TermStatistics:
        """How many passages there are, how long on average, and how many hold each term."""
        frequency = {term: self._table.frequency(term) for term in dict.fromkeys(terms)}
        return TermStatistics(len(self._keys), self._average, frequency)

    def best(self, terms: Sequence[str], k: int, rows: Rows | None = None) -> Found:
        """The ``k`` rows of highest BM25, best first, ties by row; none without a term.

        ``rows`` (ascending) limits the search to those; the scores stay the same.
        """
        wanted = {term: count for term, count in self.statistics(terms).frequency.items() if count}
        if not wanted or k <= 0:
            return _NOTHING
        if rows is not None and len(rows) <= max(_DIRECT_ROWS, len(self._keys) // _DIRECT_SHARE):
            return _top(rows, self._scores(rows, wanted), k)
        return self._proposed(wanted, k, rows)

    def _proposed(self, wanted: dict[str, int], k: int, rows: Rows | None) -> Found:
        query = self._query(wanted)
        allowed: NDArray[np.bool_] | None = None
        depth = 2 * k + _SPARE
        if rows is not None:
            allowed = np.zeros(len(self._keys), dtype=bool)
            allowed[rows] = True
            depth = int(depth * len(self._keys) / len(rows))
        rounds = 0
        while True:
            depth = min(depth, len(self._keys))
            hits = self._searcher.search(query, depth, count=False).hits
            found = self._rows([address for _, address in hits])
            if allowed is not None:
                found = found[allowed[found]]
            top = _top(found, self._scores(found, wanted), k)
            if len(hits) < depth or depth == len(self._keys):
                return top
            rounds += 1
            # What lies beyond the list scores less than its last entry. (In an updated index
            # tantivy still counts what was removed, so there it holds nearly.)
            if len(top[0]) == k and (top[1][-1] > hits[-1][0] or rounds > _ROUNDS):
                return top
            depth *= 2

    def _query(self, wanted: Iterable[str]) -> Any:
        from tantivy import Occur, Query

        return Query.boolean_query(
            [
                (Occur.Should, Query.term_query(self._schema, "terms", term, "freq"))
                for term in wanted
            ]
        )

    def _rows(self, addresses: list[Any]) -> Rows:
        keys = np.array(self._searcher.fast_field_values("key", addresses), dtype=np.int64)
        return np.sort(np.searchsorted(self._keys, keys))

    def _scores(self, rows: Rows, wanted: dict[str, int]) -> Scores:
        """BM25 of each row; 0 where it holds none of the terms."""
        scores = np.zeros(len(rows), dtype=np.float64)
        if len(rows) == 0:
            return scores
        positions, sizes = self._table.spans(rows)
        hashes = self._table.hashes[positions]
        ends = np.cumsum(sizes)
        norms = self._norms[rows]
        for term, frequency in wanted.items():
            hits = np.flatnonzero(hashes == np.uint64(term_hash(term)))
            if len(hits) == 0:
                continue
            at = np.searchsorted(ends, hits, side="right")
            count = self._table.counts[positions[hits]].astype(np.float64)
            weight = idf(len(self._keys), frequency) * (K1 + 1.0)
            scores[at] += weight * count / (count + norms[at])
        return scores


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
    with (folder / _HASHES).open("wb") as hashes, (folder / _COUNTS).open("wb") as counts:
        tally = _Tally(hashes, counts)
        _fill(index, passages, tally, folder)
    _write(folder, tally.arrays())


def build_in_memory(passages: Terms, keys: NDArray[np.int64]) -> KeywordIndex:
    """The same index where nothing can be written."""
    import tantivy

    index = tantivy.Index(_schema())
    hashes, counts = io.BytesIO(), io.BytesIO()
    tally = _Tally(hashes, counts)
    _fill(index, passages, tally, None)
    arrays = {
        _HASHES: np.frombuffer(hashes.getvalue(), dtype="<u8"),
        _COUNTS: np.frombuffer(counts.getvalue(), dtype="<u2"),
        **tally.arrays(),
    }
    return KeywordIndex(TermTable(*(arrays[name] for name in _ARRAYS)), index, keys)


def update(
    old: Path,
    folder: Path,
    kept: tuple[NDArray[np.int64], NDArray[np.bool_]],
    added: Terms,
) -> None:
    """Write the index of ``old`` again, without some rows and with new passages after.

    ``kept`` is the keys of all old rows and which of them stay.
    """
    import tantivy

    keys, staying = kept
    table = TermTable.open(old)
    if len(table.lengths) != len(keys):
        raise ValueError(f"the keyword index does not hold {len(keys)} passages")
    # tantivy never writes into a file twice, so both generations can share them.
    link_tree(old / _TANTIVY, folder / _TANTIVY)
    index = tantivy.Index.open(str(folder / _TANTIVY))
    hashes, counts = io.BytesIO(), io.BytesIO()
    tally = _Tally(hashes, counts)
    _fill(index, added, tally, folder, leaving=keys[~staying])
    more = tally.arrays()

    stay, _ = table.spans(np.flatnonzero(staying))
    leave, _ = table.spans(np.flatnonzero(~staying))
    sizes = np.diff(table.ends, prepend=0)[staying]
    ends = np.cumsum(np.concatenate([sizes, np.diff(more[_ENDS], prepend=0)]))
    vocabulary, frequencies = _changed_vocabulary(
        table, table.hashes[leave], more[_VOCABULARY], more[_FREQUENCIES]
    )
    _write(
        folder,
        {
            _HASHES: np.concatenate([table.hashes[stay], _read(hashes, "<u8")]),
            _COUNTS: np.concatenate([table.counts[stay], _read(counts, "<u2")]),
            _ENDS: ends.astype("<i8"),
            _LENGTHS: np.concatenate([table.lengths[staying], more[_LENGTHS]]),
            _VOCABULARY: vocabulary,
            _FREQUENCIES: frequencies,
        },
    )


def _changed_vocabulary(
    table: TermTable,
    removed: NDArray[np.uint64],
    new: NDArray[np.uint64],
    new_frequencies: NDArray[np.uint32],
) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
    vocabulary = np.union1d(table.vocabulary, new)
    frequencies = np.zeros(len(vocabulary), dtype=np.int64)
    frequencies[np.searchsorted(vocabulary, table.vocabulary)] += table.frequencies
    frequencies[np.searchsorted(vocabulary, new)] += new_frequencies
    gone, how_often = np.unique(removed, return_counts=True)
    frequencies[np.searchsorted(vocabulary, gone)] -= how_often
    alive = frequencies > 0
    return vocabulary[alive], frequencies[alive].astype("<u4")


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
    tally: _Tally,
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


def _write(folder: Path, arrays: dict[str, NDArray[Any]]) -> None:
    for name, array in arrays.items():
        (folder / name).write_bytes(array.astype(_ARRAYS[name]).tobytes())


def _read(buffer: io.BytesIO, kind: str) -> NDArray[Any]:
    return np.frombuffer(buffer.getvalue(), dtype=kind)


def _map(path: Path, kind: str) -> NDArray[Any]:
    if path.stat().st_size == 0:
        return np.empty(0, dtype=kind)
    return np.asarray(np.memmap(path, dtype=kind, mode="r"))
