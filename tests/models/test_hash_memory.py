import hashlib
import json
import os
from pathlib import Path

import pytest

from packwise.models import locate
from packwise.models.locate import remembered_sha256, sha256_of


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that were really read."""
    seen: list[Path] = []

    def spy(path: Path) -> str:
        seen.append(path)
        return sha256_of(path)

    monkeypatch.setattr(locate, "sha256_of", spy)
    return seen


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "weights.bin"
    path.write_bytes(b"weights")
    return path


def test_a_hash_is_computed_once_while_the_file_stays(file, reads):
    expected = hashlib.sha256(b"weights").hexdigest()
    assert [remembered_sha256(file) for _ in range(3)] == [expected] * 3
    assert len(reads) == 1


def test_a_file_that_changes_is_read_again(file, reads):
    first = remembered_sha256(file)
    file.write_bytes(b"WEIGHTS")
    # Some systems count file times in steps of milliseconds: two writes may fall into one.
    later = file.stat().st_mtime_ns + 10_000_000
    os.utime(file, ns=(later, later))
    assert remembered_sha256(file) == hashlib.sha256(b"WEIGHTS").hexdigest() != first
    assert len(reads) == 2


def test_a_change_of_time_alone_is_reason_enough_to_look(file, reads):
    remembered_sha256(file)
    os.utime(file, ns=(1, 1))
    remembered_sha256(file)
    assert len(reads) == 2


def test_links_to_a_file_share_its_hash(file, tmp_path, reads):
    (tmp_path / "link").symlink_to(file)
    assert remembered_sha256(tmp_path / "link") == remembered_sha256(file)
    assert len(reads) == 1


def flip_with_its_time_kept(file: Path) -> None:
    status = file.stat()
    file.write_bytes(b"weighty")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_a_flipped_bit_whose_time_was_kept_is_found(file):
    first = remembered_sha256(file)
    flip_with_its_time_kept(file)
    assert remembered_sha256(file) == hashlib.sha256(b"weighty").hexdigest() != first


def test_another_process_reads_the_file_again(file, tmp_path, reads, monkeypatch):
    remembered_sha256(file)
    monkeypatch.setattr(locate, "_read_here", {})
    remembered_sha256(file)
    assert len(reads) == 2
    assert not (tmp_path / "cache" / "hashes.json").exists()


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file is too large to be read by each process, and this is a new process."""
    monkeypatch.setattr(locate, "_READ_BY_EACH_PROCESS", 0)
    monkeypatch.setattr(locate, "_read_here", NoMemory())


class NoMemory(dict):
    def __setitem__(self, key, value):
        pass


def test_the_hash_of_a_large_file_outlives_the_process(file, reads, large):
    assert remembered_sha256(file) == remembered_sha256(file)
    assert len(reads) == 1
    flip_with_its_time_kept(file)
    assert remembered_sha256(file) == hashlib.sha256(b"weighty").hexdigest()


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe", b'{"a": 3, "b": [1, "x", 2]}'])
def test_a_broken_memory_is_forgotten(file, tmp_path, reads, content, large):
    memory = tmp_path / "cache" / "hashes.json"
    memory.parent.mkdir()
    memory.write_bytes(content)
    assert remembered_sha256(file) == remembered_sha256(file)
    assert len(reads) == 1
    assert list(json.loads(memory.read_text())) == [str(file)]


def test_without_a_writable_cache_the_file_is_read_each_time(
    file, tmp_path, monkeypatch, reads, large
):
    (tmp_path / "blocked").write_text("a file where the folder should be")
    monkeypatch.setenv("PACKWISE_CACHE", str(tmp_path / "blocked"))
    assert remembered_sha256(file) == remembered_sha256(file)
    assert len(reads) == 2


def test_vanished_files_are_dropped_and_no_litter_is_left(file, tmp_path, large):
    gone = tmp_path / "gone.bin"
    gone.write_bytes(b"x")
    remembered_sha256(gone)
    gone.unlink()
    remembered_sha256(file)
    assert list(json.loads((tmp_path / "cache" / "hashes.json").read_text())) == [str(file)]
    assert [p.name for p in (tmp_path / "cache").iterdir()] == ["hashes.json"]
