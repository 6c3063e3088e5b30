"""The indexes beside the database: made again when they are missing, equal however made."""

import json
import os
import shutil
import subprocess
import sys
import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from store_world import EMBEDDER, fill, make, vector_of
from usearch.index import Index

from packwise.candidates import Filter
from packwise.documents import content_hash
from packwise.language import analyzer as words
from packwise.language.analyzer import terms
from packwise.stores import term_table
from packwise.stores.keyword_index import folder_of_links
from packwise.stores.pack import index as pack_index
from packwise.stores.pack import index_writer
from packwise.stores.pack.store import create_or_open_pack, open_pack
from packwise.stores.pack.validation import validate
from packwise.stores.term_table import TermTable
from read_only import read_only

NOTES = [make(f"note-{i:03}", f"Note number {i} on topic {i % 7}.") for i in range(60)]


@pytest.fixture(params=["exact", "graph"])
def pack(request, tmp_path, monkeypatch):
    """A small pack with either kind of vector index."""
    if request.param == "graph":
        monkeypatch.setattr(pack_index, "EXACT_LIMIT", 20)
    folder = tmp_path / "pack"
    with create_or_open_pack(folder) as store:
        fill(store, NOTES)
        assert store.info().details["vector_index"] == {"graph": "usearch"}.get(
            request.param, "exact"
        )
    return folder


def answers(store) -> list:
    return [
        store.vector_search(vector_of("q"), 10),
        store.vector_search(vector_of("q"), 10, Filter(path_prefix="note-01")),
        store.keyword_search(terms("note topic 3"), 10),
        store.term_statistics(terms("note number 3")),
    ]


def damage(path: Path, how: str) -> None:
    content = path.read_bytes()
    middle = len(content) // 2
    if how == "gone":
        path.unlink()
    elif how == "cut":
        path.write_bytes(content[:middle])
    else:
        path.write_bytes(content[:middle] + bytes([content[middle] ^ 255]) + content[middle + 1 :])


DAMAGES = [
    ("index.json", "gone"),
    ("index.json", "cut"),
    ("keys.i64", "cut"),
    ("terms.u64", "changed"),
    ("vocabulary.u32", "gone"),
    ("keywords/meta.json", "changed"),
    ("keywords/*.term", "cut"),
    ("keywords/*.idx", "changed"),
    ("keywords/*.fast", "gone"),
    ("vectors.usearch", "gone"),
    ("vectors.usearch", "cut"),
    ("vectors.usearch", "changed"),
    ("vectors.f16", "changed"),
]


def test_a_damaged_index_is_made_again(pack):
    with open_pack(pack) as store:
        expected = answers(store)
    for pattern, how in DAMAGES:
        for path in (pack / "index" / "1").glob(pattern):
            damage(path, how)
            assert any("index" in problem for problem in validate(pack)), (pattern, how)
            with open_pack(pack) as store:
                assert answers(store) == expected, (pattern, how)
            assert validate(pack) == [], (pattern, how)


def test_a_lock_file_that_appears_while_an_index_is_opened_is_no_damage():
    stop = threading.Event()

    def take_and_drop_a_lock(folder: Path) -> None:
        while not stop.is_set():
            with suppress(OSError):
                (folder / ".tantivy-meta.lock").touch()
                (folder / "more").mkdir()

    with folder_of_links() as links:
        for number in range(200):
            Path(links, f"file-{number}").touch()
        thread = threading.Thread(target=take_and_drop_a_lock, args=(Path(links),))
        thread.start()
        threading.Timer(0.05, stop.set).start()
    thread.join()
    assert not Path(links).exists()


def own_files(pack: Path) -> dict[str, bytes]:
    """The index files whose bytes depend on the content alone."""
    return {
        path.name: path.read_bytes()
        for path in (pack / "index" / "1").iterdir()
        if path.is_file() and path.name != "index.json"
    }


def test_a_missing_index_is_made_again_in_its_place(pack):
    with open_pack(pack) as store:
        expected, version = answers(store), store.info().version
    files = own_files(pack)
    assert files
    shutil.rmtree(pack / "index")
    assert any("index" in problem for problem in validate(pack))
    with open_pack(pack) as store:
        assert answers(store) == expected
        assert store.info().version == version
    assert own_files(pack) == files
    assert validate(pack) == []


