"""Copying a store into another: documents, passages and vectors as they are.

Nothing is parsed or chunked again, and nothing embedded unless that is asked for. An interrupted
copy continues where it stopped, and a finished one has been read back and compared.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from packwise.errors import EmbedderMismatch, StoreError, UsageError
from packwise.models.base import Embedder
from packwise.packs.progress import Progress
from packwise.packs.sample_questions import copy_samples
from packwise.retrieval.profile import copy_profile, update_profile
from packwise.settings import Settings
from packwise.stores.base import DocumentSummary, Store, StoreInfo, Writer, WriteSummary
from packwise.stores.checks import check_vectors
from packwise.stores.locate import create_or_open_store, open_store, same_store
from packwise.stores.transfer import checksum, contents, same_vectors

_BATCH = 64


@dataclass(frozen=True, slots=True)
class CopyReport:
    """What a copy did; ``reused`` documents were already in the target."""

    source: str
    target: str
    changes: WriteSummary
    documents: int
    passages: int
    links: int
    reused: int
    verified: bool
    seconds: float


def copy_store(
    source: str,
    target: str,
    *,
    merge: bool = False,
    force: bool = False,
    verify: bool = True,
    embedder: str | None = None,
    reembed: bool = False,
    settings: Settings | None = None,
    progress: Progress | None = None,
) -> CopyReport:
    """Make ``target`` contain what ``source`` contains, embeddings included.

    With ``merge`` the target keeps its other documents; with ``force`` documents that it
    already has are written again. ``embedder`` names the model of the vectors when the source
    does not record it; it is checked on a few passages. With ``reembed`` the passages are
    embedded again, with ``embedder`` or else the configured one. Raises ``StoreError`` when the
    copy differs from the source, or when the source changed during the copy.
    """
    if same_store(source, target):
        raise UsageError("a store cannot be copied onto itself", fix="name another target")
    started = time.perf_counter()
    show = progress or Progress()
    with open_store(source) as origin, create_or_open_store(target) as copy:
        info = origin.info()
        again = _loaded(embedder, settings) if reembed else None
        name, version, dim = (
            (again.name, again.version, again.dim)
            if again
            else (*_embedder_of(origin, info, embedder, settings), info.dim)
        )
        summaries = list(origin.documents())
        show.counted(len(summaries))
        with copy.writer(embedder=name, embedder_version=version, dim=dim) as writer:
            reused = _stage(origin, summaries, writer, again, force=force, progress=show)
            _check_unchanged(origin, info)
            show.committing()
            changes = writer.commit(prune=not merge)
        if verify:
            try:
                _verify(
                    *(origin, copy, summaries, info),
                    whole=not merge,
                    vectors=not reembed,
                    progress=show,
                )
            except StoreError:
                _check_unchanged(origin, info)
                raise
        if again:
            update_profile(copy, again, changes)
        elif not merge:
            copy_profile(info, copy.info())
            copy_samples(info, copy.info())
        return CopyReport(
            source=source,
            target=target,
            changes=changes,
            documents=len(summaries),
            passages=info.passages,
            links=info.links,
            reused=reused,
            verified=verify,
            seconds=time.perf_counter() - started,
        )


def _embedder_of(
    origin: Store, info: StoreInfo, embedder: str | None, settings: Settings | None
) -> tuple[str, str]:
    """Name and version of the embedder behind a store's vectors."""
    if info.embedder_version and embedder in (None, info.embedder):
        return info.embedder, info.embedder_version
    name = embedder or info.embedder
    if not name:
        raise UsageError(
            f"{info.location} does not record the embedder of its vectors ({info.dim} dimensions)",
            fix="name it: --embedder NAME, or use --reembed",
        )
    loaded = _loaded(name, settings) if embedder else _recorded(name, settings, info.location)
    check_vectors(origin, loaded)
    if info.embedder_version and info.embedder_version != loaded.version:
        raise EmbedderMismatch(
            f"{info.location} contains vectors of {info.embedder_version}, not {loaded.version}",
            fix="leave out --embedder",
        )
    return loaded.name, loaded.version


def _loaded(name: str | None, settings: Settings | None) -> Embedder:
    from packwise.models.embedder import load_embedder

    settings = settings or Settings.load()
    return load_embedder(name or settings.embedder, settings)


def _recorded(name: str, settings: Settings | None, location: str) -> Embedder:
    from packwise.models.embedder import load_recorded_embedder

    return load_recorded_embedder(name, settings or Settings.load(), location)


def _check_unchanged(origin: Store, info: StoreInfo) -> None:
    if origin.version() != info.version:
        raise StoreError(
            f"{info.location} changed during the copy", fix="run the same command again"
        )


def _stage(
    origin: Store,
    summaries: Sequence[DocumentSummary],
    writer: Writer,
    again: Embedder | None,
    *,
    force: bool,
    progress: Progress,
) -> int:
    """Stage the documents the target lacks, embedded ``again`` if that is given; returns how
    many it already had."""
    known = {} if force else writer.source_hashes()
    missing: list[str] = []
    for summary in summaries:
        if summary.source_hash and known.get(summary.id) == summary.source_hash:
            writer.keep(summary.id)
            progress.document()
        else:
            missing.append(summary.id)
    for content in contents(origin, missing):
        document = content.document
        if document.source_hash and known.get(document.id) == document.source_hash:
            writer.keep(document.id)
        else:
            # The writer records the embedder: it was found to be the same.
            passages = [replace(passage, embedder_version="") for passage in content.passages]
            vectors = content.vectors
            if again is not None:
                vectors = again.embed_passages([passage.indexed_text for passage in passages])
            writer.stage(document, passages, vectors, content.extractions)
        progress.document()
    return len(summaries) - len(missing)


def _verify(
    origin: Store,
    copy: Store,
    summaries: Sequence[DocumentSummary],
    info: StoreInfo,
    *,
    whole: bool,
    vectors: bool,
    progress: Progress,
) -> None:
    """Read the copy back and compare it with its source."""
    made = copy.info()
    again = f"packwise copy {info.location} {made.location} --force"
    counts = [(info.documents, made.documents), (info.passages, made.passages)]
    if whole and any(one != other for one, other in counts):
        raise StoreError(
            f"{made.location} contains {made.documents} documents and {made.passages} passages,"
            f" {info.location} {info.documents} and {info.passages}",
            fix=again,
        )
    names = [summary.id for summary in summaries]
    for at in range(0, len(names), _BATCH):
        batch = names[at : at + _BATCH]
        copied = {content.document.id: content for content in contents(copy, batch)}
        for content in contents(origin, batch):
            other = copied.get(content.document.id)
            if (
                other is None
                or checksum(content) != checksum(other)
                or (vectors and not same_vectors(content.vectors, other.vectors))
            ):
                raise StoreError(
                    f"{content.document.id} differs between {info.location} and {made.location}",
                    fix=again,
                )
            progress.verified()
