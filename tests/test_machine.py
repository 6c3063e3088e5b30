"""What the machine gives this process."""

import mmap
import sys

import pytest

from packwise.machine import memory_bytes

SIZE = 64 << 20


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says how much is mapped")
def test_pages_of_mapped_files_can_be_left_out_of_the_memory_in_use(tmp_path):
    path = tmp_path / "large"
    path.write_bytes(bytes(SIZE))
    before, own_before = memory_bytes(), memory_bytes(files=False)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        touched = sum(mapped[at] for at in range(0, SIZE, mmap.PAGESIZE))
        after, own_after = memory_bytes(), memory_bytes(files=False)
    assert touched == 0
    assert after - before > 0.9 * SIZE
    assert own_after - own_before < 0.1 * SIZE