def test_a_reader_follows_a_pack_that_is_replaced_by_another(pack, tmp_path):
    with create_or_open_pack(tmp_path / "other") as store:
        fill(store, [make("other", "Another pack.")])
    with open_pack(pack) as store:
        answers(store)
        shutil.rmtree(pack)
        shutil.move(tmp_path / "other", pack)
        assert [summary.id for summary in store.documents()] == ["other"]
        assert len(store.keyword_search(terms("another"), 5)) == 1
        assert len(store.vector_search(vector_of("q"), 99)) == 1


def test_a_reader_keeps_what_it_has_open(pack):
    with open_pack(pack) as store:
        expected = answers(store)
        shutil.rmtree(pack / "index")
        assert answers(store) == expected


def test_an_index_of_other_analysis_rules_is_made_again(pack, monkeypatch):
    with open_pack(pack) as store:
        expected = answers(store)
    monkeypatch.setattr(pack_index, "ANALYZER", f"{words.ANALYZER}-next")
    with open_pack(pack) as store:
        assert answers(store) == expected
    assert validate(pack) == []


def test_an_index_of_another_state_is_not_used(pack, tmp_path):
    other = tmp_path / "other"
    with create_or_open_pack(other) as store:
        fill(store, [make(f"x-{i}", f"Other text {i}.") for i in range(60)])
    with open_pack(pack) as store:
        expected = answers(store)
    shutil.rmtree(pack / "index")
    shutil.copytree(other / "index", pack / "index")
    with open_pack(pack) as store:
        assert answers(store) == expected


def test_orphans_of_a_killed_build_are_removed_by_the_next(pack):
    (pack / "index" / "2").mkdir()
    (pack / "index" / "2" / "keys.i64").write_text("junk")
    (pack / "index" / ".2-abc").mkdir()
    (pack / ".manifest.json.0123").write_text("{}")
    with create_or_open_pack(pack) as store:
        fill(store, [*NOTES, make("new", "New.")])
    # Beside a graph the new note is a segment.
    kept = {"1", "2"} if list(pack.glob("index/*/removed.i64")) else {"2"}
    assert {path.name for path in (pack / "index").iterdir()} == kept
    assert not list(pack.glob(".manifest*"))
    assert validate(pack) == []


@pytest.mark.parametrize("without_index", [False, True])
def test_a_read_only_pack_is_read(pack, without_index):
    with open_pack(pack) as store:
        expected = answers(store)
    for side in ("-wal", "-shm"):
        (pack / f"pack.sqlite{side}").unlink(missing_ok=True)
    if without_index:
        shutil.rmtree(pack / "index")
    with read_only(pack):
        before = sorted(str(path) for path in pack.rglob("*"))
        with open_pack(pack) as store:
            assert answers(store) == expected
            assert store.info().passages == 60
        assert sorted(str(path) for path in pack.rglob("*")) == before


def changed_notes(share: int) -> list:
    """The notes with a few replaced, a few gone and a few new."""
    new = [make(f"note-{i:03}", f"Note {i} was rewritten.") for i in range(share)]
    return [*new, *NOTES[2 * share :], *(make(f"new-{i}", f"New note {i}.") for i in range(share))]


@pytest.mark.parametrize("share", [1, 2, 20])
def test_an_index_changed_in_place_answers_like_one_made_anew(pack, tmp_path, share):
    with create_or_open_pack(pack) as store:
        for round_ in range(3):
            fill(store, changed_notes(share) if round_ % 2 == 0 else NOTES)
        updated = answers(store)
    assert validate(pack) == []
    fresh = tmp_path / "fresh"
    with create_or_open_pack(fresh) as store:
        fill(store, changed_notes(share))
        made = answers(store)
    for mine, other in zip(updated[:3], made[:3], strict=True):
        assert [match.score for match in mine] == [match.score for match in other]
    assert updated[3] == made[3]


@pytest.fixture
def no_segments(monkeypatch):
    monkeypatch.setattr(index_writer, "MOST_RECENT", 0)


@pytest.mark.usefixtures("no_segments")
def test_an_index_changed_in_small_steps_is_built_from_scratch_once_it_has_drifted(pack):
    drifts = []
    with create_or_open_pack(pack) as store:
        for generation in range(2, 7):
            # Three notes replaced: six of sixty passages moved, the most for a small change.
            notes = [make(f"note-{i:03}", f"Version {generation} of {i}.") for i in range(3)]
            fill(store, [*notes, *NOTES[3:]])
            sealed = json.loads((pack / "index" / str(generation) / "index.json").read_text())
            drifts.append(sealed["drift"])
    # Beyond 0.3 of the passages nothing of the old index is left.
    assert drifts == [6, 12, 18, 0, 6]


