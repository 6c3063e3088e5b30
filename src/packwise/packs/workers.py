"""The workers of a build: they parse, chunk and embed documents.

Workers return documents in the order of the source, so the result does not depend on who did
the work. ``LocalWorkers`` runs in this process, ``ray_build.RayWorkers`` on a Ray cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from packwise.chunking import chunk
from packwise.documents import Document, Passage
from packwise.errors import SourceError
from packwise.guard import Guard
from packwise.language.detection import with_language
from packwise.models.base import Embedder, Vectors
from packwise.packs.deadline import deadline
from packwise.settings import Settings
from packwise.sources import Item, Problem
from packwise.sources.secrets import masked, secret_in


@dataclass(frozen=True, slots=True)
class PreparedItem:
    """The result for one item: a document with its passages, or a problem.

    With ``withdraw``, a version of the document that was stored earlier is removed.
    """

    item: str
    document: Document | None
    passages: tuple[Passage, ...] = ()
    kept_out: Mapping[str, int] = field(default_factory=dict[str, int])
    problem: Problem | None = None
    withdraw: bool = False
    warnings: tuple[Problem, ...] = ()


class BuildWorkers(Protocol):
    """Parses, chunks and embeds for a build."""

    @property
    def embedder(self) -> Embedder: ...

    @property
    def window(self) -> int:
        """Passages to embed at once: enough to keep all workers busy, few enough for memory."""
        ...

    def prepare(self, items: Iterable[tuple[Item, str]]) -> Iterator[PreparedItem]:
        """Parse and chunk items, each given with its full source hash, in their order."""
        ...

    def embed(
        self, texts: Sequence[str], done: Callable[[int], None], meanwhile: Callable[[], None]
    ) -> Vectors:
        """The vectors of texts; calls ``done`` with the number of texts just embedded.

        ``meanwhile`` is other work for this thread. It is called once or more, if at all, while
        others embed.
        """
        ...


class LocalWorkers:
    """Parses and chunks one document at a time, and embeds on all cores the settings allow."""

    window = 256

    def __init__(self, embedder: Embedder, settings: Settings) -> None:
        self.embedder = embedder
        self._settings = settings
        self._guard = Guard()

    def prepare(self, items: Iterable[tuple[Item, str]]) -> Iterator[PreparedItem]:
        return (self._prepared(item, source_hash) for item, source_hash in items)

    def embed(
        self, texts: Sequence[str], done: Callable[[int], None], meanwhile: Callable[[], None]
    ) -> Vectors:
        left = len(texts)

        def embedded(count: int) -> None:
            nonlocal left
            left -= count
            done(count)
            if left:
                meanwhile()

        return self.embedder.embed_passages(texts, embedded)

    def _prepared(self, item: Item, source_hash: str) -> PreparedItem:
        try:
            with deadline(self._settings.document_seconds):
                document = replace(with_language(item.read()), source_hash=source_hash)
                if not self._settings.allow_secrets:
                    secret = secret_in(item.location, document.text)
                    if secret:
                        if not (rest := masked(item.location, document.text)):
                            return _withheld(item, secret)
                        said = f"{secret}: masked; --allow-secrets reads it"
                        warnings = (*document.warnings, said)
                        document = replace(document, text=rest, warnings=warnings)
                report = self._guard.check(chunk(document, self.embedder, self._settings))
        except SourceError as error:
            reason = str(error).removeprefix(f"{item.location}: ")
            problem = Problem(item.location, reason)
            return PreparedItem(item.id, None, problem=problem, withdraw=error.withdraw)
        counts = {str(reason): count for reason, count in report.counts.items()}
        warnings = tuple(Problem(item.location, warning) for warning in document.warnings)
        return PreparedItem(item.id, document, tuple(report.kept), counts, warnings=warnings)


def _withheld(item: Item, secret: str) -> PreparedItem:
    """The result for a document that must not be stored, and whose stored version must go."""
    note = Problem(item.location, f"{secret}: left out; --allow-secrets reads it")
    return PreparedItem(
        item.id, None, kept_out={"documents with secrets": 1}, warnings=(note,), withdraw=True
    )
