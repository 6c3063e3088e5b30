"""Questions that a store was seen to answer, for people and agents who do not know it yet.

A build makes them from headings, sentences, options and tables (``question_candidates.py``), asks
them, and keeps those with a likely answer that comes from the same place and holds what was asked.
No language model is needed. They lie beside a pack's manifest, those of another store in the home
folder.
"""

from __future__ import annotations

import heapq
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from packwise.answering.answer import Answer
from packwise.documents import Passage, content_hash
from packwise.errors import MALFORMED
from packwise.language.untrusted import clean
from packwise.library import Library
from packwise.models.base import Embedder
from packwise.packs.question_candidates import QuestionCandidate, candidates
from packwise.settings import Settings, data_folder
from packwise.stores.base import Store, StoreInfo, WriteSummary
from packwise.stores.durable import PreparedFile, open_regular, writing
from packwise.stores.pack.folder import SAMPLES

RULES = "samples-2"
"""The version of how questions are made; those by other rules are made again."""

_KEPT = 6
_MOST_ALIKE = 3
"""Questions that may begin with the same two words, one fewer if they also end alike; more only if
there are no others."""
_MOST_OF_ONE = 2
"""Questions asked of one document before it is the turn of others."""
_READ_DOCUMENTS = 30
_READ_PASSAGES = 1200
"""Passages that questions are made from: the first of each document, alike of all of them."""
_FEWEST_PER_DOCUMENT = 4
_FEWEST_ASKED, _MOST_ASKED = 5, 12
_PASSAGES_PER_QUESTION = 150
"""Passages of the store for each further question that is asked: asking takes a twentieth of the
time of embedding them."""
_TRIED = 6
"""Candidates that are searched for, per question that is asked: searching costs a tenth."""
_CHANGED = 0.2
"""Questions are made again when more of the documents than this share have changed."""
_MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class SampleQuestion:
    """A question, and the document that answers it with the hash it had then."""

    question: str
    document: str
    source_hash: str


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
    share = _READ_PASSAGES // max(len(best), 1)
    read = {d.id: [passage for _, passage in store.document_passages(d.id)[:share]] for d in best}
    most = min(_MOST_ASKED, _FEWEST_ASKED + store.info().passages // _PASSAGES_PER_QUESTION)
    tried = _TRIED * most
    made = candidates(read, max(_FEWEST_PER_DOCUMENT, tried // max(len(best), 1)))
    library = Library(store, settings=settings, embedder=embedder)
    found: list[SampleQuestion] = []
    tally: Counter[str] = Counter()
    used: set[str] = set()
    asked = 0
    for candidate in _varied(islice(made, tried), tally):
        if len(found) == _KEPT or asked == most:
            break
        if candidate.passage.id in used or not _is_found(library, candidate):
            continue
        asked += 1
        tally[candidate.passage.document] += 1
        answer = library.ask(candidate.question, synthesis=False)
        if answer.certainty == "likely" and _is_answered(answer, candidate):
            document = candidate.passage.document
            found.append(SampleQuestion(candidate.question, document, hashes[document]))
            tally.update(_forms(candidate))
            used.add(candidate.passage.id)
    return found


def _varied(
    made: Iterable[QuestionCandidate], tally: Mapping[str, int]
) -> Iterator[QuestionCandidate]:
    """The candidates, at the end those that begin like several that were kept, or are from a
    document that was asked about before."""
    later: list[QuestionCandidate] = []
    for candidate in made:
        begun, whole = map(tally.__getitem__, _forms(candidate))
        alike = begun >= _MOST_ALIKE or whole >= _MOST_ALIKE - 1
        if alike or tally[candidate.passage.document] >= _MOST_OF_ONE:
            later.append(candidate)
        else:
            yield candidate
    yield from later


def _forms(candidate: QuestionCandidate) -> tuple[str, str]:
    """How a question begins, and how it begins and ends: "What does … store?"."""
    words = candidate.question.split()
    begun = " ".join(words[:2])
    return begun, f"{begun} … {words[-1]}"


def _is_found(library: Library, candidate: QuestionCandidate) -> bool:
    """Whether a search finds the section first that the question was made from."""
    hits = library.search(candidate.question, 1).hits
    return bool(hits) and _place(hits[0].passage) == _place(candidate.passage)


def _is_answered(answer: Answer, candidate: QuestionCandidate) -> bool:
    """Whether an answer comes from where the question was made, and holds what was asked."""
    if not answer.citations:
        return False
    first = answer.citations[0]
    same = (first.document, *first.section_path) == _place(candidate.passage)
    return same and candidate.is_answered_by(answer.text)


def _place(passage: Passage) -> tuple[str, ...]:
    return (passage.document, *passage.section_path)


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
        for row in rows:  # Agents read them: no more than a person sees, on one line.
            row["question"] = " ".join(clean(row["question"]).split())
        return (
            {"questions": rows, "changed": int(content["changed"])}
            if (content["rules"] == RULES)
            else None
        )
    except (OSError, *MALFORMED):
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