@pytest.mark.usefixtures("no_segments")
def test_a_change_of_many_passages_is_built_from_scratch(pack):
    with create_or_open_pack(pack) as store:
        fill(store, [make(f"note-{i:03}", f"Changed {i}.") for i in range(4)] + NOTES[4:])
    sealed = json.loads((pack / "index" / "2" / "index.json").read_text())
    assert sealed["drift"] == 0


def test_the_best_passage_is_found_though_tantivy_ranks_many_before_it(tmp_path):
    # tantivy takes lengths 216 to 231 for equal, so it cannot tell which is the shortest.
    def note(i, length):
        spare = length - len(terms(make(f"note-{i:02}", "needle")[1][0].indexed_text))
        return make(f"note-{i:02}", " ".join(["needle", *["hay"] * spare]))

    notes = [note(i, 231) for i in range(60)] + [note(60, 216)]
    assert {len(terms(p.indexed_text)) for _, (p,) in notes} == {216, 231}
    with create_or_open_pack(tmp_path / "needles") as store:
        fill(store, notes)
        (best,) = store.keyword_search(terms("needle"), 1)
        (passage,) = store.passages([best.key])
        assert passage.document == "note-60"
        assert best.score > max(m.score for m in store.keyword_search(terms("needle"), 61)[1:])


@pytest.mark.usefixtures("no_segments")
def test_a_small_change_is_applied_to_a_copy_and_leaves_the_old_files_as_they_were(
    pack, monkeypatch
):
    kept = pack.parent / "kept"
    monkeypatch.setattr(
        "packwise.stores.pack.folder.IndexHome.remove_others",
        lambda home, generation: shutil.copytree(home.path / "1", kept),
    )
    sealed = {
        path.name: path.read_bytes() for path in (pack / "index" / "1").rglob("*") if path.is_file()
    }
    built = []
    monkeypatch.setattr(index_writer, "_build", lambda *args: built.append(args))
    with create_or_open_pack(pack) as store:
        fill(store, changed_notes(1))
        assert not built
        assert store.keyword_search(terms("rewritten"), 5)
    assert {p.name: p.read_bytes() for p in kept.rglob("*") if p.is_file()} == sealed


