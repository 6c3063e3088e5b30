"""While one window of documents is embedded, the next is read and the last is staged."""

import hashlib
import threading
import time
from contextlib import closing

import numpy as np
import pytest

from packwise.errors import StoreFull, StoreMissing
from packwise.evaluation.synthetic import SyntheticEmbedder
from packwise.models.onnx import spread
from packwise.packs.build import build_pack
from packwise.packs.deadline import deadline
from packwise.packs.workers import LocalWorkers
from packwise.settings import Settings
from packwise.stores.locate import open_store
from packwise.stores.pack.writer import PackWriter

DOCUMENTS = 120
SENTENCE = "Barge {} carried {} sacks of barley to the mill below the seventh lock."


class ThreadedEmbedder(SyntheticEmbedder):
    """Embeds in threads of its own, as a transformer does."""

    def embed_passages(self, texts, progress=None):
        vectors = np.empty((len(texts), self.dim), np.float32)

        def embed(at):
            time.sleep(0.001)
            vectors[at] = self.embed_query(texts[at])

        spread(range(len(texts)), embed, 2, progress)
        return vectors


class Watched(LocalWorkers):
    """Notes what happens, and raises ``error`` in place of one document."""

    def __init__(self, embedder, settings, events, error=None, at=-1):
        super().__init__(embedder, settings)
        self._events, self._error, self._at = events, error, at

    def prepare(self, items):
        for number, prepared in enumerate(super().prepare(items)):
            if number == self._at:
                raise self._error
            self._events.append(("read", prepared.item))
            yield prepared

    def embed(self, texts, done, meanwhile):
        self._events.append(("embed", ""))
        vectors = super().embed(texts, done, meanwhile)
        self._events.append(("embedded", ""))
        return vectors


@pytest.fixture
def events(monkeypatch):
    events = []
    whole = PackWriter.stage

    def stage(self, document, *given):
        whole(self, document, *given)
        events.append(("staged", document.id))

    monkeypatch.setattr(PackWriter, "stage", stage)
    return events


def rows():
    for n in range(DOCUMENTS):
        text = "\n\n".join(SENTENCE.format(100 * n + i, i) for i in range(4))
        yield {"id": f"barge-{n:03}", "text": f"# Barge {n}\n\n{text}"}


def build(pack, events, error=None, at=-1):
    return build_pack(
        list(rows()),
        pack,
        embedder=ThreadedEmbedder(),
        start_workers=lambda e, s: Watched(e, s, events, error, at),
    )


def named(events, kind):
    return [name for found, name in events if found == kind]


def workers_running():
    return [t for t in threading.enumerate() if t.name.startswith("packwise-worker-")]


def test_a_window_is_embedded_while_the_next_is_read_and_the_last_is_staged(tmp_path, events):
    build(tmp_path / "pack", events)
    inside, during = False, {"read": 0, "staged": 0}
    for kind, _ in events:
        inside = kind == "embed" if kind.startswith("embed") else inside
        during[kind] = during.get(kind, 0) + inside
    # But for the first window, which nothing can be embedded before, and the last.
    assert during["read"] > 0.7 * DOCUMENTS
    assert during["staged"] > 0.4 * DOCUMENTS


def test_documents_are_staged_in_the_order_of_the_source(tmp_path, events):
    build(tmp_path / "pack", events)
    ids = [row["id"] for row in rows()]
    assert named(events, "read") == ids
    assert named(events, "staged") == ids


def test_no_more_than_three_windows_are_held(tmp_path, events, monkeypatch):
    monkeypatch.setattr(LocalWorkers, "window", 8)
    monkeypatch.setattr("packwise.packs.staging._SMALLEST_SLICE", 8)
    build(tmp_path / "pack", events)
    held = most = 0
    for kind, _ in events:
        held += (kind == "read") - (kind == "staged")
        most = max(most, held)
    assert most <= 3 * 8


def test_an_error_in_reading_is_raised_once_what_came_before_is_staged(tmp_path, events):
    with pytest.raises(RuntimeError, match="the source broke"):
        build(tmp_path / "pack", events, RuntimeError("the source broke"), 80)
    assert not workers_running()
    staged = named(events, "staged")
    assert staged == named(events, "read")[: len(staged)]
    # All but what was read for the window that the error is in.
    assert len(staged) >= 48
    assert events[-1][0] == "staged"
    report = build(tmp_path / "pack", [])
    assert report.changes.added == DOCUMENTS
    assert report.changes.unchanged == 0


def test_ctrl_c_while_a_document_is_read_ends_the_embedding_too(tmp_path, events):
    with pytest.raises(KeyboardInterrupt):
        build(tmp_path / "pack", events, KeyboardInterrupt(), 80)
    assert not workers_running()
    assert events[-1][0] == "read", "nothing is embedded or staged after it"
    with pytest.raises(StoreMissing):
        open_store(str(tmp_path / "pack"))
    report = build(tmp_path / "pack", [])
    assert report.changes.added == DOCUMENTS
    assert report.embedded < report.changes.passages, "what was embedded is used again"


def test_an_error_in_staging_ends_the_embedding_too(tmp_path, events, monkeypatch):
    whole = PackWriter.stage

    def full(self, document, *given):
        if document.id == "barge-020":
            raise StoreFull("the disk is full")
        whole(self, document, *given)

    with monkeypatch.context() as patch:
        patch.setattr(PackWriter, "stage", full)
        with pytest.raises(StoreFull):
            build(tmp_path / "pack", events)
    assert not workers_running()
    assert build(tmp_path / "pack", []).changes.added == DOCUMENTS


def test_an_embedder_that_works_in_the_calling_thread_is_not_timed_with_other_work(tmp_path):
    class Slow(LocalWorkers):
        def prepare(self, items):
            for prepared in super().prepare(items):
                time.sleep(0.01)
                yield prepared

    report = build_pack(
        list(rows()), tmp_path / "pack", embedder=SyntheticEmbedder(), start_workers=Slow
    )
    assert report.embedding_seconds < 0.01 * DOCUMENTS


def test_the_first_passages_are_embedded_before_a_whole_window_is_read(tmp_path, events):
    build(tmp_path / "pack", events)
    assert events.index(("embed", "")) <= 16


def test_the_computing_of_other_threads_does_not_count_for_a_deadline():
    stop = threading.Event()
    block = bytes(1 << 22)

    def compute():
        while not stop.is_set():
            hashlib.sha256(block).digest()

    thread = threading.Thread(target=compute)
    thread.start()
    try:
        with deadline(0.3):
            before = time.process_time()
            while time.process_time() - before < 1.0:
                time.sleep(0.01)
    finally:
        stop.set()
        thread.join()


def test_the_pack_does_not_depend_on_how_much_is_read_ahead(tmp_path, events, monkeypatch):
    def content(pack):
        with closing(open_store(str(pack))) as store:
            return [
                (key, passage, store.vectors([key]).tobytes())
                for document in store.documents()
                for key, passage in store.document_passages(document.id)
            ]

    build(tmp_path / "usual", events)
    monkeypatch.setattr(LocalWorkers, "window", 5)
    build(tmp_path / "small", events)
    settings = Settings.load(threads=1)
    build_pack(list(rows()), tmp_path / "plain", embedder=SyntheticEmbedder(), settings=settings)
    assert content(tmp_path / "usual") == content(tmp_path / "small") == content(tmp_path / "plain")
