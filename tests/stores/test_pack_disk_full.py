"""No room left: one line, the old content untouched, and the build goes on once there is."""

import os
import resource
import shutil
import subprocess
import sys

import pytest
from store_world import fill, make

from packwise.errors import StoreFull
from packwise.stores.durable import raise_if_full, writing
from packwise.stores.pack import index
from packwise.stores.pack.copy import copy_pack
from packwise.stores.pack.store import create_or_open_pack, open_pack
from packwise.stores.pack.validation import validate

SMALL = [make(f"small-{i}", f"A few words {i}.") for i in range(5)]


def large(count: int) -> list:
    """Documents whose text does not compress much."""
    return [make(f"large-{i:04}", f"{os.urandom(900).hex()} word{i}") for i in range(count)]


@pytest.fixture
def small_disk(tmp_path):
    """A disk of a given number of megabytes."""
    mounted = []

    def make_disk(megabytes: int):
        folder = tmp_path / f"disk-{len(mounted)}"
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
        if os.geteuid() != 0 or shutil.which("mount") is None:
            pytest.skip("only root can mount a small disk")
        if subprocess.run(command, check=False, capture_output=True).returncode:
            pytest.skip("this root may not mount")
        mounted.append(folder)
        return folder

    yield make_disk
    for folder in mounted:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def contents(folder) -> dict:
    with open_pack(folder) as store:
        return {s.id: store.document(s.id) for s in store.documents()}


def test_a_disk_that_fills_up_while_a_pack_is_copied_to_it(small_disk, tmp_path):
    with create_or_open_pack(tmp_path / "pack") as store:
        fill(store, large(400))
    with pytest.raises(StoreFull):
        copy_pack(tmp_path / "pack", small_disk(1) / "copy")
    assert validate(tmp_path / "pack") == []


def test_a_disk_that_fills_up_while_staging(small_disk):
    folder = small_disk(2) / "pack"
    with create_or_open_pack(folder) as store:
        fill(store, SMALL)
        with pytest.raises(StoreFull) as error:
            fill(store, [*SMALL, *large(2000)])
    assert "\n" not in str(error.value)
    assert error.value.fix
    assert sorted(contents(folder)) == sorted(document.id for document, _ in SMALL)


def test_a_disk_that_fills_up_while_committing(small_disk, monkeypatch):
    monkeypatch.setattr(index, "EXACT_LIMIT", 100)
    disk = small_disk(6)
    folder = disk / "pack"
    documents = [*SMALL, *large(400)]
    with create_or_open_pack(folder) as store:
        fill(store, SMALL)
        before = contents(folder)
        room = shutil.disk_usage(disk).free
        outcomes = []
        # A block of the disk is taken away and made smaller each time, so that the build
        # runs out of room in ever later steps.
        for taken in range(room - 1_200_000, 0, -400_000):
            (disk / "ballast").write_bytes(b"\0" * taken)
            try:
                fill(store, documents)
            except StoreFull:
                outcomes.append("full")
                assert contents(folder) == before
                assert len(list((folder / "index").iterdir())) == 1
            else:
                outcomes.append("done")
                break
    assert outcomes[0] == "full"
    assert outcomes[-1] == "done"
    assert len(outcomes) > 3
    assert validate(folder) == []
    assert len(contents(folder)) == len(documents)


def test_a_first_build_without_any_room_leaves_nothing(small_disk):
    disk = small_disk(1)
    (disk / "ballast").write_bytes(b"\0" * (shutil.disk_usage(disk).free - 20_000))
    with create_or_open_pack(disk / "pack") as store, pytest.raises(StoreFull):
        fill(store, large(50))
    assert not (disk / "pack").exists()


LIMITED = """
import resource, sys
sys.path[:0] = sys.argv[2:]
from packwise.errors import StoreFull
from packwise.stores.pack.store import create_or_open_pack
from store_world import fill
from test_pack_disk_full import SMALL, large
store = create_or_open_pack(sys.argv[1])
fill(store, SMALL)
resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, 600_000))
try:
    fill(store, [*SMALL, *large(1000)])
except StoreFull as error:
    print(error)
"""


def test_a_limit_on_the_size_of_files_counts_as_a_full_disk(tmp_path):
    here = [path for path in sys.path if path]
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path / "pack"), *here],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "no room left" in done.stdout, done.stderr
    assert len(done.stdout.splitlines()) == 1
    assert sorted(contents(tmp_path / "pack")) == sorted(document.id for document, _ in SMALL)
    assert validate(tmp_path / "pack") == []


def test_a_library_that_failed_for_another_reason_is_not_taken_for_a_full_disk(tmp_path):
    soft, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    assert soft == resource.RLIM_INFINITY
    raise_if_full(tmp_path, ValueError("something else"))
    with pytest.raises(ValueError, match="something else"), writing(tmp_path):
        raise ValueError("something else")