def test_a_store_open_at_a_fork_works_in_the_child(pack):
    with open_pack(pack) as store:
        expected = answers(store)
        child = os.fork()
        if child == 0:
            os._exit(0 if answers(store) == expected else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert answers(store) == expected


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Six thousand passages in clusters, enough for a graph, with their vectors."""
    rng = np.random.default_rng(3)
    count, dim = 6000, 32
    centres = rng.normal(size=(60, dim))
    matrix = centres[rng.integers(0, 60, count)] + 0.7 * rng.normal(size=(count, dim))
    matrix = (matrix / np.linalg.norm(matrix, axis=1, keepdims=True)).astype(np.float32)
    folder = tmp_path_factory.mktemp("large") / "pack"
    store = create_or_open_pack(folder)
    with store.writer(**{**EMBEDDER, "dim": dim}) as writer:
        for at in range(0, count, 100):
            texts = [f"n{i} m{i % 3}" for i in range(at, at + 100)]
            tenant = {"tenant": "few" if at < 300 else "many"}
            document, passages = make(f"d{at // 100:02}", *texts, title="", metadata=tenant)
            assert len({content_hash(p.indexed_text) for p in passages}) == 100
            writer.stage(document, passages, matrix[at : at + 100])
        writer.commit()
    assert store.info().details["vector_index"] == "usearch"
    half = matrix.astype(np.float16).astype(np.float32)
    half /= np.linalg.norm(half, axis=1, keepdims=True)
    questions = centres[rng.integers(0, 60, 40)] + 0.7 * rng.normal(size=(40, dim))
    questions /= np.linalg.norm(questions, axis=1, keepdims=True)
    yield store, half, questions.astype(np.float32)
    store.close()


def number(store, match) -> int:
    (passage,) = store.passages([match.key])
    return int(passage.text.split()[0][1:])


def test_the_graph_agrees_with_an_exact_search(large):
    store, matrix, questions = large
    hits = 0
    for question in questions:
        scores = matrix @ question
        best = set(np.argsort(-scores)[:10].tolist())
        matches = store.vector_search(question, 10)
        numbers = [number(store, match) for match in matches]
        hits += len(best & set(numbers))
        assert [m.score for m in matches] == pytest.approx(scores[numbers].tolist(), abs=2e-6)
        assert sorted(m.score for m in matches)[::-1] == [m.score for m in matches]
    assert hits / (10 * len(questions)) >= 0.95


@pytest.mark.parametrize(
    ("where", "allowed"),
    [
        (Filter(tenant="few"), range(300)),
        (Filter(tenant="many"), range(300, 6000)),
        (Filter(documents=("d07",)), range(700, 800)),
    ],
    ids=["few", "many", "one"],
)
def test_a_filtered_search_never_comes_back_short(large, where, allowed):
    store, matrix, questions = large
    hits = total = 0
    for question in questions[:15]:
        for k in (10, 120):
            wanted = min(k, len(allowed))
            scores = matrix[allowed.start : allowed.stop] @ question
            best = {int(i) + allowed.start for i in np.argsort(-scores)[:wanted]}
            matches = store.vector_search(question, k, where)
            assert len(matches) == wanted
            keys = [match.key for match in matches]
            numbers = {int(p.text.split()[0][1:]) for p in store.passages(keys) if p}
            assert numbers <= set(allowed)
            hits, total = hits + len(best & numbers), total + wanted
    assert hits / total >= 0.95


@pytest.mark.parametrize("tenant", ["few", "many"])
def test_a_filtered_keyword_search_keeps_scores_and_count(large, tenant):
    store, _, _ = large
    where = Filter(tenant=tenant)
    everything = {m.key: m.score for m in store.keyword_search(terms("m1"), 6000)}
    assert len(everything) == 2000
    matches = store.keyword_search(terms("m1"), 6000, where)
    assert len(matches) == (100 if tenant == "few" else 1900)
    assert all(everything[match.key] == match.score for match in matches)
    assert len(store.keyword_search(terms("m1"), 50, where)) == 50


def test_a_question_that_points_nowhere_ties_with_everything(large):
    store, _, _ = large
    keys = [match.key for match in store.vector_search(np.zeros(32, np.float32), 5)]
    assert keys == sorted(keys)
    assert len(keys) == 5


_BUILDING = """
import sys
from pathlib import Path
import numpy as np
from packwise.machine import memory_bytes
from packwise.stores.pack.index_writer import build_graph

rows, block, dim, before = 4096, 1024, 1024, 0

def blocks():
    global before
    random = np.random.default_rng(7)
    for at in range(0, rows, block):
        keys = np.arange(at, at + block)
        yield keys, random.standard_normal((block, dim), dtype=np.float32).astype("<f2")
        before = before or memory_bytes(files=False)

build_graph(Path(sys.argv[1]), dim, blocks())
print((memory_bytes(files=False) - before) / (2 * rows * dim))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory without mapped files")
def test_a_build_of_a_graph_holds_no_copy_of_the_vectors(tmp_path):
    run = [sys.executable, "-c", _BUILDING, str(tmp_path)]
    found = subprocess.run(run, capture_output=True, text=True, check=True)
    assert float(found.stdout) < 0.6

    flat = np.fromfile(tmp_path / "vectors.f16", dtype="<f2").reshape(-1, 1024)
    copied = Index(
        ndim=1024,
        metric="cos",
        dtype="f16",
        connectivity=16,
        expansion_add=128,
        expansion_search=96,
    )
    for at in range(0, len(flat), 1024):
        keys = np.arange(at, at + 1024, dtype=np.uint64)
        copied.add(keys, flat[at : at + 1024], threads=1)
    copied.save(str(tmp_path / "copied"))
    assert (tmp_path / "copied").read_bytes() == (tmp_path / "vectors.usearch").read_bytes()


def test_the_vocabulary_does_not_depend_on_how_many_terms_are_counted_at_once(monkeypatch):
    passages = [(n, [f"word{n * i % 11}" for i in range(n % 7 + 1)]) for n in range(40)]
    whole = TermTable.of(passages)
    monkeypatch.setattr(term_table, "_COUNTED_AT_ONCE", 9)
    parts = TermTable.of(passages)
    held = Counter(term for _, of_passage in passages for term in set(of_passage))
    assert {term: whole.frequency(term) for term in held} == dict(held)
    for name in ("hashes", "counts", "ends", "lengths", "vocabulary", "frequencies"):
        ours, others = getattr(whole, name), getattr(parts, name)
        assert ours.dtype == others.dtype
        assert ours.tolist() == others.tolist()
