"""The text of whole articles, found by their titles."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from packwise.documents import Document
from packwise.language.names import name_key
from packwise.stores.base import Store

MOST_CHARACTERS = 100_000
"""Characters of one article that are used: as many whole sections as fit."""


class TitleIndex:
    """Finds documents by their titles; read again when the store changes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._version = ""
        self._documents: dict[str, list[str]] = {}

    def documents(self, title: str) -> list[str]:
        """The ids of the documents with this title or this id."""
        version = self._store.version()
        with self._lock:
            if self._version != version:
                self._documents = {}
                for summary in self._store.documents():
                    for name in dict.fromkeys((_folded(summary.title), _folded(summary.id))):
                        self._documents.setdefault(name, []).append(summary.id)
                self._version = version
            return list(self._documents.get(_folded(title), ()))


def source_text(
    store: Store,
    titles: TitleIndex,
    wanted: Sequence[str],
    *,
    max_articles: int,
    keep: Callable[[str], bool] | None,
) -> str:
    """The sections of these articles that ``keep`` accepts, under their headings.

    If it accepts none at all, the whole content is used. Without ``keep`` nothing is filtered.
    Unknown titles are ignored.
    """
    chosen = list(dict.fromkeys(wanted))[: max(0, max_articles)]
    ids = [name for title in chosen for name in titles.documents(title)]
    documents = [found for name in dict.fromkeys(ids) if (found := store.document(name))]
    texts = [text for document in documents if (text := _sections(document, keep))]
    if not texts:
        texts = [
            f"# {document.title or document.id}\n{document.text.strip()[:MOST_CHARACTERS]}"
            for document in documents
            if document.text.strip()
        ]
    return "\n\n".join(texts)


def _sections(document: Document, keep: Callable[[str], bool] | None) -> str:
    parts = [f"# {document.title or document.id}"]
    length = 0
    for section in document.sections:
        text = document.text[section.start : section.end].strip()
        length += len(text)
        if not text or length > MOST_CHARACTERS or (keep is not None and not keep(text)):
            continue
        heading = " > ".join(part for part in section.path if part != document.title)
        parts.append(f"## {heading}\n{text}" if heading else text)
    return "\n\n".join(parts) if len(parts) > 1 else ""


def _folded(title: str) -> str:
    return name_key(title.replace("_", " ")) or title.strip().casefold()
