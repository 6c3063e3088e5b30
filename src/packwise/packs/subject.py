"""What a pack is about: the name that most of its documents share, and the sentence that defines
it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from packwise.documents import Passage
from packwise.language.sentences import sentence_spans
from packwise.stores.base import DocumentSummary, Store

_READ_DOCUMENTS = 60
_PASSAGES_EACH = 12
_SHARED = 0.3
"""A pack is about a name that at least this share of its documents mention."""
_NAMES = 5
_SENTENCE = (25, 220)
_FRONT_PAGES = ("index", "readme", "introduction", "overview", "about", "quickstart")


def subject_of(store: Store, documents: Sequence[DocumentSummary]) -> tuple[str, str]:
    """The name that most documents mention and the sentence that says what it is; both empty if
    there is none. ``documents`` come with the most linked first."""
    read = documents[:_READ_DOCUMENTS]
    names = _shared_names(store, read)
    for name in names:
        if definition := _definition(store, read, name):
            return name, definition
    return (names[0], "") if names else ("", "")


def _shared_names(store: Store, documents: Sequence[DocumentSummary]) -> list[str]:
    """The names that many documents mention, most first."""
    keys = store.passages_of([entry.id for entry in documents], _PASSAGES_EACH)
    held = store.entities_of([key for found in keys.values() for key in found])
    seen: dict[str, set[str]] = {}
    labels: dict[str, Counter[str]] = {}
    for entry in held.values():
        for entity in entry.entities:
            seen.setdefault(entity.key, set()).add(entry.place.document)
            labels.setdefault(entity.key, Counter())[entity.label or entity.key] += 1
    least = max(2.0, _SHARED * len(documents))
    shared = sorted((key for key in seen if len(seen[key]) >= least), key=lambda k: -len(seen[k]))
    return [labels[key].most_common(1)[0][0] for key in shared[:_NAMES]]


def _definition(store: Store, documents: Sequence[DocumentSummary], name: str) -> str:
    """The sentence that says what a name is: that of a front page, else of the most linked."""
    starts = tuple(
        f"{name} {verb} {article} " for verb in ("is", "are") for article in ("a", "an", "the")
    )
    ordered = sorted(documents, key=lambda entry: not _is_front_page(entry))
    for entry in ordered:
        passages = [passage for _, passage in store.document_passages(entry.id)[:_PASSAGES_EACH]]
        for sentence in _sentences(passages):
            if sentence.startswith(starts):
                return sentence
    return ""


def _is_front_page(entry: DocumentSummary) -> bool:
    stem = entry.id.rpartition("/")[2].partition(".")[0].lower()
    return stem in _FRONT_PAGES


def _sentences(passages: Sequence[Passage]) -> Iterator[str]:
    for passage in passages:
        for start, end in sentence_spans(passage.text):
            sentence = " ".join(passage.text[start:end].split())
            if _SENTENCE[0] <= len(sentence) <= _SENTENCE[1] and sentence.endswith("."):
                yield sentence
