"""A build that is killed at any moment leaves the old pack or the new one, and can go on."""

import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from store_world import EMBEDDER, fill, make, vectors_of

from packwise.errors import StoreMissing
from packwise.language.analyzer import terms
from packwise.stores.pack import index
from packwise.stores.pack.store import create_or_open_pack, open_pack
from packwise.stores.pack.validation import validate

pytestmark = pytest.mark.slow

DOCUMENTS = 240
GRAPH_FROM = 300
CHILD = """
import sys
sys.path[:0] = sys.argv[2:]
from test_pack_survives_kills import build
build(sys.argv[1])
"""


def old_state() -> list:
    return [make(f"doc-{i:03}", *(f"Old words {i} {j}." for j in range(3))) for i in range(120)]


def new_state() -> list:
    return [
        make(f"doc-{i:03}", *(f"New words {i} {j}." for j in range(4)), links=[f"doc-{i - 1:03}"])
        for i in range(DOCUMENTS)
    ]


def build(folder: str) -> None:
    """Bring a pack to the new state, in a process of its own: it says what comes next, and
    commits when it is told to, so that whoever kills it knows how far it can have got."""
    index.EXACT_LIMIT = GRAPH_FROM
    todo = new_state()
    with create_or_open_pack(folder).writer(**EMBEDDER) as writer:
        known = writer.source_hashes()
        print("staging", flush=True)
        staged = 0
        for document, passages in todo:
            if known.get(document.id) == document.source_hash:
                writer.keep(document.id)
            else:
                writer.stage(document, passages, vectors_of(passages))
                staged += 1
        print(f"staged {staged}", flush=True)
        input()
        writer.commit()
    print("done", flush=True)


@dataclass
class Run:
    """A build in its own process, with what it said and when."""

    process: subprocess.Popen

    @classmethod
    def start(cls, folder: Path, program: str = CHILD) -> "Run":
        here = [path for path in sys.path if path]
        return cls(
            subprocess.Popen(
                [sys.executable, "-c", program, str(folder), *here],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )

    def next(self, word: str) -> str:
        """Wait for a line that starts with a word; the rest of it."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        assert line.startswith(word), line
        return line.removeprefix(word).strip()

    def commit(self) -> None:
        """Let it commit what it has staged."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()

    def finish(self) -> int:
        """Let it end; how many documents it had to stage."""
        self.next("staging")
        staged = int(self.next("staged"))
        self.commit()
        self.next("done")
        self.process.communicate()
        assert self.process.returncode == 0
        return staged


def state_of(folder: Path) -> str:
    """Which of the two states a pack is in; fails on anything between them."""
    # A kill between the commit and the renaming of the manifest leaves the old one there.
    assert [line for line in validate(folder) if not line.startswith("manifest.json")] == []
    with open_pack(folder) as store:
        hashes = {summary.id: summary.source_hash for summary in store.documents()}
        old_words = len(store.keyword_search(terms("old"), 9999))
        new_words = len(store.keyword_search(terms("new"), 9999))
        near = len(store.vector_search(vectors_of(old_state()[0][1])[0], 9999))
    for name, documents, words in (
        ("old", old_state(), (360, 0)),
        ("new", new_state(), (0, 4 * DOCUMENTS)),
    ):
        if hashes == {document.id: document.source_hash for document, _ in documents}:
            assert (old_words, new_words) == words
            assert near == sum(words)
            return name
    pytest.fail("the pack is in neither state")


@pytest.fixture(scope="module")
def old_pack(tmp_path_factory):
    index.EXACT_LIMIT, limit = GRAPH_FROM, index.EXACT_LIMIT
    folder = tmp_path_factory.mktemp("old") / "pack"
    with create_or_open_pack(folder) as store:
        fill(store, old_state())
    yield folder
    index.EXACT_LIMIT = limit


@pytest.fixture(scope="module")
def durations(old_pack, tmp_path_factory):
    """How long staging and committing take when nobody interferes."""
    folder = tmp_path_factory.mktemp("timed") / "pack"
    shutil.copytree(old_pack, folder)
    run = Run.start(folder)
    run.next("staging")
    started = time.monotonic()
    run.next("staged")
    committing = time.monotonic()
    run.commit()
    run.next("done")
    ended = time.monotonic()
    run.process.communicate()
    assert state_of(folder) == "new"
    return committing - started, ended - committing


@pytest.mark.parametrize("moment", [0.3, 0.8])
def test_killed_while_staging(old_pack, durations, tmp_path, moment):
    folder = tmp_path / "pack"
    shutil.copytree(old_pack, folder)
    run = Run.start(folder)
    run.next("staging")
    time.sleep(moment * durations[0])
    run.kill()
    assert state_of(folder) == "old"
    Run.start(folder).finish()
    assert state_of(folder) == "new"


def test_killed_while_committing(old_pack, durations, tmp_path):
    states = []
    for step in range(5):
        folder = tmp_path / f"pack-{step}"
        shutil.copytree(old_pack, folder)
        run = Run.start(folder)
        run.next("staging")
        run.next("staged")
        if step:
            run.commit()
            time.sleep(durations[1] * step / 4)
        run.kill()
        states.append(state_of(folder))
        if step in (1, 3):
            staged = Run.start(folder).finish()
            assert staged == 0
            assert state_of(folder) == "new"
            assert validate(folder) == []
            assert len(list((folder / "index").iterdir())) == 1
    assert states[0] == "old"


KILLED_AFTER_COMMIT = """
import os, signal, sys
sys.path[:0] = sys.argv[2:]
from packwise.stores.pack.writer import PackWriter
PackWriter._tidy = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
from test_pack_survives_kills import build
build(sys.argv[1])
"""


def test_the_next_build_tidies_up_after_a_kill_right_after_the_commit(old_pack, tmp_path):
    folder = tmp_path / "pack"
    shutil.copytree(old_pack, folder)
    run = Run.start(folder, KILLED_AFTER_COMMIT)
    run.next("staging")
    run.next("staged")
    run.commit()
    assert run.process.wait() == -signal.SIGKILL
    run.process.communicate()
    assert state_of(folder) == "new"
    assert validate(folder) != [], "the manifest is still the old one"
    assert Run.start(folder).finish() == 0
    assert validate(folder) == []
    assert (folder / "checksums.json").exists()
    assert len(list((folder / "index").iterdir())) == 1


def test_a_killed_first_build_goes_on_where_it_stopped(tmp_path):
    folder = tmp_path / "pack"
    run = Run.start(folder)
    run.next("staging")
    run.next("staged")
    run.kill()
    with pytest.raises(StoreMissing):
        open_pack(folder)
    assert Run.start(folder).finish() < DOCUMENTS
    assert state_of(folder) == "new"
