"""What is checked before text and vectors are stored or compared, and by whose embedder."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from packwise.errors import EmbedderMismatch, StoreError, UsageError
from packwise.guard import check_embedder
from packwise.lazy_pattern import lazy_pattern
from packwise.models.base import Embedder

if TYPE_CHECKING:
    from packwise.stores.base import DocumentSummary, Store

_SAMPLE = 4
_LEAST_AGREEMENT = 0.9
"""The lowest cosine between a stored vector and the embedder's own for the same text, allowing
for another precision and a heading more or less."""

_NAME_IT = "name the embedder they were made with: PACKWISE_EMBEDDER, or copy --embedder"
_SURROGATES = range(0xD800, 0xE000)
_SURROGATE = lazy_pattern("[\ud800-\udfff]")
_LAST_CHARACTER = 0x10FFFF

_log = logging.getLogger(__name__)

Vectors = NDArray[np.float32]


class EmbedderIdentity(NamedTuple):
    """Which embedder made the vectors of a store."""

    name: str = ""
    version: str = ""
    dim: int = 0


def storable(text: str) -> str:
    """The text without lone surrogates, which UTF-8 cannot hold; its length is kept."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def after_prefix(prefix: str) -> str | None:
    """The least text that sorts after every text with this prefix, if there is one."""
    for at in range(len(prefix) - 1, -1, -1):
        code = ord(prefix[at]) + 1
        if code in _SURROGATES:
            code = _SURROGATES.stop
        if code <= _LAST_CHARACTER:
            return prefix[:at] + chr(code)
    return None


def normalised(vectors: Vectors) -> Vectors:
    """Rows of length 1; a row of zeros stays as it is."""
    lengths = np.sqrt(np.add.reduce(vectors * vectors, axis=-1, keepdims=True))
    there = lengths > 0
    # A division with a mask takes several times as long.
    if there.all():
        return np.divide(vectors, lengths, out=np.empty_like(vectors))
    return np.divide(vectors, lengths, out=np.zeros_like(vectors), where=there)


def to_half(vectors: Vectors) -> NDArray[np.float16]:
    """Vectors as packs store them: L2-normalised, then rounded to half precision."""
    return normalised(np.asarray(vectors, dtype=np.float32)).astype("<f2")


def question_vector(vector: Vectors | Sequence[float], dim: int, location: str) -> Vectors:
    """A question's vector, L2-normalised. Raises on a wrong shape or a value that is not
    finite."""
    asked = np.asarray(vector, dtype=np.float32)
    if asked.shape != (dim,):
        raise EmbedderMismatch(
            f"the question's vector has shape {asked.shape}, the vectors of {location} have"
            f" {dim} dimensions",
            fix="search with the embedder the store was built with",
        )
    if not np.isfinite(asked).all():
        raise UsageError("the question's vector holds a number that is not finite")
    return normalised(asked)


def passage_vectors(document: str, rows: int, vectors: Vectors, dim: int) -> Vectors:
    """The vectors of a document's passages, L2-normalised; one row per passage or an error."""
    given = np.asarray(vectors, dtype=np.float32)
    if rows == 0 and given.size == 0:
        given = given.reshape(0, dim)
    if given.shape != (rows, dim):
        raise StoreError(
            f"{document}: {rows} passages need vectors of shape ({rows}, {dim}), not {given.shape}"
        )
    if not np.isfinite(given).all():
        raise StoreError(f"{document}: a vector holds a number that is not finite")
    return normalised(given)


def other_embedder(
    location: str, held: EmbedderIdentity, given: EmbedderIdentity
) -> EmbedderMismatch:
    """The error for a build with another embedder."""
    return EmbedderMismatch(
        f"{location} holds vectors of {named(held)}, not of {named(given)}",
        fix=f"packwise build SOURCE --out {location} --reembed",
    )


def embedders_would_mix(documents: int, held: EmbedderIdentity) -> EmbedderMismatch:
    """The error for a build that embeds a store again but would keep some of the old vectors."""
    return EmbedderMismatch(
        f"{documents} documents still have vectors of {named(held)}",
        fix="stage every document again, or remove those",
    )


def named(identity: EmbedderIdentity) -> str:
    """An embedder in words."""
    name, version, dim = identity
    return f"{name or 'an unnamed embedder'} ({version or 'no version'}, {dim} dimensions)"


def check_store_embedder(store: Store, embedder: Embedder) -> None:
    """Raise ``EmbedderMismatch`` unless questions of this embedder fit a store's vectors.

    A store that records its embedder's version must match that and the dimension. For one that
    does not, such as a pack of agent-kgpacks, the vectors of a few passages are compared, and
    the log says so.
    """
    info = store.info()
    check_embedder(info.embedder_version, embedder.version, location=info.location)
    if not info.embedder_version:
        compared = check_vectors(store, embedder)
        _log.warning(
            "%s does not record which embedder made its vectors (%d dimensions): %s is used,"
            " which agrees on %d passages",
            *(info.location, info.dim, embedder.name, compared),
        )
    elif info.passages and info.dim != embedder.dim:
        raise _other_dimension(info.location, info.dim, embedder)


def check_vectors(store: Store, embedder: Embedder) -> int:
    """Raise ``EmbedderMismatch`` unless a store's vectors are those this embedder makes.

    A few passages are embedded again and compared; returns how many. A store without passages
    agrees.
    """
    info = store.info()
    if info.passages == 0:
        return 0
    if info.dim != embedder.dim:
        raise _other_dimension(info.location, info.dim, embedder)
    pairs = [
        pair
        for summary in _sample([s for s in store.documents() if s.passages])
        for pair in store.document_passages(summary.id)[:1]
    ]
    stored = store.vectors([key for key, _ in pairs])
    best = np.full(len(pairs), -1.0)
    for texts in ([p.indexed_text for _, p in pairs], [p.text for _, p in pairs]):
        best = np.maximum(best, (embedder.embed_passages(texts) * stored).sum(axis=1))
    agreement = float(np.median(best))
    if agreement < _LEAST_AGREEMENT:
        raise EmbedderMismatch(
            f"the vectors of {info.location} are not those of {embedder.name}:"
            f" their cosine on the same texts is {agreement:.2f}",
            fix=_NAME_IT,
        )
    return len(pairs)


def _other_dimension(location: str, dim: int, embedder: Embedder) -> EmbedderMismatch:
    return EmbedderMismatch(
        f"the vectors of {location} have {dim} dimensions, those of {embedder.name} have"
        f" {embedder.dim}",
        fix=_NAME_IT,
    )


def _sample(summaries: Sequence[DocumentSummary]) -> Sequence[DocumentSummary]:
    return summaries[:: max(1, len(summaries) // _SAMPLE)][:_SAMPLE]
