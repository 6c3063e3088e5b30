"""Files are read again when they may have changed, and else at most once a day."""

import hashlib
import json
import os
import time
from pathlib import Path

import pytest

from packwise import file_hashes
from packwise.file_hashes import forget, remembered, remembered_all, sha256_of


@pytest.fixture(autouse=True)
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that hashes are kept in. Files here are new and small, and are kept all the same."""
    monkeypatch.setenv("PACKWISE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(file_hashes, "_SETTLED_NS", -60_000_000_000)
    monkeypatch.setattr(file_hashes, "_KEPT_BYTES", 1)
    forget()
    return tmp_path / "cache" / "hashes.json"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "weights.bin"
    path.write_bytes(b"weights")
    return path


class Reads(list[Path]):
    """The files that were really read."""

    def __call__(self, path: Path) -> str:
        self.append(path)
        return sha256_of(path)


def flip_with_its_time_kept(file: Path) -> None:
    status = file.stat()
    time.sleep(0.02)  # File times go in steps of milliseconds.
    file.write_bytes(b"weighty")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_a_file_is_read_once_while_it_stays(file):
    reads, expected = Reads(), hashlib.sha256(b"weights").hexdigest()
    assert [remembered(file, reads) for _ in range(3)] == [expected] * 3
    assert len(reads) == 1


def test_another_process_need_not_read_it_again(file):
    reads = Reads()
    remembered(file, reads)
    forget()
    assert remembered(file, reads) == hashlib.sha256(b"weights").hexdigest()
    assert len(reads) == 1


@pytest.mark.parametrize("process", ["the same", "another"])
def test_a_flipped_bit_whose_time_was_kept_is_found(file, process):
    first = remembered(file)
    flip_with_its_time_kept(file)
    if process == "another":
        forget()
    assert remembered(file) == hashlib.sha256(b"weighty").hexdigest() != first


def test_a_file_that_another_replaces_is_read_again(file, tmp_path):
    other, status = tmp_path / "other", file.stat()
    other.write_bytes(b"WEIGHTS")
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    remembered(file)
    other.replace(file)
    assert remembered(file) == hashlib.sha256(b"WEIGHTS").hexdigest()


def test_a_change_of_time_alone_is_reason_enough_to_look(file):
    reads = Reads()
    remembered(file, reads)
    os.utime(file, ns=(1, 1))
    remembered(file, reads)
    assert len(reads) == 2


def test_each_process_reads_a_file_again_after_a_day(file, monkeypatch):
    reads = Reads()
    remembered(file, reads)
    forget()
    now = time.time()
    monkeypatch.setattr(file_hashes.time, "time", lambda: now + file_hashes.KEPT_SECONDS + 1)
    remembered(file, reads)
    assert len(reads) == 2


def test_what_was_written_just_now_is_not_kept(file, memory, monkeypatch):
    """Within one step of the clock it may change again and look the same."""
    monkeypatch.setattr(file_hashes, "_SETTLED_NS", 2_000_000_000)
    remembered(file)
    assert not memory.exists()


def test_small_files_are_not_kept(file, memory, monkeypatch):
    monkeypatch.setattr(file_hashes, "_KEPT_BYTES", 100)
    remembered(file)
    assert not memory.exists()


def test_a_file_that_changes_while_it_is_read_is_not_kept(file, memory):
    def read(path: Path) -> str:
        flip_with_its_time_kept(path)
        return "of the bytes before"

    remembered(file, read)
    assert remembered(file) == hashlib.sha256(b"weighty").hexdigest()


def test_an_empty_result_is_not_kept(file, memory):
    assert remembered(file, lambda path: "") == ""
    assert not memory.exists()
    assert remembered(file) != ""


def test_of_several_files_only_those_not_known_are_read(file, tmp_path):
    other = tmp_path / "other"
    other.write_bytes(b"x")
    first, reads = remembered(file), Reads()
    found = remembered_all([other, file], lambda paths: map(reads, paths))
    assert found == [hashlib.sha256(b"x").hexdigest(), first]
    assert reads == [other]


def test_a_memory_that_others_may_write_is_not_believed(file, memory):
    remembered(file)
    kept = json.loads(memory.read_text())
    kept[str(file)][2] = "forged"
    memory.write_text(json.dumps(kept))
    forget()
    assert remembered(file) == "forged"
    memory.chmod(0o666)
    forget()
    assert remembered(file) == hashlib.sha256(b"weights").hexdigest()


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe", b'{"a": 3, "b": [1, "x", 2]}'])
def test_a_broken_memory_is_forgotten(file, memory, content):
    memory.parent.mkdir()
    memory.write_bytes(content)
    reads = Reads()
    assert remembered(file, reads) == remembered(file, reads)
    assert len(reads) == 1
    assert list(json.loads(memory.read_text())) == [str(file)]


def test_without_a_writable_cache_each_process_reads_the_file(file, tmp_path, monkeypatch):
    (tmp_path / "blocked").write_text("a file where the folder should be")
    monkeypatch.setenv("PACKWISE_CACHE", str(tmp_path / "blocked"))
    reads = Reads()
    first = remembered(file, reads)
    forget()
    assert remembered(file, reads) == first
    assert len(reads) == 2


def test_vanished_files_are_dropped_and_no_litter_is_left(file, tmp_path, memory):
    gone = tmp_path / "gone.bin"
    gone.write_bytes(b"x")
    remembered(gone)
    gone.unlink()
    remembered(file)
    assert list(json.loads(memory.read_text())) == [str(file)]
    assert [p.name for p in memory.parent.iterdir()] == ["hashes.json"]
