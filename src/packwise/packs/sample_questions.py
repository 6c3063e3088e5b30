"""Questions that a store was seen to answer, for people and agents who do not know it yet.

A build makes them from definitions and headings (``language/phrasing.py``), asks them, and keeps
those with a likely answer from the place they were made from. No language model is needed. They
lie beside a pack's manifest, those of another store in the home folder.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

from packwise.answering.answer import Answer
from packwise.documents import Passage, content_hash
from packwise.language.phrasing import (
    Spelling,
    question_from_definition,
    question_from_heading,
)
from packwise.language.sentences import sentence_spans
from packwise.library import Library
from packwise.models.base import Embedder
from packwise.settings import Settings, data_folder
from packwise.stores.base import DocumentSummary, Store, StoreInfo, WriteSummary
from packwise.stores.durable import PreparedFile, open_regular, writing
from packwise.stores.pack.folder import SAMPLES

RULES = "samples-1"
"""The version of how questions are made; those by other rules are made again."""

_KEPT = 6
_READ_DOCUMENTS = 30
_READ_PASSAGES = 1200
"""Passages that questions are made from: the first of each document, alike of all of them."""
_FEWEST_PER_DOCUMENT = 3
_MOST_ASKED = 12
_FEWEST_ASKED = 4
_PASSAGES_PER_QUESTION = 30
"""Passages of the store for each further question that is asked: asking takes about a tenth of
the time of embedding them."""
_SEARCHED = 3
"""Candidates that are searched for, per question that is asked: searching costs less."""
_CHANGED = 0.2
"""Questions are made again when more of the documents than this share have changed."""
_MOST_BYTES = 1 << 20
_OPENING = 60
"""Characters of a definition by which it is found in an answer."""


@dataclass(frozen=True, slots=True)
class SampleQuestion:
    """A question, and the document that answers it with the hash it had then."""

    question: str
    document: str
    source_hash: str


@dataclass(frozen=True, slots=True)
class _Candidate:
    question: str
    passage: Passage
    sentence: str = ""


def update_samples(
    store: Store, embedder: Embedder, settings: Settings, changes: WriteSummary
) -> None:
    """Make the questions of a store after a build, if it has none or much of it has changed."""
    info = store.info()
    known = _load(info)
    new = changes.added + changes.changed + changes.removed
    if known is not None and known["changed"] + new <= _CHANGED * info.documents:
        samples = [SampleQuestion(**row) for row in known["questions"]]
        documents = (store.document(sample.document) for sample in samples)
        hashes = [document.source_hash if document else None for document in documents]
        # A build that was killed may have left questions on documents that have changed since.
        if hashes == [sample.source_hash for sample in samples]:
            if new:
                _save(info, samples, known["changed"] + new)
            return
    _save(info, make_samples(store, embedder, settings), 0)


def make_samples(store: Store, embedder: Embedder, settings: Settings) -> list[SampleQuestion]:
    """Questions that the store answers from the place they were made from."""
    best = heapq.nlargest(
        _READ_DOCUMENTS,
        (d for d in store.documents() if d.passages),
        key=lambda d: (d.pagerank, d.id),
    )
    hashes = {document.id: document.source_hash for document in best}
    most = min(_MOST_ASKED, _FEWEST_ASKED + store.info().passages // _PASSAGES_PER_QUESTION)
    library = Library(store, settings=settings, embedder=embedder)
    promising = (
        candidate
        for candidate in islice(_candidates(store, best), _SEARCHED * most)
        if _is_found(library, candidate)
    )
    found: list[SampleQuestion] = []
    for candidate in islice(promising, most):
        answer = library.ask(candidate.question, synthesis=False)
        if _is_answered(answer, candidate):
            document = candidate.passage.document
            found.append(SampleQuestion(candidate.question, document, hashes[document]))
        if len(found) == _KEPT:
            break
    return found


def _is_found(library: Library, candidate: _Candidate) -> bool:
    """Whether the best passage is of the section that the question was made from."""
    hits = library.search(candidate.question, 1).hits
    return bool(hits) and _place(hits[0].passage) == _place(candidate.passage)


def _place(passage: Passage) -> tuple[str, ...]:
    return (passage.document, *passage.section_path)


def _candidates(store: Store, documents: Sequence[DocumentSummary]) -> Iterator[_Candidate]:
    """The first question of each document, then the second ones; each question once."""
    share = _READ_PASSAGES // max(len(documents), 1)
    most = max(_FEWEST_PER_DOCUMENT, _SEARCHED * _MOST_ASKED // max(len(documents), 1))
    read = {
        d.id: [passage for _, passage in store.document_passages(d.id)[:share]] for d in documents
    }
    spelling = Spelling(passage.text for passages in read.values() for passage in passages)
    seen: set[str] = set()
    made = [list(_of_document(read[d.id], spelling))[:most] for d in documents]
    for row in zip_longest(*made):
        for candidate in row:
            if candidate is not None and candidate.question.casefold() not in seen:
                seen.add(candidate.question.casefold())
                yield candidate


def _of_document(passages: Sequence[Passage], spelling: Spelling) -> Iterator[_Candidate]:
    """Definitions and headings in turn."""
    definitions = list(_definitions(passages, spelling))
    headings = list(_headings(passages, spelling))
    for pair in zip_longest(definitions, headings):
        yield from (candidate for candidate in pair if candidate is not None)


def _definitions(passages: Sequence[Passage], spelling: Spelling) -> Iterator[_Candidate]:
    for passage in passages:
        if passage.lang not in ("", "en"):
            continue
        for start, end in sentence_spans(passage.text):
            sentence = passage.text[start:end]
            if 30 <= len(sentence) <= 300:
                question = question_from_definition(sentence, spelling)
                if question is not None:
                    yield _Candidate(question, passage, " ".join(sentence.split()))


def _headings(passages: Sequence[Passage], spelling: Spelling) -> Iterator[_Candidate]:
    seen: set[str] = set()
    for passage in passages:
        heading = passage.header
        if not heading or heading in seen or passage.lang not in ("", "en"):
            continue
        seen.add(heading)
        question = question_from_heading(heading, spelling)
        if question is not None:
            yield _Candidate(question, passage)


def _is_answered(answer: Answer, candidate: _Candidate) -> bool:
    """Whether an answer is likely and comes from where the question was made from."""
    if answer.certainty != "likely" or not answer.citations:
        return False
    if candidate.sentence:
        return candidate.sentence[:_OPENING] in " ".join(answer.text.split())
    first = answer.citations[0]
    return (first.document, *first.section_path) == _place(candidate.passage)


def samples_path(info: StoreInfo) -> Path:
    """The file of a store's questions: in a pack's folder, else in the home folder."""
    if info.kind == "pack":
        return Path(info.location) / SAMPLES
    return data_folder() / "samples" / f"{content_hash(info.location)}.json"


def load_samples(info: StoreInfo) -> list[SampleQuestion]:
    """The questions of a store; none if it has none by these rules."""
    known = _load(info)
    return [] if known is None else [SampleQuestion(**row) for row in known["questions"]]


def copy_samples(origin: StoreInfo, copy: StoreInfo) -> None:
    """Give a copy of a store the questions of the original."""
    if samples := load_samples(origin):
        _save(copy, samples, 0)


def _load(info: StoreInfo) -> dict[str, Any] | None:
    """The content of the file; ``None`` where there is none that is right. A pack may come from
    someone else, and its questions are only an offer: the next build makes them again."""
    try:
        with open_regular(samples_path(info)) as file:
            content: Any = json.loads(file.read(_MOST_BYTES))
        rows = [
            {name: str(row[name])[:500] for name in ("question", "document", "source_hash")}
            for row in content["questions"][:_KEPT]
        ]
        return (
            {"questions": rows, "changed": int(content["changed"])}
            if (content["rules"] == RULES)
            else None
        )
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _save(info: StoreInfo, samples: Sequence[SampleQuestion], changed: int) -> None:
    path = samples_path(info)
    content = {
        "rules": RULES,
        "changed": changed,
        "questions": [asdict(sample) for sample in samples],
    }
    with writing(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(content, indent=1, ensure_ascii=False)
        PreparedFile(path, f"{text}\n".encode("utf-8", "replace")).publish()
